//! Reads the Leases of all shards and, as the leader, renews the one of this shard.

use std::collections::BTreeMap;

use kelpie_core::Time;
use kelpie_core::prober::shard::{LEASE_DURATION, RENEW_INTERVAL};
use kelpie_kube::AnchoredClock;
use kelpie_kube::client::ApiError;
use kelpie_kube::leader::{Leadership, LeaseName};
use kelpie_kube::shard_leases::{ShardLease, ShardLeases};
use kelpie_runtime::watch::Receiver;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

/// A report of the announcer to the manager.
#[derive(Debug)]
pub(crate) enum ShardReport {
    /// The Leases were read. The leader waits for the content of its own; `None` if there is none
    /// yet.
    Read {
        leases: Vec<ShardLease>,
        start: Time,
        content: oneshot::Sender<Option<BTreeMap<String, String>>>,
    },
    /// The own Lease was renewed by a write that was sent at this instant.
    Renewed { start: Time },
    /// A request failed.
    Failed { lease: LeaseName, cause: ApiError },
}

/// Reads the Leases of all shards and renews one of them.
pub(crate) struct Announcer {
    pub(crate) leases: ShardLeases,
    pub(crate) leadership: Receiver<Leadership>,
    pub(crate) clock: AnchoredClock,
    pub(crate) reports: mpsc::Sender<ShardReport>,
}

impl Announcer {
    /// Reads and renews until the manager has ended.
    pub(crate) async fn run(self) {
        loop {
            let start = Instant::now();
            if let Err(cause) = self.turn().await {
                let lease = self.leases.name().clone();
                let failed = ShardReport::Failed { lease, cause };
                if self.reports.send(failed).await.is_err() {
                    return;
                }
            }
            if self.reports.is_closed() {
                return;
            }
            sleep_until(start + RENEW_INTERVAL).await;
        }
    }

    async fn turn(&self) -> Result<(), ApiError> {
        let start = self.clock.now();
        let mut leases = self.leases.list().await?;
        let own = &self.leases.name().name;
        let read = leases
            .iter()
            .find(|lease| kelpie_kube::shard_leases::lease_name(&lease.shard) == *own);
        let read = read.cloned();
        leases.retain(|lease| lease.is_held);
        let (content, answer) = oneshot::channel();
        let report = ShardReport::Read {
            leases,
            start,
            content,
        };
        if self.reports.send(report).await.is_err() {
            return Ok(());
        }
        let Ok(Some(content)) = answer.await else {
            return Ok(());
        };
        let start = self.clock.now();
        if !self.leadership.borrow().may_act(Instant::now()) {
            return Ok(());
        }
        match self
            .leases
            .renew(read.as_ref(), content, LEASE_DURATION)
            .await
        {
            Ok(()) => {
                // A manager that has ended needs no report.
                let _ = self.reports.send(ShardReport::Renewed { start }).await;
                Ok(())
            }
            // The engine of a ring, or a leader before this one, has changed it. It is read again.
            Err(ApiError::Conflict) => Ok(()),
            Err(cause) => Err(cause),
        }
    }
}
