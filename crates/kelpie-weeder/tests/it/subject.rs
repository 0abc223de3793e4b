//! The weeder as the subject of chaos runs.

use std::time::Duration;

use fastrand::Rng;
use kelpie_chaos::Subject;
use kelpie_kube::leader::ElectionSettings;
use kelpie_sim::scenario::{Fault, FaultSite};
use kelpie_sim::{Landscape, SimProcess};
use kelpie_weeder::WeederOptions;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::auditor::Auditor;
use crate::replica::{single_replica, weeder};

pub(crate) struct Weeder;

impl Subject for Weeder {
    type Exposed = Registry;
    type Auditor = Auditor;
    const NAME: &'static str = "weeder";
    const LEASE: &'static str = "dwd-weeder-leader-election";
    // Short enough for etcd to fail again while windows are open.
    const FAULT_INTERVAL: Duration = Duration::from_secs(100);

    fn random_fault(rng: &mut Rng) -> Fault {
        let site = FaultSite::Seed;
        match rng.u8(0..22) {
            0..=11 => Fault::EtcdOutage,
            12 => Fault::Outage(site),
            13 => Fault::Latency(site, Duration::from_millis(rng.u64(10..3_000))),
            14 => Fault::Stall(site),
            15 | 16 => Fault::Refusal {
                site,
                status: *rng.choice(&[401, 403, 429, 500, 503]).unwrap_or(&500),
                share: rng.f64(),
            },
            17 => Fault::WatchDrop,
            18 => Fault::WatchdogClock(rng.i64(-3_600_000..3_600_000)),
            19 => Fault::StaleReads { site, share: 1.0 },
            20 => Fault::Crash,
            _ => Fault::Pause,
        }
    }

    fn start(landscape: &Landscape, name: &str, elected: bool) -> SimProcess<Registry> {
        let election = elected.then(|| ElectionSettings {
            namespace: "garden".into(),
            name: Self::LEASE.into(),
            identity: name.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        });
        let options = WeederOptions {
            election,
            ..single_replica(name)
        };
        weeder(landscape, options)
    }

    fn leftovers(registry: &Registry) -> Vec<String> {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        let is_left = |line: &&str| {
            line.starts_with("kelpie_weeder_active_windows ") && !line.ends_with(" 0")
        };
        text.lines().filter(is_left).map(str::to_owned).collect()
    }
}
