//! Behaviour of the collector.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test code"
)]

mod pipeline;
