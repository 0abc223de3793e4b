//! The page with 3,000 clusters.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kelpie_core::prober::overview::{
    ClusterCondition, ClusterSummary, FleetDay, FleetState, ReplicaInfo, ReplicaPart,
};
use kelpie_core::{PauseSwitch, Time};
use kelpie_ui::FleetSource;
use tokio::net::TcpListener;
use tokio::task::block_in_place;

use super::chromium::Page;

const CLUSTERS: u64 = 3_000;

/// The first clusters are fenced, one more with each change.
#[derive(Default)]
struct LargeFleet {
    changes: AtomicU64,
}

impl FleetSource for LargeFleet {
    fn fleet(&self) -> FleetState {
        let at = Time::from_unix(1_790_000_000, 0);
        let fenced = self.changes();
        let clusters = (0..CLUSTERS).map(|number| ClusterSummary {
            id: format!("shoot--project-{:02}--cluster-{number:04}", number % 40),
            condition: if number < fenced {
                ClusterCondition::Fenced
            } else {
                ClusterCondition::Healthy
            },
            since: at,
            sentence: "All 120 nodes renew their leases.".to_owned(),
            nodes: 120,
            silent: 0,
            not_counted: 0,
            deadline: None,
            margin_seconds: None,
            last_fence: None,
            problem: None,
        });
        let clusters: Vec<_> = clusters.collect();
        FleetState {
            replica: ReplicaInfo {
                at,
                identity: "prober-a_1".to_owned(),
                version: "0".to_owned(),
                part: ReplicaPart::Standby,
                leader: Some("prober-b_2".to_owned()),
                pause: PauseSwitch::On {
                    until: None,
                    reason: "the seed is moved".to_owned(),
                },
                waiting: None,
                shard: None,
            },
            fleet: clusters.iter().map(|cluster| cluster.condition).collect(),
            shared_causes: Vec::new(),
            day: FleetDay::new(at),
            clusters,
        }
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_thousand_clusters_are_drawn_and_updated_fast() {
    let fleet = Arc::new(LargeFleet::default());
    let pages = kelpie_ui::routes(Arc::<LargeFleet>::clone(&fleet));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/ui/", listener.local_addr().unwrap());
    let server = tokio::spawn(kelpie_health::serve(
        listener,
        pages,
        std::future::pending(),
    ));
    block_in_place(|| {
        let mut page = Page::open(&url);
        let tiles = "document.querySelectorAll('.tile .condition:not(:empty)').length === 3000";
        page.until(tiles, Duration::from_secs(30));
        let paint =
            page.value("performance.getEntriesByName('first-contentful-paint')[0].startTime");
        let drawn = "const [one] = performance.getEntriesByName('kelpie-update'); \
                     one.startTime + one.duration";
        let drawn = page.value(drawn).as_f64().unwrap();
        let standby = page.text("#banner");
        assert!(
            standby.contains("a standby. The leader is prober-b_2"),
            "{standby}"
        );
        assert!(
            standby.contains("port-forward pod/prober-b 9643"),
            "{standby}"
        );
        let pause = page.text("#pause");
        assert!(
            pause.starts_with("Paused until `kelpie resume`: nothing new is fenced"),
            "{pause}"
        );
        assert!(pause.ends_with("Reason: the seed is moved"), "{pause}");
        page.value("performance.clearMeasures()");
        for change in 1..=10 {
            fleet.changes.store(change, Ordering::Relaxed);
            let shown = format!("document.querySelectorAll('.needs tbody tr').length === {change}");
            page.until(&shown, Duration::from_secs(10));
        }
        let updates = "performance.getEntriesByName('kelpie-update').map(one => one.duration)";
        let updates = page.value(updates);
        let updates = updates.as_array().unwrap().iter();
        let mut updates: Vec<f64> = updates.filter_map(serde_json::Value::as_f64).collect();
        updates.sort_by(f64::total_cmp);
        let (paint, median) = (paint.as_f64().unwrap(), updates[updates.len() / 2]);
        println!("paint after {paint:.0} ms, tiles after {drawn:.0} ms; updates {updates:.1?} ms");
        assert!(paint < 1_000.0 && drawn < 3_000.0, "{paint}, {drawn}");
        assert!(median < 100.0, "{updates:?}");
        page.value("document.getElementById('find').focus()");
        page.call(
            "Input.insertText",
            &serde_json::json!({ "text": "cluster-0007" }),
        );
        page.until(
            "document.querySelectorAll('.tile').length === 1",
            Duration::from_secs(5),
        );
        page.picture("many", false);
        page.assert_no_problems();
    });
    server.abort();
}
