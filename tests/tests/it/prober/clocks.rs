//! Nodes whose clocks are wrong, and partitions that are too small to count.

use k8s_openapi::jiff::SignedDuration;
use kelpie_e2e::landscape::{Entry, Kubelets, Pace, ProberConfig};
use kelpie_e2e::poll;
use tokio::time::Instant;

use super::stage::*;

#[tokio::test]
async fn wrong_clocks_never_fence_a_healthy_cluster_and_never_make_a_fence_late() {
    let stage = Stage::start().await;
    let pace = Pace::ROOMY;
    let kubelets = Kubelets::start(&stage.seed.client, 5, pace).await.unwrap();
    let hour = SignedDuration::from_hours(1);
    kubelets.skew(1.0, -hour).await;
    kubelets.skew(0.4, hour).await;
    let shoot = stage.shoot("shoot", &kubelets).await;
    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    until_well(&prober, &shoot).await;

    // Longer than the grace period, two of five cut off.
    kubelets.cut(0.4).await;
    let cut = Instant::now();
    let expired = format!(
        r#"kelpie_prober_expired_fraction{{cluster="{}"}}"#,
        shoot.name
    );
    let two = poll::until("two expired leases", PATIENCE, async || {
        let share = prober.kelpie.metric(&expired).await?;
        Ok((share > 0.39).then_some(share))
    });
    assert!(two.await.unwrap() < 0.41, "only those that were cut off");
    assert!(cut.elapsed() > pace.grace / 2, "no clock was believed");
    until_rounds(&prober, 3.0).await;
    assert_untouched(&shoot).await;
    kubelets.heal().await;
    let none = poll::until("no expired leases", PATIENCE, async || {
        let share = prober.kelpie.metric(&expired).await?;
        Ok((share < 0.01).then_some(()))
    });
    none.await.unwrap();
    until_rounds(&prober, 2.0).await;

    kubelets.cut(1.0).await;
    let cut = Instant::now();
    let deadline = kubelets.deadline(pace.grace).await.unwrap();
    let is_down = |entry: &Entry| entry.name == KCM && entry.replicas == 0;
    let down = stage
        .timeline
        .until("KCM at 0", &shoot.name, cut, PATIENCE, is_down);
    let down = down.await.unwrap().at;
    println!(
        "with wrong clocks: fenced {:?} before the deadline",
        deadline.saturating_duration_since(down)
    );
    assert!(down < deadline, "{:?} late", down - deadline);
    kubelets.heal().await;
    shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
}

#[tokio::test]
async fn one_node_alone_never_causes_a_fence_as_with_dependency_watchdog() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start_cut(client, 1, pace).await.unwrap();
    let shoot = stage.shoot("shoot", &kubelets).await;
    let brave = stage.shoot("brave", &kubelets).await;
    let config = ProberConfig::shipped(pace);
    let prober = stage.prober(&config.clone().only(&shoot.name), &[]).await;
    let one = config.only(&brave.name).line("minCandidateNodes: 1");
    let _braver = stage.prober(&one, &[]).await;

    brave.until_counts(FENCED, PATIENCE).await.unwrap();
    let held = prober.until_state("a Hold", &shoot.name, PATIENCE, |state| {
        state["decision"]["reasons"]["rule"]["name"] == "tooFewCandidates"
    });
    held.await.unwrap();
    assert_untouched(&shoot).await;
    kubelets.heal().await;
    brave.until_restored(RESTORED, PATIENCE).await.unwrap();
}
