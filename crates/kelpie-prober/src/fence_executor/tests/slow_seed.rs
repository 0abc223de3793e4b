//! Calls to a seed that is slow, or does not answer.

use std::sync::atomic::{AtomicUsize, Ordering};

use kelpie_core::prober::ProbeSettings;
use kelpie_kube::SystemClock;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::Leadership;
use kelpie_net::Network;
use kelpie_runtime::watch::Sender;
use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio::time::sleep;

use super::waiting::{read_and_write, target};
use crate::deadline_queue::{DeadlineQueue, Priority};
use crate::fence_executor::*;

const LEADS: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

/// A seed that accepts connections and never answers, behind a queue with one place.
struct SilentSeed {
    access: SeedAccess,
    leadership: Sender<Leadership>,
    connections: Arc<AtomicUsize>,
}

impl SilentSeed {
    fn new() -> Self {
        let connections = Arc::<AtomicUsize>::default();
        let (counter, open) = (
            Arc::clone(&connections),
            Mutex::<Vec<DuplexStream>>::default(),
        );
        let network = Network::in_process(move |_, _| {
            counter.fetch_add(1, Ordering::Relaxed);
            let (client, server) = tokio::io::duplex(4096);
            open.lock().push(server);
            Box::pin(async { Ok(client) })
        });
        let wall = SystemClock::new(|| Time::from_micros(0));
        let seed =
            ClusterClient::in_process(&network, wall, "http://seed.inside:443", "t").unwrap();
        let until = Instant::now() + LEADS;
        let leadership = Sender::new(Leadership::Leader { until });
        let (batch_reader, _) = seed.batch_reader();
        let clock = AnchoredClock::anchored(&SystemClock::default());
        let (settings, receiver) = (ProbeSettings::default(), leadership.subscribe());
        let mut access = SeedAccess::new(&seed, batch_reader, receiver, clock, &settings, false);
        access.queue = DeadlineQueue::new(1);
        Self {
            access,
            leadership,
            connections,
        }
    }

    async fn write(&self, right: WriteRight) -> Result<Reply, StepError> {
        let context = CallContext {
            deadline: Time::MAX,
            right,
            direction: Direction::Down,
            cancel: CancellationToken::new(),
        };
        let (_, write) = read_and_write();
        let (cluster, target) = ("shoot".into(), target());
        self.access
            .perform(&cluster, &target, &write, &context)
            .await
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn second_try_overtakes_once() {
    let seed = SilentSeed::new();
    let observer = async {
        sleep(SECOND * 2 / 5).await;
        assert_eq!(seed.connections(), 1);
        sleep(SECOND / 5).await;
        assert_eq!(seed.connections(), 2);
        sleep(SECOND * 8).await;
        assert_eq!(seed.connections(), 2);
    };
    let _ = tokio::join!(seed.write(WriteRight::Leader), observer);
}

#[tokio::test(start_paused = true)]
async fn measured_latency_delays_second_try() {
    let seed = SilentSeed::new();
    let now = seed.access.clock_now();
    seed.access.measurements.record_latency(now, SECOND);
    let observer = async {
        sleep(SECOND * 2).await;
        assert_eq!(seed.connections(), 1);
        sleep(SECOND * 3 / 2).await;
        assert_eq!(seed.connections(), 2);
    };
    let _ = tokio::join!(seed.write(WriteRight::Leader), observer);
}

#[tokio::test(start_paused = true)]
async fn hanging_call_gives_its_place_back() {
    let seed = SilentSeed::new();
    let start = Instant::now();
    let next = async {
        tokio::task::yield_now().await;
        let _permit = seed.access.queue.enter(Priority::Patient).await;
        assert_eq!(start.elapsed(), SECOND);
        sleep(SECOND * 4).await;
        let latency = seed.access.measurements.latency(seed.access.clock_now());
        assert!(latency > SECOND * 3, "{latency:?}");
    };
    let (result, ()) = tokio::join!(seed.write(WriteRight::Leader), next);
    assert!(matches!(result, Err(StepError::CutOff)));
    assert_eq!(start.elapsed(), LEADS, "as long as this replica leads");
}

#[tokio::test(start_paused = true)]
async fn renewed_leader_waits_for_the_timeout() {
    let seed = SilentSeed::new();
    let start = Instant::now();
    let until = start + LEADS * 100;
    seed.leadership.send_silently(Leadership::Leader { until });
    let result = seed.write(WriteRight::Leader).await;
    assert!(matches!(result, Err(StepError::Refused(_))));
    assert!(
        start.elapsed() >= Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn standby_writes_only_on_a_fresh_decision() {
    let seed = SilentSeed::new();
    seed.leadership.send(Leadership::Standby);
    let start = Instant::now();
    let right = WriteRight::Standby { until: start };
    assert!(matches!(
        seed.write(right).await,
        Err(StepError::NotAllowed)
    ));
    assert_eq!(seed.connections(), 0);
    let until = start + SECOND * 3;
    let right = WriteRight::Standby { until };
    assert!(matches!(seed.write(right).await, Err(StepError::CutOff)));
    assert_eq!(Instant::now(), until);
    let leader = seed.write(WriteRight::Leader).await;
    assert!(matches!(leader, Err(StepError::NotAllowed)));
}
