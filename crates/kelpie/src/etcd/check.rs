//! The subcommand `kelpie etcd check`.

use std::fmt::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use clap::Args;
use kelpie_etcd::EtcdError;
use kelpie_health::{CheckGroup, CheckReport, HealthReport};
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::time::timeout;

use super::member::MemberFlags;
use crate::exit::ExitStatus;
use crate::output_format::OutputFormat;
use crate::{component, terminal};

/// Time limit of the first call, which connects and, with a user, logs in.
const WARM_UP: Duration = Duration::from_secs(1);

/// Run every check once and show the results
///
/// Exits with 0 if every check of livez and readyz passes, and with 1 otherwise. If nothing listens
/// at the endpoint, checks that then have nothing to look at are skipped.
#[derive(Args)]
pub(crate) struct EtcdCheck {
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,

    #[command(flatten)]
    member: MemberFlags,
}

/// The result of one check.
#[derive(Serialize)]
struct EtcdCheckRow {
    group: &'static str,
    name: String,
    /// `null` if the check was skipped.
    ok: Option<bool>,
    /// The duration of the check.
    milliseconds: f64,
    /// `null` if the check passed or was skipped.
    reason: Option<String>,
}

#[derive(Serialize)]
struct EtcdCheckResult {
    endpoint: String,
    ok: bool,
    checks: Vec<EtcdCheckRow>,
}

impl EtcdCheck {
    pub(crate) fn run(&self) -> Result<ExitStatus> {
        let options = self.member.options(false)?;
        let endpoint = self.member.config()?.endpoint.to_string();
        let (livez, readyz) = component::run(async {
            let member = self.member.member()?;
            // Connecting and logging in must not count against the first check.
            let _ = timeout(WARM_UP, member.status()).await;
            let health = kelpie_etcd::member_health(&member, &options, &mut Registry::default())?;
            let health = health.checks;
            // Concurrently, so that both groups share their calls.
            Ok(tokio::join!(
                health.probe(CheckGroup::Livez),
                health.probe(CheckGroup::Readyz)
            ))
        })?;
        let is_refused = is_refused(&livez);
        let row = |report: &HealthReport, check: &CheckReport| {
            let deadline = options.health.deadline(report.group);
            let reason = check
                .result
                .as_ref()
                .err()
                .map(|reason| match reason.as_str() {
                    // Every check runs for the first time, so this always means a timeout.
                    "not known yet" => format!("no answer within {deadline:?}"),
                    reason => reason.to_owned(),
                });
            EtcdCheckRow {
                group: report.group.as_str(),
                name: check.name.to_string(),
                ok: match reason {
                    Some(_) => Some(false),
                    None if is_refused => None,
                    None => Some(true),
                },
                milliseconds: (check.took.as_secs_f64() * 10_000.0).round() / 10.0,
                reason,
            }
        };
        let reports = [&livez, &readyz];
        let rows = reports
            .iter()
            .flat_map(|report| report.checks.iter().map(|check| row(report, check)));
        let result = EtcdCheckResult {
            endpoint,
            ok: livez.is_ok() && readyz.is_ok(),
            checks: rows.collect(),
        };
        let text = match self.output {
            OutputFormat::Text => table(&result),
            OutputFormat::Json => terminal::json(&result)?,
        };
        terminal::stdout(&text).context("cannot write the result")?;
        Ok(ExitStatus::success_if(result.ok))
    }
}

/// Returns true if nothing listens at the endpoint. Checks that pass then have seen nothing.
fn is_refused(livez: &HealthReport) -> bool {
    let reasons = livez
        .checks
        .iter()
        .filter_map(|check| check.result.as_ref().err());
    let refused = EtcdError::ConnectionRefused.to_string();
    reasons.into_iter().any(|reason| reason.as_str() == refused)
}

fn table(result: &EtcdCheckResult) -> String {
    let (good, bad) = (
        Style::new().fg_color(Some(AnsiColor::Green.into())),
        Style::new().bold().fg_color(Some(AnsiColor::Red.into())),
    );
    let bold = Style::new().bold();
    let faint = Style::new().dimmed();
    let names = result.checks.iter().map(|row| row.name.len());
    let width = names.max().unwrap_or_default();
    let mut text = format!(
        "etcd at {}\n\n{bold}GROUP   {:<width$}  STATE    TOOK       WHY{bold:#}\n",
        result.endpoint, "CHECK"
    );
    for row in &result.checks {
        let (style, state) = match row.ok {
            Some(true) => (good, "ok"),
            Some(false) => (bad, "failed"),
            None => (faint, "skipped"),
        };
        let took = format!("{:.1}ms", row.milliseconds);
        let reason = row.reason.as_deref().unwrap_or_default();
        let line = format!(
            "{:<6}  {:<width$}  {style}{state:<7}{style:#}  {took:<9}  {reason}",
            row.group, row.name
        );
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_a_row_per_check() {
        let row = |check: &str, ok, reason: Option<&str>| EtcdCheckRow {
            group: "readyz",
            name: check.to_owned(),
            ok,
            milliseconds: 1.25,
            reason: reason.map(str::to_owned),
        };
        let result = EtcdCheckResult {
            endpoint: "http://127.0.0.1:2379".to_owned(),
            ok: false,
            checks: vec![
                row("data_corruption", Some(true), None),
                row("read_index", Some(false), Some("no leader")),
                row("defragmentation", None, None),
            ],
        };
        let text = anstream::adapter::strip_str(&table(&result)).to_string();
        assert_eq!(
            text,
            "etcd at http://127.0.0.1:2379\n\n\
             GROUP   CHECK            STATE    TOOK       WHY\n\
             readyz  data_corruption  ok       1.2ms\n\
             readyz  read_index       failed   1.2ms      no leader\n\
             readyz  defragmentation  skipped  1.2ms\n"
        );
    }
}
