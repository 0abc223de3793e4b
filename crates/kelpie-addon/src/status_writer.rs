//! Writes of the addon's status: read, change, write with the resource version. After a conflict,
//! the change is made again on the new status.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::addon::{AddonStatus, CollectorReport, TransitionError};
use kelpie_kube::client::ApiError;
use kelpie_kube::objects::{ObjectClient, ObjectError};
use thiserror::Error;
use tokio::time::{Instant, sleep};
use tracing::debug;

use crate::addon::{AddonRef, ObservabilityAddon};
use crate::backoff::Backoff;

/// The pauses between two attempts after a conflict.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Conflicts are retried for this long before they are returned to the caller.
const CONFLICT_TIMEOUT: Duration = Duration::from_secs(30);

/// The remedy for a CRD that does not store `status.rollouts`.
pub(crate) const DROPPED_ROLLOUTS: &str = "the CRD of ObservabilityAddon does not store \
     status.rollouts: reports of pods that are being replaced are not recognized; apply the CRD \
     that `kelpie crd` prints";

/// Writes the status of one addon and enforces the transition rules. Clones write the same addon.
#[derive(Clone)]
pub struct StatusWriter {
    objects: ObjectClient,
    addon: AddonRef,
    /// The last write showed that the API server does not store `status.rollouts`.
    drops_rollouts: Arc<AtomicBool>,
}

/// The outcome of a successful write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The status was written.
    Changed,
    /// The status was as desired already, and nothing was written.
    Unchanged,
}

/// The reason why a status was not written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The rules forbid the transition. This is part of normal operation.
    #[error("refused: {0}")]
    Refused(#[from] TransitionError),
    /// The addon does not exist.
    #[error(
        "there is no ObservabilityAddon {} in namespace {}; create it first",
        .0.name, .0.namespace
    )]
    Absent(AddonRef),
    /// The addon was deleted and created anew. The write was meant for the old object.
    #[error(
        "refused: ObservabilityAddon {} in namespace {} was replaced by a new object",
        .0.name, .0.namespace
    )]
    Replaced(AddonRef),
    /// A request failed. The caller should try again later.
    #[error(transparent)]
    Call(#[from] ObjectError),
}

impl StatusWriter {
    /// Creates a writer for an addon.
    pub fn new(objects: ObjectClient, addon: AddonRef) -> Self {
        Self {
            objects,
            addon,
            drops_rollouts: Arc::default(),
        }
    }

    /// Reads the addon. Returns [`WriteError::Absent`] if it does not exist.
    pub async fn read(&self) -> Result<ObservabilityAddon, WriteError> {
        let found = self.objects.get(&self.addon.path()).await?;
        let found = found.ok_or_else(|| WriteError::Absent(self.addon.clone()))?;
        Ok(ObservabilityAddon::read(found))
    }

    /// Writes a collector's report. `uid` is the UID of the addon that the collector was deployed
    /// for; with `None`, any addon of this name is written. A report that could not be delivered is
    /// not kept: a collector reports again after its next tick.
    pub async fn report(
        &self,
        uid: Option<&str>,
        report: &CollectorReport,
    ) -> Result<WriteOutcome, WriteError> {
        let change = |status: &mut AddonStatus, now| status.apply_report(report, now);
        self.write(uid, change).await
    }

    /// Applies `change` to the status and writes the result. After a conflict, `change` is called
    /// again with a fresh status. With a `uid`, only the addon with this UID is written.
    pub async fn write(
        &self,
        uid: Option<&str>,
        mut change: impl FnMut(&mut AddonStatus, Time) -> Result<(), TransitionError>,
    ) -> Result<WriteOutcome, WriteError> {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let give_up = Instant::now() + CONFLICT_TIMEOUT;
        loop {
            let addon = self.read().await?;
            if uid.is_some_and(|uid| uid != addon.uid) {
                return Err(WriteError::Replaced(self.addon.clone()));
            }
            let mut status = addon.status.clone();
            change(&mut status, self.objects.now())?;
            let is_same = status == addon.status
                || (self.drops_rollouts() && status.conditions == addon.status.conditions);
            if is_same {
                return Ok(WriteOutcome::Unchanged);
            }
            let object = addon.with_status(&status);
            let path = self.addon.path();
            match self.objects.replace_status(&path, &object).await {
                Ok(stored) => {
                    let stored = ObservabilityAddon::read(stored).status;
                    let drops_rollouts = stored.rollouts != status.rollouts;
                    self.drops_rollouts.store(drops_rollouts, Ordering::Relaxed);
                    return Ok(if stored == addon.status {
                        WriteOutcome::Unchanged
                    } else {
                        WriteOutcome::Changed
                    });
                }
                Err(error) if error.cause == ApiError::Conflict && Instant::now() < give_up => {
                    debug!("conflicting write of the status; reading it again");
                    sleep(backoff.pause(fastrand::f64())).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns true if the API server is known not to store `status.rollouts`: its CRD is of
    /// another version.
    pub(crate) fn drops_rollouts(&self) -> bool {
        self.drops_rollouts.load(Ordering::Relaxed)
    }
}
