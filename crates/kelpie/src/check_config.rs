//! `kelpie check-config`.

use std::fmt::Write;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use kelpie_config::{Parsed, Problem, Report, Severity, prober, weeder};
use serde::Serialize;

use crate::cli::Guise;
use crate::exit::Outcome;
use crate::source::{Source, Unreadable};
use crate::{problems, summary, terminal};

/// Check a configuration file: what it means, or everything that is wrong with it
///
/// A file that can be used is summed up on standard output. Problems go to standard error, one
/// per line, each with its place, the value at fault and what is allowed. Warnings are about
/// settings that cannot work as written; the file can still be used.
///
/// With `-o json` everything goes to standard output as one JSON object, with the effective
/// value of every setting.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    disable_help_subcommand = true,
    subcommand_value_name = "COMPONENT"
)]
pub(crate) struct CheckConfig {
    #[command(subcommand)]
    component: Component,

    /// How to answer
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "text",
        global = true
    )]
    output: Output,

    /// Judge it as this program would [default: the name it was started under]
    #[arg(long = "as", value_name = "PROGRAM", global = true)]
    guise: Option<Guise>,
}

/// Whose file it is. Subcommands, because shells complete files after a subcommand only.
#[derive(Subcommand)]
enum Component {
    /// The file of the prober, which fences controllers of clusters whose nodes are cut off
    Prober(Source),
    /// The file of the weeder, which restarts crashing pods once the service they need is back
    Weeder(Source),
}

impl Component {
    const fn source(&self) -> &Source {
        match self {
            Self::Prober(source) | Self::Weeder(source) => source,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Prober(_) => "prober",
            Self::Weeder(_) => "weeder",
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For scripts
    Json,
}

impl CheckConfig {
    pub(crate) fn run(&self, started_as: Guise) -> Result<Outcome> {
        let bytes = match (self.component.source().read(), self.output) {
            (Ok(bytes), _) => bytes,
            (Err(unreadable), Output::Text) => return Err(unreadable.into()),
            (Err(unreadable), Output::Json) => return self.print_unreadable(&unreadable),
        };
        let strictness = self.guise.unwrap_or(started_as).strictness();
        match self.component {
            Component::Prober(_) => self.answer(prober::parse(&bytes, strictness), summary::prober),
            Component::Weeder(_) => self.answer(weeder::parse(&bytes, strictness), summary::weeder),
        }
    }

    fn answer<T: Serialize>(
        &self,
        parsed: Result<Parsed<T>, Report>,
        summary: impl FnOnce(&T) -> String,
    ) -> Result<Outcome> {
        let (config, problems) = match parsed {
            Ok(parsed) => (Some(parsed.value), parsed.warnings),
            Err(report) => (None, report.problems),
        };
        match self.output {
            Output::Text => self.print_text(config.as_ref().map(summary), &problems)?,
            Output::Json => self.print_json(config.as_ref(), &problems)?,
        }
        Ok(if config.is_some() {
            Outcome::Success
        } else {
            Outcome::Failure
        })
    }

    fn print_text(&self, summary: Option<String>, problems: &[Problem]) -> Result<()> {
        let name = self.name();
        let mut lines = problems::lines(&name, problems);
        if !problems.is_empty() {
            writeln!(lines, "{name}: {}", problems::count(problems))?;
        }
        terminal::stderr(&lines).context("cannot write the problems")?;
        if let Some(summary) = summary {
            terminal::stdout(&format!("{name}: can be used\n\n{summary}"))
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
        struct Answer<'a, T, P> {
            file: String,
            component: &'static str,
            valid: bool,
            problems: &'a [P],
            /// What is in effect, defaults included, in the words of the file itself.
            config: Option<&'a T>,
        }
        let valid = config.is_some();
        let answer = Answer {
            file: self.name(),
            component: self.component.name(),
            valid,
            problems,
            config,
        };
        let mut text = serde_json::to_string_pretty(&answer)?;
        text.push('\n');
        terminal::stdout(&text).context("cannot write the answer")
    }

    /// In the shape of every other answer, so that scripts need only one.
    fn print_unreadable(&self, unreadable: &Unreadable) -> Result<Outcome> {
        #[derive(Serialize)]
        struct Placeless<'a> {
            severity: Severity,
            path: &'a str,
            line: Option<usize>,
            column: Option<usize>,
            value: Option<&'a str>,
            message: &'a str,
            expected: Option<&'a str>,
            hint: &'a str,
        }
        let problem = Placeless {
            severity: Severity::Error,
            path: "",
            line: None,
            column: None,
            value: None,
            message: &unreadable.message,
            expected: None,
            hint: unreadable.remedy,
        };
        self.print_json(None::<&()>, &[problem])?;
        Ok(Outcome::Failure)
    }

    fn name(&self) -> String {
        self.component.source().name()
    }
}
