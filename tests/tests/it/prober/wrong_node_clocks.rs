//! Nodes with wrong clocks cause no false fence and delay no real one.

use k8s_openapi::jiff::SignedDuration;
use kelpie_e2e::landscape::Timings;
use kelpie_e2e::poll;
use tokio::time::Instant;

use super::fixture::*;

#[tokio::test]
async fn wrong_clocks_cause_no_false_or_late_fence() {
    let fixture = Fixture::start().await;
    let timings = Timings::ROOMY;
    let kubelets = fixture.kubelets(5, timings).await;
    let hour = SignedDuration::from_hours(1);
    kubelets.skew_clocks(1.0, -hour).await;
    kubelets.skew_clocks(0.4, hour).await;
    let shoot = fixture.shoot("shoot", &kubelets).await;
    let prober = fixture.gardener_prober(timings).await;
    until_healthy(&prober, &shoot).await;

    // Two of five nodes are cut off for longer than the grace period.
    kubelets.partition(0.4).await;
    let cut = Instant::now();
    let expired = format!(
        r#"kelpie_prober_expired_fraction{{cluster="{}"}}"#,
        shoot.name
    );
    let two_expired = poll::until("two expired leases", TIMEOUT, async || {
        let share = prober.kelpie.metric(&expired).await?;
        Ok((share > 0.39).then_some(share))
    });
    assert!(two_expired.await.unwrap() < 0.41, "only the nodes cut off");
    assert!(cut.elapsed() > timings.grace / 2, "the clocks were trusted");
    until_rounds(&prober, 3.0).await;
    assert_untouched(&shoot).await;
    kubelets.heal().await;
    let none_expired = poll::until("no expired leases", TIMEOUT, async || {
        let share = prober.kelpie.metric(&expired).await?;
        Ok((share < 0.01).then_some(()))
    });
    none_expired.await.unwrap();
    until_rounds(&prober, 2.0).await;

    kubelets.partition(1.0).await;
    let cut = Instant::now();
    let deadline = kubelets.deadline(timings.grace).await.unwrap();
    let down = fixture.until_scaled(&shoot, KCM, cut, 0).await.at;
    println!(
        "with wrong clocks: fenced {:?} before the deadline",
        deadline.saturating_duration_since(down)
    );
    assert!(down < deadline, "{:?} late", down - deadline);
    kubelets.heal().await;
    shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
}
