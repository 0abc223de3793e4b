//! What the transport does with real sockets and certificates.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: failures should be loud"
)]

mod http1;
mod listening;
mod reload;
mod server;
mod serving;
mod tls;
