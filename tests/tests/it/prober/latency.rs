//! From the trip of a cluster to the acknowledged scale call.

use std::time::Duration;

use kelpie_e2e::landscape::{Entry, Kubelets, Pace, ProberConfig, Shoot, Target};
use serde_json::json;
use tokio::time::Instant;

use super::stage::*;

/// Clusters whose nodes are the same: one cut is a partition of each.
const SHOOTS: u32 = 10;

/// Each has a grace period of its own, so that one trips after the other.
const STEP: Duration = Duration::from_millis(400);

/// What a fence may take at most.
const TARGET: Duration = Duration::from_secs(1);

/// `KELPIE_TRIALS=5` makes 50 partitions of each kind.
fn trials() -> usize {
    let asked = std::env::var("KELPIE_TRIALS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[tokio::test]
async fn from_trip_to_acknowledged_scale_p99_stays_within_a_second() {
    let stage = Stage::start().await;
    let pace = Pace::ROOMY;
    let kubelets = Kubelets::start(&stage.seed.client, 10, pace).await.unwrap();
    let mut shoots = Vec::new();
    for number in 0..SHOOTS {
        let shoot = stage.shoot(&format!("shoot-{number}"), &kubelets).await;
        let grace = pace.grace + STEP * number;
        let own = json!({ "nodeMonitorGracePeriod": format!("{}ms", grace.as_millis()) });
        let own = json!({ "spec": { "kubernetes": { "kubeControllerManager": own } } });
        shoot.edit(&own).await.unwrap();
        shoots.push((shoot, grace));
    }
    let all_first = ProberConfig::of(
        pace,
        vec![
            Target::deployment(KCM, 0, 0),
            Target::deployment(MCM, 0, 0),
            Target::deployment(CA, 0, 0),
        ],
    );
    // In the shipped levels it is not KCM's turn at the trip, but MCM's.
    for (levels, config, first) in [
        ("shipped levels", ProberConfig::shipped(pace), MCM),
        ("KCM at level 0", all_first, KCM),
    ] {
        let prober = stage.prober(&config, &[]).await;
        let (mut times, mut margins) = (Vec::new(), Vec::new());
        for _ in 0..trials() {
            for (shoot, _) in &shoots {
                until_well(&prober, shoot).await;
            }
            for fence in partition(&stage, &kubelets, &shoots, first).await {
                times.push(fence.took);
                margins.push(fence.margin);
            }
        }
        times.sort();
        margins.sort();
        let p99 = times[(times.len() * 99).div_ceil(100) - 1];
        println!(
            "{levels}: {} partitions: {first} down after {:?} (median), {p99:?} (p99); KCM down at \
             least {:?} before the deadline",
            times.len(),
            times[times.len() / 2],
            margins[0],
        );
        assert!(p99 <= TARGET, "{levels}: {p99:?}");
        assert!(
            margins[0] > Duration::ZERO,
            "{levels}: a deadline was missed"
        );
        drop(prober);
    }
}

/// How a cluster was fenced.
struct Fenced {
    /// From the trip to the first target.
    took: Duration,
    /// From KCM to the deadline.
    margin: Duration,
}

async fn partition(
    stage: &Stage,
    kubelets: &Kubelets,
    shoots: &[(Shoot, Duration)],
    first: &str,
) -> Vec<Fenced> {
    kubelets.cut(1.0).await;
    let cut = Instant::now();
    let mut fences = Vec::new();
    for (shoot, grace) in shoots {
        let trip = kubelets.trip(*grace, 0.6).await.unwrap();
        let deadline = kubelets.deadline(*grace).await.unwrap();
        let down = async |name: &str| {
            let is_it = |entry: &Entry| entry.name == name && entry.replicas == 0;
            let found = stage
                .timeline
                .until(name, &shoot.name, cut, PATIENCE, is_it);
            found.await.unwrap().at
        };
        fences.push(Fenced {
            took: down(first).await.saturating_duration_since(trip),
            margin: deadline.saturating_duration_since(down(KCM).await),
        });
    }
    kubelets.heal().await;
    for (shoot, _) in shoots {
        shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    }
    fences
}
