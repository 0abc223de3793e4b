//! The evaluator of one cluster: observations in, decisions out.

use std::time::Duration;

use super::decision::{Decision, Reasons};
use super::observation::{FenceState, ListResult, Observation};
use super::rule::{LeaseFacts, RoundFacts, Rule, Verdict, select};
use super::schedule::{RoundPace, RoundTimes};
use super::trip::TripState;
use crate::Time;
use crate::prober::ProbeSettings;
use crate::prober::leases::{
    AcceptedList, CountContext, GraceLimits, Lease, LeaseCounts, LeaseTracker, ListSpan, TripCause,
};
use crate::prober::nodes::{Machines, NodeSet};
use crate::prober::probe_status::{ProbeHealth, ProbeResult, ProbeStatus};

/// Nodes are read at least this often.
const NODES_MAX_AGE: Duration = Duration::from_mins(10);

/// Everything known about one cluster, and the decisions that follow from it.
///
/// A round goes: probe the API server; if it answers, list the leases and
/// [observe](Self::observe_leases) them; if [nodes are due](Self::nodes_due), list the nodes and
/// [observe](Self::observe_nodes) them; then [decide](Self::decide). A new evaluator knows nothing.
/// It lives on through a change of leader, so that a standby that takes over has no gap.
#[derive(Debug)]
pub struct Evaluator {
    settings: ProbeSettings,
    grace: Duration,
    started: Time,
    api_server: ProbeStatus,
    external: ProbeStatus,
    lease_probe: ProbeStatus,
    tracker: LeaseTracker,
    trip: TripState,
    last: LastList,
    list_failures: u32,
}

/// Conclusions from the last usable list, for rounds without one.
#[derive(Debug, Default)]
struct LastList {
    end: Time,
    rule: Option<Rule>,
    deadline: Option<Time>,
    trips_at: Option<Time>,
}

impl Evaluator {
    /// Creates an evaluator that knows nothing yet. `now` is the instant the probe starts.
    pub fn new(settings: ProbeSettings, now: Time) -> Self {
        Self {
            grace: settings.grace,
            settings,
            started: now,
            api_server: ProbeStatus::default(),
            external: ProbeStatus::default(),
            lease_probe: ProbeStatus::default(),
            tracker: LeaseTracker::default(),
            trip: TripState::Never,
            last: LastList::default(),
            list_failures: 0,
        }
    }

    /// Sets the cluster's own grace period; `None` stands for the configured one.
    pub fn set_grace(&mut self, own: Option<Duration>) {
        self.grace = own.unwrap_or(self.settings.grace);
    }

    /// Takes in a list of leases.
    pub fn observe_leases<'a>(
        &mut self,
        span: ListSpan,
        leases: impl IntoIterator<Item = Lease<'a>>,
    ) -> AcceptedList {
        let listed = self.tracker.observe_leases(span, self.grace, leases);
        // Nothing is known about the nodes during the gap, so a fence that was begun is neither
        // extended nor lifted before leases prove something again.
        if let (true, TripState::Tripped { since, .. }) = (listed.is_fresh_start, self.trip) {
            self.trip = TripState::Adopted { since };
        }
        listed
    }

    /// Returns whether the nodes have to be read in this round, after the leases.
    pub fn nodes_due(&self, listed: &AcceptedList, fence: FenceState) -> bool {
        listed.nodes_due
            || matches!(fence, FenceState::Partial | FenceState::Full)
            || self.is_tripped()
            || listed.span.start.since(self.tracker.nodes_read_at()) >= NODES_MAX_AGE
    }

    /// Takes in a list of nodes. `read_at` is the instant of the request.
    pub fn observe_nodes(&mut self, nodes: NodeSet, read_at: Time) {
        self.tracker.observe_nodes(nodes, read_at);
    }

    /// Judges the known nodes by other machines; `None` where the Machine resource does not exist.
    pub fn observe_machines(&mut self, machines: Option<&Machines>) {
        self.tracker.observe_machines(machines);
    }

    /// Returns the leases and nodes as last listed.
    pub fn leases(&self) -> &LeaseTracker {
        &self.tracker
    }

    /// Decides on the observation of a round.
    pub fn decide(&mut self, seen: &Observation) -> Decision {
        let thresholds = self.settings.api_thresholds;
        let was_unhealthy = self.api_server.health(thresholds) == ProbeHealth::Unhealthy;
        self.api_server.record(seen.api_server, thresholds);
        if let Some(result) = seen.external {
            self.external.record(result, thresholds);
        }
        let turned_unhealthy =
            !was_unhealthy && self.api_server.health(thresholds) == ProbeHealth::Unhealthy;

        let listed = match seen.lists {
            ListResult::Read(listed) if self.tracker.has_nodes_for(&listed) => Some(listed),
            _ => None,
        };
        let now = listed.map_or(seen.start, |listed| listed.span.start);
        self.adopt(seen.fence, now);
        let times = RoundTimes {
            start: seen.start,
            end: seen.end,
            jitter: seen.jitter,
        };
        let limits = GraceLimits::new(self.grace);
        let horizon = times.horizon(&self.settings, self.grace);
        let context = CountContext {
            now,
            tripped: self.trip.since(),
            released: seen.released.unwrap_or(Time::MIN),
            horizon: horizon.at,
        };
        let counts = listed.map(|_| LeaseCounts::count(&self.tracker, &limits, &context));
        let rule = self.rule(seen, now, counts.as_ref());
        let trips_at = self.trip_instant(rule, counts.as_ref(), &limits, &context);
        self.remember(seen, listed, rule, counts.as_ref(), trips_at);

        let deadline = self.last.deadline.filter(|deadline| *deadline > now);
        let pace = self.pace(seen, rule, turned_unhealthy, counts.as_ref());
        let next_trip = trips_at.or_else(|| self.remembered_trip(rule, seen.end));
        Decision {
            verdict: rule.verdict(),
            reasons: Reasons {
                rule,
                leases: counts,
                api_server: self.api_server,
                external: seen.external.map(|_| self.external),
                lease_probe: self.lease_probe,
                failure_fraction: self.settings.failure_fraction,
                recovery_fraction: self.settings.recovery_fraction,
                trips_at,
            },
            next_wake: times.next_wake(pace, next_trip, horizon, self.evidence_ends()),
            deadline,
            parallel_from: self.parallel_from(rule, deadline, now),
            at: now,
        }
    }

    /// Selects the rule that applies, and updates the trip where the rule says so.
    fn rule(&mut self, seen: &Observation, now: Time, leases: Option<&LeaseCounts>) -> Rule {
        let thresholds = self.settings.api_thresholds;
        let is_fresh = now <= self.last.end.after(self.grace / 2);
        let facts = RoundFacts {
            start: seen.start,
            judging_from: self.started.after(self.settings.initial_delay),
            api_server: self.api_server.health(thresholds),
            external: seen.external.map(|_| self.external.health(thresholds)),
            leases,
            has_nodes: self.tracker.nodes().is_some_and(|nodes| !nodes.is_empty()),
            standing_trip: self.last.rule.filter(|rule| is_fresh && rule.is_trip()),
            is_unfenced: seen.fence == FenceState::None,
        };
        let rule = select(&facts, |counts| self.judge_leases(counts, now));
        if rule.properties().ends_trip {
            self.trip = TripState::Over;
        }
        rule
    }

    /// Returns T, where leases were judged and do not trip already.
    fn trip_instant(
        &mut self,
        rule: Rule,
        counts: Option<&LeaseCounts>,
        limits: &GraceLimits,
        context: &CountContext,
    ) -> Option<Time> {
        let counts = counts.filter(|counts| {
            rule.properties().may_trip
                && !self.is_tripped()
                && counts.trips(context.now, &self.settings).is_none()
        })?;
        counts.trip_instant(&mut self.tracker, limits, context, &self.settings)
    }

    /// Keeps what rounds without a list have to know.
    fn remember(
        &mut self,
        seen: &Observation,
        listed: Option<AcceptedList>,
        rule: Rule,
        counts: Option<&LeaseCounts>,
        trips_at: Option<Time>,
    ) {
        if let (Some(listed), Some(counts)) = (listed, counts) {
            self.list_failures = 0;
            self.last = LastList {
                end: listed.span.end,
                rule: Some(rule),
                deadline: counts.deadline,
                trips_at,
            };
        } else if !matches!(seen.lists, ListResult::NotAsked) {
            self.list_failures = self.list_failures.saturating_add(1);
        }
    }

    /// Returns T as of the last list, in a round without one.
    fn remembered_trip(&self, rule: Rule, now: Time) -> Option<Time> {
        let is_blind = rule.properties().is_blind;
        self.last.trips_at.filter(|trip| is_blind && *trip > now)
    }

    /// Returns the instant by which a list has to succeed. After a longer gap the evidence of the
    /// last list is lost, and nothing can be fenced for one and a half renewals.
    fn evidence_ends(&self) -> Option<Time> {
        self.last.rule?;
        Some(self.last.end.after(self.grace.saturating_mul(9) / 20))
    }

    /// Returns the instant from which the levels of a fence no longer wait for each other.
    fn parallel_from(&self, rule: Rule, deadline: Option<Time>, now: Time) -> Option<Time> {
        let reserve = self.settings.fence_reserve;
        if reserve.is_zero() || rule.verdict() != Verdict::Fence {
            return None;
        }
        // A trip without a deadline ahead has missed it.
        let is_missed = rule.is_trip().then_some(now);
        deadline
            .map(|deadline| deadline.before(reserve))
            .or(is_missed)
    }

    fn is_tripped(&self) -> bool {
        matches!(self.trip, TripState::Tripped { .. })
    }

    /// Adopts a fence that is found. Until the targets were read, one is assumed.
    fn adopt(&mut self, fence: FenceState, now: Time) {
        self.trip = match (self.trip, fence) {
            (TripState::Never, FenceState::Unknown | FenceState::Partial | FenceState::Full) => {
                TripState::Adopted { since: now }
            }
            (TripState::Adopted { .. }, FenceState::None) => TripState::Never,
            (trip, _) => trip,
        };
    }

    /// Judges the leases of this round, and updates the trip and the lease probe.
    fn judge_leases(&mut self, counts: &LeaseCounts, now: Time) -> LeaseFacts {
        let (result, cause) = self.lease_result(counts, now);
        let thresholds = self.settings.lease_thresholds;
        if counts.candidates > 0 {
            self.lease_probe.record(result, thresholds);
        }
        let health = self.lease_probe.health(thresholds);
        if let Some(cause) = cause
            && health == ProbeHealth::Unhealthy
            && !self.is_tripped()
        {
            self.trip = TripState::Tripped { since: now, cause };
        }
        LeaseFacts {
            candidates: counts.candidates,
            min_candidates: self.settings.min_candidates,
            result,
            health,
            failures: self.lease_probe.error_count,
            failure_threshold: thresholds.failure,
            trip: self.trip,
        }
    }

    /// Returns what the leases say in this round, and the condition by which they trip.
    fn lease_result(
        &mut self,
        counts: &LeaseCounts,
        now: Time,
    ) -> (ProbeResult, Option<TripCause>) {
        let cause = counts.trips(now, &self.settings);
        if counts.candidates > 0 && cause.is_some() {
            return (ProbeResult::Failure, cause);
        }
        let proves_nothing = self
            .settings
            .recovery_fraction
            .is_reached(counts.unproven, counts.candidates);
        let result = match self.trip {
            TripState::Tripped { .. } | TripState::Adopted { .. } if self.has_recovered(counts) => {
                self.trip = TripState::Over;
                ProbeResult::Success
            }
            TripState::Tripped { .. } => ProbeResult::Failure,
            TripState::Adopted { .. } => ProbeResult::Transient,
            // After the start or a gap, nothing counts before enough leases prove something.
            TripState::Never | TripState::Over if proves_nothing => ProbeResult::Transient,
            TripState::Never | TripState::Over => ProbeResult::Success,
        };
        (result, None)
    }

    /// Returns whether enough nodes have renewed since the trip: of the candidates, or of all nodes
    /// with a lease where there are no candidates.
    fn has_recovered(&self, counts: &LeaseCounts) -> bool {
        let (not_renewed, all) = if counts.candidates > 0 {
            (counts.not_renewed, counts.candidates)
        } else {
            (counts.nodes_not_renewed, counts.nodes)
        };
        let recovery = self.settings.recovery_fraction;
        all > 0 && not_renewed.is_some_and(|not_renewed| !recovery.is_reached(not_renewed, all))
    }

    fn pace(
        &self,
        seen: &Observation,
        rule: Rule,
        turned_unhealthy: bool,
        counts: Option<&LeaseCounts>,
    ) -> RoundPace {
        let is_fencing =
            rule.verdict() == Verdict::Fence && seen.fence != FenceState::Full && !seen.stands_by;
        let is_urgent = is_fencing || rule.properties().is_urgent;
        if is_urgent && counts.is_some() {
            return RoundPace::Urgent;
        }
        if let Some(by) = seen.throttled {
            let is_pressed = self.is_pressed(seen.end);
            return RoundPace::Throttled { by, is_pressed };
        }
        if turned_unhealthy {
            return RoundPace::Pause {
                length: self.settings.api_failure_pause,
            };
        }
        let thresholds = self.settings.api_thresholds;
        let is_counting = |result, status: ProbeStatus| {
            result == ProbeResult::Failure && status.health(thresholds) != ProbeHealth::Unhealthy
        };
        let external = seen
            .external
            .is_some_and(|result| is_counting(result, self.external));
        if external || is_counting(seen.api_server, self.api_server) {
            return RoundPace::Recheck;
        }
        if is_urgent {
            return RoundPace::Urgent;
        }
        if rule.properties().retries_list && !matches!(seen.lists, ListResult::NotAsked) {
            let failures = if self.is_pressed(seen.end) {
                1
            } else {
                self.list_failures
            };
            return RoundPace::ListFailed { failures };
        }
        RoundPace::Steady {
            first_expiry: counts
                .filter(|_| !self.is_tripped())
                .and_then(|counts| counts.first_expiry),
            first_judgement: rule.properties().judging_from,
        }
    }

    /// Returns whether a trip or a deadline is so near, as of the last list, that failed lists are
    /// repeated every second.
    fn is_pressed(&self, now: Time) -> bool {
        let is_near = |deadline: Time| deadline <= now.after(self.grace / 2);
        let is_known = now <= self.last.end.after(self.grace);
        is_known && (self.last.trips_at.is_some() || self.last.deadline.is_some_and(is_near))
    }
}
