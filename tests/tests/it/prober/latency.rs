//! From the trip of a cluster to the acknowledged scale call.

use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_e2e::landscape::{Canary, Entry, Kubelets, Pace, Prober, ProberConfig, Shoot, Target};
use kelpie_e2e::poll;
use tokio::time::Instant;

use super::stage::*;

const NODES: usize = 20;

/// What a fence may take at most.
const TARGET: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_fence_takes_less_than_a_second_from_the_trip_and_comes_before_the_deadline() {
    assert_in_time(&measure(Pace::ROOMY, 2, 2).await);
}

/// `cargo test -p kelpie-e2e -- --ignored --nocapture prober::latency`.
#[tokio::test]
#[ignore = "takes minutes"]
async fn in_fifty_partitions_of_twenty_nodes_a_fence_takes_a_second_at_most_and_none_is_late() {
    assert_in_time(&measure(Pace::SCALED, 5, 10).await);
}

/// What the same calls of somebody else take at the same time is not held against a fence.
fn assert_in_time(measured: &[(&str, Vec<Fenced>)]) {
    for (levels, fences) in measured {
        println!("{levels}: {}", Summary(fences));
    }
    for (levels, fences) in measured {
        let p99 = |what: fn(&Fenced) -> Duration| percentile(fences.iter().map(what), 99);
        let machine = p99(|fence| fence.machine);
        let took = p99(|fence| fence.first.max(fence.kcm));
        let late = p99(|fence| fence.late);
        assert!(took <= TARGET + machine, "{levels}: {took:?}");
        assert!(late <= machine, "{levels}: {late:?}");
    }
}

/// How a cluster was fenced.
#[derive(Debug)]
struct Fenced {
    /// From the trip to the first target.
    first: Duration,
    /// From the trip to KCM, or, where its level has to wait, from the instant at which the deadline ends
    /// the waiting; nothing if its turn came before that.
    kcm: Duration,
    /// From KCM to the deadline; nothing if it was missed.
    margin: Duration,
    /// From the deadline to KCM, if it was missed.
    late: Duration,
    /// What the canary took meanwhile.
    machine: Duration,
}

/// Both configurations, each with a prober of its own, in so many clusters side by side that are
/// partitioned so many times.
async fn measure(pace: Pace, clusters: usize, rounds: usize) -> [(&'static str, Vec<Fenced>); 2] {
    let stage = Stage::start().await;
    let canary = Canary::start(&stage.seed.client).await.unwrap();
    let mut scenes = Vec::new();
    for number in 0..clusters {
        scenes.push(Scene::make(&stage, number, pace).await);
    }
    let measured = scenes.iter().map(async |scene| {
        let mut fences = Vec::new();
        for _ in 0..rounds {
            fences.push(scene.partition(&stage, &canary, pace).await);
        }
        fences
    });
    let measured = join_all(measured).await.into_iter().flatten();
    let (shipped, together) = measured.unzip();
    [("shipped levels", shipped), ("KCM at level 0", together)]
}

/// Nodes, and two control planes that watch over them: one cut is a partition of both.
struct Scene {
    kubelets: Kubelets,
    planes: [(Shoot, Prober); 2],
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

    async fn partition(&self, stage: &Stage, canary: &Canary, pace: Pace) -> (Fenced, Fenced) {
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
                late: kcm.saturating_duration_since(deadline),
                machine: canary.longest(cut, kcm, PATIENCE).await,
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
        fences
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

/// A line about some fences.
struct Summary<'a>(&'a [Fenced]);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |what: fn(&Fenced) -> Duration| {
            let at = |percent| percentile(self.0.iter().map(what), percent);
            let [median, p99] = [50, 99].map(|percent| at(percent).as_millis());
            format!("{median} ms (median), {p99} ms (p99)")
        };
        let late = self.0.iter().filter(|fence| !fence.late.is_zero());
        write!(
            f,
            "{} partitions: first target down {} after the trip; KCM down {} after its turn came, {} ms \
             before the deadline in the median, {} too late; the same calls of somebody else took {}",
            self.0.len(),
            of(|fence| fence.first),
            of(|fence| fence.kcm),
            percentile(self.0.iter().map(|fence| fence.margin), 50).as_millis(),
            late.count(),
            of(|fence| fence.machine),
        )
    }
}

fn percentile(times: impl Iterator<Item = Duration>, percent: usize) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    times[(times.len() * percent).div_ceil(100) - 1]
}
