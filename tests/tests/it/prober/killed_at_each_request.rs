//! The prober is killed with SIGKILL at each request of a fence and of a restore.

use futures_util::future::join_all;
use kelpie_e2e::landscape::{InterceptAction, InterceptedRequest, ShootCluster, Timings};
use tokio::time::Instant;

use super::fixture::*;

/// Requests for each target before and during a fence or a restore: the read at startup, and the
/// one write. A watch shows whether the pods follow.
const REQUESTS: [&str; 2] = ["GET", "PATCH"];

/// The last request of a prober before it is killed. The API server has handled it, but the prober
/// never receives the response.
#[derive(Clone, Copy)]
struct LastRequest {
    target: &'static str,
    method: &'static str,
}

#[tokio::test]
async fn successor_finishes_after_kill_at_any_request() {
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.partitioned_kubelets(3, timings).await;
    let mut trials = Vec::new();
    for target in [KCM, MCM, CA] {
        for method in REQUESTS {
            let name = format!("killed-{}", trials.len() + 1);
            let last = LastRequest { target, method };
            trials.push((fixture.shoot(&name, &kubelets).await, last));
        }
    }
    let start = Instant::now();

    let killed = trials
        .iter()
        .map(|(shoot, last)| kill(&fixture, shoot, *last));
    join_all(killed).await;
    let prober = fixture.gardener_prober(timings).await;
    for (shoot, _) in &trials {
        shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
        for (name, count) in [(KCM, "3"), (MCM, "1"), (CA, "2")] {
            let controller = shoot.target(name).await.unwrap();
            let what = format!("{name} of {}", shoot.name);
            assert_eq!(controller.recorded.as_deref(), Some(count), "{what}");
            assert!(controller.marked, "{what}");
        }
    }
    drop(prober);

    kubelets.heal().await;
    let killed = trials
        .iter()
        .map(|(shoot, last)| kill(&fixture, shoot, *last));
    join_all(killed).await;
    let _prober = fixture.gardener_prober(timings).await;
    for (shoot, _) in &trials {
        shoot.until_restored(RESTORED, TIMEOUT).await.unwrap();
        fixture.until_timeline_caught_up(shoot).await;
        assert_fence_cycles(&fixture, shoot, start, 1);
    }
}

/// Starts a prober for this shoot only and kills it at `last`.
async fn kill(fixture: &Fixture, shoot: &ShootCluster, last: LastRequest) {
    let interceptor = fixture.interceptor().await;
    let mut is_over = false;
    interceptor.set_rule(move |request| {
        is_over |= last.matches(request);
        if is_over {
            // Responses to concurrent requests are held back too.
            InterceptAction::HoldResponse
        } else {
            InterceptAction::Pass
        }
    });
    let config = sequential_targets(Timings::QUICK).only(&shoot.name);
    let prober = fixture.prober_through(&interceptor, &config, &[]).await;
    let at = interceptor.until_held(TIMEOUT, |request| last.matches(request));
    let at = at.await.unwrap();
    prober.kelpie.kill();
    println!("{}: killed at {} {}", shoot.name, at.method, at.path);
}

impl LastRequest {
    fn matches(self, request: &InterceptedRequest) -> bool {
        let Self { target, method } = self;
        let path = request.path.split('?').next().unwrap_or_default();
        request.method == method && path.ends_with(&format!("/deployments/{target}"))
    }
}
