//! Chaos tests: random landscapes and faults, and audited replicas of a watchdog.
//!
//! Reading order: a [`ChaosRun`] is generated from an RNG seed. [`ChaosRun::run`] plays it in
//! virtual time against replicas of a [`Subject`], and an [`Auditor`] checks the subject's
//! invariants with an [`AuditContext`]. A [`RunSet`] does so for many runs. A run that fails is
//! reported with the faults it needs and the command that replays it. An [`Oracle`] says whether a
//! partition could be fenced in time despite the other faults.
//!
//! The RNG seed decides on the landscape, the faults, the latency of each request, every jitter,
//! and which of the connections that are ready at the same instant goes first. It does not decide
//! on the order of tasks in a replica that wait for nothing outside it: the runtime does.

mod audit_context;
mod failure_report;
mod oracle;
mod panics;
mod replicas;
mod run;
mod run_set;
mod trace;

use std::fmt::Debug;
use std::time::Duration;

use fastrand::Rng;
use kelpie_sim::scenario::{ClusterSelection, Fault, Incident, Scenario};
use kelpie_sim::{Landscape, LandscapePlan, SimEvent, SimProcess};

pub use audit_context::AuditContext;
pub use oracle::{FaultPeriod, Oracle, Outlook, PartitionTruth};
pub use run::{ChaosError, ChaosOutcome};
pub use run_set::RunSet;

/// The time without faults at the start, in which the replicas get into their steady state.
const WARM_UP: Duration = Duration::from_mins(2);

/// A component under test.
pub trait Subject {
    /// The replica's interface for the test, such as its metrics.
    type Exposed;
    /// Checks the component's invariants.
    type Auditor: Auditor;
    /// The component's name in `cargo xtask sim`.
    const NAME: &'static str;
    /// The Lease in `garden` by which replicas elect a leader.
    const LEASE: &'static str;
    /// The average time between two faults.
    const FAULT_INTERVAL: Duration;
    /// The time after the last fault in which everything has to return to normal.
    const RECOVERY_TIME: Duration = Duration::from_mins(8);

    /// Returns a random fault.
    fn random_fault(rng: &mut Rng) -> Fault;

    /// Returns a second fault in the same clusters, which begins shortly before or after `first`.
    fn second_fault(_first: &Fault, _rng: &mut Rng) -> Option<Fault> {
        None
    }

    /// Starts a replica. It runs for election if `elected`, and is the only one otherwise.
    fn start(landscape: &Landscape, name: &str, elected: bool) -> SimProcess<Self::Exposed>;

    /// Returns what a replica still holds of clusters that were deleted a while ago. It should be
    /// empty.
    fn leftovers(exposed: &Self::Exposed) -> Vec<String>;
}

/// Checks the invariants of a [`Subject`], by the seed's objects and the landscape's real state,
/// never by what the replicas report.
pub trait Auditor: Send + 'static {
    /// Counters of the situations that were checked, so that a test can assert that there were
    /// some.
    type Counts: Debug + PartialEq + Send;

    /// Starts the audit at the beginning of a run.
    fn new(context: AuditContext) -> Self;

    /// Returns the context, with the violations found so far.
    fn context(&mut self) -> &mut AuditContext;

    /// Checks the invariants after an event.
    fn observe(&mut self, event: &SimEvent);

    /// Checks the final state, long after the last fault.
    fn finish(&mut self);

    /// Returns the counters so far.
    fn counts(&self) -> Self::Counts;
}

/// A landscape, its faults, and the number of replicas that watch it.
#[derive(Clone, Debug)]
pub struct ChaosRun {
    /// The size and timings of the landscape.
    pub plan: LandscapePlan,
    /// The faults, relative to the start of the run.
    pub scenario: Scenario,
    /// The number of replicas; with more than one, they elect a leader.
    pub watchdogs: usize,
}

impl ChaosRun {
    /// Generates a run. `length` is the time in which faults occur.
    pub fn new<S: Subject>(rng_seed: u64, length: Duration) -> Self {
        let mut rng = Rng::with_seed(rng_seed);
        let plan = LandscapePlan {
            rng_seed,
            clusters: rng.usize(1..=3),
            nodes: rng.usize(2..=7),
            replicas: [rng.u32(1..=2), rng.u32(1..=2), rng.u32(0..=2)],
            ..LandscapePlan::default()
        };
        let share = length.as_secs_f64() / S::FAULT_INTERVAL.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few"
        )]
        let count = (share * (0.5 + rng.f64())).ceil() as usize;
        let mut incidents = Vec::new();
        for _ in 0..count {
            let first = incident::<S>(&plan, length, &mut rng);
            let second = S::second_fault(&first.fault, &mut rng);
            let second = second.map(|fault| second_incident(fault, &first, length, &mut rng));
            incidents.push(first);
            incidents.extend(second);
        }
        Self {
            scenario: Scenario {
                name: format!("run {rng_seed}"),
                length: WARM_UP + length,
                incidents,
                ..Scenario::default()
            },
            // Two replicas cost three times as much as one, because both keep polling the Lease.
            watchdogs: if rng.u8(0..3) == 0 { 2 } else { 1 },
            plan,
        }
    }
}

fn incident<S: Subject>(plan: &LandscapePlan, length: Duration, rng: &mut Rng) -> Incident {
    let at = WARM_UP + length.mul_f64(rng.f64());
    let lasts = Duration::from_secs(*rng.choice(&[5, 20, 45, 60, 90, 180, 300]).unwrap_or(&60));
    // All faults end before the run does.
    let lasts = lasts.min((WARM_UP + length).saturating_sub(at));
    let clusters = match rng.u8(0..3) {
        0 => ClusterSelection::All,
        _ => ClusterSelection::Numbers(vec![rng.usize(0..plan.clusters)]),
    };
    Incident::new(at, Some(lasts), S::random_fault(rng)).in_clusters(clusters)
}

/// Places a second fault near another one: it begins up to 40 s before and 45 s after it.
fn second_incident(fault: Fault, first: &Incident, length: Duration, rng: &mut Rng) -> Incident {
    let end = WARM_UP + length;
    let at = first.at + Duration::from_secs(rng.u64(0..=85));
    let at = at
        .saturating_sub(Duration::from_secs(40))
        .clamp(WARM_UP, end);
    let lasts = Duration::from_secs(*rng.choice(&[1, 4, 10, 60, 180]).unwrap_or(&10));
    Incident::new(at, Some(lasts.min(end.saturating_sub(at))), fault)
        .in_clusters(first.clusters.clone())
}
