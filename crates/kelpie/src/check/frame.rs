//! What every check does round its own questions: the configuration before, the answer after.

use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use kelpie_config::{Parsed, Report, Severity, Strictness};
use kelpie_kube::seed::{Seed, SeedOptions};
use tokio::runtime;

use super::row::{Row, Table};
use crate::cli::Guise;
use crate::exit::Outcome;
use crate::source::Source;
use crate::terminal;

/// Gardener's own settings: a check needs no more.
const QPS: f32 = 20.0;
const BURST: u32 = 100;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Output {
    /// For people
    Text,
    /// For scripts
    Json,
}

/// A component's configuration file and how it is read.
pub(super) struct File<'a, T> {
    pub(super) path: &'a Path,
    pub(super) guise: Guise,
    pub(super) parse: fn(&[u8], Strictness) -> Result<Parsed<T>, Report>,
    /// What it asks for, in a few words.
    pub(super) sum: fn(&T) -> String,
}

/// Asks the questions, if the file can be used, and answers.
pub(super) fn run<T>(
    file: &File<'_, T>,
    output: Output,
    look: impl AsyncFnOnce(&T, &mut Table),
) -> Result<Outcome> {
    let mut table = Table::default();
    let config = file.read(&mut table)?;
    answer(table, output, async |table| {
        if let Some(config) = &config {
            look(config, table).await;
        }
    })
}

/// Asks the questions and answers.
pub(super) fn answer(
    mut table: Table,
    output: Output,
    look: impl AsyncFnOnce(&mut Table),
) -> Result<Outcome> {
    kelpie_net::install_crypto();
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(look(&mut table));
    let text = match output {
        Output::Text => table.text(),
        Output::Json => table.json()?,
    };
    terminal::stdout(&text).context("cannot write the answer")?;
    Ok(table.outcome())
}

impl<T> File<'_, T> {
    /// `None`: it cannot be used, and the rest of the check would be about nothing.
    fn read(&self, table: &mut Table) -> Result<Option<T>> {
        const ABOUT: &str = "configuration";
        let source = Source::file(self.path);
        let name = source.name();
        let (config, problems) = match (self.parse)(&source.read()?, self.guise.strictness()) {
            Ok(parsed) => (Some(parsed.value), parsed.warnings),
            Err(report) => (None, report.problems),
        };
        if let Some(config) = &config {
            let found = format!("{name} can be used: {}", (self.sum)(config));
            table.add(Row::ok(ABOUT, found));
        }
        for problem in problems {
            let (line, column) = (problem.line, problem.column);
            let found = format!("{name}:{line}:{column}: {}", problem.text());
            table.add(match problem.severity {
                Severity::Error => {
                    Row::fail(ABOUT, found, "correct it; docs/config.md has every key")
                }
                Severity::Warning => {
                    Row::warn(ABOUT, found, "the file can be used; is this what you mean?")
                }
            });
        }
        Ok(config)
    }
}

/// The way to the seed; `None`: there is none.
pub(super) async fn connect(kubeconfig: Option<&Path>, table: &mut Table) -> Option<Seed> {
    let options = SeedOptions {
        kubeconfig: kubeconfig.map(Path::to_owned),
        qps: QPS,
        burst: BURST,
        user_agent: format!("kelpie/{} (check)", env!("CARGO_PKG_VERSION")),
    };
    match Seed::connect(&options).await {
        Ok(seed) => Some(seed),
        Err(error) => {
            let remedy = "name a kubeconfig with --kubeconfig";
            table.add(Row::fail("seed", error.to_string(), remedy));
            None
        }
    }
}
