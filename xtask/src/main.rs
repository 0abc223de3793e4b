//! The project's own commands. `cargo xtask help` lists them, `cargo xtask help NAME` explains one.
//!
//! One file per command; `command` runs other programs, `stopwatch` times them.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command of the terminal talks to the terminal"
)]

mod audit;
mod bench;
mod command;
mod coverage;
mod generate;
mod instructions;
mod packages;
mod stopwatch;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The project's own commands.
///
/// Start with `cargo xtask test`: it provides what is missing, checks everything and says how long
/// each step took. `cargo xtask test --fast` is the same without real servers, for between edits.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Subcommand)]
enum Commands {
    /// Check everything: the one test command
    Test(test::Arguments),
    /// Provide the real servers the tests run (kube-apiserver, etcd, …)
    Tools(tools::Arguments),
    /// Check the house rules: arrows between crates, no clock in the core, file names and lengths
    Tidy,
    /// Write the generated docs
    #[command(name = "gen")]
    Generate(generate::Arguments),
    /// Run a benchmark; without a name, list them
    Bench(bench::Arguments),
    /// Measure the line coverage of the tests (installs cargo-llvm-cov if it is missing)
    Coverage,
    /// Check licences, banned and duplicate crates, advisories (installs cargo-deny if it is missing)
    Audit,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Commands) -> Result<()> {
    match command {
        Commands::Test(arguments) => test::run(&arguments),
        Commands::Tools(arguments) => tools::run(&arguments),
        Commands::Tidy => tidy::run(),
        Commands::Generate(arguments) => generate::run(&arguments),
        Commands::Bench(arguments) => bench::run(&arguments),
        Commands::Coverage => coverage::run(),
        Commands::Audit => audit::run(),
    }
}
