//! Behaviour of the collector: text in, batches out.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test code fails loudly"
)]

mod batches;
mod corpus;
mod pieces;
mod promises;
mod rig;
mod seen;
mod text;
mod transform;
