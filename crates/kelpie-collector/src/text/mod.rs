//! The Prometheus text format, read as it comes from the network.
//!
//! [`Lines`] joins what the network has cut; [`read`] reads a line, by the grammar of Prometheus'
//! own reader; `number` reads values and timestamps.

mod error;
mod line;
mod lines;
mod number;

pub use error::TextError;

pub(crate) use line::{read, text_of};
pub(crate) use lines::Lines;
