//! The built program, from the outside: arguments and files in, output and exit code out.

// Helpers of tests may fail loudly too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod check_config;
mod etcd;
mod prober;
mod program;
mod usage;
