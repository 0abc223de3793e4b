//! The watchdog for Kubernetes control planes.
//!
//! Reading order: [`cli`] says what can be asked, one file per subcommand answers it, [`exit`] turns
//! the answer into an exit code.

mod addon;
mod bind;
mod check;
mod check_config;
mod cli;
mod completions;
mod component;
mod config_file;
mod crd;
mod demo;
mod etcd;
mod exit;
mod explain;
mod generate;
mod go_flags;
mod log;
mod printable;
mod prober;
mod problems;
mod signals;
mod source;
mod summary;
mod terminal;
mod weeder;
mod yaml;

use std::process::ExitCode;

fn main() -> ExitCode {
    exit::code(cli::run(std::env::args_os().collect()))
}
