//! What the tests of `kelpie prober` share.

use std::time::Duration;

use kelpie_e2e::landscape::{
    Doorman, Entry, Kubelets, Pace, Pods, Prober, ProberConfig, Seed, Shoot, Target, Timeline,
    tenant,
};
use kelpie_e2e::poll;
use tokio::time::Instant;

/// How long anything may take that is expected to happen, on a loaded machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

pub(super) const KCM: &str = "kube-controller-manager";
pub(super) const MCM: &str = "machine-controller-manager";
pub(super) const CA: &str = "cluster-autoscaler";

/// What the three have in most tests, and what has to be restored.
pub(super) const COUNTS: [u32; 3] = [3, 1, 2];
pub(super) const RESTORED: [u64; 3] = [3, 1, 2];
pub(super) const FENCED: [u64; 3] = [0, 0, 0];

/// A seed that is also the API server of its shoots, with pods, and a timeline of its controllers.
pub(super) struct Stage {
    pub(super) seed: Seed,
    pub(super) timeline: Timeline,
    /// What the Secrets of shoots hold: a way to the nodes of this API server.
    pub(super) kubeconfig: String,
    _pods: Pods,
}

impl Stage {
    pub(super) async fn start() -> Self {
        let seed = Seed::start().await.unwrap();
        let api = &seed.plane.api;
        let probe = tenant(&seed.client, api, "probe").await.unwrap();
        Self {
            timeline: Timeline::start(&seed.client),
            kubeconfig: api.kubeconfig(&probe),
            _pods: Pods::start(&seed.client, Duration::from_millis(200)),
            seed,
        }
    }

    /// A shoot with the nodes of `kubelets` and the three controllers.
    pub(super) async fn shoot(&self, name: &str, kubelets: &Kubelets) -> Shoot {
        self.shoot_at(name, &self.kubeconfig, kubelets).await
    }

    /// The same with another way to its API server.
    pub(super) async fn shoot_at(&self, name: &str, way: &str, kubelets: &Kubelets) -> Shoot {
        let shoot = self.seed.shoot(name, way, &kubelets.nodes()).await.unwrap();
        shoot.deploy(COUNTS).await.unwrap();
        self.until_caught_up(&shoot).await;
        shoot
    }

    /// Waits until the timeline has seen what was written to the controllers so far: what it sees
    /// from then on is somebody else's doing.
    pub(super) async fn until_caught_up(&self, shoot: &Shoot) {
        for name in [KCM, MCM, CA] {
            let now = shoot.controller(name).await.unwrap();
            let seen = poll::until("the timeline", PATIENCE, async || {
                let mut entries = self.timeline.of(&shoot.name).into_iter().rev();
                let last = entries.find(|entry| entry.name == name);
                let is_now = |entry: &Entry| {
                    u64::try_from(entry.replicas) == Ok(now.replicas)
                        && (entry.marked, &entry.recorded) == (now.marked, &now.recorded)
                };
                Ok(last.filter(is_now).map(|_| ()))
            });
            seen.await.unwrap();
        }
    }

    /// The product with all rights.
    pub(super) async fn prober(&self, config: &ProberConfig, flags: &[&str]) -> Prober {
        let admin = self.seed.plane.api.admin();
        let kubeconfig = self.seed.kubeconfig(&admin).unwrap();
        Prober::start(&kubeconfig, config, flags).await.unwrap()
    }

    /// The same, past `doorman`.
    pub(super) async fn prober_by(
        &self,
        doorman: &Doorman,
        config: &ProberConfig,
        flags: &[&str],
    ) -> Prober {
        let admin = self.seed.plane.api.admin();
        let kubeconfig = self.seed.kubeconfig_by(doorman, &admin).unwrap();
        Prober::start(&kubeconfig, config, flags).await.unwrap()
    }

    /// A doorman of the seed.
    pub(super) async fn doorman(&self) -> Doorman {
        Doorman::start(&self.seed.plane.api).await.unwrap()
    }
}

/// The three controllers, one after the other on either way, whatever the deadline says: each write
/// has a moment of its own.
pub(super) fn one_by_one(pace: Pace) -> ProberConfig {
    let targets = vec![
        Target::deployment(MCM, 0, 1),
        Target::deployment(CA, 1, 2),
        Target::deployment(KCM, 2, 0),
    ];
    ProberConfig::of(pace, targets).line("fenceReserve: 0s")
}

/// Waits until a cluster was judged well.
pub(super) async fn until_well(prober: &Prober, shoot: &Shoot) {
    let well = prober.until_state("a healthy cluster", &shoot.name, PATIENCE, |state| {
        state["decision"]["reasons"]["rule"]["name"] == "well"
    });
    well.await.unwrap();
}

/// Waits until the prober has made so many rounds more.
pub(super) async fn until_rounds(prober: &Prober, more: f64) {
    let rounds = "kelpie_prober_round_duration_seconds_count";
    let before = prober.kelpie.metric(rounds).await.unwrap();
    let what = format!("{more} rounds more");
    let done = poll::until(&what, PATIENCE, async || {
        let now = prober.kelpie.metric(rounds).await?;
        Ok((now >= before + more).then_some(()))
    });
    done.await.unwrap();
}

/// Whether the controllers stand as they did when nothing had happened.
pub(super) async fn assert_untouched(shoot: &Shoot) {
    assert_eq!(shoot.counts().await.unwrap(), RESTORED, "{}", shoot.name);
    for name in [KCM, MCM, CA] {
        let controller = shoot.controller(name).await.unwrap();
        assert!(!controller.marked, "{} of {}", name, shoot.name);
        assert_eq!(controller.recorded, None, "{} of {}", name, shoot.name);
    }
}

/// Whether each target went down and up again so many times, by two writes each way and no other:
/// whoever made them, nothing was done twice and nothing stale got through.
pub(super) fn assert_each_step_was_made_once(
    stage: &Stage,
    shoot: &Shoot,
    since: Instant,
    times: usize,
) {
    let entries = stage.timeline.since(&shoot.name, since);
    for (name, count) in [(KCM, 3), (MCM, 1), (CA, 2)] {
        let steps: Vec<_> = entries
            .iter()
            .filter(|entry| entry.name == name)
            .map(|entry| (entry.replicas, entry.marked, entry.recorded.as_deref()))
            .collect();
        let record = count.to_string();
        let step = |replicas, marked| (replicas, marked, Some(record.as_str()));
        let once = [
            step(count, true),
            step(0, true),
            step(count, true),
            step(count, false),
        ];
        assert_eq!(steps, once.repeat(times), "{name} of {}", shoot.name);
    }
}
