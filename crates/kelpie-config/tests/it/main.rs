//! Whole files in, whole reports out.

// Helpers of tests may fail loudly too, and a table is as long as it is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines
)]

mod broken_prober;
mod broken_weeder;
mod good;
mod limits;
mod report;
mod scenario;
mod warnings;
