//! End-to-end tests on real servers, in one binary. See `tests/README.md` for a line about each
//! file.
//!
//! `cargo xtask tools` installs the servers. A test whose server is missing fails with that
//! command.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests panic on failure and print measurements"
)]

mod addon;
mod addon_chart;
mod alert_rules;
mod apiserver;
mod browser;
mod check_prober;
mod collector;
mod conformance;
mod demo_keep;
mod etcd;
mod etcd_chart;
mod fixture;
mod harness;
mod helm_chart;
mod image;
mod permission_matrix;
mod prober;
mod uninstall;
mod weeder;
