//! Behaviour of the collector: from text to batches, and on to the hub.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test code fails loudly"
)]

mod batch;
mod chunked_body;
mod dedup;
mod fixture;
mod forward;
mod names;
mod properties;
mod recorded_bodies;
mod text_format;
mod transform;
