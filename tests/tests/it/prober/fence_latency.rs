//! Time from the trip of a cluster to the acknowledged scale call.

use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_e2e::landscape::{
    Canary, Kubelets, ProberConfigFile, ProberProcess, ShootCluster, TargetChange, TargetConfig,
    Timings,
};
use kelpie_e2e::poll;
use tokio::time::Instant;

use super::fixture::*;

const NODES: usize = 20;

/// Longest time that a fence may take.
const LIMIT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn fence_takes_less_than_a_second() {
    assert_in_time(&measure(Timings::ROOMY, 2, 2).await);
}

/// `cargo test -p kelpie-e2e -- --ignored --nocapture prober::fence_latency`.
#[tokio::test]
#[ignore = "takes minutes"]
async fn fifty_fences_meet_their_deadline() {
    assert_in_time(&measure(Timings::SCALED, 5, 10).await);
}

/// Allows each fence the time that the canary's calls took, because the machine was that slow.
fn assert_in_time(measured: &[(&str, Vec<FenceTimes>)]) {
    for (config, fences) in measured {
        println!("{config}: {}", Summary(fences));
    }
    for (config, fences) in measured {
        let p99 = |what: fn(&FenceTimes) -> Duration| percentile(fences.iter().map(what), 99);
        let machine = p99(|fence| fence.machine);
        let took = p99(|fence| fence.first.max(fence.kcm));
        let late = p99(|fence| fence.late);
        assert!(took <= LIMIT + machine, "{config}: {took:?}");
        assert!(late <= machine, "{config}: {late:?}");
    }
}

/// Times of one fence.
#[derive(Debug)]
struct FenceTimes {
    /// From the trip to the first target's scale-down.
    first: Duration,
    /// From the trip to KCM's scale-down. If KCM's level has to wait, from the instant at which the
    /// deadline ends the wait; zero if the level was reached before that.
    kcm: Duration,
    /// From KCM's scale-down to the deadline. Zero if the deadline was missed.
    margin: Duration,
    /// From the deadline to KCM's scale-down. Zero if the deadline was met.
    late: Duration,
    /// Longest time that the canary's calls took meanwhile.
    machine: Duration,
}

/// Measures both configurations, each with its own prober, in `clusters` clusters side by side.
/// Each cluster is partitioned `rounds` times.
async fn measure(
    timings: Timings,
    clusters: usize,
    rounds: usize,
) -> [(&'static str, Vec<FenceTimes>); 2] {
    let fixture = Fixture::start().await;
    let canary = Canary::start(&fixture.seed.client).await.unwrap();
    let mut groups = Vec::new();
    for number in 0..clusters {
        groups.push(NodeGroup::start(&fixture, number, timings).await);
    }
    let measured = groups.iter().map(async |group| {
        let mut fences = Vec::new();
        for _ in 0..rounds {
            fences.push(group.partition(&fixture, &canary, timings).await);
        }
        fences
    });
    let measured = join_all(measured).await.into_iter().flatten();
    let (by_level, together) = measured.unzip();
    [
        ("Gardener's levels", by_level),
        ("KCM at level 0", together),
    ]
}

/// Nodes that two control planes share, so that one cut partitions both.
struct NodeGroup {
    kubelets: Kubelets,
    control_planes: [(ShootCluster, ProberProcess); 2],
}

impl NodeGroup {
    async fn start(fixture: &Fixture, number: usize, timings: Timings) -> Self {
        let client = &fixture.seed.client;
        let name = format!("n{number}");
        let kubelets = Kubelets::start_with_prefix(client, &name, NODES, timings);
        let kubelets = kubelets.await.unwrap();
        let at_level_0 = [KCM, MCM, CA].map(|name| TargetConfig::deployment(name, 0, 0));
        let by_level = ProberConfigFile::gardener_targets(timings);
        let together = ProberConfigFile::new(timings, at_level_0.to_vec());
        let make = async |name: &str, config: ProberConfigFile| {
            let shoot = fixture.shoot(&format!("{name}-{number}"), &kubelets).await;
            let prober = fixture.prober(&config.only(&shoot.name), &[]).await;
            until_healthy(&prober, &shoot).await;
            (shoot, prober)
        };
        Self {
            control_planes: [
                make("by-level", by_level).await,
                make("together", together).await,
            ],
            kubelets,
        }
    }

    async fn partition(
        &self,
        fixture: &Fixture,
        canary: &Canary,
        timings: Timings,
    ) -> (FenceTimes, FenceTimes) {
        self.kubelets.partition(1.0).await;
        let cut = Instant::now();
        let trip = self.kubelets.trip_time(timings.grace, 0.6).await.unwrap();
        let deadline = self.kubelets.deadline(timings.grace).await.unwrap();
        // The deadline causes the fence if the leases are too far apart to trip before it.
        let latest_start = deadline - timings.reserve;
        let trip = trip.min(latest_start);
        // Reading the timeline costs no requests, which would disturb the other measurements.
        let time_of = async |shoot: &ShootCluster,
                             name: &str,
                             since: Instant,
                             predicate: &dyn Fn(&TargetChange) -> bool| {
            let matches = |entry: &TargetChange| entry.name == name && predicate(entry);
            let entry = fixture
                .timeline
                .until(name, &shoot.name, since, TIMEOUT, matches);
            entry.await.unwrap().at
        };
        let fence = async |shoot: &ShootCluster, first: &str, released: Instant| {
            let is_down = |entry: &TargetChange| entry.replicas == 0;
            let kcm = time_of(shoot, KCM, cut, &is_down).await;
            let first = time_of(shoot, first, cut, &is_down).await;
            FenceTimes {
                first: first.saturating_duration_since(trip),
                kcm: kcm.saturating_duration_since(released),
                margin: deadline.saturating_duration_since(kcm),
                late: kcm.saturating_duration_since(deadline),
                machine: canary.longest(cut, kcm, TIMEOUT).await,
            }
        };
        let [(by_level, _), (together, _)] = &self.control_planes;
        let fences = tokio::join!(
            fence(by_level, MCM, latest_start),
            fence(together, KCM, trip)
        );

        let healed = Instant::now();
        self.kubelets.heal().await;
        let is_up = |entry: &TargetChange| entry.replicas > 0 && !entry.marked;
        for (shoot, _) in &self.control_planes {
            for name in [KCM, MCM, CA] {
                time_of(shoot, name, healed, &is_up).await;
            }
        }
        self.until_renewed_since(Instant::now()).await;
        fences
    }

    /// Waits until every node has renewed its lease after `release`. Until then the deadline would
    /// count from the release.
    async fn until_renewed_since(&self, release: Instant) {
        let renewed = poll::until("renewals", TIMEOUT, async || {
            let first = self.kubelets.deadline(Duration::ZERO).await;
            Ok(first.filter(|first| *first > release))
        });
        renewed.await.unwrap();
    }
}

/// Formats the times of several fences as one line.
struct Summary<'a>(&'a [FenceTimes]);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percentiles = |what: fn(&FenceTimes) -> Duration| {
            let at = |percent| percentile(self.0.iter().map(what), percent);
            let [median, p99] = [50, 99].map(|percent| at(percent).as_millis());
            format!("{median} ms (median), {p99} ms (p99)")
        };
        let late = self.0.iter().filter(|fence| !fence.late.is_zero());
        write!(
            f,
            "{} partitions: first target down {} after the trip; KCM down {} after its turn came, \
             {} ms before the deadline in the median, {} too late; the canary's calls took {}",
            self.0.len(),
            percentiles(|fence| fence.first),
            percentiles(|fence| fence.kcm),
            percentile(self.0.iter().map(|fence| fence.margin), 50).as_millis(),
            late.count(),
            percentiles(|fence| fence.machine),
        )
    }
}

fn percentile(times: impl Iterator<Item = Duration>, percent: usize) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    times[(times.len() * percent).div_ceil(100) - 1]
}
