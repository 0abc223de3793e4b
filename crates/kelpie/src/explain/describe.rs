//! A cluster's state as text for an operator.

use anstyle::{AnsiColor, Style};
use kelpie_core::prober::fence::{Observed, RecordedSetting, TargetOutcome};
use kelpie_core::prober::guard::GuardState;
use kelpie_core::prober::{
    Decision, FenceState, LeaseCounts, ProbeStatus, Reasons, Rule, Setting, Verdict, Wake,
};
use kelpie_core::{PauseSwitch, Time};
use kelpie_prober::{ClusterState, ClusterView, LastFlow, ProberState, TargetState};

use crate::printable::{length, printable, readable_instant, readable_instants};
use crate::summary::{KeyValueTable, pluralize};

/// Describes the cluster: the evidence, the decision, its outcome and the next round.
pub(super) fn describe(cluster: &str, prober: &ProberState, view: &ClusterView) -> String {
    let state = &view.state;
    let mut table = KeyValueTable::default();
    if prober.pause != PauseSwitch::Off {
        let loud = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let pause = printable(&readable_instants(&prober.pause.to_string()));
        table.row("pause", format!("{loud}{pause}{loud:#}"));
    }
    let headline = match &state.decision {
        Some(decision) => {
            describe_decision(&mut table, prober.replica.at, decision, state);
            verdict(decision.verdict, state)
        }
        None => "no round has ended yet".to_owned(),
    };
    describe_targets(&mut table, prober.replica.at, state);
    if let Some(guard) = &state.guard {
        let held = state.held_groups.iter().map(ToString::to_string);
        let lines = [guard.to_string()].into_iter().chain(held);
        let lines: Vec<_> = lines.map(|line| readable_instants(&line)).collect();
        table.rows("guard", lines);
    }
    let mut problems = state.problems.clone();
    let rule = state.decision.map(|decision| decision.reasons.rule);
    if matches!(rule, Some(Rule::NoCandidates { .. })) {
        problems.push("the cluster is not protected: every node is excluded".to_owned());
    }
    table.rows("problems", or_none(&problems));
    table.row("this replica", role(prober));
    if let Some(shard) = &prober.shard {
        let part = view.shard.as_deref().map(printable);
        let part = part.map_or_else(String::new, |part| format!(": {part}"));
        table.row("shard", format!("{}{part}", printable(&shard.name)));
    }
    if let Some(decision) = &state.decision {
        let Wake { at, reason } = decision.next_wake;
        let next = distance(prober.replica.at, at);
        table.row("next round", format!("{next}: {reason}"));
    }
    let bold = Style::new().bold();
    format!("{bold}{cluster}:{bold:#} {headline}\n\n{}", table.text)
}

fn verdict(verdict: Verdict, state: &ClusterState) -> String {
    let is_armed = matches!(state.guard, Some(GuardState::Armed { .. }));
    let only_pauses = state.targets.iter().all(|it| it.resource.means_all());
    let (meaning, color) = match verdict {
        Verdict::Fence if state.targets.is_empty() && is_armed => {
            ("the guard holds its nodes", AnsiColor::Red)
        }
        Verdict::Fence if state.targets.is_empty() => {
            ("but nothing protects its nodes", AnsiColor::Red)
        }
        Verdict::Fence if only_pauses && is_armed => (
            "the guard holds its nodes, and its health checks are paused",
            AnsiColor::Red,
        ),
        Verdict::Fence if only_pauses => ("its health checks are paused", AnsiColor::Red),
        Verdict::Fence => ("its controllers are stopped", AnsiColor::Red),
        Verdict::Hold => ("everything stays as it is", AnsiColor::Yellow),
        Verdict::Release => return released(state),
    };
    headline(&verdict.to_string(), meaning, color)
}

/// Describes a cluster that needs no fence. What stands in the way of "healthy" comes first.
fn released(state: &ClusterState) -> String {
    let rule = state.decision.map(|decision| decision.reasons.rule);
    let (word, meaning, color) = match state.fence {
        Some(FenceState::Partial | FenceState::Full) => {
            ("Releasing", "its fence is being lifted", AnsiColor::Yellow)
        }
        _ if matches!(rule, Some(Rule::NoCandidates { .. })) => (
            "Not protected",
            "none of its nodes can be judged",
            AnsiColor::Yellow,
        ),
        None | Some(FenceState::Unknown) => (
            "Healthy",
            "but its targets were not read yet",
            AnsiColor::Yellow,
        ),
        Some(FenceState::None) => ("Healthy", "nothing is fenced", AnsiColor::Green),
    };
    headline(word, meaning, color)
}

fn headline(word: &str, meaning: &str, color: AnsiColor) -> String {
    let style = Style::new().bold().fg_color(Some(color.into()));
    format!("{style}{word}{style:#}, {meaning}")
}

fn describe_decision(
    table: &mut KeyValueTable,
    now: Time,
    decision: &Decision,
    state: &ClusterState,
) {
    let reasons = &decision.reasons;
    table.row("because", readable_instants(&reasons.rule.to_string()));
    table.row("judged", when(now, decision.at));
    match &reasons.leases {
        Some(counts) => {
            table.rows("leases", leases(counts, reasons));
            let excluded = counts.excluded.iter();
            let excluded = excluded.map(|(cause, count)| format!("{count} {cause}"));
            table.rows("not counted", excluded);
        }
        None => table.row("leases", "not listed in that round"),
    }
    let mut probes = vec![format!("API server: {}", in_a_row(reasons.api_server))];
    if let Some(external) = reasons.external {
        probes.push(format!("external path: {}", in_a_row(external)));
    }
    probes.push(format!("leases: {}", in_a_row(reasons.lease_probe)));
    table.rows("probes", probes);
    let deadline = match decision.deadline {
        None => "none ahead".to_owned(),
        Some(deadline) => {
            let meaning = deadline_meaning(deadline, now, state);
            format!("{}: {meaning}", when(now, deadline))
        }
    };
    table.row("deadline", deadline);
    if let Some(margin) = state.margin {
        table.row("margin", margin_text(margin));
    }
    let parallel_from = decision.parallel_from.unwrap_or(Time::MAX);
    if decision.verdict == Verdict::Fence && parallel_from <= decision.at {
        let parallel = "fenced in parallel: there is no time for their order";
        table.row("levels", parallel);
    }
}

/// Says what happens at a deadline, which the controllers miss if they are fenced.
fn deadline_meaning(deadline: Time, now: Time, state: &ClusterState) -> &'static str {
    let (is_fenced, is_ahead) = (state.fence == Some(FenceState::Full), deadline > now);
    match (is_fenced, is_ahead) {
        (true, _) => "harmless, because its controllers are fenced",
        (false, true) => "the next node can turn Unknown then, unless it renews",
        (false, false) => "a node that has not renewed since can be Unknown by now",
    }
}

fn margin_text(margin: f64) -> String {
    if margin < 0.0 {
        let late = -margin;
        return format!("TOO LATE: fenced {late:.1} s after the first node could turn Unknown");
    }
    format!("fenced {margin:.1} s before the first node could turn Unknown")
}

fn leases(counts: &LeaseCounts, reasons: &Reasons) -> Vec<String> {
    let (expired, silent) = (counts.expired, counts.silent);
    let candidates = pluralize(counts.candidates, "candidate", "candidates");
    let mut lines = vec![format!(
        "{candidates}: {expired} expired, {silent} silent (trips at {})",
        reasons.failure_fraction
    )];
    if let Some(not_renewed) = counts.not_renewed {
        lines.push(format!(
            "{not_renewed} not renewed yet (restores below {})",
            reasons.recovery_fraction
        ));
    }
    let unproven = counts.unproven;
    if unproven > 0 {
        lines.push(format!("{unproven} seen only once; waiting for a renewal"));
    }
    lines
}

fn in_a_row(status: ProbeStatus) -> String {
    match (status.success_count, status.error_count) {
        (0, 0) => "no result yet".to_owned(),
        (successes, 0) => pluralize(successes, "success", "successes in a row"),
        (_, errors) => pluralize(errors, "failure", "failures in a row"),
    }
}

fn describe_targets(table: &mut KeyValueTable, now: Time, state: &ClusterState) {
    let fence = match state.fence {
        None | Some(FenceState::Unknown) => "unknown: the targets were not read yet",
        Some(FenceState::None) => "none",
        Some(FenceState::Partial) => "partial",
        Some(FenceState::Full) => "full",
    };
    match state.fenced_since {
        Some(since) => table.row("fence", format!("{fence}, since {}", when(now, since))),
        None => table.row("fence", fence),
    }
    table.rows("targets", state.targets.iter().map(target));
    if let Some(flow) = &state.last_flow {
        table.rows("last flow", last_flow(now, flow, &state.targets));
    }
}

fn target(target: &TargetState) -> String {
    let observed = match &target.observed {
        None => "not read yet".to_owned(),
        Some(Observed::Missing) => "does not exist".to_owned(),
        Some(Observed::Present(object)) if target.resource.means_all() => {
            let is_paused = object.setting == Setting::FENCED;
            match (is_paused, object.marked) {
                (true, true) => "paused",
                (true, false) => "paused by other clients",
                (false, true) => "paused in part",
                (false, false) => "not paused",
            }
            .to_owned()
        }
        Some(Observed::Present(object)) => {
            let mut facts = vec![
                pluralize(object.setting.0, "replica", "replicas"),
                format!("{} ready", object.effective),
            ];
            if object.marked {
                facts.push("marked as fenced".to_owned());
                // The record outlives the fence it was made for, so it is shown only with the
                // marker.
                facts.push(match object.recorded {
                    RecordedSetting::Value(setting) => format!("{setting} recorded"),
                    RecordedSetting::Corrupt => "corrupt record".to_owned(),
                    RecordedSetting::Absent => "no record".to_owned(),
                });
            }
            if object.ignored {
                facts.push("ignored, as its annotation asks".to_owned());
            }
            facts.join(", ")
        }
    };
    printable(&format!("{}: {observed}", target.resource))
}

fn last_flow(now: Time, flow: &LastFlow, targets: &[TargetState]) -> Vec<String> {
    let (direction, ended) = (flow.report.direction, when(now, flow.at));
    let attempts = pluralize(flow.report.attempts, "scale call", "scale calls");
    let mut lines = vec![format!("{direction}, {attempts}, ended {ended}")];
    let outcomes = flow.report.outcomes.iter();
    lines.extend(targets.iter().zip(outcomes).map(|(target, outcome)| {
        let outcome = outcome.map_or_else(
            || "cancelled".to_owned(),
            |outcome| flow_outcome(target, outcome),
        );
        printable(&format!("{}: {outcome}", target.resource))
    }));
    lines
}

fn flow_outcome(target: &TargetState, outcome: TargetOutcome) -> String {
    match outcome {
        TargetOutcome::Applied { setting, at, .. } if target.resource.means_all() => {
            let change = match setting {
                Setting::FENCED => "paused",
                _ => "resumed",
            };
            format!("{change} at {}", readable_instant(at))
        }
        TargetOutcome::Applied {
            setting,
            at,
            unready,
            corrupt_record,
        } => {
            let mut text = format!("scaled to {setting} at {}", readable_instant(at));
            if corrupt_record {
                text.push_str(", because its record was corrupt");
            }
            if unready {
                text.push_str("; its pods had not followed in time");
            }
            text
        }
        TargetOutcome::AlreadyThere => "nothing to do".to_owned(),
        TargetOutcome::Missing => "does not exist, and is optional".to_owned(),
        TargetOutcome::Ignored => "ignored, as its annotation asks".to_owned(),
        TargetOutcome::NotOurs => "not marked, so not restored".to_owned(),
        TargetOutcome::LeftToLeader => "left to the leader".to_owned(),
        TargetOutcome::Failed => "FAILED; retrying".to_owned(),
    }
}

fn role(prober: &ProberState) -> &'static str {
    match (prober.replica.dry_run, prober.replica.leads) {
        (true, _) => "dry run: decides and writes nothing",
        (false, true) => "leader",
        (false, false) => "standby: not the leader",
    }
}

fn or_none(lines: &[String]) -> Vec<String> {
    if lines.is_empty() {
        return vec!["none".to_owned()];
    }
    lines.iter().map(|line| printable(line)).collect()
}

/// Formats an instant and its distance: `2026-11-16 00:30:12.0 UTC, 0.4 s ago`.
fn when(now: Time, then: Time) -> String {
    format!("{}, {}", readable_instant(then), distance(now, then))
}

/// Formats the distance of an instant from the prober's present. The local clock is not used.
fn distance(now: Time, then: Time) -> String {
    if then > now {
        format!("in {}", length(then.since(now)))
    } else {
        format!("{} ago", length(now.since(then)))
    }
}

#[cfg(test)]
mod tests;
