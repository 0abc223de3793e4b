//! `kelpie etcd check`.

use std::fmt::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use kelpie_health::{Finding, Group, Health, Report};
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::runtime;
use tokio::time::timeout;

use super::member::MemberFlags;
use crate::exit::Outcome;
use crate::terminal;

/// The first call connects, and logs in where there is a user.
const WARM_UP: Duration = Duration::from_secs(1);

/// Run every check once and show what each says
///
/// Exits with 0 if every check of livez and readyz is ok, with 1 if not.
#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    member: MemberFlags,

    /// How to answer
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// A table
    Text,
    /// One JSON object
    Json,
}

/// One line of the answer.
#[derive(Serialize)]
struct Line {
    group: &'static str,
    name: String,
    ok: bool,
    /// How long it took.
    milliseconds: f64,
    reason: Option<String>,
}

#[derive(Serialize)]
struct Answer {
    endpoint: String,
    ok: bool,
    checks: Vec<Line>,
}

impl Check {
    pub(crate) fn run(&self) -> Result<Outcome> {
        let options = self.member.options(false)?;
        let endpoint = self.member.target()?.endpoint.to_string();
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime")?;
        let (livez, readyz) = runtime.block_on(async {
            let member = self.member.member()?;
            // Connection and log-in belong to no check.
            let _ = timeout(WARM_UP, member.status()).await;
            let health = kelpie_etcd::checks(&member, &options, &mut Registry::default())?;
            anyhow::Ok(both(&health).await)
        })?;
        let line = |report: &Report, found: &Finding| {
            let deadline = options.health.deadline(report.group);
            let reason = found
                .verdict
                .as_ref()
                .err()
                .map(|reason| match reason.as_str() {
                    // There is no earlier run to go by.
                    "not known yet" => format!("no answer within {deadline:?}"),
                    reason => reason.to_owned(),
                });
            Line {
                group: report.group.as_str(),
                name: found.name.to_string(),
                ok: reason.is_none(),
                milliseconds: (found.took.as_secs_f64() * 10_000.0).round() / 10.0,
                reason,
            }
        };
        let reports = [&livez, &readyz];
        let lines = reports
            .iter()
            .flat_map(|report| report.findings.iter().map(|found| line(report, found)));
        let answer = Answer {
            endpoint,
            ok: livez.is_ok() && readyz.is_ok(),
            checks: lines.collect(),
        };
        let text = match self.output {
            Output::Text => table(&answer),
            Output::Json => format!("{}\n", serde_json::to_string_pretty(&answer)?),
        };
        terminal::stdout(&text).context("cannot write the answer")?;
        Ok(if answer.ok {
            Outcome::Success
        } else {
            Outcome::Failure
        })
    }
}

/// At the same time, so that calls are shared.
async fn both(health: &Health) -> (Report, Report) {
    tokio::join!(health.probe(Group::Livez), health.probe(Group::Readyz))
}

fn table(answer: &Answer) -> String {
    let (good, bad) = (
        Style::new().fg_color(Some(AnsiColor::Green.into())),
        Style::new().bold().fg_color(Some(AnsiColor::Red.into())),
    );
    let bold = Style::new().bold();
    let names = answer.checks.iter().map(|line| line.name.len());
    let width = names.max().unwrap_or_default();
    let mut text = format!(
        "{bold}GROUP   {:<width$}  STATE   TOOK       WHY{bold:#}\n",
        "CHECK"
    );
    for line in &answer.checks {
        let (style, state) = if line.ok {
            (good, "ok")
        } else {
            (bad, "failed")
        };
        let took = format!("{:.1}ms", line.milliseconds);
        let why = line.reason.as_deref().unwrap_or_default();
        let row = format!(
            "{:<6}  {:<width$}  {style}{state:<6}{style:#}  {took:<9}  {why}",
            line.group, line.name
        );
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_per_check() {
        let line = |check: &str, reason: Option<&str>| Line {
            group: "readyz",
            name: check.to_owned(),
            ok: reason.is_none(),
            milliseconds: 1.25,
            reason: reason.map(str::to_owned),
        };
        let answer = Answer {
            endpoint: "http://127.0.0.1:2379".to_owned(),
            ok: false,
            checks: vec![
                line("data_corruption", None),
                line("read_index", Some("no leader")),
            ],
        };
        let text = anstream::adapter::strip_str(&table(&answer)).to_string();
        assert_eq!(
            text,
            "GROUP   CHECK            STATE   TOOK       WHY\n\
             readyz  data_corruption  ok      1.2ms\n\
             readyz  read_index       failed  1.2ms      no leader\n"
        );
    }
}
