//! The behaviour of the core, through its public API.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "test code: numbers are small and failures should be loud"
)]

#[path = "../model/mod.rs"]
mod model;

mod addon;
mod candidates;
mod decision_text;
mod egress;
mod evaluator_fixture;
mod faults;
mod fence_by_standby;
mod fence_fixture;
mod fence_writes;
mod fencing;
mod guard;
mod leases;
mod pause;
mod paused_fencing;
mod properties;
mod race;
mod replay;
mod schedule;
mod second_fault;
mod shards;
mod verdict;
mod webhook_outage;
mod weeder;
