//! The faults beside the partition.

use std::time::Duration;

use fastrand::Rng;
use kelpie_sim::LandscapePlan;
use kelpie_sim::scenario::{Fault, FaultSite, NodeSelection, RequestSelection};

/// Faults that occur together, each limited to some requests.
pub(super) type Faults = Vec<(Fault, RequestSelection)>;

/// A kind of fault, whose strength is drawn at random.
pub(super) struct SecondFault {
    pub(super) name: &'static str,
    /// The number of the prober's replicas.
    pub(super) watchdogs: usize,
    pub(super) draw: fn(&mut Rng) -> Faults,
}

const fn one(name: &'static str, draw: fn(&mut Rng) -> Faults) -> SecondFault {
    SecondFault {
        name,
        watchdogs: 1,
        draw,
    }
}

const fn with_standby(name: &'static str, draw: fn(&mut Rng) -> Faults) -> SecondFault {
    SecondFault {
        name,
        watchdogs: 2,
        draw,
    }
}

const SEED: FaultSite = FaultSite::Seed;
const SHOOT: FaultSite = FaultSite::Shoot;

/// All kinds of second faults, and none.
pub(super) static ALL: [SecondFault; 36] = [
    one("none", |_| Vec::new()),
    one("shoot-outage", |_| plain(Fault::Outage(SHOOT))),
    one("seed-outage", |_| plain(Fault::Outage(SEED))),
    one("shoot-refusal", |rng| plain(refusal(SHOOT, rng))),
    one("seed-refusal", |rng| plain(refusal(SEED, rng))),
    one("shoot-denied", |rng| plain(denial(SHOOT, rng))),
    one("seed-denied", |rng| plain(denial(SEED, rng))),
    one("shoot-latency", |rng| plain(latency(SHOOT, rng))),
    one("seed-latency", |rng| plain(latency(SEED, rng))),
    one("shoot-stall", |_| plain(Fault::Stall(SHOOT))),
    one("seed-stall", |_| plain(Fault::Stall(SEED))),
    one("shoot-body-cut", |rng| plain(body_cut(SHOOT, rng))),
    one("seed-body-cut", |rng| plain(body_cut(SEED, rng))),
    one("shoot-stale-reads", |rng| plain(stale_reads(SHOOT, rng))),
    one("seed-stale-reads", |rng| plain(stale_reads(SEED, rng))),
    one("lease-list-latency", |rng| {
        vec![(latency(SHOOT, rng), RequestSelection::Leases)]
    }),
    one("lease-list-refusal", |rng| {
        vec![(refusal(SHOOT, rng), RequestSelection::Leases)]
    }),
    one("lease-list-stall", |_| {
        vec![(Fault::Stall(SHOOT), RequestSelection::Leases)]
    }),
    one("node-list-refusal", |rng| {
        let fault = if rng.bool() {
            denial(SHOOT, rng)
        } else {
            refusal(SHOOT, rng)
        };
        vec![(fault, RequestSelection::Nodes)]
    }),
    one("node-list-latency", |rng| {
        vec![(latency(SHOOT, rng), RequestSelection::Nodes)]
    }),
    one("version-refusal", |rng| {
        vec![(refusal(SHOOT, rng), RequestSelection::Version)]
    }),
    one("watch-drop", |_| plain(Fault::WatchDrop)),
    one("rotation", |_| plain(Fault::Rotation)),
    one("rotation-watch-drop", |_| {
        [Fault::WatchDrop, Fault::Rotation]
            .map(|fault| (fault, RequestSelection::All))
            .to_vec()
    }),
    one("dns", |_| plain(Fault::Dns)),
    one("webhook-outage", |_| plain(Fault::WebhookOutage)),
    one("webhook-timeout", |_| plain(Fault::WebhookTimeout)),
    one("controller-manager-outage", |_| {
        plain(Fault::ControllerManagerOutage)
    }),
    one("node-clock", |rng| {
        plain(Fault::NodeClock(NodeSelection::All, clock_step(rng)))
    }),
    one("watchdog-clock", |rng| {
        plain(Fault::WatchdogClock(clock_step(rng)))
    }),
    one("slow-pods", |rng| {
        plain(Fault::SlowPods(Duration::from_secs(rng.u64(1..=5))))
    }),
    one("scale", |_| {
        plain(Fault::Scale {
            controller: LandscapePlan::CONTROLLERS[0].to_owned(),
            replicas: 2,
        })
    }),
    one("cpu-starvation", |_| plain(Fault::CpuStarvation)),
    with_standby("standby", |_| Vec::new()),
    with_standby("crash", |_| plain(Fault::Crash)),
    with_standby("pause", |_| plain(Fault::Pause)),
];

fn plain(fault: Fault) -> Faults {
    vec![(fault, RequestSelection::All)]
}

fn refusal(site: FaultSite, rng: &mut Rng) -> Fault {
    Fault::Refusal {
        site,
        status: rng.choice([429, 503, 500, 504]).unwrap_or(503),
        share: rng.choice([0.3, 0.5, 0.8, 1.0]).unwrap_or(1.0),
    }
}

fn denial(site: FaultSite, rng: &mut Rng) -> Fault {
    Fault::Refusal {
        site,
        status: rng.choice([401, 403]).unwrap_or(401),
        share: rng.choice([0.3, 0.5, 1.0]).unwrap_or(1.0),
    }
}

fn latency(site: FaultSite, rng: &mut Rng) -> Fault {
    let millis = [500, 1_000, 2_000, 2_900, 3_100, 5_000, 10_000];
    let millis = rng.choice(millis).unwrap_or(1_000);
    Fault::Latency(site, Duration::from_millis(millis))
}

fn body_cut(site: FaultSite, rng: &mut Rng) -> Fault {
    let resets = rng.bool();
    Fault::BodyCut { site, resets }
}

fn stale_reads(site: FaultSite, rng: &mut Rng) -> Fault {
    let share = rng.choice([0.3, 0.5, 1.0]).unwrap_or(1.0);
    Fault::StaleReads { site, share }
}

/// Returns the milliseconds by which a clock steps.
fn clock_step(rng: &mut Rng) -> i64 {
    rng.choice([-3_600_000, -60_000, -5_000, 5_000, 60_000, 3_600_000])
        .unwrap_or(5_000)
}
