//! The judge of one cluster: observations in, decisions out.

use std::time::Duration;

use crate::book::{LeaseBook, Listed};
use crate::candidate::{Machines, Roster};
use crate::census::{Census, Epoch, TripCause};
use crate::decision::{Decision, Reasons, Rule, Verdict};
use crate::lease::{Lease, Listing};
use crate::limits::Limits;
use crate::observation::{Fence, Lists, Observation};
use crate::schedule::{Pace, RoundTimes};
use crate::status::{Health, Outcome, ProbeStatus};
use crate::{Settings, Time};

/// Nodes are read at least this often.
const ROSTER_AGE: Duration = Duration::from_mins(10);

/// Everything known about one cluster, and the rules that decide on it.
///
/// A round goes: probe the API server; if it answered, list the leases and [`read`](Self::read) them;
/// if [`nodes_due`](Self::nodes_due), list the nodes and [`learn`](Self::learn) them; then
/// [`decide`](Self::decide). A new judge knows nothing; one that lives on through a change of leader
/// goes on without a gap.
#[derive(Debug)]
pub struct Judge {
    settings: Settings,
    grace: Duration,
    started: Time,
    api_server: ProbeStatus,
    external: ProbeStatus,
    leases: ProbeStatus,
    book: LeaseBook,
    trip: Trip,
    last: LastList,
    list_failures: u32,
}

/// What followed from the last list that could be read, for rounds in which none can.
#[derive(Debug, Default)]
struct LastList {
    end: Time,
    rule: Option<Rule>,
    deadline: Option<Time>,
    trips_at: Option<Time>,
}

/// Whether the lease probe is tripped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trip {
    /// Not since we started.
    Never,
    /// A fence stands that is not ours, or was made before a gap between lists, or the targets were not
    /// read yet: it is neither extended nor lifted on what we know so far.
    Adopted { since: Time },
    /// The leases say so.
    Tripped { since: Time, cause: TripCause },
    /// It was, and is no longer.
    Over,
}

impl Judge {
    /// A judge that knows nothing yet, at the instant the probe starts.
    pub fn new(settings: Settings, now: Time) -> Self {
        Self {
            grace: settings.grace,
            settings,
            started: now,
            api_server: ProbeStatus::default(),
            external: ProbeStatus::default(),
            leases: ProbeStatus::default(),
            book: LeaseBook::default(),
            trip: Trip::Never,
            last: LastList::default(),
            list_failures: 0,
        }
    }

    /// Takes over the cluster's own grace period; `None`: the configured one.
    pub fn set_grace(&mut self, own: Option<Duration>) {
        self.grace = own.unwrap_or(self.settings.grace);
    }

    /// Takes over a list of leases.
    pub fn read<'a>(
        &mut self,
        listing: Listing,
        leases: impl IntoIterator<Item = Lease<'a>>,
    ) -> Listed {
        let listed = self.book.read(listing, self.grace, leases);
        // Nobody knows how the nodes fared meanwhile: a fence that was begun is neither extended nor
        // lifted before leases prove something again.
        if let (true, Trip::Tripped { since, .. }) = (listed.is_fresh_start, self.trip) {
            self.trip = Trip::Adopted { since };
        }
        listed
    }

    /// Whether the nodes have to be read in this round, after the leases.
    pub fn nodes_due(&self, listed: &Listed, fence: Fence) -> bool {
        listed.nodes_due
            || matches!(fence, Fence::Partial | Fence::Full)
            || self.is_tripped()
            || listed.listing.start.since(self.book.roster_read_at()) >= ROSTER_AGE
    }

    /// Takes over a list of nodes, judged; `read_at` is when it was asked for.
    pub fn learn(&mut self, roster: Roster, read_at: Time) {
        self.book.learn(roster, read_at);
    }

    /// Judges the nodes anew by other machines; `None` where the Machine resource does not exist.
    pub fn learn_machines(&mut self, machines: Option<&Machines>) {
        self.book.learn_machines(machines);
    }

    /// The leases and nodes as last listed.
    pub fn book(&self) -> &LeaseBook {
        &self.book
    }

    /// Decides on what a round saw.
    pub fn decide(&mut self, seen: &Observation) -> Decision {
        let thresholds = self.settings.api_thresholds;
        let was_unhealthy = self.api_server.health(thresholds) == Health::Unhealthy;
        self.api_server.record(seen.api_server, thresholds);
        if let Some(outcome) = seen.external {
            self.external.record(outcome, thresholds);
        }
        let turned_unhealthy =
            !was_unhealthy && self.api_server.health(thresholds) == Health::Unhealthy;

        let listed = match seen.lists {
            Lists::Read(listed) if self.book.has_nodes_for(&listed) => Some(listed),
            _ => None,
        };
        let now = listed.map_or(seen.start, |listed| listed.listing.start);
        self.adopt(seen.fence, now);
        let times = RoundTimes {
            start: seen.start,
            end: seen.end,
            jitter: seen.jitter,
        };
        let limits = Limits::new(self.grace);
        let horizon = times.horizon(&self.settings, self.grace);
        let epoch = self.epoch(now, seen.released, horizon.at);
        let census = listed.map(|_| Census::take(&self.book, &limits, &epoch));
        let rule = self.rule(seen, now, census.as_ref());
        let trips_at = self.trip_instant(rule, census.as_ref(), &limits, &epoch);
        self.remember(seen, listed, rule, census.as_ref(), trips_at);

        let deadline = self.last.deadline.filter(|deadline| *deadline > now);
        let pace = self.pace(seen, rule, turned_unhealthy, census.as_ref());
        let next_trip = trips_at.or_else(|| self.remembered_trip(rule, seen.end));
        Decision {
            verdict: rule.verdict(),
            reasons: Reasons {
                rule,
                leases: census,
                api_server: self.api_server,
                external: seen.external.map(|_| self.external),
                lease_probe: self.leases,
                failure_fraction: self.settings.failure_fraction,
                recovery_fraction: self.settings.recovery_fraction,
                trips_at,
            },
            next_wake: times.next_wake(pace, next_trip, horizon, self.proof_ends()),
            deadline,
            rush_at: self.rush_at(rule, deadline, now),
            at: now,
        }
    }

    /// T, where leases are being judged and do not trip already.
    fn trip_instant(
        &mut self,
        rule: Rule,
        census: Option<&Census>,
        limits: &Limits,
        epoch: &Epoch,
    ) -> Option<Time> {
        let is_judged = matches!(rule, Rule::Well | Rule::Undecided { .. });
        let census = census.filter(|census| {
            is_judged && !self.is_tripped() && census.trips(epoch.now, &self.settings).is_none()
        })?;
        census.trip_instant(&mut self.book, limits, epoch, &self.settings)
    }

    /// Keeps what rounds without a list have to know.
    fn remember(
        &mut self,
        seen: &Observation,
        listed: Option<Listed>,
        rule: Rule,
        census: Option<&Census>,
        trips_at: Option<Time>,
    ) {
        if let (Some(listed), Some(census)) = (listed, census) {
            self.list_failures = 0;
            self.last = LastList {
                end: listed.listing.end,
                rule: Some(rule),
                deadline: census.deadline,
                trips_at,
            };
        } else if !matches!(seen.lists, Lists::NotAsked) {
            self.list_failures = self.list_failures.saturating_add(1);
        }
    }

    /// T as of the last list, while there is none.
    fn remembered_trip(&self, rule: Rule, now: Time) -> Option<Time> {
        let is_blind = matches!(rule, Rule::ListFailed | Rule::ApiServerNotHealthy);
        self.last.trips_at.filter(|trip| is_blind && *trip > now)
    }

    /// Until when a list has to be read, or all that was learned from the last one is lost: after a
    /// longer gap leases prove nothing, and nothing is fenced, for one and a half renewals.
    fn proof_ends(&self) -> Option<Time> {
        self.last.rule?;
        Some(self.last.end.after(self.grace.saturating_mul(9) / 20))
    }

    /// From when on the levels of a fence no longer wait for each other.
    fn rush_at(&self, rule: Rule, deadline: Option<Time>, now: Time) -> Option<Time> {
        let reserve = self.settings.fence_reserve;
        if reserve.is_zero() || rule.verdict() != Verdict::Fence {
            return None;
        }
        let is_missed = matches!(rule, Rule::Tripped { .. }).then_some(now);
        deadline
            .map(|deadline| deadline.before(reserve))
            .or(is_missed)
    }

    fn is_tripped(&self) -> bool {
        matches!(self.trip, Trip::Tripped { .. })
    }

    /// Until the targets were read, a fence is assumed; one that is found is adopted.
    fn adopt(&mut self, fence: Fence, now: Time) {
        self.trip = match (self.trip, fence) {
            (Trip::Never, Fence::Unknown | Fence::Partial | Fence::Full) => {
                Trip::Adopted { since: now }
            }
            (Trip::Adopted { .. }, Fence::None) => Trip::Never,
            (trip, _) => trip,
        };
    }

    fn epoch(&self, now: Time, released: Option<Time>, horizon: Time) -> Epoch {
        let tripped = match self.trip {
            Trip::Adopted { since } | Trip::Tripped { since, .. } => Some(since),
            Trip::Never | Trip::Over => None,
        };
        Epoch {
            now,
            tripped,
            released: released.unwrap_or(Time::MIN),
            horizon,
        }
    }

    /// The first rule that applies.
    fn rule(&mut self, seen: &Observation, now: Time, census: Option<&Census>) -> Rule {
        let until = self.started.after(self.settings.initial_delay);
        if seen.start < until {
            return Rule::InitialDelay { until };
        }
        let thresholds = self.settings.api_thresholds;
        if self.api_server.health(thresholds) != Health::Healthy {
            return Rule::ApiServerNotHealthy;
        }
        let external = seen.external.map(|_| self.external.health(thresholds));
        if external == Some(Health::Unhealthy) {
            return Rule::ExternalUnhealthy;
        }
        let Some(census) = census else {
            return self.rule_without_list(now);
        };
        if self.book.roster().is_none_or(Roster::is_empty) {
            self.trip = Trip::Over;
            return Rule::NoNodes;
        }
        let (outcome, cause) = self.judge_leases(census, now);
        if census.candidates == 0 {
            let well = matches!(self.trip, Trip::Never | Trip::Over);
            return Rule::NoCandidates { well };
        }
        let thresholds = self.settings.lease_thresholds;
        self.leases.record(outcome, thresholds);
        let health = self.leases.health(thresholds);
        if let Some(cause) = cause
            && health == Health::Unhealthy
            && !self.is_tripped()
        {
            self.trip = Trip::Tripped { since: now, cause };
        }
        let external_is_fine = matches!(external, None | Some(Health::Healthy));
        // Where leases prove nothing, an earlier success still stands, but lifts no fence.
        let may_lift = outcome != Outcome::Transient || seen.fence == Fence::None;
        match (health, self.trip) {
            (Health::Unhealthy, _) if census.candidates < self.settings.min_candidates => {
                Rule::TooFewCandidates {
                    required: self.settings.min_candidates,
                }
            }
            (Health::Unhealthy, Trip::Tripped { since, cause }) => Rule::Tripped { since, cause },
            (Health::Healthy, _) if external_is_fine && may_lift => Rule::Well,
            (Health::Undecided, _) if self.leases.error_count > 0 => Rule::Counting {
                failures: self.leases.error_count,
                required: thresholds.failure,
            },
            (_, Trip::Adopted { since }) => Rule::Undecided {
                fence_found: Some(since),
            },
            _ => Rule::Undecided { fence_found: None },
        }
    }

    /// A failed list starts nothing. What was started on good evidence goes on while that is fresh:
    /// the deadline does not wait for the next list.
    fn rule_without_list(&self, now: Time) -> Rule {
        let is_fresh = now <= self.last.end.after(self.grace / 2);
        match self.last.rule {
            Some(rule @ Rule::Tripped { .. }) if is_fresh => rule,
            _ => Rule::ListFailed,
        }
    }

    /// What the leases say in this round, and by which rule they trip.
    fn judge_leases(&mut self, census: &Census, now: Time) -> (Outcome, Option<TripCause>) {
        let cause = census.trips(now, &self.settings);
        if census.candidates > 0 && cause.is_some() {
            return (Outcome::Failure, cause);
        }
        let proves_nothing = self
            .settings
            .recovery_fraction
            .is_reached(census.unproven, census.candidates);
        let outcome = match self.trip {
            Trip::Tripped { .. } | Trip::Adopted { .. } if self.has_recovered(census) => {
                self.trip = Trip::Over;
                Outcome::Success
            }
            Trip::Tripped { .. } => Outcome::Failure,
            Trip::Adopted { .. } => Outcome::Transient,
            // After our start or a gap nothing is said before enough leases prove something.
            Trip::Never | Trip::Over if proves_nothing => Outcome::Transient,
            Trip::Never | Trip::Over => Outcome::Success,
        };
        (outcome, None)
    }

    /// Whether enough nodes have renewed since the trip: the candidates, or where there are none,
    /// all nodes that have a lease.
    fn has_recovered(&self, census: &Census) -> bool {
        let (not_renewed, all) = if census.candidates > 0 {
            (census.not_renewed, census.candidates)
        } else {
            (census.nodes_not_renewed, census.nodes)
        };
        let recovery = self.settings.recovery_fraction;
        all > 0 && not_renewed.is_some_and(|not_renewed| !recovery.is_reached(not_renewed, all))
    }

    fn pace(
        &self,
        seen: &Observation,
        rule: Rule,
        turned_unhealthy: bool,
        census: Option<&Census>,
    ) -> Pace {
        let is_fencing =
            rule.verdict() == Verdict::Fence && seen.fence != Fence::Full && !seen.stands_by;
        let is_hurried = is_fencing || matches!(rule, Rule::Counting { .. });
        if is_hurried && census.is_some() {
            return Pace::Hurry;
        }
        if let Some(by) = seen.throttled {
            let is_pressed = self.is_pressed(seen.end);
            return Pace::Throttled { by, is_pressed };
        }
        if turned_unhealthy {
            return Pace::Pause {
                length: self.settings.api_failure_pause,
            };
        }
        let thresholds = self.settings.api_thresholds;
        let is_counting = |outcome, status: ProbeStatus| {
            outcome == Outcome::Failure && status.health(thresholds) != Health::Unhealthy
        };
        let external = seen
            .external
            .is_some_and(|outcome| is_counting(outcome, self.external));
        if external || is_counting(seen.api_server, self.api_server) {
            return Pace::Recheck;
        }
        if is_hurried {
            return Pace::Hurry;
        }
        if matches!(rule, Rule::ListFailed) && !matches!(seen.lists, Lists::NotAsked) {
            let failures = if self.is_pressed(seen.end) {
                1
            } else {
                self.list_failures
            };
            return Pace::ListFailed { failures };
        }
        Pace::Steady {
            first_expiry: census
                .filter(|_| !self.is_tripped())
                .and_then(|census| census.first_expiry),
            first_judgement: match rule {
                Rule::InitialDelay { until } => Some(until),
                _ => None,
            },
        }
    }

    /// Whether a trip or a deadline is so near, as of the last list, that failed lists are repeated
    /// every second.
    fn is_pressed(&self, now: Time) -> bool {
        let is_near = |deadline: Time| deadline <= now.after(self.grace / 2);
        let is_known = now <= self.last.end.after(self.grace);
        is_known && (self.last.trips_at.is_some() || self.last.deadline.is_some_and(is_near))
    }
}
