//! Tests on real servers. One binary, a module for each thing under test.
//!
//! The servers come from `cargo xtask tools`; a test without its server fails and says so.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "test code: a failure is a panic, and what was measured is printed"
)]

mod access;
mod addon;
mod alerts;
mod chart;
mod check;
mod collector;
mod conformance;
mod definitions;
mod demo;
mod etcd;
mod lease_list;
mod prober;
mod seed;
mod servers;
mod tenant;
mod weeder;
