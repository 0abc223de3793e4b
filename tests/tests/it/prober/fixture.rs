//! Fixture for the tests of `kelpie prober`.

use std::time::Duration;

use kelpie_e2e::landscape::{
    FakeDeploymentController, Interceptor, Kubelets, ProberConfigFile, ProberProcess, SeedCluster,
    ShootCluster, TargetChange, TargetConfig, TargetTimeline, Timings, create_tenant_user,
};
use kelpie_e2e::poll;
use serde_json::Value;
use tokio::time::Instant;

pub(super) use crate::fixture::{ELECTION, TIMEOUT, leads, until_event, until_leading};

pub(super) const KCM: &str = "kube-controller-manager";
pub(super) const MCM: &str = "machine-controller-manager";
pub(super) const CA: &str = "cluster-autoscaler";

/// Replicas of KCM, MCM and CA in most tests before a fence.
pub(super) const COUNTS: [u32; 3] = [3, 1, 2];
/// Replicas of KCM, MCM and CA in most tests after a restore.
pub(super) const RESTORED: [u64; 3] = [3, 1, 2];
/// Replicas of KCM, MCM and CA during a full fence.
pub(super) const FENCED: [u64; 3] = [0, 0, 0];

/// Path of the Lease that the prober shares with dependency-watchdog.
pub(super) const LEADER_LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/garden/leases/dwd-prober-leader-election";

/// A seed that also serves as the API server of its shoots, with simulated pods and a timeline of
/// every change to the controllers.
pub(super) struct Fixture {
    pub(super) seed: SeedCluster,
    pub(super) timeline: TargetTimeline,
    /// Kubeconfig in the Secrets of the shoots. It leads to this API server and its nodes.
    pub(super) kubeconfig: String,
    _pods: FakeDeploymentController,
}

impl Fixture {
    pub(super) async fn start() -> Self {
        let seed = SeedCluster::start().await.unwrap();
        let api = &seed.control_plane.api;
        let probe = create_tenant_user(&seed.client, api, "probe")
            .await
            .unwrap();
        Self {
            timeline: TargetTimeline::start(&seed.client),
            kubeconfig: api.kubeconfig(&probe),
            _pods: FakeDeploymentController::start(&seed.client, Duration::from_millis(200)),
            seed,
        }
    }

    /// Starts kubelets for this many nodes.
    pub(super) async fn kubelets(&self, nodes: usize, timings: Timings) -> Kubelets {
        let kubelets = Kubelets::start(&self.seed.client, nodes, timings).await;
        kubelets.unwrap()
    }

    /// Starts kubelets for this many nodes, which are partitioned from the start.
    pub(super) async fn partitioned_kubelets(&self, nodes: usize, timings: Timings) -> Kubelets {
        let kubelets = Kubelets::start_partitioned(&self.seed.client, nodes, timings).await;
        kubelets.unwrap()
    }

    /// Creates a shoot with the nodes of `kubelets` and the three controllers.
    pub(super) async fn shoot(&self, name: &str, kubelets: &Kubelets) -> ShootCluster {
        self.shoot_with_kubeconfig(name, &self.kubeconfig, kubelets)
            .await
    }

    /// Creates a shoot whose API server is the one `kubeconfig` leads to.
    pub(super) async fn shoot_with_kubeconfig(
        &self,
        name: &str,
        kubeconfig: &str,
        kubelets: &Kubelets,
    ) -> ShootCluster {
        let nodes = kubelets.nodes();
        let shoot = self.seed.create_cluster(name, kubeconfig, &nodes);
        let shoot = shoot.await.unwrap();
        shoot.create_targets(COUNTS).await.unwrap();
        self.until_timeline_caught_up(&shoot).await;
        shoot
    }

    /// Waits until the timeline has recorded the current state of the controllers. Entries recorded
    /// after that are not the test's own writes.
    pub(super) async fn until_timeline_caught_up(&self, shoot: &ShootCluster) {
        for name in [KCM, MCM, CA] {
            let now = shoot.target(name).await.unwrap();
            let caught_up = poll::until("the timeline", TIMEOUT, async || {
                let mut entries = self.timeline.changes(&shoot.name).into_iter().rev();
                let last = entries.find(|entry| entry.name == name);
                let is_current = |entry: &TargetChange| {
                    u64::try_from(entry.replicas) == Ok(now.replicas)
                        && (entry.marked, &entry.recorded) == (now.marked, &now.recorded)
                };
                Ok(last.filter(is_current).map(|_| ()))
            });
            caught_up.await.unwrap();
        }
    }

    /// Waits for the first timeline entry since `since` in which `name` has this many replicas.
    pub(super) async fn until_scaled(
        &self,
        shoot: &ShootCluster,
        name: &str,
        since: Instant,
        replicas: i32,
    ) -> TargetChange {
        let is_scaled = |entry: &TargetChange| entry.name == name && entry.replicas == replicas;
        let what = format!("{name} at {replicas}");
        let entry = self
            .timeline
            .until(&what, &shoot.name, since, TIMEOUT, is_scaled);
        entry.await.unwrap()
    }

    /// Starts a prober with admin rights.
    pub(super) async fn prober(&self, config: &ProberConfigFile, flags: &[&str]) -> ProberProcess {
        let admin = self.seed.control_plane.api.admin();
        let kubeconfig = self.seed.kubeconfig_file(&admin).unwrap();
        ProberProcess::start(&kubeconfig, config, flags)
            .await
            .unwrap()
    }

    /// Starts a prober with admin rights and the targets that Gardener configures.
    pub(super) async fn gardener_prober(&self, timings: Timings) -> ProberProcess {
        let config = ProberConfigFile::gardener_targets(timings);
        self.prober(&config, &[]).await
    }

    /// Starts a prober with admin rights whose requests to the seed pass through `interceptor`.
    pub(super) async fn prober_through(
        &self,
        interceptor: &Interceptor,
        config: &ProberConfigFile,
        flags: &[&str],
    ) -> ProberProcess {
        let admin = self.seed.control_plane.api.admin();
        let kubeconfig = self
            .seed
            .kubeconfig_file_via_interceptor(interceptor, &admin)
            .unwrap();
        ProberProcess::start(&kubeconfig, config, flags)
            .await
            .unwrap()
    }

    pub(super) async fn interceptor(&self) -> Interceptor {
        Interceptor::start(&self.seed.control_plane.api)
            .await
            .unwrap()
    }
}

/// Configuration that scales the three controllers one after the other in both directions and
/// ignores the deadline, so that every write happens at its own time.
pub(super) fn sequential_targets(timings: Timings) -> ProberConfigFile {
    let targets = vec![
        TargetConfig::deployment(MCM, 0, 1),
        TargetConfig::deployment(CA, 1, 2),
        TargetConfig::deployment(KCM, 2, 0),
    ];
    ProberConfigFile::new(timings, targets).line("fenceReserve: 0s")
}

/// Waits until the prober judges all its clusters, and so stands for election.
pub(super) async fn until_ready(prober: &ProberProcess) {
    let ready = poll::until("readiness", TIMEOUT, async || {
        let ready = prober.health("/readyz").await?;
        Ok((ready.status == 200).then_some(()))
    });
    ready.await.unwrap();
}

/// Waits until the prober has judged the cluster healthy.
pub(super) async fn until_healthy(prober: &ProberProcess, shoot: &ShootCluster) {
    until_rule(prober, shoot, "leasesRenewed").await;
}

/// Waits until this rule decides the verdict for the cluster.
pub(super) async fn until_rule(prober: &ProberProcess, shoot: &ShootCluster, rule: &str) {
    let what = format!("the rule {rule}");
    let decided = prober.until_state(&what, &shoot.name, TIMEOUT, |state| {
        state["decision"]["reasons"]["rule"]["name"] == rule
    });
    decided.await.unwrap();
}

/// Waits until this many nodes of the cluster are candidates, and returns the cluster's state.
pub(super) async fn until_candidates(
    prober: &ProberProcess,
    shoot: &ShootCluster,
    count: u64,
) -> Value {
    let what = format!("{count} candidates");
    let state = prober.until_state(&what, &shoot.name, TIMEOUT, |state| {
        state["decision"]["reasons"]["leases"]["candidates"] == count
    });
    state.await.unwrap()
}

/// Waits until a problem that contains `words` is listed for the cluster.
pub(super) async fn until_problem(prober: &ProberProcess, shoot: &ShootCluster, words: &str) {
    let listed = prober.until_state(words, &shoot.name, TIMEOUT, |state| {
        state["problems"].to_string().contains(words)
    });
    listed.await.unwrap();
}

/// Waits until the prober has completed this many more rounds.
pub(super) async fn until_rounds(prober: &ProberProcess, more: f64) {
    let rounds = "kelpie_prober_round_duration_seconds_count";
    let before = prober.kelpie.metric(rounds).await.unwrap();
    let what = format!("{more} rounds more");
    let done = poll::until(&what, TIMEOUT, async || {
        let now = prober.kelpie.metric(rounds).await?;
        Ok((now >= before + more).then_some(()))
    });
    done.await.unwrap();
}

/// Asserts that the controllers have their original replicas and no trace of a fence.
pub(super) async fn assert_untouched(shoot: &ShootCluster) {
    assert_eq!(shoot.replicas().await.unwrap(), RESTORED, "{}", shoot.name);
    for name in [KCM, MCM, CA] {
        let controller = shoot.target(name).await.unwrap();
        assert!(!controller.marked, "{} of {}", name, shoot.name);
        assert_eq!(controller.recorded, None, "{} of {}", name, shoot.name);
    }
}

/// A target's replicas, whether it carries the marker, and the recorded count.
pub(super) type TargetSnapshot = (i32, bool, Option<String>);

/// Returns the successive states of one target.
pub(super) fn states_of(entries: &[TargetChange], name: &str) -> Vec<TargetSnapshot> {
    let entries = entries.iter().filter(|entry| entry.name == name);
    entries
        .map(|entry| (entry.replicas, entry.marked, entry.recorded.clone()))
        .collect()
}

/// Asserts that each target was fenced and restored exactly `times` times, with one write in each
/// direction and no others. A duplicate or stale write, by any replica, would show up here.
pub(super) fn assert_fence_cycles(
    fixture: &Fixture,
    shoot: &ShootCluster,
    since: Instant,
    times: usize,
) {
    let entries = fixture.timeline.since(&shoot.name, since);
    for (name, count) in [(KCM, 3), (MCM, 1), (CA, 2)] {
        let state = |replicas, marked| (replicas, marked, Some(count.to_string()));
        let cycle = [state(0, true), state(count, false)];
        let expected = [cycle.as_slice()].repeat(times).concat();
        assert_eq!(
            states_of(&entries, name),
            expected,
            "{name} of {}",
            shoot.name
        );
    }
}
