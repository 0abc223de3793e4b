//! `cargo xtask fuzz`: fuzzes the parsers of untrusted input.

use std::fs;

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;
use xtask::cache;

use crate::command::{self, is_installed, program};

/// The fuzz targets: the files in `fuzz/fuzz_targets`.
const TARGETS: [&str; 7] = [
    "federate",
    "health_query",
    "kubeconfig",
    "leases",
    "nodes",
    "prober",
    "weeder",
];

/// Fuzz a parser of untrusted input
///
/// Starts from `fuzz/corpus/TARGET`, which the tests use too. New inputs go to `fuzz/found`. Copy
/// inputs that reveal a bug into the corpus, under a descriptive name.
#[derive(clap::Args)]
pub(crate) struct FuzzArgs {
    /// The fuzz target
    #[arg(value_parser = PossibleValuesParser::new(TARGETS))]
    target: String,

    /// The duration in seconds
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,
}

pub(crate) fn run(arguments: &FuzzArgs) -> Result<()> {
    if let Some(remedy) = missing(is_installed("cargo-fuzz"), has_nightly()) {
        bail!("{remedy}");
    }
    let FuzzArgs { target, seconds } = arguments;
    // Fuzz with the dependency versions of the product.
    let root = cache::repository();
    fs::copy(root.join("Cargo.lock"), root.join("fuzz/Cargo.lock"))?;
    let found = format!("fuzz/found/{target}");
    fs::create_dir_all(root.join(&found))?;
    let corpus = format!("fuzz/corpus/{target}");
    let limit = format!("-max_total_time={seconds}");
    command::run(&mut program(
        "rustup",
        &[
            "run", "nightly", "cargo", "fuzz", "run", target, &found, &corpus, "--", &limit,
        ],
    ))
}

/// Returns what is missing, with the commands that install it.
fn missing(has_cargo_fuzz: bool, has_nightly: bool) -> Option<String> {
    let needed = [
        (
            has_cargo_fuzz,
            "cargo-fuzz",
            "cargo install cargo-fuzz --locked",
        ),
        (
            has_nightly,
            "a nightly compiler",
            "rustup toolchain install nightly",
        ),
    ];
    let missing = needed
        .into_iter()
        .filter(|(is_installed, ..)| !is_installed);
    let remedies = missing.map(|(_, what, how)| format!("{what} is missing: `{how}`"));
    let remedies: Vec<String> = remedies.collect();
    (!remedies.is_empty()).then(|| remedies.join("; "))
}

fn has_nightly() -> bool {
    let version = command::output(&mut program(
        "rustup",
        &["run", "nightly", "rustc", "--version"],
    ));
    version.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_file_and_a_corpus() {
        let root = cache::repository().join("fuzz");
        let names = |folder: &str, end: &str| {
            let entries = fs::read_dir(root.join(folder)).unwrap();
            let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
            let names = entries.map(|entry| name(entry).into_string().unwrap());
            let mut names: Vec<String> = names.map(|name| name.replace(end, "")).collect();
            names.sort();
            names
        };
        assert_eq!(names("fuzz_targets", ".rs"), TARGETS);
        assert_eq!(names("corpus", "/"), TARGETS);
    }

    #[test]
    fn missing_programs_have_a_remedy() {
        assert_eq!(missing(true, true), None);
        let message = missing(false, false).unwrap();
        for remedy in [
            "cargo install cargo-fuzz",
            "rustup toolchain install nightly",
        ] {
            assert!(message.contains(remedy), "{message}");
        }
    }
}
