//! The weeder against a simulated landscape, in virtual time.

// Test helpers may panic too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod auditor;
mod chaos;
mod decoys;
mod faulty_weeder;
mod fingerprints;
mod fixture;
mod lost_lease;
mod many_namespaces;
mod recovery;
mod replica;
mod seed_faults;
mod subject;
