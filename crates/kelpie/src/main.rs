//! The watchdog for Kubernetes control planes.
//!
//! Reading order: [`cli`] defines the command line, each subcommand has its own module, and
//! [`exit`] maps results to exit codes.

mod addon;
mod bind;
mod check;
mod check_config;
mod cli;
mod completions;
mod component;
mod config_file;
mod crd;
#[cfg(feature = "demo")]
mod demo;
mod etcd;
mod exit;
mod explain;
mod generate;
mod go_flags;
mod guard;
mod input_file;
mod log;
mod open_files;
mod output_format;
mod pause;
mod printable;
mod prober;
mod problems;
mod reach;
mod replay;
mod signals;
mod status;
mod story;
mod summary;
mod terminal;
mod weeder;

use std::process::ExitCode;

fn main() -> ExitCode {
    let result = cli::run(std::env::args_os().collect());
    log::flush();
    exit::code(result)
}
