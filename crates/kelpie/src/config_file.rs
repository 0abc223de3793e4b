//! The configuration file of a component that is to run.

use std::path::Path;

use anyhow::{Context, Result, bail};
use kelpie_config::{Parsed, ProberConfig, Report, Strictness, WeederConfig, prober, weeder};
use tracing::warn;

use crate::cli::Guise;
use crate::source::Source;
use crate::{problems, terminal};

/// The prober's, or every problem it has.
pub(crate) fn prober(file: &Path, guise: Guise) -> Result<ProberConfig> {
    read(file, guise, prober::parse)
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
