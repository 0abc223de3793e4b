//! Writes that wait in the queue while the situation changes.

use std::io;

use kelpie_kube::leader::Leadership;

use super::fixture::{LEADS, SeedFixture, read_and_write};
use super::takeover;
use crate::deadline_queue::Priority;
use crate::fence_executor::*;

/// A seed that refuses every connection.
fn refusing_seed() -> SeedFixture {
    SeedFixture::new(|| Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) }))
}

impl SeedFixture {
    /// Performs the step as the leader, behind another call in the queue, which leaves once
    /// `meanwhile` is over.
    async fn perform_after(
        &self,
        step: &Step,
        meanwhile: impl Future<Output = ()>,
    ) -> Result<Reply, StepError> {
        let first = self.access.queue.enter(Priority::Deadline(Time::MIN)).await;
        let gone = async {
            meanwhile.await;
            drop(first);
        };
        tokio::join!(self.perform(step, WriteRight::Leader), gone).0
    }

    /// Returns whether a call that was not performed has left the queue.
    async fn has_free_place(&self) -> bool {
        let turn = timeout(
            Duration::ZERO,
            self.access.queue.enter(Priority::Deadline(Time::MAX)),
        );
        turn.await.is_ok()
    }
}

#[tokio::test(start_paused = true)]
async fn leader_calls_in_turn() {
    let seed = refusing_seed();
    let (read, write) = read_and_write();
    for step in [read, write] {
        let done = seed.perform_after(&step, async {}).await;
        assert!(matches!(done, Err(StepError::Refused(_))), "by the seed");
    }
    assert_eq!(seed.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn flipped_verdict_drops_waiting_write() {
    let seed = refusing_seed();
    let (_, write) = read_and_write();
    let flips = async { seed.cancel.cancel() };
    let done = seed.perform_after(&write, flips).await;
    assert!(matches!(done, Err(StepError::Superseded)));
    // A write that enters the queue later is dropped as well.
    let done = seed.perform(&write, WriteRight::Leader).await;
    assert!(matches!(done, Err(StepError::Superseded)));
    assert_eq!(seed.connections(), 0);
    assert!(seed.has_free_place().await);
}

/// The channel does not wake the executor: the task of the election may be slower.
#[tokio::test(start_paused = true)]
async fn expired_leadership_drops_waiting_write() {
    let seed = refusing_seed();
    let (read, write) = read_and_write();
    let done = seed.perform_after(&write, tokio::time::sleep(LEADS));
    assert!(matches!(done.await, Err(StepError::NotAllowed)));
    assert_eq!(seed.connections(), 0);
    assert!(seed.has_free_place().await);
    // Looking is allowed.
    assert!(matches!(
        seed.perform(&read, WriteRight::Leader).await,
        Err(StepError::Refused(_))
    ));
    assert_eq!(seed.connections(), 1);

    seed.leadership.send(Leadership::Standby);
    assert!(matches!(
        seed.perform(&write, WriteRight::Leader).await,
        Err(StepError::NotAllowed)
    ));
    assert_eq!(seed.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_fence_crowd_the_looks() {
    for (verdict, is_crowded) in [(Verdict::Fence, true), (Verdict::Release, false)] {
        let (mut executor, _sender) = takeover::standby().await;
        executor.verdict = Some(verdict);
        assert!(!executor.is_crowded());
        executor.under_way.push(Box::pin(async {
            let (step, _) = read_and_write();
            let result = Err(StepError::Superseded);
            CompletedStep { step, result }
        }));
        assert_eq!(executor.is_crowded(), is_crowded);
    }
}
