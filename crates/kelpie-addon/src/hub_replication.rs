//! Replication of the spoke's status to the hub's addon.
//!
//! It runs in its own task, so the spoke never waits for the hub. It knows only the newest status:
//! after an outage, the hub gets that and none of the earlier ones.

use std::time::Duration;

use kelpie_core::addon::{AddonStatus, Condition};
use kelpie_kube::client::ApiError;
use kelpie_kube::events::EventType;
use kelpie_kube::objects::ObjectError;
use serde::Serialize;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::addon::{AddonRef, ObservabilityAddon};
use crate::backoff::Backoff;
use crate::context::{AddonEventRecorder, LeadershipWatch};
use crate::finalizer::SpokeCleanup;
use crate::hub_client::HubClient;
use crate::metrics::HubMetrics;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The upper limit for the hub's `Retry-After`.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(10);
/// The number of attempts after conflicts on the hub.
const MAX_ATTEMPTS: usize = 5;

/// The spoke's addon as last read.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpokeState {
    /// `None` if the addon does not exist or was not read yet.
    pub(crate) status: Option<AddonStatus>,
    /// True once the spoke was read.
    pub(crate) is_known: bool,
    /// Incremented at every resync, which starts a synchronization even if the status is the same.
    pub(crate) resyncs: u64,
}

/// The state of the replication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ReplicationState {
    /// No synchronization has run yet.
    #[default]
    Unknown,
    /// The hub has the spoke's status.
    Current,
    /// The spoke has no addon.
    NothingToReplicate,
    /// The hub has no addon for this cluster.
    Missing,
    /// The hub's addon is being deleted.
    #[serde(rename = "going")]
    Terminating,
    /// The last synchronization failed with this error.
    Failing(String),
}

/// The outcome of a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncOutcome {
    /// The status was written.
    Written,
    /// The hub had the same status already.
    Equal,
    /// The spoke has no addon.
    NothingToReplicate,
    /// The hub has no addon for this cluster.
    Missing,
    /// The hub's addon is being deleted.
    Terminating,
}

/// The reason why a synchronization failed.
#[derive(Debug, Error)]
enum SyncError {
    #[error(transparent)]
    Client(#[from] kelpie_kube::client::ClientError),
    #[error(transparent)]
    Call(#[from] ObjectError),
}

/// Copies the spoke's status to the hub's addon.
pub(crate) struct HubReplication {
    pub(crate) client: HubClient,
    pub(crate) addon: AddonRef,
    pub(crate) spoke: watch::Receiver<SpokeState>,
    pub(crate) state: watch::Sender<ReplicationState>,
    pub(crate) leadership: LeadershipWatch,
    pub(crate) events: AddonEventRecorder,
    pub(crate) metrics: HubMetrics,
    pub(crate) cleanup: SpokeCleanup,
}

impl HubReplication {
    /// Runs until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let spoke = self.spoke.borrow_and_update().clone();
            // A standby does not write to the hub. It is woken when it becomes leader.
            let pause = if spoke.is_known && self.leadership.may_decide() {
                let result = self.sync(&spoke).await;
                self.finish(result, &mut backoff).await
            } else {
                None
            };
            let rest = async {
                match pause {
                    // Changes of the spoke do not shorten the pause, which protects the hub.
                    Some(pause) => sleep(pause).await,
                    None => {
                        tokio::select! {
                            biased;
                            changed = self.spoke.changed() => {
                                if changed.is_err() {
                                    std::future::pending::<()>().await;
                                }
                            }
                            () = self.leadership.changed() => {}
                        }
                    }
                }
            };
            rest.await;
        }
    }

    /// Publishes the result of a synchronization. Returns the pause before the next one, or `None`
    /// to wait for a change.
    async fn finish(
        &mut self,
        result: Result<SyncOutcome, SyncError>,
        backoff: &mut Backoff,
    ) -> Option<Duration> {
        self.metrics.synced(&result);
        if !matches!(result, Err(_) | Ok(SyncOutcome::Terminating)) {
            backoff.reset();
        }
        let (state, pause) = match result {
            Ok(SyncOutcome::Written | SyncOutcome::Equal) => (ReplicationState::Current, None),
            Ok(SyncOutcome::NothingToReplicate) => (ReplicationState::NothingToReplicate, None),
            Ok(SyncOutcome::Missing) => (ReplicationState::Missing, None),
            Ok(SyncOutcome::Terminating) => {
                // The clean-up is polled: nothing else would start the next step.
                let pause = backoff.pause(fastrand::f64());
                (ReplicationState::Terminating, Some(pause))
            }
            Err(error) => {
                let pause = self.handle_error(&error, backoff).await;
                (ReplicationState::Failing(error.to_string()), pause)
            }
        };
        self.announce(&state);
        self.state.send_replace(state);
        pause
    }

    /// Rebuilds the client if that may help. Returns the pause before the next attempt.
    async fn handle_error(&mut self, error: &SyncError, backoff: &mut Backoff) -> Option<Duration> {
        let pause = backoff.pause(fastrand::f64());
        let cause = match error {
            SyncError::Client(_) => return Some(pause),
            SyncError::Call(error) => &error.cause,
        };
        match cause {
            // A Retry-After of zero would make this a busy loop.
            ApiError::Throttled(Some(after)) if !after.is_zero() => {
                Some((*after).min(LONGEST_RETRY_AFTER))
            }
            // The same status would be rejected again.
            ApiError::Invalid { .. } | ApiError::Expired => None,
            ApiError::Throttled(_) | ApiError::Conflict | ApiError::NotFound => Some(pause),
            ApiError::Unauthorized(_)
            | ApiError::Forbidden(_)
            | ApiError::Tls(_)
            | ApiError::TimedOut
            | ApiError::Webhook(_)
            | ApiError::Unavailable(_) => {
                self.client.reconnect().await;
                Some(pause)
            }
        }
    }

    /// Logs a change of the state, once. A failure is also published as an Event.
    fn announce(&self, state: &ReplicationState) {
        let before = self.state.borrow().clone();
        if std::mem::discriminant(&before) == std::mem::discriminant(state) {
            return;
        }
        let namespace = &self.addon.namespace;
        match state {
            ReplicationState::Unknown => {}
            ReplicationState::Current => info!(namespace, "the hub has the spoke's status"),
            ReplicationState::NothingToReplicate => {
                info!(
                    namespace,
                    "the spoke has no addon, so the hub's status stays as it is"
                );
            }
            ReplicationState::Missing => warn!(
                namespace,
                "the hub has no addon for this cluster; retrying at every resync"
            ),
            ReplicationState::Terminating => {
                info!(
                    namespace,
                    "the addon was deleted on the hub; cleaning up the spoke"
                );
            }
            ReplicationState::Failing(error) => {
                warn!(
                    namespace,
                    "cannot replicate the status to the hub; retrying: {error}"
                );
                let message = format!("cannot replicate the status to the hub: {error}");
                self.events
                    .publish(EventType::Warning, "HubBehind", "Replicate", message);
            }
        }
    }

    async fn sync(&mut self, spoke: &SpokeState) -> Result<SyncOutcome, SyncError> {
        let hub = self.client.objects().await?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Some(object) = hub.get(&self.addon.path()).await? else {
                return Ok(SyncOutcome::Missing);
            };
            let hub_addon = ObservabilityAddon::read(object);
            if hub_addon.is_terminating {
                if !self.leadership.is_dry_run {
                    self.cleanup.advance(&hub, &self.addon, &hub_addon).await?;
                }
                return Ok(SyncOutcome::Terminating);
            }
            let Some(status) = &spoke.status else {
                return Ok(SyncOutcome::NothingToReplicate);
            };
            if is_current(&hub_addon, status) {
                return Ok(SyncOutcome::Equal);
            }
            if self.leadership.is_dry_run {
                info!("dry run: the status on the hub would be replaced");
                return Ok(SyncOutcome::Equal);
            }
            let (path, object) = (self.addon.path(), hub_addon.with_status(status));
            match hub.replace_status(&path, &object).await {
                Ok(_) => return Ok(SyncOutcome::Written),
                Err(error) if error.cause == ApiError::Conflict && attempts < MAX_ATTEMPTS => {}
                Err(error) if error.cause == ApiError::NotFound => {
                    return Ok(SyncOutcome::Missing);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns true if the hub's addon has the conditions of `status`. Other fields do not count: a CRD
/// on the hub that prunes them would never be current.
fn is_current(hub_addon: &ObservabilityAddon, status: &AddonStatus) -> bool {
    let has_list = hub_addon.object()["status"]["conditions"].is_array();
    let on_hub = &hub_addon.status.conditions;
    let is_on_hub = |condition: &Condition| on_hub.iter().any(|it| it.is_equivalent(condition));
    has_list && on_hub.len() == status.conditions.len() && status.conditions.iter().all(is_on_hub)
}
