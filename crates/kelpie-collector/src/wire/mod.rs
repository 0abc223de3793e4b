//! Remote write 1.0: protobuf, written by hand from borrowed labels, in snappy's block format.

mod batch;
mod draft;
mod sample;
mod series;
mod varint;

pub use batch::Batch;
pub use sample::Sample;

pub(crate) use draft::Draft;
pub(crate) use series::{Series, encoded_label};
