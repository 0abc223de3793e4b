//! The configuration file of a component that is to run, or of the demo.

use std::path::Path;

use anyhow::{Context, Result, bail};
use kelpie_config::scenario::Scenario;
use kelpie_config::{Parsed, ProberConfig, Report, Strictness, WeederConfig, prober, weeder};
use tracing::warn;

use crate::cli::Guise;
use crate::source::Source;
use crate::{problems, terminal};

/// What Gardener ships, which most people use.
pub(crate) const GARDENERS_PROBER: &str = include_str!("../../../docs/examples/prober.yaml");
pub(crate) const GARDENERS_WEEDER: &str = include_str!("../../../docs/examples/weeder.yaml");

/// The prober's, or every problem it has.
pub(crate) fn prober(file: &Path, guise: Guise) -> Result<ProberConfig> {
    read(file, guise, prober::parse)
}

/// Gardener's own of the prober.
pub(crate) fn gardeners_prober(guise: Guise) -> Result<ProberConfig> {
    built_in(prober::parse(
        GARDENERS_PROBER.as_bytes(),
        guise.strictness(),
    ))
}

/// Gardener's own of the weeder.
pub(crate) fn gardeners_weeder(guise: Guise) -> Result<WeederConfig> {
    built_in(weeder::parse(
        GARDENERS_WEEDER.as_bytes(),
        guise.strictness(),
    ))
}

fn built_in<T>(parsed: Result<Parsed<T>, Report>) -> Result<T> {
    match parsed {
        Ok(parsed) => Ok(parsed.value),
        Err(_) => bail!("the built-in configuration cannot be used"),
    }
}

/// A scenario of the demo, or every problem it has.
pub(crate) fn scenario(file: &Path) -> Result<Scenario> {
    read(file, Guise::Kelpie, |bytes, _| Scenario::parse(bytes))
}

/// The weeder's, or every problem it has.
pub(crate) fn weeder(file: &Path, guise: Guise) -> Result<WeederConfig> {
    read(file, guise, weeder::parse)
}

fn read<T>(
    file: &Path,
    guise: Guise,
    parse: fn(&[u8], Strictness) -> Result<Parsed<T>, Report>,
) -> Result<T> {
    let source = Source::file(file);
    let name = source.name();
    match parse(&source.read()?, guise.strictness()) {
        Ok(parsed) => {
            for problem in parsed.warnings {
                let (line, column) = (problem.line, problem.column);
                warn!("{name}:{line}:{column}: {}", problem.text());
            }
            Ok(parsed.value)
        }
        Err(report) => {
            let lines = problems::lines(&name, &report.problems);
            terminal::stderr(&lines).context("cannot write the problems")?;
            bail!(
                "{name} cannot be used: {}",
                problems::count(&report.problems)
            );
        }
    }
}
