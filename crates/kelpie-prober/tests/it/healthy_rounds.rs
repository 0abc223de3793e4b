//! The requests to a healthy cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::{Landscape, LandscapePlan, SimClock, SimEventKind};
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::time::sleep;

use crate::replica::prober;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const NODES: &str = "/api/v1/nodes";

/// The number of requests to each cluster, by path.
type Requests = BTreeMap<Arc<str>, BTreeMap<String, u64>>;

/// Returns the value of a metric without labels.
fn metric(registry: &Registry, name: &str) -> u64 {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.unwrap().trim().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn healthy_round_is_one_request() {
    fastrand::seed(1);
    let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
    let landscape = Landscape::in_process(&LandscapePlan::with_size(3, 5), &clock).unwrap();
    let driven = landscape.clone();
    tokio::spawn(async move { driven.run().await });
    let prober = prober(&landscape, "kelpie-0", false);
    let rounds = || {
        metric(
            &prober.exposed,
            "kelpie_prober_round_duration_seconds_count",
        )
    };
    let connections = || metric(&prober.exposed, "kelpie_prober_connections_total");
    sleep(Duration::from_mins(2)).await;

    let (rounds_before, connections_before) = (rounds(), connections());
    let requests = Arc::<Mutex<Requests>>::default();
    let counted = Arc::clone(&requests);
    landscape.observe(move |event| {
        if let SimEventKind::Request { server, path, .. } = &event.kind
            && **server != *"seed"
        {
            let path = path.split('?').next().unwrap_or_default();
            let mut requests = counted.lock();
            let of_cluster = requests.entry(Arc::clone(server)).or_default();
            *of_cluster.entry(path.to_owned()).or_default() += 1;
        }
    });
    sleep(Duration::from_mins(10)).await;

    let requests = std::mem::take(&mut *requests.lock());
    assert_eq!(requests.len(), 3, "{requests:?}");
    let mut all_lists = 0;
    for (cluster, mut paths) in requests {
        let lists = paths.remove(LEASES).unwrap_or(0);
        // A round every 10 to 12 s.
        assert!((50..=60).contains(&lists), "{cluster}: {lists}");
        all_lists += lists;
        let node_lists = paths.remove(NODES).unwrap_or(0);
        assert!(node_lists <= 1, "{cluster}: {node_lists}");
        assert_eq!(paths, BTreeMap::new(), "{cluster}");
    }
    assert_eq!(rounds() - rounds_before, all_lists);
    // Each connection is renewed every five minutes.
    let connections = connections() - connections_before;
    assert!(connections <= 2 * 3, "{connections}");
}
