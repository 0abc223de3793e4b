//! The weeder against a simulated landscape, in virtual time.

// Helpers of tests may fail loudly too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod auditor;
mod bait;
mod culprit;
mod fingerprints;
mod recovery;
mod replica;
mod seeds;
mod stage;
mod subject;
mod trouble;
