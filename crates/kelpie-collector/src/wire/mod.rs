//! Remote write 1.0: hand-written protobuf from borrowed labels, in snappy's block format.

mod batch;
mod batch_builder;
mod decoded_sample;
mod series_writer;

pub use batch::Batch;
pub use decoded_sample::DecodedSample;

pub(crate) use batch_builder::BatchBuilder;
pub(crate) use series_writer::{SeriesWriter, encoded_label};
