//! The prober against a simulated landscape, in virtual time.

// Helpers of tests may fail loudly too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod auditor;
mod culprit;
mod endurance;
mod fence;
mod fingerprints;
mod replica;
mod scale;
mod scenarios;
mod seeds;
mod stopped;
mod subject;
