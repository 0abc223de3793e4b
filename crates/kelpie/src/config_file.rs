//! The configuration file of a component that is to run.

use std::path::Path;

use anyhow::{Context, Result, bail};
use kelpie_config::{ProberConfig, prober};
use tracing::warn;

use crate::cli::Guise;
use crate::source::Source;
use crate::{problems, terminal};

/// The prober's, or every problem it has.
pub(crate) fn prober(file: &Path, guise: Guise) -> Result<ProberConfig> {
    let source = Source::file(file);
    let name = source.name();
    match prober::parse(&source.read()?, guise.strictness()) {
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
