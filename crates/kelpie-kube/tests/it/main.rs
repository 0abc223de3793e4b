//! Tests of the clients against API servers on loopback or in the same process.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: failures should be loud"
)]

mod bodies;
mod cluster_client;
mod connection_reuse;
mod fuzz_corpus;
mod hostile_tenant;
mod in_process;
mod kubeconfig_builder;
mod list_decoding;
mod node_conditions;
mod scripted_server;
mod tenant_kubeconfig;
