//! What is said to API servers, and what is made of their answers: servers on loopback.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: failures should be loud"
)]

mod bodies;
mod corpus;
mod hostile;
mod inside;
mod kubeconfig;
mod kubeconfigs;
mod lists;
mod nodes;
mod rounds;
mod seed;
mod server;
