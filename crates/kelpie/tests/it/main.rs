//! Tests of the built program: arguments and files in, output and exit code out.

// Test helpers may panic.
#![allow(clippy::unwrap_used, clippy::panic)]

mod check;
mod check_config;
#[cfg(feature = "demo")]
mod demo;
mod deploy;
mod etcd;
mod explain;
mod prober;
mod program;
mod promql;
mod replay;
mod server;
mod status;
mod usage;
mod weeder;
