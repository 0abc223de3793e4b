//! The evaluator of one cluster: observations in, decisions out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::decision::{Decision, Reasons};
use super::external_path::ExternalPath;
use super::observation::{FenceState, ListResult, Observation};
use super::rule::{LeaseFacts, ListState, RoundFacts, Rule, Verdict, select};
use super::schedule::{CLOSE_ROUNDS, RoundPace, RoundTimes, close_rounds};
use super::trip::TripState;
use crate::Time;
use crate::prober::leases::{
    AcceptedList, CountContext, GraceLimits, Lease, LeaseCounts, LeaseTracker, ListSpan, TripCause,
    complete, first_deadline, is_quorum_late,
};
use crate::prober::nodes::{Machines, NodeSet};
use crate::prober::probe_status::{ProbeHealth, ProbeResult, ProbeStatus};
use crate::prober::{Budget, ProbeSettings};

/// Nodes are read at least this often.
const NODES_MAX_AGE: Duration = Duration::from_mins(10);
/// While a fence stands, nodes are read this often, to notice that the cluster has changed.
const FENCED_NODES_MAX_AGE: Duration = Duration::from_mins(1);
/// A review that found nothing to do is repeated after this time.
const REVIEW_INTERVAL: Duration = Duration::from_secs(1);

/// Everything known about one cluster, and the decisions that follow from it.
///
/// A round goes: list the leases and [observe](Self::observe_leases) them, then
/// [decide](Self::decide). If [nodes are due](Self::nodes_due), they are listed beside the round
/// and [observed](Self::observe_nodes) when they arrive; only the first decision needs them. A new
/// evaluator knows nothing. It lives on through a change of leader, so that a standby that takes
/// over has no gap.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Evaluator {
    #[serde(skip)]
    settings: ProbeSettings,
    /// The cluster's own grace period; `None` stands for the configured one.
    own_grace: Option<Duration>,
    grace: Duration,
    started: Time,
    api_server: ProbeStatus,
    external: ExternalPath,
    lease_probe: ProbeStatus,
    tracker: LeaseTracker,
    trip: TripState,
    /// The first deadline of the current trip.
    trip_deadline: Option<Time>,
    last: LastList,
    /// The rule of the last decision.
    last_rule: Rule,
    /// The fence at the last decision.
    last_fence: FenceState,
    list_failures: u32,
    #[serde(with = "close_rounds")]
    close_rounds: Budget,
}

/// Conclusions from the last usable list, for rounds without one.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct LastList {
    start: Time,
    end: Time,
    rule: Option<Rule>,
    #[serde(with = "complete")]
    counts: LeaseCounts,
    trips_at: Option<Time>,
}

impl Evaluator {
    /// Creates an evaluator that knows nothing yet. `now` is the instant the probe starts.
    pub fn new(settings: ProbeSettings, now: Time) -> Self {
        Self {
            own_grace: None,
            grace: settings.grace,
            settings,
            started: now,
            api_server: ProbeStatus::default(),
            external: ExternalPath::default(),
            lease_probe: ProbeStatus::default(),
            tracker: LeaseTracker::default(),
            trip: TripState::Never,
            trip_deadline: None,
            last: LastList::default(),
            last_rule: Rule::Undecided { fence_found: None },
            last_fence: FenceState::Unknown,
            list_failures: 0,
            close_rounds: CLOSE_ROUNDS,
        }
    }

    /// Sets the cluster's own grace period; `None` stands for the configured one.
    pub fn set_grace(&mut self, own: Option<Duration>) {
        self.own_grace = own;
        self.grace = own.unwrap_or(self.settings.grace);
    }

    /// Continues an evaluator that was read from a record, under these settings. A record is not
    /// trusted: whatever it says, the evaluator decides something.
    #[must_use]
    pub fn restored(mut self, settings: ProbeSettings) -> Self {
        self.settings = settings;
        self.set_grace(self.own_grace);
        self.tracker.repair();
        self
    }

    /// Returns the cluster's own grace period; `None` if the configured one applies.
    pub fn own_grace(&self) -> Option<Duration> {
        self.own_grace
    }

    /// Returns the grace period that applies.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    pub(crate) fn settings(&self) -> &ProbeSettings {
        &self.settings
    }

    /// Takes in a list of leases. `version` is its `resourceVersion` where that is a number.
    pub fn observe_leases<'a>(
        &mut self,
        span: ListSpan,
        version: Option<u64>,
        leases: impl IntoIterator<Item = Lease<'a>>,
    ) -> AcceptedList {
        let tracker = &mut self.tracker;
        let listed = tracker.observe_leases(span, version, self.grace, leases);
        // Nothing is known about the nodes during the gap, so a fence that was begun is neither
        // extended nor lifted before leases prove something again.
        if let (true, TripState::Tripped { since, .. }) = (listed.is_fresh_start, self.trip) {
            self.trip = TripState::Adopted { since };
        }
        listed
    }

    /// Returns whether the nodes should be read, after this list.
    pub fn nodes_due(&self, listed: &AcceptedList, fence: FenceState) -> bool {
        let is_fenced =
            matches!(fence, FenceState::Partial | FenceState::Full) || self.is_tripped();
        let max_age = if is_fenced {
            FENCED_NODES_MAX_AGE
        } else {
            NODES_MAX_AGE
        };
        let age = listed.span.start.since(self.tracker.nodes_read_at());
        (listed.nodes_due && !is_fenced) || age >= max_age
    }

    /// Returns whether the nodes were never read. Without them, leases prove nothing.
    pub fn lacks_nodes(&self) -> bool {
        self.tracker.nodes().is_none()
    }

    /// Takes in a list of nodes. `read_at` is the instant of the request.
    pub fn observe_nodes(&mut self, nodes: NodeSet, read_at: Time) {
        self.tracker.observe_nodes(nodes, read_at);
    }

    /// Judges the known nodes by other machines; `None` where the Machine resource does not exist.
    /// While they are not current, the machines of nodes that joined since are missing.
    pub fn observe_machines(&mut self, machines: Option<&Machines>, are_current: bool) {
        self.tracker.observe_machines(machines, are_current);
    }

    /// Returns the leases and nodes as last listed.
    pub fn leases(&self) -> &LeaseTracker {
        &self.tracker
    }

    /// Decides on the observation of a round.
    pub fn decide(&mut self, seen: &Observation) -> Decision {
        let pause = self.count_probes(seen);
        let listed = match seen.lists {
            ListResult::Read(listed) if !listed.is_stale && !self.lacks_nodes() => Some(listed),
            _ => None,
        };
        let now = listed.map_or(seen.end, |listed| listed.span.start);
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
            reserve: seen.delays.reserve(self.settings.fence_reserve),
        };
        if let ListResult::Read(listed) = seen.lists {
            self.retract(listed.stale_since, &limits, &context);
        }
        let counts = listed.map(|_| LeaseCounts::count(&self.tracker, &limits, &context));
        let was_tripped = self.is_tripped();
        let rule = self.rule(seen, &context, counts.as_ref());
        if !self.is_tripped() {
            self.trip_deadline = None;
        } else if !was_tripped {
            self.trip_deadline =
                first_deadline(&mut self.tracker, &limits, &context, &self.settings);
        }
        let trips_at = self.trip_instant(rule, counts.as_ref(), seen.end, &limits, &context);
        self.remember(seen, listed, rule, counts.as_ref(), trips_at);

        let deadline = self.last.counts.deadline.filter(|deadline| *deadline > now);
        let is_pressed = self.is_pressed(seen, rule, &limits);
        let pace = self.pace(seen, rule, pause, is_pressed, counts.as_ref());
        let remembered_trip = self.last.trips_at.filter(|trip| *trip > seen.end);
        let next_trip = trips_at.or(remembered_trip);
        let next_wake = times.next_wake(pace, next_trip, horizon, self.overdue_from());
        let is_review = matches!(seen.lists, ListResult::NotAsked);
        Decision {
            verdict: rule.verdict(),
            reasons: Reasons {
                rule,
                leases: counts,
                api_server: self.api_server,
                external: seen.external.map(|_| self.external.status),
                lease_probe: self.lease_probe,
                failure_fraction: self.settings.failure_fraction,
                recovery_fraction: self.settings.recovery_fraction,
                trips_at,
            },
            next_wake: times.ration(next_wake, &mut self.close_rounds, is_review),
            deadline,
            parallel_from: parallel_from(rule, deadline, &context),
            trip_deadline: self.trip_deadline,
            is_pressed,
            review_at: self.review_at(seen, context.reserve),
            evidence_until: self.evidence_until(),
            evidence_at: match seen.lists {
                ListResult::NotAsked => self.last.start,
                _ => now,
            },
            at: now,
        }
    }

    /// Counts the results of the API-server probe and of the external probe. Returns the pause that
    /// a failure of the API server is followed by at the threshold.
    fn count_probes(&mut self, seen: &Observation) -> Option<Duration> {
        let thresholds = self.settings.api_thresholds;
        let was_unhealthy = self.api_server.health(thresholds) == ProbeHealth::Unhealthy;
        match seen.lists {
            // A list that was answered proves the API server, whatever the threshold.
            ListResult::Read(_) => self.api_server = ProbeStatus::healthy(thresholds),
            ListResult::Refused => {
                self.tracker.outages.refused(seen.start);
                self.api_server.record(seen.api_server, thresholds);
            }
            ListResult::Failed | ListResult::Denied => {
                self.tracker.outages.answered(seen.start, self.grace);
                self.api_server.record(seen.api_server, thresholds);
            }
            ListResult::NotAsked => self.api_server.record(seen.api_server, thresholds),
        }
        if let Some(result) = seen.external {
            self.external.record(result, seen.egress, thresholds);
        }
        let is_unhealthy = self.api_server.health(thresholds) == ProbeHealth::Unhealthy;
        let length = self.settings.api_failure_pause;
        (seen.api_server == ProbeResult::Failure && is_unhealthy).then_some(if was_unhealthy {
            // A short pause must not make a server that stays away be probed more often.
            length.max(self.settings.probe_interval)
        } else {
            length
        })
    }

    /// Selects the rule that applies, and updates the trip where the rule says so.
    fn rule(
        &mut self,
        seen: &Observation,
        context: &CountContext,
        leases: Option<&LeaseCounts>,
    ) -> Rule {
        let thresholds = self.settings.api_thresholds;
        let standing_trip = leases.is_none().then(|| self.standing_trip(seen, context));
        let facts = RoundFacts {
            start: seen.start,
            judging_from: self.started.after(self.settings.initial_delay),
            api_server: self.api_server.health(thresholds),
            external: seen.external.and_then(|_| self.external.health(thresholds)),
            egress: seen.egress,
            leases,
            list: self.list_state(seen),
            has_nodes: self.tracker.nodes().is_some_and(|nodes| !nodes.is_empty()),
            standing_trip: standing_trip.flatten(),
            is_unfenced: seen.fence == FenceState::None,
        };
        let rule = select(&facts, |counts| {
            self.judge_leases(counts, seen.end, context)
        });
        if rule.properties().ends_trip {
            self.trip = TripState::Over;
        }
        self.last_rule = rule;
        rule
    }

    fn list_state(&self, seen: &Observation) -> ListState {
        let was_never_read = self.last.rule.is_none();
        match seen.lists {
            ListResult::Read(listed) if listed.is_stale => ListState::Stale,
            ListResult::Read(_) => ListState::Read,
            ListResult::Denied if was_never_read => ListState::AlwaysDenied,
            ListResult::Failed | ListResult::Refused | ListResult::Denied => ListState::Failed,
            ListResult::NotAsked => match seen.api_server {
                ProbeResult::Failure => ListState::Failed,
                _ if self.last_rule.is_trip() && !self.has_evidence(seen.end) => ListState::Failed,
                ProbeResult::Success | ProbeResult::Transient => ListState::Unasked(self.last_rule),
            },
        }
    }

    /// Returns the trip that the last list calls for in a round without one. It goes on while its
    /// evidence is fresh. It begins when the deadline is close and the last list showed enough
    /// silent nodes.
    fn standing_trip(&mut self, seen: &Observation, context: &CountContext) -> Option<Rule> {
        let last_rule = self.last.rule.filter(|_| self.has_evidence(seen.end))?;
        if last_rule.is_trip() {
            return Some(last_rule);
        }
        let counts = self.last.counts;
        let may_trip = last_rule.properties().may_trip
            && counts.candidates >= self.settings.min_candidates
            && seen.start >= self.started.after(self.settings.initial_delay);
        let last_call_at = counts.last_call_at(context.reserve, &self.settings);
        if !may_trip || last_call_at.is_none_or(|at| at > seen.end) {
            return None;
        }
        let thresholds = self.settings.lease_thresholds;
        self.lease_probe.record(ProbeResult::Failure, thresholds);
        if self.lease_probe.health(thresholds) != ProbeHealth::Unhealthy {
            return None;
        }
        let (since, cause) = (seen.end, TripCause::LastCall);
        self.trip = TripState::Tripped { since, cause };
        let rule = Rule::Tripped { since, cause };
        self.last.rule = Some(rule);
        Some(rule)
    }

    /// Goes back to what was known at an earlier list, because those after it turned out to be
    /// stale: they showed a silence that they could not know of. A trip stands.
    fn retract(
        &mut self,
        stale_since: Option<ListSpan>,
        limits: &GraceLimits,
        context: &CountContext,
    ) {
        let Some(span) = stale_since.filter(|span| span.start < self.last.start) else {
            return;
        };
        if !self.is_tripped() {
            let context = CountContext {
                now: span.start,
                ..*context
            };
            self.last.counts = LeaseCounts::count(&self.tracker, limits, &context);
            (self.last.start, self.last.end) = (span.start, span.end);
        }
    }

    /// Returns T, where leases were judged and do not trip already.
    fn trip_instant(
        &mut self,
        rule: Rule,
        counts: Option<&LeaseCounts>,
        now: Time,
        limits: &GraceLimits,
        context: &CountContext,
    ) -> Option<Time> {
        let counts = counts.filter(|counts| {
            rule.properties().may_trip
                && !self.is_tripped()
                && counts.trips(now, context.reserve, &self.settings).is_none()
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
                start: listed.span.start,
                end: listed.span.end,
                rule: Some(rule),
                counts: *counts,
                trips_at,
            };
        } else if !matches!(seen.lists, ListResult::NotAsked) {
            self.list_failures = self.list_failures.saturating_add(1);
        }
    }

    pub(crate) fn is_tripped(&self) -> bool {
        matches!(self.trip, TripState::Tripped { .. })
    }

    /// Adopts a fence that is found, or that another replica has made. Until the targets were read,
    /// one is assumed.
    fn adopt(&mut self, fence: FenceState, now: Time) {
        let was_unfenced = std::mem::replace(&mut self.last_fence, fence) == FenceState::None;
        self.trip = match (self.trip, fence) {
            (TripState::Over, FenceState::Partial | FenceState::Full) if was_unfenced => {
                TripState::Adopted { since: now }
            }
            (TripState::Never, FenceState::Unknown | FenceState::Partial | FenceState::Full) => {
                TripState::Adopted { since: now }
            }
            (TripState::Adopted { .. }, FenceState::None) => TripState::Never,
            (trip, _) => trip,
        };
    }

    /// Judges the leases of this round, and updates the trip and the lease probe.
    fn judge_leases(
        &mut self,
        counts: &LeaseCounts,
        now: Time,
        context: &CountContext,
    ) -> LeaseFacts {
        let (result, cause) = self.lease_result(counts, now, context.reserve);
        let thresholds = self.settings.lease_thresholds;
        // A list that is judged again, because nodes have arrived, is not a second result.
        let is_new = self.last.rule.is_none() || context.now != self.last.start;
        if counts.candidates > 0 && is_new {
            self.lease_probe.record(result, thresholds);
        }
        let health = self.lease_probe.health(thresholds);
        if let Some(cause) = cause
            && health == ProbeHealth::Unhealthy
            && counts.candidates >= self.settings.min_candidates
            && !self.is_tripped()
        {
            let since = context.now;
            self.trip = TripState::Tripped { since, cause };
        }
        LeaseFacts {
            candidates: counts.candidates,
            min_candidates: self.settings.min_candidates,
            result,
            health,
            is_silent: counts.is_silent(&self.settings),
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
        reserve: Duration,
    ) -> (ProbeResult, Option<TripCause>) {
        let cause = counts.trips(now, reserve, &self.settings);
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
        pause: Option<Duration>,
        is_pressed: bool,
        counts: Option<&LeaseCounts>,
    ) -> RoundPace {
        let is_fencing =
            rule.verdict() == Verdict::Fence && seen.fence != FenceState::Full && !seen.stands_by;
        let is_urgent = is_fencing || rule.properties().is_urgent;
        if is_urgent && counts.is_some() {
            return RoundPace::Urgent;
        }
        if is_pressed {
            let has_failed = counts.is_none();
            return RoundPace::Pressed { has_failed };
        }
        if let Some(by) = seen.throttled {
            return RoundPace::Throttled { by };
        }
        let is_fenced = matches!(seen.fence, FenceState::Partial | FenceState::Full);
        let is_asked = !matches!(seen.lists, ListResult::NotAsked);
        if is_fenced && is_asked && (counts.is_none() || rule.verdict() == Verdict::Hold) {
            return RoundPace::Unproven;
        }
        if let Some(length) = pause {
            return RoundPace::Pause { length };
        }
        let thresholds = self.settings.api_thresholds;
        let is_counting = |result, status: ProbeStatus| {
            result == ProbeResult::Failure && status.health(thresholds) != ProbeHealth::Unhealthy
        };
        let external = seen
            .external
            .is_some_and(|result| is_counting(result, self.external.status))
            || rule.properties().rechecks_external;
        if external || is_counting(seen.api_server, self.api_server) {
            return RoundPace::Recheck;
        }
        if is_urgent {
            return RoundPace::Urgent;
        }
        if rule.properties().retries_list && is_asked {
            return RoundPace::ListFailed {
                failures: self.list_failures,
            };
        }
        RoundPace::Steady {
            first_expiry: counts
                .filter(|_| !self.is_tripped())
                .and_then(|counts| counts.first_expiry),
            first_judgement: rule.properties().judging_from,
        }
    }

    /// Returns whether the last list is fresh enough to act on and shows that kubelets renew their
    /// leases.
    pub fn leases_renewed(&self, now: Time) -> bool {
        let counts = &self.last.counts;
        let recovery = self.settings.recovery_fraction;
        self.has_evidence(now)
            && counts.candidates > 0
            && !self.is_tripped()
            && !counts.is_silent(&self.settings)
            && !recovery.is_reached(counts.unproven, counts.candidates)
    }

    /// Returns whether the last list is fresh enough to act on.
    pub(crate) fn has_evidence(&self, now: Time) -> bool {
        self.evidence_until().is_some_and(|until| now <= until)
    }

    fn evidence_until(&self) -> Option<Time> {
        self.last.rule?;
        Some(self.last.end.after(self.grace / 2))
    }

    /// Returns the instant from which a trip or a deadline is near, as of the last list.
    fn near_from(&self) -> Option<Time> {
        let trip = self.last.trips_at.unwrap_or(Time::MAX);
        let nearest = self.last.counts.deadline.unwrap_or(Time::MAX).min(trip);
        (nearest < Time::MAX).then(|| nearest.before(self.grace.saturating_mul(3) / 8))
    }

    /// Returns the instant from which a list is overdue. After half a grace period without one, the
    /// evidence of the last list is lost, and nothing can be fenced for one and a half renewals.
    fn overdue_from(&self) -> Option<Time> {
        self.last.rule?;
        Some(self.last.end.after(self.grace.saturating_mul(7) / 20))
    }

    /// Returns whether requests overlap and nothing pauses: a trip or a deadline is near and enough
    /// candidates are late, or the last list is nearly too old to prove anything. Never true in a
    /// healthy cluster.
    fn is_pressed(&self, seen: &Observation, rule: Rule, limits: &GraceLimits) -> bool {
        let now = seen.end;
        let is_judging = rule.properties().judging_from.is_none();
        if !is_judging || !self.has_evidence(now) || seen.fence == FenceState::Full {
            return false;
        }
        let is_overdue = self.overdue_from().is_some_and(|from| from <= now);
        let is_ahead = self.last.counts.deadline.is_some_and(|at| at > now)
            || self.last.trips_at.is_some_and(|at| at > now);
        is_overdue
            || (is_ahead
                && self.near_from().is_some_and(|from| from <= now)
                && is_quorum_late(&self.tracker, limits, now, &self.settings))
    }

    /// Returns the instant of the next review: at the last call of the last list, as soon as the
    /// cluster may be pressed, or when the evidence of the last list is lost.
    fn review_at(&self, seen: &Observation, reserve: Duration) -> Option<Time> {
        let now = seen.end;
        if !self.has_evidence(now) {
            return None;
        }
        let last_call = self.last.counts.last_call_at(reserve, &self.settings);
        let last_call = last_call.filter(|_| !self.is_tripped());
        // Without an answer, only a review ends a fence whose evidence is lost.
        let lost = self.evidence_until().map(|until| until.plus(1));
        let instants = [last_call, self.near_from(), self.overdue_from(), lost];
        let next = instants.into_iter().flatten().filter(|at| *at > now).min();
        let is_near = self.near_from().is_some_and(|from| from <= now);
        let again = is_near.then(|| now.after(REVIEW_INTERVAL));
        next.into_iter().chain(again).min()
    }
}

/// Returns the instant from which the levels of a fence no longer wait for each other.
fn parallel_from(rule: Rule, deadline: Option<Time>, context: &CountContext) -> Option<Time> {
    if context.reserve.is_zero() || rule.verdict() != Verdict::Fence {
        return None;
    }
    // A trip without a deadline ahead has missed it.
    let is_missed = rule.is_trip().then_some(context.now);
    deadline
        .map(|deadline| deadline.before(context.reserve))
        .or(is_missed)
}
