//! Remote write 1.0: protobuf, written by hand from borrowed labels, in snappy's block format.

mod batch;
mod draft;
mod sample;
mod varint;

pub use batch::Batch;
pub use sample::Sample;

pub(crate) use draft::{Draft, Series};
