//! Parses the Prometheus text format as it arrives from the network.
//!
//! [`LineReader`] joins lines that were split by the network. [`parse_line`] parses a line by the
//! grammar of Prometheus' own parser, and `number` parses values and timestamps.

mod error;
mod line_reader;
mod number;
mod parser;

pub use error::TextError;

pub(crate) use line_reader::LineReader;
pub(crate) use parser::{parse_line, span_text};
