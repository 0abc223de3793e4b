//! Calls to a seed that is slow, or does not answer.

use kelpie_kube::leader::Leadership;
use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio::time::sleep;

use super::fixture::{LEADS, SeedFixture, read_and_write};
use crate::deadline_queue::Priority;
use crate::fence_executor::*;

const SECOND: Duration = Duration::from_secs(1);

/// A seed that accepts connections and never answers.
fn silent_seed() -> SeedFixture {
    let open = Mutex::<Vec<DuplexStream>>::default();
    SeedFixture::new(move || {
        let (client, server) = tokio::io::duplex(4096);
        open.lock().push(server);
        Box::pin(async { Ok(client) })
    })
}

impl SeedFixture {
    async fn write(&self, right: WriteRight) -> Result<Reply, StepError> {
        let (_, write) = read_and_write();
        self.perform(&write, right).await
    }
}

#[tokio::test(start_paused = true)]
async fn second_try_overtakes_once() {
    let seed = silent_seed();
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
    let seed = silent_seed();
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
    let seed = silent_seed();
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
    let seed = silent_seed();
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
    let seed = silent_seed();
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
