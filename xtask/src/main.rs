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
mod coverage;
mod fuzz;
mod generate;
mod instructions;
mod open_cluster;
mod packages;
mod second_try;
mod sim;
mod soak;
mod stopwatch;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::command;

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
    Test(test::Arguments),
    Tools(tools::Arguments),
    /// Check the house rules: arrows between crates, no clock in the core, names, lengths
    ///
    /// Every problem says where it is and what to do. The rules stand in xtask/src/tidy/, one file
    /// for each family.
    Tidy,
    #[command(name = "gen")]
    Generate(generate::Arguments),
    Bench(bench::Arguments),
    Fuzz(fuzz::Arguments),
    Sim(sim::Arguments),
    Soak(soak::Arguments),
    /// Measure which lines the tests run
    ///
    /// Installs cargo-llvm-cov if it is missing. Prints the share per crate and fails under 85 % of
    /// all lines, or 95 % of those of kelpie-core and kelpie-config.
    Coverage,
    /// Check what we depend on: licences, banned and duplicate crates, advisories
    ///
    /// Installs cargo-deny if it is missing. The rules stand in deny.toml.
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
        Commands::Fuzz(arguments) => fuzz::run(&arguments),
        Commands::Sim(arguments) => sim::run(&arguments),
        Commands::Soak(arguments) => soak::run(&arguments),
        Commands::Coverage => coverage::run(),
        Commands::Audit => audit::run(),
    }
}
