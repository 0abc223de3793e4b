//! External paths that fail: those of one cluster, or all of them because of the prober's egress.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kelpie_core::Time;
use kelpie_sim::resource::SECRETS;
use kelpie_sim::scenario::{Fault, Incident, NodeSelection, Scenario};
use kelpie_sim::{Landscape, LandscapePlan, ProcessLink, SimClock, SimProcess};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::time::sleep;

use crate::replica::{EXTERNAL_SECRET, prober_with_external_paths};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const CLUSTERS: usize = 8;

/// A landscape whose clusters have external addresses, and a prober that probes them.
pub(crate) struct Scene {
    pub(crate) landscape: Landscape,
    pub(crate) prober: SimProcess<Registry>,
}

impl Scene {
    pub(crate) async fn warm() -> Self {
        fastrand::seed(1);
        let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
        let plan = LandscapePlan::with_size(CLUSTERS, 5);
        let landscape = Landscape::in_process(&plan, &clock).unwrap();
        for cluster in landscape.snapshot() {
            add_external_kubeconfig(&landscape, &cluster.cluster);
        }
        let driven = landscape.clone();
        tokio::spawn(async move { driven.run().await });
        let prober = prober_with_external_paths(&landscape, "kelpie-0");
        sleep(90 * SECOND).await;
        Self { landscape, prober }
    }

    /// Blocks the external paths of the first `count` clusters.
    pub(crate) fn block(&self, count: usize) {
        let clusters = self.landscape.snapshot().into_iter().take(count);
        let names = clusters.map(|cluster| cluster.cluster);
        self.prober.link.block_external_paths(names);
    }

    pub(crate) fn fenced(&self) -> usize {
        let clusters = self.landscape.snapshot();
        clusters.iter().filter(|cluster| cluster.is_fenced).count()
    }

    fn is_suspected(&self) -> bool {
        let mut text = String::new();
        encode(&mut text, &self.prober.exposed).unwrap();
        let suspected = "kelpie_prober_own_egress_suspected 1";
        text.lines().any(|line| line == suspected)
    }
}

/// Adds a kubeconfig for the external address of a cluster beside the internal one.
fn add_external_kubeconfig(landscape: &Landscape, cluster: &str) {
    let seed = landscape.seed();
    let store = seed.store();
    let internal = store.get(&SECRETS, cluster, LandscapePlan::SECRET).unwrap();
    let internal = internal["data"]["kubeconfig"].as_str().unwrap();
    let internal = String::from_utf8(BASE64_STANDARD.decode(internal).unwrap()).unwrap();
    let address = format!("https://{}", ProcessLink::EXTERNAL_PREFIX);
    let external = BASE64_STANDARD.encode(internal.replace("https://", &address));
    let secret = json!({
        "metadata": { "name": EXTERNAL_SECRET },
        "data": { "kubeconfig": external },
    });
    store.create(&SECRETS, cluster, secret).unwrap();
}

#[tokio::test(start_paused = true)]
async fn single_blocked_path_is_fenced() {
    let scene = Scene::warm().await;
    scene.block(1);
    sleep(20 * SECOND).await;
    assert_eq!((scene.fenced(), scene.is_suspected()), (1, false));
    scene.block(0);
    sleep(30 * SECOND).await;
    assert_eq!(scene.fenced(), 0);
}

#[tokio::test(start_paused = true)]
async fn blocked_egress_fences_nothing() {
    for blocked in [CLUSTERS, CLUSTERS / 2 + 1] {
        let scene = Scene::warm().await;
        scene.block(blocked);
        for second in 0..600 {
            sleep(SECOND).await;
            assert_eq!(scene.fenced(), 0, "{blocked} blocked, after {second} s");
        }
        assert!(scene.is_suspected());
        scene.block(0);
        for second in 0..120 {
            sleep(SECOND).await;
            assert_eq!(scene.fenced(), 0, "{blocked} unblocked, after {second} s");
        }
        assert!(!scene.is_suspected());
    }
}

#[tokio::test(start_paused = true)]
async fn partition_is_fenced_despite_blocked_egress() {
    let scene = Scene::warm().await;
    scene.block(CLUSTERS);
    sleep(60 * SECOND).await;
    let partition = Fault::Partition(NodeSelection::All);
    scene.landscape.play(&Scenario {
        incidents: vec![Incident::new(SECOND, Some(300 * SECOND), partition)],
        ..Scenario::default()
    });
    sleep(60 * SECOND).await;
    assert_eq!(scene.fenced(), CLUSTERS);
    scene.block(0);
    sleep(400 * SECOND).await;
    assert_eq!(scene.fenced(), 0);
    assert_eq!(scene.landscape.damage().nodes_unknown, 0);
}
