//! Decides again on a record, and compares the decisions.

use std::collections::BTreeMap;
use std::time::Duration;

use kelpie_config::{ProberConfig, Strictness, prober};
use kelpie_core::Time;
use kelpie_core::prober::replay::{Alternative, ClusterReplay, EvaluatorState, RecordedInput};
use kelpie_core::prober::{Lease, ProbeSettings, Verdict};

use super::lease_lines::LeaseDecoder;
use super::line::{Body, CallLine, Header, RoundLine, decision_digest};
use super::reader::{Content, Place, PlacedLine, RecordError};
use super::report::{ChangedSetting, ClusterReport, FenceLog, ReplayReport};

/// The settings of a replay beside those of the record.
#[derive(Clone, Debug)]
pub struct OtherSettings {
    /// The configuration.
    pub config: ProberConfig,
    /// The grace period of every cluster, whatever it sets itself; `None` leaves it to the clusters
    /// and to the configuration.
    pub grace: Option<Duration>,
}

impl OtherSettings {
    fn probe(&self) -> ProbeSettings {
        let mut settings = self.config.probe.clone();
        settings.grace = self.grace.unwrap_or(settings.grace);
        settings
    }
}

/// Decides again on the lines of a record with the recorded configuration, and with other settings
/// if there are any.
pub fn replay(
    lines: impl IntoIterator<Item = Result<PlacedLine, RecordError>>,
    other: Option<&OtherSettings>,
) -> Result<ReplayReport, RecordError> {
    let mut replay = Replay {
        other,
        config: None,
        clusters: BTreeMap::new(),
        report: ReplayReport::default(),
    };
    for line in lines {
        let PlacedLine { place, content } = line?;
        match content {
            Content::Header(header) => replay.begin_file(header, &place)?,
            Content::CutOff => replay.report.cut_off_files += 1,
            Content::Line(line) => match (line.cluster, line.body) {
                (Some(cluster), body) => replay.line(cluster, body, &place)?,
                (None, Body::Lost { lines }) => {
                    let lost = &mut replay.report.lost_lines;
                    *lost = lost.saturating_add(lines);
                }
                (None, _) => return Err(place.error("the line names no cluster")),
            },
        }
    }
    Ok(replay.finish())
}

struct Replay<'a> {
    other: Option<&'a OtherSettings>,
    /// The configuration of the current file.
    config: Option<(Header, ProberConfig)>,
    clusters: BTreeMap<String, Cluster>,
    report: ReplayReport,
}

/// A cluster between two of its lines.
#[derive(Default)]
struct Cluster {
    sides: Option<Sides>,
    report: ClusterReport,
    recorded: FenceLog,
    other: FenceLog,
}

/// The evaluators of a cluster, from a state on.
struct Sides {
    leases: LeaseDecoder,
    recorded: ClusterReplay,
    other: Option<Alternative>,
}

impl Replay<'_> {
    fn begin_file(&mut self, header: Header, place: &Place) -> Result<(), RecordError> {
        self.report.files += 1;
        if let Some((known, _)) = &self.config
            && *known == header
        {
            return Ok(());
        }
        let text = header.config.to_string();
        let parsed = prober::parse(text.as_bytes(), Strictness::Lenient);
        let config = parsed
            .map_err(|error| {
                let problems = error.problems.iter().map(ToString::to_string);
                let problems = problems.collect::<Vec<_>>().join("; ");
                place.error(format!("the recorded configuration is invalid: {problems}"))
            })?
            .value;
        self.report.kelpie.clone_from(&header.kelpie);
        if !self.report.replicas.contains(&header.replica) {
            self.report.replicas.push(header.replica.clone());
        }
        if let Some(other) = self.other {
            let changed = changed_settings(&header, other);
            self.report.changed_settings = changed;
        }
        // Another process: what it knew is in its states.
        for cluster in self.clusters.values_mut() {
            cluster.sides = None;
        }
        self.config = Some((header, config));
        Ok(())
    }

    fn line(&mut self, name: String, body: Body, place: &Place) -> Result<(), RecordError> {
        let Some((_, config)) = &self.config else {
            return Err(place.error("there is no header before it"));
        };
        let cluster = self.clusters.entry(name).or_default();
        if let Body::State { follows, state } = body {
            let is_known = cluster.sides.is_some();
            if let (true, Some(sides)) = (follows && is_known, &mut cluster.sides) {
                sides.leases = LeaseDecoder::default();
            } else {
                cluster.sides = Some(Sides::new(*state, config, self.other));
            }
            return Ok(());
        }
        match body {
            Body::Call(call) => cluster.call(&call),
            Body::Ended {} => cluster.sides = None,
            body => cluster.input(body, place, &mut self.report)?,
        }
        Ok(())
    }

    fn finish(mut self) -> ReplayReport {
        let has_other = self.other.is_some();
        for (name, cluster) in self.clusters {
            let mut report = cluster.report;
            report.recorded = cluster.recorded.fences;
            report.other = has_other.then_some(cluster.other.fences);
            self.report.clusters.insert(name, report);
        }
        self.report
    }
}

impl Sides {
    fn new(state: EvaluatorState, config: &ProberConfig, other: Option<&OtherSettings>) -> Self {
        let alternative = |other: &OtherSettings| {
            let alternative = Alternative::new(state.clone(), other.probe());
            let follows_version = other.config.grace_follows_version;
            if other.grace.is_some() || (config.grace_follows_version && !follows_version) {
                // The cluster's own grace period in the record no longer applies.
                alternative.with_configured_grace()
            } else {
                alternative
            }
        };
        Self {
            leases: LeaseDecoder::default(),
            other: other.map(alternative),
            recorded: ClusterReplay::new(state, config.probe.clone()),
        }
    }
}

impl Cluster {
    /// Takes in an input, with both configurations.
    fn input(
        &mut self,
        body: Body,
        place: &Place,
        report: &mut ReplayReport,
    ) -> Result<(), RecordError> {
        let Some(sides) = &mut self.sides else {
            report.skipped_lines += 1;
            return Ok(());
        };
        let (decoder, recorded) = (&mut sides.leases, &mut sides.recorded);
        let log = &mut self.other;
        match body {
            Body::Leases(line) => {
                let (span, version) = (line.span(), line.version());
                let decoded = decoder.decode(line);
                decoded.map_err(|problem| place.error(format!("invalid list: {problem}")))?;
                let input = || RecordedInput::Leases(span, version, decoder.leases());
                recorded.observe(input());
                if let Some(other) = &mut sides.other {
                    other.observe(input(), |at, decision| log.decided(at, decision));
                }
            }
            Body::Round(line) => {
                let line = *line;
                report.decided(line.round.end);
                let decision = recorded.decide(&line.round);
                let digest = decision_digest(&decision).map_err(|error| place.error(error))?;
                let is_same_verdict = line.is_plausible(decision.verdict);
                let is_same = digest == line.digest && is_same_verdict;
                self.report.decided(line.round.end, is_same);
                report.different += u64::from(!is_same);
                report.different_verdicts += u64::from(!is_same_verdict);
                self.recorded
                    .recorded(line.round.end, line.verdict, &decision);
                if let Some(other) = &mut sides.other {
                    let verdict = line.verdict;
                    other.decide(&line.round, verdict, |at, decision| {
                        log.decided(at, decision);
                    });
                }
            }
            body => {
                let input = || -> Option<RecordedInput<[Lease<'_>; 0]>> {
                    Some(match &body {
                        Body::Grace { own } => RecordedInput::Grace(*own),
                        Body::Machines { machines, current } => {
                            RecordedInput::Machines(machines.clone(), *current)
                        }
                        Body::Nodes { read_at, nodes } => {
                            RecordedInput::Nodes(nodes.clone(), *read_at)
                        }
                        _ => return None,
                    })
                };
                let Some(first) = input() else {
                    return Err(place.error("the line is not about a cluster"));
                };
                recorded.observe(first);
                if let (Some(other), Some(input)) = (&mut sides.other, input()) {
                    other.observe(input, |at, decision| log.decided(at, decision));
                }
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &CallLine) {
        self.recorded.called(call);
    }
}

impl RoundLine {
    /// Returns whether the line agrees with itself: a decision that it spells out has its verdict.
    fn is_plausible(&self, verdict: Verdict) -> bool {
        let spelt_out = self
            .decision
            .map_or(self.verdict, |decision| decision.verdict);
        self.verdict == verdict && spelt_out == verdict
    }
}

/// Returns the settings of the files that differ.
fn changed_settings(header: &Header, other: &OtherSettings) -> Vec<ChangedSetting> {
    let mut config = other.config.clone();
    if let Some(grace) = other.grace {
        config.probe.grace = grace;
        config.grace_follows_version = false;
    }
    let Ok(other) = serde_json::to_value(config) else {
        return Vec::new();
    };
    let (Some(recorded), Some(other)) = (header.config.as_object(), other.as_object()) else {
        return Vec::new();
    };
    let mut names: Vec<&String> = recorded.keys().chain(other.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let changed = names.into_iter().filter_map(|name| {
        let (recorded, other) = (recorded.get(name), other.get(name));
        (recorded != other).then(|| ChangedSetting {
            name: name.clone(),
            recorded: recorded.cloned().unwrap_or_default(),
            other: other.cloned().unwrap_or_default(),
        })
    });
    changed.collect()
}

impl ReplayReport {
    fn decided(&mut self, at: Time) {
        self.decisions += 1;
        self.from = Some(self.from.map_or(at, |from| from.min(at)));
        self.to = Some(self.to.map_or(at, |to| to.max(at)));
    }
}
