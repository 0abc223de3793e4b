//! A cluster's state in plain words, for a person at night. The words of a decision are its own.

use std::fmt;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;

use super::state::{
    Census, Decision, Direction, Fence, LastFlow, Outcome, Recorded, Row, Shown, Sight, State,
    Target, Verdict, When,
};
use crate::summary::{Sheet, counted};

/// What is known of the cluster, what was done, what comes next.
pub(super) fn tell(cluster: &str, state: &State, shown: &Shown) -> String {
    let mut sheet = Sheet::default();
    let headline = match &shown.decision {
        Some(decision) => {
            judged(&mut sheet, state.at, decision, shown);
            verdict(decision.verdict)
        }
        None => "no round has ended yet".to_owned(),
    };
    done(&mut sheet, state.at, shown);
    sheet.rows("in the way", or_nothing(&shown.troubles));
    sheet.row("this replica", role(state));
    if let (Some(decision), Some(words)) = (&shown.decision, &shown.words) {
        let next = Distance::between(state.at, decision.next_wake.at);
        sheet.row("next look", format!("{next}: {}", words.next_look));
    }
    let bold = Style::new().bold();
    format!("{bold}{cluster}:{bold:#} {headline}\n\n{}", sheet.text)
}

fn verdict(verdict: Verdict) -> String {
    let (word, means, color) = match verdict {
        Verdict::Fence => ("Fence", "its controllers are to be stopped", AnsiColor::Red),
        Verdict::Hold => ("Hold", "nothing is to be touched", AnsiColor::Yellow),
        Verdict::Release => (
            "Release",
            "its controllers are to run as they should",
            AnsiColor::Green,
        ),
    };
    let style = Style::new().bold().fg_color(Some(color.into()));
    format!("{style}{word}{style:#}, {means}")
}

/// What was seen, which rule decided, and against which deadline.
fn judged(sheet: &mut Sheet, now: When, decision: &Decision, shown: &Shown) {
    if let Some(words) = &shown.words {
        sheet.row("because", readable(&words.rule.to_string()));
    }
    sheet.row("judged", ago(now, decision.at));
    let reasons = &decision.reasons;
    let shares = (reasons.failure_fraction, reasons.recovery_fraction);
    match &reasons.leases {
        Some(census) => sheet.rows("leases", leases(census, shares)),
        None => sheet.row("leases", "not listed in that round"),
    }
    if let Some(words) = shown.words.as_ref().filter(|w| !w.excluded.is_empty()) {
        sheet.rows("not counted", &words.excluded);
    }
    let mut probes = vec![format!("API server: {}", in_a_row(&reasons.api_server))];
    if let Some(external) = &reasons.external {
        probes.push(format!("external path: {}", in_a_row(external)));
    }
    probes.push(format!("leases: {}", in_a_row(&reasons.lease_probe)));
    sheet.rows("probes", probes);
    match decision.deadline {
        Some(deadline) => {
            let distance = Distance::between(now, deadline);
            let clock = Clock(deadline);
            sheet.row(
                "deadline",
                format!(
                    "{clock}, {distance}: the next node can turn Unknown then, unless it renews"
                ),
            );
        }
        None => sheet.row("deadline", "none ahead"),
    }
    let in_haste = match (decision.rush_at, decision.at) {
        (Some(When(Some(rush))), When(Some(at))) => rush <= at,
        _ => false,
    };
    if decision.verdict == Verdict::Fence && in_haste {
        sheet.row("levels", "no longer wait for each other: no time is left");
    }
}

fn leases(census: &Census, (failure, recovery): (f64, f64)) -> Vec<String> {
    let Census {
        candidates,
        expired,
        silent,
        ..
    } = census;
    let candidates = counted(*candidates, "node counts", "nodes count");
    let mut lines = vec![format!(
        "{candidates}: {expired} expired, {silent} silent; {} expired trip",
        percent(failure)
    )];
    if let Some(not_renewed) = census.not_renewed {
        lines.push(format!(
            "{not_renewed} not renewed since the trip; well again below {}",
            percent(recovery)
        ));
    }
    if census.unproven > 0 {
        lines.push(format!(
            "{} prove nothing yet: too little was seen of them",
            census.unproven
        ));
    }
    lines
}

fn percent(share: f64) -> String {
    let percent = format!("{:.2}", share * 100.0);
    let percent = percent.trim_end_matches('0').trim_end_matches('.');
    format!("{percent} %")
}

fn in_a_row(row: &Row) -> String {
    match (row.success_count, row.error_count) {
        (0, 0) => "no result yet".to_owned(),
        (successes, 0) => counted(successes, "success", "successes in a row"),
        (_, errors) => counted(errors, "failure", "failures in a row"),
    }
}

/// What became of the targets.
fn done(sheet: &mut Sheet, now: When, shown: &Shown) {
    let fence = match shown.fence {
        None | Some(Fence::Unknown) => "not known: the targets were not read yet".to_owned(),
        Some(Fence::None) => "none".to_owned(),
        Some(Fence::Partial) => "partial".to_owned(),
        Some(Fence::Full) => "full".to_owned(),
    };
    let fence = match shown.fenced_since {
        Some(since) => format!("{fence}, since {}", ago(now, since)),
        None => fence,
    };
    sheet.row("fence", fence);
    sheet.rows("targets", shown.targets.iter().map(target));
    if let Some(flow) = &shown.last_flow {
        sheet.rows("last flow", last_flow(now, flow, &shown.targets));
    }
}

fn target(target: &Target) -> String {
    let seen = match &target.sight {
        None => "not read yet".to_owned(),
        Some(Sight::Missing) => "does not exist".to_owned(),
        Some(Sight::Present {
            replicas,
            ready,
            marked,
            recorded,
            ignored,
        }) => {
            let mut facts = vec![
                counted(*replicas, "replica", "replicas"),
                format!("{ready} ready"),
            ];
            if *marked {
                facts.push("marked as fenced".to_owned());
            }
            match recorded {
                // The record outlives the fence it was made for.
                Recorded::Count(count) if *marked => facts.push(format!("{count} recorded")),
                Recorded::Corrupt if *marked => facts.push("its record is corrupt".to_owned()),
                Recorded::Absent if *marked => facts.push("no record".to_owned()),
                _ => {}
            }
            if *ignored {
                facts.push("left alone, as its owner wants".to_owned());
            }
            facts.join(", ")
        }
    };
    format!("{}: {seen}", target.resource)
}

fn last_flow(now: When, flow: &LastFlow, targets: &[Target]) -> Vec<String> {
    let direction = match flow.report.direction {
        Direction::Down => "down",
        Direction::Up => "up",
    };
    let attempts = counted(flow.report.attempts, "scale call", "scale calls");
    let mut lines = vec![format!(
        "{direction}, {attempts}, ended {}",
        ago(now, flow.at)
    )];
    let outcomes = flow.report.outcomes.iter();
    lines.extend(targets.iter().zip(outcomes).map(|(target, outcome)| {
        let how = outcome
            .as_ref()
            .map_or_else(|| "cut off before it was done".to_owned(), how);
        format!("{}: {how}", target.resource)
    }));
    lines
}

fn how(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Scaled {
            replicas,
            at,
            unready,
            corrupt_record,
        } => {
            let mut text = format!("scaled to {replicas} at {}", Clock(*at));
            if *corrupt_record {
                text.push_str(", because its record was corrupt");
            }
            if *unready {
                text.push_str("; its pods had not followed when the flow went on");
            }
            text
        }
        Outcome::AlreadyThere => "was where it should be".to_owned(),
        Outcome::Missing => "does not exist, which is fine".to_owned(),
        Outcome::Ignored => "left alone, as its owner wants".to_owned(),
        Outcome::NotOurs => "not marked, so not ours to restore".to_owned(),
        Outcome::Failed => "FAILED; it is tried again".to_owned(),
    }
}

fn role(state: &State) -> &'static str {
    match (state.dry_run, state.leads) {
        (true, _) => "decides and writes nothing: it is a dry run",
        (false, true) => "acts",
        (false, false) => "only observes: another one acts, or none (then an alert says so)",
    }
}

fn or_nothing(lines: &[impl fmt::Display]) -> Vec<String> {
    if lines.is_empty() {
        return vec!["nothing".to_owned()];
    }
    lines.iter().map(ToString::to_string).collect()
}

/// `2026-11-16 00:30:12 UTC, 0.4 s ago`.
fn ago(now: When, then: When) -> String {
    format!("{}, {}", Clock(then), Distance::between(now, then))
}

/// The words of a decision with its instants as people read them: logs have them as machines do.
fn readable(words: &str) -> String {
    let word = |word: &str| match word.parse() {
        Ok(at) => Clock(When(Some(at))).to_string(),
        Err(_) => word.to_owned(),
    };
    words.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// An instant as people read it.
struct Clock(When);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            When(Some(at)) => write!(f, "{} UTC", at.strftime("%F %T%.1f")),
            When(None) => f.write_str("no instant on the calendar"),
        }
    }
}

/// How far an instant is from the prober's now: our own clock has no part in it.
enum Distance {
    Ago(f64),
    Ahead(f64),
    Unknown,
}

impl Distance {
    fn between(now: When, then: When) -> Self {
        let (When(Some(now)), When(Some(then))) = (now, then) else {
            return Self::Unknown;
        };
        let seconds = Timestamp::duration_since(then, now).as_secs_f64();
        if seconds > 0.0 {
            Self::Ahead(seconds)
        } else {
            Self::Ago(-seconds)
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ago(seconds) => write!(f, "{} ago", Length(seconds)),
            Self::Ahead(seconds) => write!(f, "in {}", Length(seconds)),
            Self::Unknown => f.write_str("at an unknown distance"),
        }
    }
}

/// A length of time as people say it.
struct Length(f64);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(seconds) = *self;
        let (minutes, hours) = (seconds / 60.0, seconds / 3_600.0);
        if seconds < 90.0 {
            write!(f, "{seconds:.1} s")
        } else if minutes < 90.0 {
            write!(f, "{minutes:.0} min")
        } else if hours < 48.0 {
            write!(f, "{hours:.0} h")
        } else {
            write!(f, "{:.0} days", hours / 24.0)
        }
    }
}

#[cfg(test)]
mod tests;
