//! The project's own commands. `cargo xtask help` lists them, `cargo xtask help NAME` explains one.
//!
//! Each command has its own file. `command` runs other programs, `stopwatch` times them.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program prints its results"
)]

mod audit;
mod axe;
mod background;
mod bench;
mod coverage;
mod dev;
mod end_to_end;
mod failpoints;
mod fuzz;
mod generate;
mod image;
mod instruction_budget;
mod module_definitions;
mod packages;
mod platform;
mod python;
mod release;
mod retry;
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
/// Start with `cargo xtask test`: it installs what is missing, runs all checks and prints the time
/// of each step. `cargo xtask test --fast` does the same without real servers, for use between
/// edits.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct XtaskCli {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Subcommand)]
enum Commands {
    Test(test::TestArgs),
    Tools(tools::ToolsArgs),
    Dev(dev::DevArgs),
    /// Check the house rules: layers, dependencies, names, vocabulary, lengths
    ///
    /// Every violation is printed with its place and what to do. The rules are in xtask/src/tidy/,
    /// one file for each family.
    Tidy,
    #[command(name = "gen")]
    Generate(generate::GenerateArgs),
    Bench(bench::BenchArgs),
    Fuzz(fuzz::FuzzArgs),
    Image(image::ImageArgs),
    Release(release::ReleaseArgs),
    Sim(sim::SimArgs),
    Soak(soak::SoakArgs),
    /// Measure the line coverage of the tests
    ///
    /// Installs cargo-llvm-cov if it is missing. Prints the coverage of each crate. Fails below 85
    /// % of all lines, or below 95 % of the lines of kelpie-core or kelpie-config.
    Coverage,
    /// Check dependencies for licences, banned and duplicate crates, and advisories
    ///
    /// Installs cargo-deny if it is missing. The rules are in deny.toml.
    Audit,
}

fn main() -> ExitCode {
    match run(XtaskCli::parse().command) {
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
        Commands::Dev(arguments) => dev::run(&arguments),
        Commands::Tools(arguments) => tools::run(&arguments),
        Commands::Tidy => tidy::run(),
        Commands::Generate(arguments) => generate::run(&arguments),
        Commands::Bench(arguments) => bench::run(&arguments),
        Commands::Fuzz(arguments) => fuzz::run(&arguments),
        Commands::Image(arguments) => image::run(&arguments),
        Commands::Release(arguments) => release::run(&arguments),
        Commands::Sim(arguments) => sim::run(&arguments),
        Commands::Soak(arguments) => soak::run(&arguments),
        Commands::Coverage => coverage::run(),
        Commands::Audit => audit::run(),
    }
}
