//! The judge of one cluster: observations in, decisions out.

use std::time::Duration;

use serde::Serialize;

use crate::book::{LeaseBook, Listed};
use crate::candidate::Roster;
use crate::census::{Census, Epoch, TripCause, TripRule};
use crate::decision::{Decision, Reasons, Rule, Verdict};
use crate::lease::{Lease, Limits, Listing};
use crate::schedule::{Pace, RoundTimes, Throttle};
use crate::status::{Health, Outcome, ProbeStatus};
use crate::{Settings, Time};

/// Nodes are read at least this often.
const ROSTER_AGE: Duration = Duration::from_mins(10);

/// Everything known about one cluster, and the rules that decide on it.
///
/// A round goes: probe the API server; if it answered, list the leases and [`read`](Self::read) them;
/// if [`nodes_due`](Self::nodes_due), list the nodes and [`learn`](Self::learn) them; then
/// [`decide`](Self::decide).
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
    /// When the last release was acknowledged.
    released: Time,
    /// The deadline as of the last list, for rounds without one.
    deadline: Option<Time>,
    list_failures: u32,
}

/// Whether the lease probe is tripped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trip {
    /// Not since we started.
    Never,
    /// A fence stands that is not ours, or the targets were not read yet: it is neither extended nor
    /// lifted on what we know so far.
    Adopted { since: Time },
    /// The leases say so.
    Tripped { since: Time, cause: TripCause },
    /// It was, and is no longer.
    Over,
}

/// What the targets look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fence {
    /// They were not read yet.
    Unknown,
    /// None carries our marker.
    None,
    /// Some are fenced.
    Partial,
    /// All that can be are fenced.
    Full,
}

/// What came of listing leases, and of listing nodes and machines where those were due.
#[derive(Clone, Copy, Debug)]
pub enum Lists {
    /// The API server did not answer the probe, so nothing was listed.
    NotAsked,
    /// One of the lists failed.
    Failed,
    /// All were read.
    Read(Listed),
}

/// What one round saw.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// When the round began.
    pub start: Time,
    /// When its last answer had come.
    pub end: Time,
    /// The API-server probe.
    pub api_server: Outcome,
    /// The external probe, when configured.
    pub external: Option<Outcome>,
    /// The lists.
    pub lists: Lists,
    /// One of the requests was answered with 429.
    pub throttled: Option<Throttle>,
    /// The targets, as last read.
    pub fence: Fence,
    /// A random number in [0, 1] that spreads the rounds of many clusters.
    pub jitter: f64,
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
            released: Time::MIN,
            deadline: None,
            list_failures: 0,
        }
    }

    /// Takes over the cluster's own grace period; `None`: the configured one.
    pub fn set_grace(&mut self, own: Option<Duration>) {
        self.grace = own.unwrap_or(self.settings.grace);
    }

    /// Takes over the instant at which a release was acknowledged: kube-controller-manager started
    /// then, without a memory of earlier renewals.
    pub fn set_released(&mut self, at: Time) {
        self.released = at;
    }

    /// Takes over a list of leases.
    pub fn read<'a>(
        &mut self,
        listing: Listing,
        leases: impl IntoIterator<Item = Lease<'a>>,
    ) -> Listed {
        self.book.read(listing, self.grace, leases)
    }

    /// Whether the nodes have to be read in this round, after the leases.
    pub fn nodes_due(&self, listed: &Listed, fence: Fence) -> bool {
        listed.nodes_due
            || matches!(fence, Fence::Partial | Fence::Full)
            || matches!(self.trip, Trip::Tripped { .. })
            || listed.listing.start.since(self.book.roster_read_at()) >= ROSTER_AGE
    }

    /// Takes over a list of nodes, judged; `read_at` is when it was asked for.
    pub fn learn(&mut self, roster: Roster, read_at: Time) {
        self.book.learn(roster, read_at);
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
        self.adopt(seen.fence, seen.start);

        let times = RoundTimes {
            start: seen.start,
            end: seen.end,
            jitter: seen.jitter,
        };
        let limits = Limits::new(self.grace);
        let epoch = self.epoch(seen.start, times.horizon(&self.settings, self.grace).at);
        let census = match seen.lists {
            Lists::Read(_) if self.book.roster().is_some() => {
                let census = Census::take(&self.book, &limits, &epoch);
                self.deadline = census.deadline;
                Some(census)
            }
            _ => None,
        };
        self.count_list_failures(seen);
        let rule = self.rule(seen, census.as_ref());
        let tripped = matches!(self.trip, Trip::Tripped { .. });
        let trip_rule = self.trip_rule();
        let trips_at = census
            .filter(|_| !tripped && !matches!(rule, Rule::InitialDelay { .. }))
            .and_then(|census| census.trip_instant(&mut self.book, &limits, &epoch, &trip_rule));

        let turned_unhealthy =
            !was_unhealthy && self.api_server.health(thresholds) == Health::Unhealthy;
        let pace = self.pace(seen, rule, turned_unhealthy, census.as_ref());
        Decision {
            verdict: rule.verdict(),
            reasons: Reasons {
                rule,
                leases: census,
                failure_fraction: self.settings.failure_fraction,
                recovery_fraction: self.settings.recovery_fraction,
                trips_at,
            },
            next_wake: times.next_wake(pace, trips_at, &self.settings, self.grace),
            deadline: self.deadline.filter(|deadline| *deadline > seen.start),
            at: seen.start,
        }
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

    fn epoch(&self, now: Time, horizon: Time) -> Epoch {
        let tripped = match self.trip {
            Trip::Adopted { since } | Trip::Tripped { since, .. } => Some(since),
            Trip::Never | Trip::Over => None,
        };
        Epoch {
            now,
            tripped,
            released: self.released,
            horizon,
        }
    }

    fn trip_rule(&self) -> TripRule {
        TripRule {
            failure_fraction: self.settings.failure_fraction,
            fence_reserve: self.settings.fence_reserve,
        }
    }

    fn count_list_failures(&mut self, seen: &Observation) {
        match seen.lists {
            Lists::Failed => self.list_failures = self.list_failures.saturating_add(1),
            Lists::Read(_) => self.list_failures = 0,
            Lists::NotAsked => {}
        }
    }

    /// The first rule that applies.
    fn rule(&mut self, seen: &Observation, census: Option<&Census>) -> Rule {
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
            return Rule::ListFailed;
        };
        if self.book.roster().is_none_or(Roster::is_empty) {
            self.trip = Trip::Over;
            return Rule::NoNodes;
        }
        let outcome = self.judge_leases(census, seen.start);
        if census.candidates == 0 {
            let well = matches!(self.trip, Trip::Never | Trip::Over);
            return Rule::NoCandidates { well };
        }
        self.leases.record(outcome, self.settings.lease_thresholds);
        match (
            self.leases.health(self.settings.lease_thresholds),
            self.trip,
        ) {
            (Health::Unhealthy, _) if census.candidates < self.settings.min_candidates => {
                Rule::TooFewCandidates {
                    required: self.settings.min_candidates,
                }
            }
            (Health::Unhealthy, Trip::Tripped { since, cause }) => Rule::Tripped { since, cause },
            (Health::Healthy, _) if matches!(external, None | Some(Health::Healthy)) => Rule::Well,
            (_, Trip::Adopted { since }) => Rule::Undecided {
                fence_found: Some(since),
            },
            _ => Rule::Undecided { fence_found: None },
        }
    }

    /// What the leases say in this round, and whether the cluster is tripped from now on.
    fn judge_leases(&mut self, census: &Census, now: Time) -> Outcome {
        let recovery = self.settings.recovery_fraction;
        if census.candidates > 0
            && let Some(cause) = census.trips(now, &self.trip_rule())
        {
            if !matches!(self.trip, Trip::Tripped { .. }) {
                self.trip = Trip::Tripped { since: now, cause };
            }
            return Outcome::Failure;
        }
        match self.trip {
            Trip::Tripped { .. } | Trip::Adopted { .. } if self.has_recovered(census) => {
                self.trip = Trip::Over;
                Outcome::Success
            }
            Trip::Tripped { .. } => Outcome::Failure,
            Trip::Adopted { .. } => Outcome::Transient,
            // After our start or a gap nothing is said before enough leases prove something.
            Trip::Never | Trip::Over if recovery.is_reached(census.unproven, census.candidates) => {
                Outcome::Transient
            }
            Trip::Never | Trip::Over => Outcome::Success,
        }
    }

    /// Whether enough nodes have renewed since the trip: the candidates, or where there are none,
    /// all nodes that have a lease.
    fn has_recovered(&self, census: &Census) -> bool {
        let (silent, all) = if census.candidates > 0 {
            (census.not_renewed, census.candidates)
        } else {
            (census.nodes_not_renewed, census.nodes)
        };
        all > 0 && !self.settings.recovery_fraction.is_reached(silent, all)
    }

    fn pace(
        &self,
        seen: &Observation,
        rule: Rule,
        turned_unhealthy: bool,
        census: Option<&Census>,
    ) -> Pace {
        if let Some(by) = seen.throttled {
            let reserve = self.settings.fence_reserve;
            let last_chance = self.deadline.map(|at| at.before(reserve));
            return Pace::Throttled { by, last_chance };
        }
        let thresholds = self.settings.api_thresholds;
        let counting = |outcome, status: ProbeStatus| {
            outcome == Outcome::Failure && status.health(thresholds) != Health::Unhealthy
        };
        if turned_unhealthy {
            return Pace::Pause;
        }
        if counting(seen.api_server, self.api_server)
            || seen
                .external
                .is_some_and(|outcome| counting(outcome, self.external))
        {
            return Pace::Recheck;
        }
        if matches!(seen.lists, Lists::Failed) {
            return Pace::ListFailed {
                failures: self.list_failures,
            };
        }
        let fencing = rule.verdict() == Verdict::Fence && seen.fence != Fence::Full;
        let counting_leases = self.leases.error_count > 0
            && self.leases.health(self.settings.lease_thresholds) == Health::Undecided;
        if fencing || (counting_leases && census.is_some()) {
            return Pace::Hurry;
        }
        let tripped = matches!(self.trip, Trip::Tripped { .. });
        Pace::Steady {
            first_expiry: census
                .filter(|_| !tripped)
                .and_then(|census| census.first_expiry),
            first_judgement: match rule {
                Rule::InitialDelay { until } => Some(until),
                _ => None,
            },
        }
    }
}
