//! Behaviour of the transport with real sockets and certificates.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: failures should be loud"
)]

mod fixture;
mod http_connection;

mod serve_connection;
mod tls;
mod tls_files;
mod tls_listener;
