//! `kelpie addon show`.

use std::fmt::Write;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use kelpie_addon::StatusWriter;
use kelpie_core::Time;
use kelpie_core::addon::{Component, Condition, Status};
use serde_json::json;

use super::spoke::{SpokeFlags, runtime};
use crate::exit::Outcome;
use crate::printable::printable;
use crate::terminal;

/// Show how the addon is: which condition holds, why, and since when
#[derive(Args)]
pub(super) struct Show {
    #[command(flatten)]
    spoke: SpokeFlags,

    /// How to answer
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For scripts
    Json,
}

impl Show {
    pub(super) fn run(self) -> Result<Outcome> {
        runtime()?.block_on(self.show())
    }

    async fn show(self) -> Result<Outcome> {
        let objects = self.spoke.connect("show").await?.objects();
        let now = objects.now();
        let addon = StatusWriter::new(objects, self.spoke.addon())
            .read()
            .await?;
        let text = match self.output {
            Output::Text => text(&addon.status, now),
            Output::Json => json(&addon.status)?,
        };
        terminal::stdout(&text).context("cannot write the answer")?;
        Ok(Outcome::Success)
    }
}

fn json(status: &Status) -> Result<String> {
    let aggregate = status.aggregate();
    let aggregate = aggregate.map(|aggregate| {
        json!({
            "type": aggregate.standard.condition(),
            "reason": aggregate.reason,
            "message": aggregate.message,
        })
    });
    let standing = status
        .standing()
        .map(kelpie_core::addon::Standard::condition);
    let answer = json!({ "status": status, "standing": standing, "aggregate": aggregate });
    Ok(serde_json::to_string_pretty(&answer)? + "\n")
}

fn text(status: &Status, now: Time) -> String {
    let mut text = verdict(status, now);
    text.push('\n');
    let rows = status
        .conditions
        .iter()
        .map(|condition| row(condition, now));
    let head = ["TYPE", "STATUS", "REASON", "AGE", "MESSAGE"].map(str::to_owned);
    let rows: Vec<[String; 5]> = [head].into_iter().chain(rows).collect();
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let wide: Vec<usize> = (0..4).map(|column| wide(column).unwrap_or(0)).collect();
    for row in &rows {
        for (cell, wide) in row.iter().zip(&wide) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{cell:wide$}  ");
        }
        text.push_str(&row[4]);
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// Which condition holds and what made it so.
fn verdict(status: &Status, now: Time) -> String {
    let Some(aggregate) = status.aggregate() else {
        return "nothing is known: no component has a condition yet\n".to_owned();
    };
    let mut text = match status.standing() {
        Some(standing) => {
            let mut conditions = status.conditions.iter();
            let condition = conditions.find(|it| it.kind == standing.condition());
            let age = condition.map(|condition| age(condition, now));
            let age = age.unwrap_or_default();
            format!("{standing} for {age}: {}\n", printable(&aggregate.reason))
        }
        None => "no standard condition holds: is the status controller running?\n".to_owned(),
    };
    if status.standing() != Some(aggregate.standard) {
        let _ = writeln!(
            text,
            "it should be {}: is the status controller running?",
            aggregate.standard
        );
    }
    for component in Component::ALL {
        let state = match status.component(component) {
            Some(condition) => format!(
                "{} for {}",
                printable(&condition.reason),
                age(condition, now)
            ),
            None => "not there".to_owned(),
        };
        let decides = status
            .component(component)
            .is_some_and(|condition| is_decisive(condition, &aggregate.reason));
        let mark = if decides { ", which decides" } else { "" };
        let _ = writeln!(text, "  {component}: {state}{mark}");
    }
    text
}

fn is_decisive(condition: &Condition, reason: &str) -> bool {
    condition.reason == reason || condition.reason().name() == reason
}

fn row(condition: &Condition, now: Time) -> [String; 5] {
    [
        printable(&condition.kind),
        printable(&condition.status),
        printable(&condition.reason),
        age(condition, now),
        printable(&condition.message),
    ]
}

/// As kubectl shows it: the two largest units.
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
    use kelpie_core::addon::{Forward, Reason, Report, Update};

    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_unix(1_700_000_000 + seconds, 0)
    }

    fn boot() -> Status {
        let mut status = Status::default();
        for component in Component::ALL {
            let update = Update {
                component,
                reason: Reason::UpdateSuccessful,
                message: "rolled out".into(),
                rollout: None,
                replaced: false,
            };
            status.update(&update, at(0)).unwrap();
        }
        status.settle(at(1));
        let report = Report {
            component: Component::Platform,
            forward: Forward::Successful,
            message: "sent".into(),
            rollout: None,
        };
        status.report(&report, at(60)).unwrap();
        status.settle(at(61));
        status
    }

    #[test]
    fn the_verdict_comes_first_with_what_decides_it() {
        let expected = "\
Progressing for 5m: UpdateSuccessful
  platform collector: ForwardSuccessful for 4m
  user-workload collector: UpdateSuccessful for 5m, which decides

TYPE                       STATUS  REASON             AGE  MESSAGE
MetricsCollectorStatus     True    ForwardSuccessful  4m   sent
UwlMetricsCollectorStatus  True    UpdateSuccessful   5m   rolled out
Progressing                True    UpdateSuccessful   5m   platform collector: ForwardSuccessful (sent); user-workload collector: UpdateSuccessful (rolled out)
";
        assert_eq!(text(&boot(), at(301)), expected);
    }

    #[test]
    fn a_status_that_nobody_aggregated_is_told() {
        let mut status = boot();
        status.conditions.pop();
        let told = verdict(&status, at(301));
        assert!(told.starts_with("no standard condition holds"), "{told}");
        assert!(told.contains("it should be Progressing"), "{told}");
        let nothing = verdict(&Status::default(), at(0));
        assert!(nothing.starts_with("nothing is known"), "{nothing}");
    }

    #[test]
    fn words_of_others_cannot_move_the_cursor() {
        let mut status = boot();
        status.conditions[0].message = "\u{1b}[2Jgone".into();
        assert!(!text(&status, at(0)).contains('\u{1b}'));
    }
}
