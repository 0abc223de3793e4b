//! The weeder against a simulated landscape, in virtual time.

// Helpers of tests may fail loudly too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod recovery;
mod stage;
mod trouble;
