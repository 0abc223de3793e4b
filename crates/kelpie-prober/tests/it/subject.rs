//! The prober as the subject of chaos runs.

use std::time::Duration;

use fastrand::Rng;
use kelpie_chaos::Subject;
use kelpie_sim::scenario::{Fault, FaultSite, NodeSelection};
use kelpie_sim::{Landscape, LandscapePlan, SimProcess};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::auditor::Auditor;
use crate::replica::{LEASE, prober};

pub(crate) struct Prober;

impl Subject for Prober {
    type Exposed = Registry;
    type Auditor = Auditor;
    const NAME: &'static str = "prober";
    const LEASE: &'static str = LEASE;
    const FAULT_INTERVAL: Duration = Duration::from_mins(4);

    fn random_fault(rng: &mut Rng) -> Fault {
        let site = if rng.bool() {
            FaultSite::Seed
        } else {
            FaultSite::Shoot
        };
        let nodes = match rng.u8(0..4) {
            0 | 1 => NodeSelection::All,
            2 => NodeSelection::Share(0.2 + 0.8 * rng.f64()),
            _ => NodeSelection::Zone(rng.usize(0..LandscapePlan::ZONES)),
        };
        match rng.u8(0..36) {
            0..=8 | 30..=35 => Fault::Partition(nodes),
            9 | 10 => Fault::Outage(site),
            11 => Fault::Latency(site, Duration::from_millis(rng.u64(10..10_000))),
            12 => Fault::Stall(site),
            13 | 14 => Fault::Refusal {
                site,
                status: *rng
                    .choice(&[401, 403, 429, 429, 500, 503, 504])
                    .unwrap_or(&500),
                share: rng.f64(),
            },
            15 => Fault::WatchDrop,
            16 => Fault::NodeClock(nodes, rng.i64(-3_600_000..3_600_000)),
            17 => Fault::WatchdogClock(rng.i64(-3_600_000..3_600_000)),
            18 => Fault::Rotation,
            19 => Fault::SlowPods(Duration::from_secs(rng.u64(1..30))),
            20 => Fault::Scale {
                controller: (*rng.choice(&LandscapePlan::CONTROLLERS).unwrap_or(&"")).to_owned(),
                replicas: rng.u32(0..=3),
            },
            21 => Fault::EtcdOutage,
            22 => Fault::Crash,
            23 => Fault::StaleReads {
                site,
                share: *rng.choice(&[0.3, 0.5, 1.0]).unwrap_or(&1.0),
            },
            24 => Fault::BodyCut {
                site,
                resets: rng.bool(),
            },
            25 => Fault::Dns,
            26 if rng.bool() => Fault::WebhookTimeout,
            26 => Fault::WebhookOutage,
            27 => Fault::ControllerManagerOutage,
            28 => Fault::CpuStarvation,
            _ => Fault::Pause,
        }
    }

    fn second_fault(first: &Fault, rng: &mut Rng) -> Option<Fault> {
        let is_partition = matches!(first, Fault::Partition(_));
        (is_partition && rng.u8(0..3) == 0).then(|| Self::random_fault(rng))
    }

    fn start(landscape: &Landscape, name: &str, elected: bool) -> SimProcess<Registry> {
        prober(landscape, name, elected)
    }

    fn leftovers(registry: &Registry) -> Vec<String> {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        let is_left = |line: &&str| {
            line.contains("shoot--")
                || line.starts_with("kelpie_prober_active_probes ") && !line.ends_with(" 0")
        };
        text.lines().filter(is_left).map(str::to_owned).collect()
    }
}
