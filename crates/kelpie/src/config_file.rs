//! Loads the configuration of a component.

use std::path::Path;

use anyhow::{Context, Result, bail};
use kelpie_config::{ConfigError, Parsed, ProberConfig, Strictness, WeederConfig, prober, weeder};
use tracing::warn;

use crate::cli::Invocation;
use crate::input_file::InputFile;
use crate::{problems, terminal};

/// The configuration that Gardener deploys.
pub(crate) const GARDENER_PROBER: &str = include_str!("../../../docs/examples/prober.yaml");

type Parse<T> = fn(&[u8], Strictness) -> Result<Parsed<T>, ConfigError>;

/// Loads the prober's file. Its problems are printed.
pub(crate) fn prober(file: &Path, invocation: Invocation) -> Result<ProberConfig> {
    load(file, invocation, prober::parse)
}

/// Returns Gardener's configuration of the prober.
pub(crate) fn gardener_prober(invocation: Invocation) -> Result<ProberConfig> {
    built_in(prober::parse(
        GARDENER_PROBER.as_bytes(),
        invocation.strictness(),
    ))
}

pub(crate) fn built_in<T>(parsed: Result<Parsed<T>, ConfigError>) -> Result<T> {
    match parsed {
        Ok(parsed) => Ok(parsed.value),
        Err(_) => bail!("the built-in configuration is invalid"),
    }
}

/// Loads the weeder's file. Its problems are printed.
pub(crate) fn weeder(file: &Path, invocation: Invocation) -> Result<WeederConfig> {
    load(file, invocation, weeder::parse)
}

pub(crate) fn load<T>(file: &Path, invocation: Invocation, parse: Parse<T>) -> Result<T> {
    let input = InputFile::new(file);
    let name = input.name();
    match parse(&input.read()?, invocation.strictness()) {
        Ok(parsed) => {
            for problem in parsed.warnings {
                let (line, column) = (problem.line, problem.column);
                warn!("{name}:{line}:{column}: {}", problem.text());
            }
            Ok(parsed.value)
        }
        Err(error) => {
            let lines = problems::lines(&name, &error.problems);
            terminal::stderr(&lines).context("cannot write the problems")?;
            bail!("{name} is invalid: {}", problems::count(&error.problems));
        }
    }
}
