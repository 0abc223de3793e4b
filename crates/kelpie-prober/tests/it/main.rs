//! The prober against a simulated landscape, in virtual time.

// Test helpers may panic too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod auditor;
mod chaos;
mod endurance;
mod external_paths;
mod faulty_prober;
mod guard;
mod handover;
mod healthy_rounds;
mod matrix;
mod metric_values;
mod one_cluster;
mod overview;
mod partition;
mod pause;
mod paused_leader;
mod recording;
mod replay;
mod replica;
mod rotation;
mod scale;
mod scenarios;
mod subject;
mod webhook_outage;
