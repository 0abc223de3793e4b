//! Loads the configuration of a component, and scenarios of the demo.

use std::path::Path;

use anyhow::{Context, Result, bail};
use kelpie_config::scenario::Scenario;
use kelpie_config::{ConfigError, Parsed, ProberConfig, Strictness, WeederConfig, prober, weeder};
use tracing::warn;

use crate::cli::Invocation;
use crate::input_file::InputFile;
use crate::{problems, terminal};

/// The configuration that Gardener deploys.
pub(crate) const GARDENER_PROBER: &str = include_str!("../../../docs/examples/prober.yaml");
pub(crate) const GARDENER_WEEDER: &str = include_str!("../../../docs/examples/weeder.yaml");

type Parse<T> = fn(&[u8], Strictness) -> Result<Parsed<T>, ConfigError>;

/// Loads the prober's file. Its problems are printed.
pub(crate) fn prober(file: &Path, invocation: Invocation) -> Result<ProberConfig> {
    load(file, invocation, prober::parse)
}

/// Returns Gardener's configuration of the prober.
pub(crate) fn gardener_prober(invocation: Invocation) -> Result<ProberConfig> {
    built_in(GARDENER_PROBER, invocation, prober::parse)
}

/// Returns Gardener's configuration of the weeder.
pub(crate) fn gardener_weeder(invocation: Invocation) -> Result<WeederConfig> {
    built_in(GARDENER_WEEDER, invocation, weeder::parse)
}

fn built_in<T>(file: &str, invocation: Invocation, parse: Parse<T>) -> Result<T> {
    match parse(file.as_bytes(), invocation.strictness()) {
        Ok(parsed) => Ok(parsed.value),
        Err(_) => bail!("the built-in configuration is invalid"),
    }
}

/// Loads a scenario of the demo. Its problems are printed.
pub(crate) fn scenario(file: &Path) -> Result<Scenario> {
    load(file, Invocation::Kelpie, |bytes, _| Scenario::parse(bytes))
}

/// Loads the weeder's file. Its problems are printed.
pub(crate) fn weeder(file: &Path, invocation: Invocation) -> Result<WeederConfig> {
    load(file, invocation, weeder::parse)
}

fn load<T>(file: &Path, invocation: Invocation, parse: Parse<T>) -> Result<T> {
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
