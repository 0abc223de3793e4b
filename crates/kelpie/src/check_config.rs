//! `kelpie check-config`.

use std::fmt::Write;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use kelpie_config::{ConfigError, ConfigProblem, Parsed, Severity, prober, weeder};
use serde::Serialize;

use crate::cli::Invocation;
use crate::exit::ExitStatus;
use crate::input_file::{InputFile, ReadError};
use crate::output_format::OutputFormat;
use crate::{problems, summary, terminal};

/// Check a configuration file: summarize it, or list all its problems
///
/// The summary of a valid file goes to standard output. Problems go to standard error, one per
/// line, each with its position, the invalid value and what is allowed. Warnings are about
/// settings that cannot work as written; the file is valid nevertheless.
///
/// With `-o json`, standard output gets one JSON object with the problems and the effective
/// value of every setting.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    disable_help_subcommand = true,
    subcommand_value_name = "COMPONENT"
)]
pub(crate) struct CheckConfig {
    #[command(subcommand)]
    component: ConfigKind,

    /// Output format
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "text",
        global = true
    )]
    output: OutputFormat,

    /// Apply the rules of this program [default: the name it was started under]
    #[arg(long = "as", value_name = "PROGRAM", global = true)]
    invocation: Option<Invocation>,
}

/// The kind of the file. These are subcommands, because shells complete file names only after a
/// subcommand.
#[derive(Subcommand)]
enum ConfigKind {
    /// The file of the prober, which fences the controllers of clusters whose nodes are cut off
    Prober(InputFile),
    /// The file of the weeder, which restarts crashing pods once the service they need is back
    Weeder(InputFile),
}

impl ConfigKind {
    const fn input(&self) -> &InputFile {
        match self {
            Self::Prober(input) | Self::Weeder(input) => input,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Prober(_) => "prober",
            Self::Weeder(_) => "weeder",
        }
    }
}

impl CheckConfig {
    pub(crate) fn run(&self, started_as: Invocation) -> Result<ExitStatus> {
        let bytes = match (self.component.input().read(), self.output) {
            (Ok(bytes), _) => bytes,
            (Err(error), OutputFormat::Text) => return Err(error.into()),
            (Err(error), OutputFormat::Json) => return self.print_read_error(&error),
        };
        let strictness = self.invocation.unwrap_or(started_as).strictness();
        match self.component {
            ConfigKind::Prober(_) => self.print(prober::parse(&bytes, strictness), summary::prober),
            ConfigKind::Weeder(_) => self.print(weeder::parse(&bytes, strictness), summary::weeder),
        }
    }

    fn print<T: Serialize>(
        &self,
        parsed: Result<Parsed<T>, ConfigError>,
        summary: impl FnOnce(&T) -> String,
    ) -> Result<ExitStatus> {
        let (config, problems) = match parsed {
            Ok(parsed) => (Some(parsed.value), parsed.warnings),
            Err(error) => (None, error.problems),
        };
        match self.output {
            OutputFormat::Text => self.print_text(config.as_ref().map(summary), &problems)?,
            OutputFormat::Json => self.print_json(config.as_ref(), &problems)?,
        }
        Ok(ExitStatus::success_if(config.is_some()))
    }

    fn print_text(&self, summary: Option<String>, problems: &[ConfigProblem]) -> Result<()> {
        let name = self.component.input().name();
        let mut lines = problems::lines(&name, problems);
        if !problems.is_empty() {
            writeln!(lines, "{name}: {}", problems::count(problems))?;
        }
        terminal::stderr(&lines).context("cannot write the problems")?;
        if let Some(summary) = summary {
            terminal::stdout(&format!("{name}: valid\n\n{summary}"))
                .context("cannot write the summary")?;
        }
        Ok(())
    }

    fn print_json<T: Serialize, P: Serialize>(
        &self,
        config: Option<&T>,
        problems: &[P],
    ) -> Result<()> {
        #[derive(Serialize)]
        struct JsonReport<'a, T, P> {
            file: String,
            component: &'static str,
            valid: bool,
            problems: &'a [P],
            /// The effective configuration with all defaults, in the format of the file.
            config: Option<&'a T>,
        }
        let report = JsonReport {
            file: self.component.input().name(),
            component: self.component.name(),
            valid: config.is_some(),
            problems,
            config,
        };
        terminal::stdout(&terminal::json(&report)?).context("cannot write the report")
    }

    /// Reports a read error in the same structure as problems of the file, so that scripts need to
    /// handle only one.
    fn print_read_error(&self, error: &ReadError) -> Result<ExitStatus> {
        #[derive(Serialize)]
        struct FileProblem<'a> {
            severity: Severity,
            path: &'a str,
            line: Option<usize>,
            column: Option<usize>,
            value: Option<&'a str>,
            message: &'a str,
            expected: Option<&'a str>,
            hint: &'a str,
        }
        let problem = FileProblem {
            severity: Severity::Error,
            path: "",
            line: None,
            column: None,
            value: None,
            message: &error.message,
            expected: None,
            hint: error.remedy,
        };
        self.print_json(None::<&()>, &[problem])?;
        Ok(ExitStatus::Failure)
    }
}
