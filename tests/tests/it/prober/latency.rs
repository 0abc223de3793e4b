//! From the trip of a cluster to the acknowledged scale call.

use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_e2e::landscape::{Entry, Kubelets, Pace, Prober, ProberConfig, Shoot, Target};
use kelpie_e2e::poll;
use tokio::time::Instant;

use super::stage::*;

const NODES: usize = 20;

/// What a fence may take at most.
const TARGET: Duration = Duration::from_secs(1);

/// The median and not the last percent: other tests run beside this one.
#[tokio::test]
async fn a_fence_takes_less_than_a_second_from_the_trip_and_comes_before_the_deadline() {
    for (levels, times) in measure(Pace::ROOMY, 2, 2).await {
        println!("{levels}: {times}");
        assert!(times.percentile(50) <= TARGET, "{levels}: {times}");
        assert!(times.margins[0] > Duration::ZERO, "{levels}: {times}");
    }
}

/// To be run alone: `cargo test -p kelpie-e2e -- --ignored --nocapture prober::latency`.
#[tokio::test]
#[ignore = "takes minutes, and wants the machine for itself"]
async fn in_fifty_partitions_of_twenty_nodes_a_fence_takes_a_second_at_most_and_none_is_late() {
    for (levels, times) in measure(Pace::SCALED, 5, 10).await {
        println!("{levels}: {times}");
        assert!(times.percentile(99) <= TARGET, "{levels}: {times}");
        assert!(times.margins[0] > Duration::ZERO, "{levels}: {times}");
    }
}

/// What was measured, each sorted.
#[derive(Default)]
struct Times {
    /// From the trip to the first target.
    first: Vec<Duration>,
    /// From the trip to KCM, or, where its level has to wait, from the instant at which the deadline ends
    /// the waiting; nothing if its turn came before that.
    kcm: Vec<Duration>,
    /// From KCM to the deadline; nothing if it was missed.
    margins: Vec<Duration>,
}

/// Both configurations, each with a prober of its own, in so many clusters side by side that are
/// partitioned so many times.
async fn measure(pace: Pace, clusters: usize, rounds: usize) -> [(&'static str, Times); 2] {
    let stage = Stage::start().await;
    let mut scenes = Vec::new();
    for number in 0..clusters {
        scenes.push(Scene::make(&stage, number, pace).await);
    }
    let measured = scenes.iter().map(async |scene| {
        let mut fences = Vec::new();
        for _ in 0..rounds {
            fences.push(scene.partition(&stage, pace).await);
        }
        fences
    });
    let mut times = [
        ("shipped levels", Times::default()),
        ("KCM at level 0", Times::default()),
    ];
    for fences in join_all(measured).await.into_iter().flatten() {
        for ((_, times), fence) in times.iter_mut().zip(fences) {
            times.first.push(fence.first);
            times.kcm.push(fence.kcm);
            times.margins.push(fence.margin);
        }
    }
    for (_, times) in &mut times {
        times.first.sort();
        times.kcm.sort();
        times.margins.sort();
    }
    times
}

/// Nodes, and two control planes that watch over them: one cut is a partition of both.
struct Scene {
    kubelets: Kubelets,
    planes: [(Shoot, Prober); 2],
}

/// How a cluster was fenced.
struct Fenced {
    first: Duration,
    kcm: Duration,
    margin: Duration,
}

impl Scene {
    async fn make(stage: &Stage, number: usize, pace: Pace) -> Self {
        let client = &stage.seed.client;
        let name = format!("n{number}");
        let kubelets = Kubelets::start_named(client, &name, NODES, pace);
        let kubelets = kubelets.await.unwrap();
        let at_level_0 = [KCM, MCM, CA].map(|name| Target::deployment(name, 0, 0));
        let shipped = ProberConfig::shipped(pace);
        let together = ProberConfig::of(pace, at_level_0.to_vec());
        let make = async |name: &str, config: ProberConfig| {
            let shoot = stage.shoot(&format!("{name}-{number}"), &kubelets).await;
            let prober = stage.prober(&config.only(&shoot.name), &[]).await;
            until_well(&prober, &shoot).await;
            (shoot, prober)
        };
        Self {
            planes: [
                make("shipped", shipped).await,
                make("together", together).await,
            ],
            kubelets,
        }
    }

    async fn partition(&self, stage: &Stage, pace: Pace) -> [Fenced; 2] {
        self.kubelets.cut(1.0).await;
        let cut = Instant::now();
        let trip = self.kubelets.trip(pace.grace, 0.6).await.unwrap();
        let deadline = self.kubelets.deadline(pace.grace).await.unwrap();
        // The last call comes first where the leases are far apart.
        let last_call = deadline - pace.reserve;
        let trip = trip.min(last_call);
        // From the timeline, which costs nothing: others are being measured at the same time.
        let seen =
            async |shoot: &Shoot, name: &str, since: Instant, is_such: &dyn Fn(&Entry) -> bool| {
                let is_it = |entry: &Entry| entry.name == name && is_such(entry);
                let seen = stage
                    .timeline
                    .until(name, &shoot.name, since, PATIENCE, is_it);
                seen.await.unwrap().at
            };
        let fence = async |shoot: &Shoot, first: &str, released: Instant| {
            let is_down = |entry: &Entry| entry.replicas == 0;
            let kcm = seen(shoot, KCM, cut, &is_down).await;
            let first = seen(shoot, first, cut, &is_down).await;
            Fenced {
                first: first.saturating_duration_since(trip),
                kcm: kcm.saturating_duration_since(released),
                margin: deadline.saturating_duration_since(kcm),
            }
        };
        let [(shipped, _), (together, _)] = &self.planes;
        let fences = tokio::join!(fence(shipped, MCM, last_call), fence(together, KCM, trip));

        let healed = Instant::now();
        self.kubelets.heal().await;
        let is_up = |entry: &Entry| entry.replicas > 0 && !entry.marked;
        for (shoot, _) in &self.planes {
            for name in [KCM, MCM, CA] {
                seen(shoot, name, healed, &is_up).await;
            }
        }
        self.until_renewed_since(Instant::now()).await;
        fences.into()
    }

    /// Waits for a renewal of every node: a deadline counts from the release, if that came later.
    async fn until_renewed_since(&self, release: Instant) {
        let renewed = poll::until("renewals", PATIENCE, async || {
            let first = self.kubelets.deadline(Duration::ZERO).await;
            Ok(first.filter(|first| *first > release))
        });
        renewed.await.unwrap();
    }
}

impl Times {
    /// Of both, whichever is worse.
    fn percentile(&self, percent: usize) -> Duration {
        let of = |times: &[Duration]| times[(times.len() * percent).div_ceil(100) - 1];
        of(&self.first).max(of(&self.kcm))
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |times: &[Duration]| {
            let at = |percent: usize| times[(times.len() * percent).div_ceil(100) - 1];
            format!("{:?} (median), {:?} (p99)", at(50), at(99))
        };
        write!(
            f,
            "{} partitions: first target down {} after the trip; KCM down {} after its release, {:?} \
             before the deadline at least, {:?} in the median",
            self.kcm.len(),
            of(&self.first),
            of(&self.kcm),
            self.margins[0],
            self.margins[self.margins.len() / 2],
        )
    }
}
