//! Behaviour of livez and readyz, seen from outside.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: failures should be loud"
)]

mod clients;
mod contract;
mod flight;
mod numbers;
mod stage;
mod words;
