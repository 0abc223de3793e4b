//! The values of the metrics that dependency-watchdog's redesign asks for.

use kelpie_sim::LandscapePlan;
use kelpie_sim::scenario::{Fault, FaultSite, Incident, NodeSelection, Scenario};
use prometheus_client::encoding::text::encode;
use tokio::time::sleep;

use crate::external_paths::{CLUSTERS, SECOND, Scene};

/// The metrics at one instant.
struct Exposition(String);

impl Exposition {
    fn of(scene: &Scene) -> Self {
        let mut text = String::new();
        encode(&mut text, &scene.prober.exposed).unwrap();
        Self(text)
    }

    /// Returns the value of a series, which is absent before it counts.
    fn get(&self, series: &str) -> u64 {
        let series = format!("kelpie_prober_{series} ");
        let mut lines = self.0.lines();
        let value = lines.find_map(|line| line.strip_prefix(&series));
        value.map_or(0, |value| value.parse().unwrap())
    }

    fn of_clusters(&self, scene: &Scene, metric: &str, label: &str) -> Vec<u64> {
        let clusters = scene.landscape.snapshot().into_iter();
        let series = clusters.map(|it| format!(r#"{metric}{{cluster="{}"{label}}}"#, it.cluster));
        series.map(|series| self.get(&series)).collect()
    }
}

async fn suffer(scene: &Scene, fault: Fault) {
    scene.landscape.play(&Scenario {
        incidents: vec![Incident::new(SECOND, Some(50 * SECOND), fault)],
        ..Scenario::default()
    });
    sleep(50 * SECOND).await;
}

const DOWN: &str = r#"scale_operations_total{direction="down"}"#;
const UP: &str = r#"scale_operations_total{direction="up"}"#;

#[tokio::test(start_paused = true)]
async fn every_metric_counts_what_it_says() {
    let targets = LandscapePlan::CONTROLLERS.len() as u64;
    let scene = Scene::warm().await;
    let warm = Exposition::of(&scene);
    assert_eq!(warm.get("active_probes"), CLUSTERS as u64);
    let rounds = warm.get(r#"requests_total{code="200"}"#);
    // In 90 s there are at least seven rounds, each with a list and a request over the other path.
    assert!(rounds >= 7 * 2 * CLUSTERS as u64, "{rounds}");
    let zero = vec![0; CLUSTERS];
    for metric in ["internal", "external", "lease"] {
        let failures = format!("{metric}_probe_failures_total");
        assert_eq!(warm.of_clusters(&scene, &failures, ""), zero, "{metric}");
    }
    assert_eq!(
        [warm.get(DOWN), warm.get(UP), warm.get("throttled_total")],
        [0; 3]
    );

    scene.block(1);
    sleep(30 * SECOND).await;
    let blocked = Exposition::of(&scene);
    let failures = blocked.of_clusters(&scene, "external_probe_failures_total", "");
    assert!(
        failures[0] >= 3 && failures[1..] == zero[1..],
        "{failures:?}"
    );
    assert_eq!(blocked.get(DOWN), targets);
    let attempts = blocked.of_clusters(&scene, "scale_attempts_total", r#",direction="down""#);
    assert_eq!((attempts[0], &attempts[1..]), (targets, &zero[1..]));
    scene.block(0);
    sleep(60 * SECOND).await;
    let restored = Exposition::of(&scene);
    assert_eq!([restored.get(DOWN), restored.get(UP)], [targets; 2]);

    let status = 429;
    suffer(
        &scene,
        Fault::Refusal {
            site: FaultSite::Shoot,
            status,
            share: 1.0,
        },
    )
    .await;
    let throttled = Exposition::of(&scene);
    let refused = throttled.get("throttled_total");
    assert!(refused >= CLUSTERS as u64, "{refused}");
    assert_eq!(throttled.get(r#"requests_total{code="429"}"#), refused);
    let failures = throttled.of_clusters(&scene, "internal_probe_failures_total", "");
    assert_eq!(failures, zero, "a 429 is no failure");

    sleep(60 * SECOND).await;
    let errors = Exposition::of(&scene).get(r#"requests_total{code="error"}"#);
    suffer(&scene, Fault::Outage(FaultSite::Shoot)).await;
    let away = Exposition::of(&scene);
    let failures = away.of_clusters(&scene, "internal_probe_failures_total", "");
    // There is no pause between rounds once the last leases are so old that a trip is near.
    assert!(failures.iter().all(|count| *count >= 3), "{failures:?}");
    let unanswered = away.get(r#"requests_total{code="error"}"#) - errors;
    assert!(unanswered >= failures.iter().sum(), "{unanswered}");
    assert_eq!(
        away.get(DOWN),
        targets,
        "nothing is scaled without an API server"
    );

    sleep(120 * SECOND).await;
    let before = Exposition::of(&scene);
    assert_eq!(
        before.of_clusters(&scene, "lease_probe_failures_total", ""),
        zero
    );
    suffer(&scene, Fault::Partition(NodeSelection::All)).await;
    let cut_off = Exposition::of(&scene);
    assert_eq!(scene.fenced(), CLUSTERS);
    let failures = cut_off.of_clusters(&scene, "lease_probe_failures_total", "");
    assert!(failures.iter().all(|count| *count > 0), "{failures:?}");
    let fences = targets * CLUSTERS as u64;
    assert_eq!(cut_off.get(DOWN) - before.get(DOWN), fences);
}
