//! The `kelpie addon show` command.

use std::fmt::Write;

use anyhow::{Context, Result};
use clap::Args;
use kelpie_addon::StatusWriter;
use kelpie_core::Time;
use kelpie_core::addon::{AddonComponent, AddonStatus, Condition, StandardCondition};
use serde_json::{Value, json};

use super::spoke::SpokeFlags;
use crate::exit::ExitStatus;
use crate::output_format::OutputFormat;
use crate::printable::printable;
use crate::{component, terminal};

/// Show the addon's status: the condition that is True, why, and since when
#[derive(Args)]
pub(super) struct ShowCommand {
    #[command(flatten)]
    spoke: SpokeFlags,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: OutputFormat,
}

impl ShowCommand {
    pub(super) fn run(self) -> Result<ExitStatus> {
        component::run(self.show())
    }

    async fn show(self) -> Result<ExitStatus> {
        let objects = self.spoke.connect("show").await?.objects();
        let now = objects.now();
        let addon = StatusWriter::new(objects, self.spoke.addon())
            .read()
            .await?;
        let text = match self.output {
            OutputFormat::Text => text(&addon.status, now),
            OutputFormat::Json => terminal::json(&json(&addon.status))?,
        };
        terminal::stdout(&text).context("cannot write the status")?;
        Ok(ExitStatus::Success)
    }
}

fn json(status: &AddonStatus) -> Value {
    let aggregate = status.aggregate();
    let aggregate = aggregate.map(|aggregate| {
        json!({
            "type": aggregate.standard.condition_type(),
            "reason": aggregate.reason,
            "message": aggregate.message,
        })
    });
    let standard = status
        .standard_condition()
        .map(StandardCondition::condition_type);
    json!({ "status": status, "standing": standard, "aggregate": aggregate })
}

fn text(status: &AddonStatus, now: Time) -> String {
    let mut text = summary(status, now);
    text.push('\n');
    let rows = status
        .conditions
        .iter()
        .map(|condition| row(condition, now));
    let head = ["TYPE", "STATUS", "REASON", "AGE", "MESSAGE"].map(str::to_owned);
    let rows: Vec<[String; 5]> = [head].into_iter().chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..4).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{cell:width$}  ");
        }
        text.push_str(&row[4]);
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// Describes the condition that is True, and the components behind it.
fn summary(status: &AddonStatus, now: Time) -> String {
    let Some(aggregate) = status.aggregate() else {
        return "no status yet: no component has a condition\n".to_owned();
    };
    let mut text = match status.true_condition() {
        Some((standard, condition)) => {
            let age = age(condition, now);
            format!("{standard} for {age}: {}\n", printable(&aggregate.reason))
        }
        None => "no standard condition is True: is the status controller running?\n".to_owned(),
    };
    if status.standard_condition() != Some(aggregate.standard) {
        let _ = writeln!(
            text,
            "expected {}: is the status controller running?",
            aggregate.standard
        );
    }
    for component in AddonComponent::ALL {
        let Some(condition) = status.component(component) else {
            let _ = writeln!(text, "  {component}: no condition");
            continue;
        };
        let (spelling, reason) = (condition.reason.as_str(), condition.reason().as_str());
        let is_decisive = [spelling, reason].contains(&aggregate.reason.as_str());
        let mark = if is_decisive { " (decisive)" } else { "" };
        let (spelling, age) = (printable(spelling), age(condition, now));
        let _ = writeln!(text, "  {component}: {spelling} for {age}{mark}");
    }
    text
}

fn row(condition: &Condition, now: Time) -> [String; 5] {
    [
        printable(&condition.type_),
        printable(&condition.status),
        printable(&condition.reason),
        age(condition, now),
        printable(&condition.message),
    ]
}

/// Formats the age of a condition in one unit, as kubectl does.
fn age(condition: &Condition, now: Time) -> String {
    let Some(since) = condition.last_transition_time.time() else {
        return "?".to_owned();
    };
    let seconds = now.since(since).as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use kelpie_core::addon::{CollectorReport, ConditionReason, ForwardOutcome, OperatorUpdate};

    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_unix(1_700_000_000 + seconds, 0)
    }

    /// A status in which the platform collector has reported and the other has not.
    fn booting() -> AddonStatus {
        let mut status = AddonStatus::default();
        for component in AddonComponent::ALL {
            let update = OperatorUpdate {
                component,
                reason: ConditionReason::UpdateSuccessful,
                message: "rolled out".into(),
                rollout: None,
                replaced: false,
            };
            status.apply_update(&update, at(0)).unwrap();
        }
        status.set_standard_conditions(at(1));
        let report = CollectorReport {
            component: AddonComponent::Platform,
            forward: ForwardOutcome::Successful,
            message: "sent".into(),
            rollout: None,
        };
        status.apply_report(&report, at(60)).unwrap();
        status.set_standard_conditions(at(61));
        status
    }

    #[test]
    fn summary_names_the_decisive_component() {
        let expected = "\
Progressing for 5m: UpdateSuccessful
  platform collector: ForwardSuccessful for 4m
  user-workload collector: UpdateSuccessful for 5m (decisive)

TYPE                       STATUS  REASON             AGE  MESSAGE
MetricsCollectorStatus     True    ForwardSuccessful  4m   sent
UwlMetricsCollectorStatus  True    UpdateSuccessful   5m   rolled out
Progressing                True    UpdateSuccessful   5m   \
    platform collector: ForwardSuccessful (sent); \
    user-workload collector: UpdateSuccessful (rolled out)
";
        assert_eq!(text(&booting(), at(301)), expected);
    }

    #[test]
    fn missing_aggregation_is_noticed() {
        let mut status = booting();
        status.conditions.pop();
        let text = summary(&status, at(301));
        assert!(text.starts_with("no standard condition is True"), "{text}");
        assert!(text.contains("expected Progressing"), "{text}");
        let empty = summary(&AddonStatus::default(), at(0));
        assert!(empty.starts_with("no status yet"), "{empty}");
    }

    #[test]
    fn messages_cannot_move_the_cursor() {
        let mut status = booting();
        status.conditions[0].message = "\u{1b}[2Jgone".into();
        assert!(!text(&status, at(0)).contains('\u{1b}'));
    }
}
