//! `cargo xtask fuzz`: changed bytes, again and again, at what reads bytes of others.

use std::fs;

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;
use xtask::cache;

use crate::command::{self, is_installed, program};

/// The files in `fuzz/fuzz_targets`.
const TARGETS: [&str; 7] = [
    "federate",
    "health_query",
    "kubeconfig",
    "leases",
    "nodes",
    "prober",
    "weeder",
];

/// Fuzz what reads bytes of others
///
/// Starts from `fuzz/corpus/TARGET`, which the tests read too; what it learns goes to `fuzz/found`.
/// Copy what it finds wrong into the corpus, under a name that says what it is.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to fuzz
    #[arg(value_parser = PossibleValuesParser::new(TARGETS))]
    target: String,

    /// For how long
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(remedy) = missing(is_installed("cargo-fuzz"), has_nightly()) {
        bail!("{remedy}");
    }
    let Arguments { target, seconds } = arguments;
    // What is fuzzed is what is shipped: with the same versions of everything.
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

/// What is missing, and how to get it.
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
    let missing = needed.into_iter().filter(|(is_there, ..)| !is_there);
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
    fn what_is_missing_is_named_with_the_remedy() {
        assert_eq!(missing(true, true), None);
        let said = missing(false, false).unwrap();
        for remedy in [
            "cargo install cargo-fuzz",
            "rustup toolchain install nightly",
        ] {
            assert!(said.contains(remedy), "{said}");
        }
    }
}
