//! Landscapes and scenarios by the roll of dice.

use std::time::Duration;

use fastrand::Rng;
use kelpie_sim::Plan;
use kelpie_sim::scenario::{Clusters, Fault, Incident, Nodes, Scenario, Site};

/// Nothing goes wrong in the beginning, so that everybody is in their stride.
const START: Duration = Duration::from_mins(2);

/// On the average something goes wrong so often.
const PAUSE: Duration = Duration::from_mins(4);

/// A landscape, what goes wrong in it, and how it is watched.
#[derive(Clone, Debug)]
pub(crate) struct Chaos {
    pub(crate) plan: Plan,
    pub(crate) scenario: Scenario,
    pub(crate) watchdogs: usize,
}

impl Chaos {
    /// Everything follows from the seed. Faults go on for `length`.
    pub(crate) fn new(seed: u64, length: Duration) -> Self {
        let mut rng = Rng::with_seed(seed);
        let plan = Plan {
            seed,
            clusters: rng.usize(1..=3),
            nodes: rng.usize(2..=7),
            replicas: [rng.u32(1..=2), rng.u32(1..=2), rng.u32(0..=2)],
            ..Plan::default()
        };
        let share = length.as_secs_f64() / PAUSE.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few"
        )]
        let count = (share * (0.5 + rng.f64())).ceil() as usize;
        let incidents = (0..count).map(|_| incident(&plan, length, &mut rng));
        Self {
            scenario: Scenario {
                name: format!("seed {seed}"),
                length: START + length,
                incidents: incidents.collect(),
                ..Scenario::default()
            },
            // Two of them cost as much as three alone: they look at their Lease all the time.
            watchdogs: if rng.u8(0..3) == 0 { 2 } else { 1 },
            plan,
        }
    }
}

fn incident(plan: &Plan, length: Duration, rng: &mut Rng) -> Incident {
    let at = START + length.mul_f64(rng.f64());
    let lasts = Duration::from_secs(*rng.choice(&[5, 20, 45, 60, 90, 180, 300]).unwrap_or(&60));
    // Faults are over before the run is.
    let lasts = lasts.min((START + length).saturating_sub(at));
    let clusters = match rng.u8(0..3) {
        0 => Clusters::All,
        _ => Clusters::Numbers(vec![rng.usize(0..plan.clusters)]),
    };
    Incident::new(at, Some(lasts), fault(plan, rng)).of(clusters)
}

fn fault(plan: &Plan, rng: &mut Rng) -> Fault {
    let site = if rng.bool() { Site::Seed } else { Site::Shoot };
    let nodes = match rng.u8(0..4) {
        0 | 1 => Nodes::All,
        2 => Nodes::Share(0.2 + 0.8 * rng.f64()),
        _ => Nodes::Zone(rng.usize(0..plan.zones)),
    };
    match rng.u8(0..24) {
        0..=8 => Fault::Partition(nodes),
        9 | 10 => Fault::Outage(site),
        11 => Fault::Latency(site, Duration::from_millis(rng.u64(10..3_000))),
        12 => Fault::Stall(site),
        13 | 14 => Fault::Refusal {
            site,
            status: *rng.choice(&[401, 403, 429, 500, 503]).unwrap_or(&500),
            share: rng.f64(),
        },
        15 => Fault::WatchDrop,
        16 => Fault::NodeClock(nodes, rng.i64(-3_600_000..3_600_000)),
        17 => Fault::WatchdogClock(rng.i64(-3_600_000..3_600_000)),
        18 => Fault::Rotation,
        19 => Fault::SlowPods(Duration::from_secs(rng.u64(1..30))),
        20 => Fault::Scale {
            controller: (*rng.choice(&Plan::CONTROLLERS).unwrap_or(&"")).to_owned(),
            replicas: rng.u32(0..=3),
        },
        21 => Fault::EtcdOutage,
        22 => Fault::Crash,
        _ if rng.bool() => Fault::StaleReads(Site::Seed),
        _ => Fault::Pause,
    }
}
