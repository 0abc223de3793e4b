//! Behaviour of the collector: text in, batches out, and on to the hub.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test code fails loudly"
)]

mod batches;
mod corpus;
mod forward;
mod pieces;
mod promises;
mod rig;
mod seen;
mod text;
mod transform;
