//! Tests of livez and readyz through the public API.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: failures should be loud"
)]

mod fixture;
mod hostile_clients;
mod http_contract;
mod logging;
mod metrics;
mod single_flight;
