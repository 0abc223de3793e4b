//! The frame of every check: reads the configuration, runs the checks and prints the table.

use std::path::Path;

use anyhow::{Context, Result};
use kelpie_config::{ConfigError, Parsed, Severity, Strictness};
use kelpie_kube::client::{ClientOptions, ClusterClient};

use super::table::{CheckRow, CheckTable};
use crate::cli::Invocation;
use crate::exit::ExitStatus;
use crate::input_file::InputFile;
use crate::output_format::OutputFormat;
use crate::{component, terminal};

/// Gardener's settings for dependency-watchdog, which are enough for a check.
const QPS: f32 = 20.0;
const BURST: u32 = 100;

/// A component's configuration file and its parser.
pub(crate) struct ConfigFile<'a, T> {
    pub(crate) path: &'a Path,
    pub(crate) invocation: Invocation,
    pub(crate) parse: fn(&[u8], Strictness) -> Result<Parsed<T>, ConfigError>,
    /// Summarizes the configuration in a few words.
    pub(crate) summarize: fn(&T) -> String,
}

/// Reads the configuration, runs the checks if it is valid, and prints the table.
pub(crate) fn run_with_config<T>(
    file: &ConfigFile<'_, T>,
    output: OutputFormat,
    checks: impl AsyncFnOnce(&T, &mut CheckTable),
) -> Result<ExitStatus> {
    let mut table = CheckTable::default();
    let config = file.read(&mut table)?;
    run(table, output, async |table| {
        if let Some(config) = &config {
            checks(config, table).await;
        }
    })
}

/// Runs the checks, which add their rows to `table`, and prints it.
pub(crate) fn run(
    mut table: CheckTable,
    output: OutputFormat,
    checks: impl AsyncFnOnce(&mut CheckTable),
) -> Result<ExitStatus> {
    component::run(async {
        checks(&mut table).await;
        Ok(())
    })?;
    let text = match output {
        OutputFormat::Text => table.text(),
        OutputFormat::Json => table.json()?,
    };
    terminal::stdout(&text).context("cannot write the results")?;
    Ok(table.exit_status())
}

impl<T> ConfigFile<'_, T> {
    /// Returns `None` if the file is invalid. The other checks need a configuration.
    fn read(&self, table: &mut CheckTable) -> Result<Option<T>> {
        const SUBJECT: &str = "configuration";
        let source = InputFile::new(self.path);
        let name = source.name();
        let (config, problems) = match (self.parse)(&source.read()?, self.invocation.strictness()) {
            Ok(parsed) => (Some(parsed.value), parsed.warnings),
            Err(report) => (None, report.problems),
        };
        if let Some(config) = &config {
            let finding = format!("{name} is valid: {}", (self.summarize)(config));
            table.add(CheckRow::ok(SUBJECT, finding));
        }
        for problem in problems {
            let (line, column) = (problem.line, problem.column);
            let finding = format!("{name}:{line}:{column}: {}", problem.text());
            table.add(match problem.severity {
                Severity::Error => {
                    let remedy = "fix the file; docs/reference/config.md lists every key";
                    CheckRow::fail(SUBJECT, finding, remedy)
                }
                Severity::Warning => {
                    let remedy = "the file is valid; check that this is intended";
                    CheckRow::warn(SUBJECT, finding, remedy)
                }
            });
        }
        Ok(config)
    }
}

/// Connects to the seed. If that fails, adds a row and returns `None`.
pub(crate) async fn connect(
    kubeconfig: Option<&Path>,
    table: &mut CheckTable,
) -> Option<ClusterClient> {
    let options = ClientOptions {
        kubeconfig: kubeconfig.map(Path::to_owned),
        qps: QPS,
        burst: BURST,
        user_agent: format!("kelpie/{} (check)", env!("CARGO_PKG_VERSION")),
    };
    match ClusterClient::connect(&options).await {
        Ok(seed) => Some(seed),
        Err(error) => {
            let remedy = "pass a kubeconfig with --kubeconfig";
            table.add(CheckRow::fail("seed", error.to_string(), remedy));
            None
        }
    }
}
