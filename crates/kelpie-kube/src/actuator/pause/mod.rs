//! The actuator `pause`: the MachineHealthChecks of a cluster of Cluster API.
//!
//! A pause is an annotation. Its value says that it is ours, so it is its own record and marker: a
//! pause with another value is never lifted.

mod health_check;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use kelpie_core::prober::fence::{
    Call, Observed, PausableObject, Reply, ResourceVersion, TargetObject, WriteAnswer,
};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::timeout;

use super::{ActuatorError, FIELD_MANAGER, LIMIT, MOST_PAGES, PAGE, TargetScope, WatchedTarget};
use crate::client::{ApiError, suppress_logs};
use crate::objects::ObjectKind;
use crate::rbac::PolicyRule;
use crate::system_clock::SystemClock;
use crate::watch::{
    self, Projected, SHORT_WATCH_SECONDS, Selection, WatchEvent, WatchedResource, served,
};

use health_check::{HealthCheck, HealthChecks, OUR_PAUSE, PAUSED_ANNOTATION};

/// The reason in the value of a pause.
const REASON: &str = "silent-nodes";
/// A pause that is older than this was left behind, or belongs to a fence that is alerted on.
const PLAUSIBLE: SignedDuration = SignedDuration::from_hours(1);
/// The writes of one call that are under way at once.
const WRITES_AT_ONCE: usize = 16;

/// Reads and pauses MachineHealthChecks.
#[derive(Clone)]
pub(super) struct PauseClient {
    pub(super) client: Client,
    /// The kind in the version that the API server serves; `None` before it is known.
    kind: Arc<Mutex<Option<ObjectKind>>>,
    clock: SystemClock,
    limit: Duration,
}

/// One operation on the objects of a cluster, for messages.
#[derive(Clone, Copy)]
struct PauseOperation<'a> {
    verb: &'static str,
    scope: Option<&'a TargetScope>,
    limit: Duration,
}

impl PauseOperation<'_> {
    fn what(&self) -> String {
        let scope = self.scope.map(|TargetScope { namespace, cluster }| {
            format!(" of cluster {cluster} in namespace {namespace}")
        });
        format!("the MachineHealthChecks{}", scope.unwrap_or_default())
    }

    fn failed(&self, cause: ApiError) -> ActuatorError {
        ActuatorError::Request {
            verb: self.verb,
            what: self.what(),
            limit: self.limit,
            grant: "list, watch and patch on them",
            cause,
        }
    }
}

impl PauseClient {
    pub(super) fn new(client: Client, clock: SystemClock) -> Self {
        Self {
            client,
            kind: Arc::default(),
            clock,
            limit: LIMIT,
        }
    }

    pub(super) fn with_limit(&self, limit: Duration) -> Self {
        Self {
            limit,
            ..self.clone()
        }
    }

    fn operation<'a>(
        &self,
        verb: &'static str,
        scope: Option<&'a TargetScope>,
    ) -> PauseOperation<'a> {
        PauseOperation {
            verb,
            scope,
            limit: self.limit,
        }
    }

    /// Checks that the kind exists.
    pub(super) async fn check_kind(&self) -> Result<(), ActuatorError> {
        let operation = self.operation("find the kind of", None);
        self.bounded(operation, self.served(operation)).await?;
        Ok(())
    }

    /// Reads the MachineHealthChecks of a cluster.
    pub(super) async fn read(&self, scope: &TargetScope) -> Result<Observed, ActuatorError> {
        let operation = self.operation("list", Some(scope));
        let checks = match self.bounded(operation, self.checks(operation)).await {
            // Without the kind there is nothing to pause.
            Err(ActuatorError::UnknownKind { .. }) => return Ok(Observed::Missing),
            checks => checks?,
        };
        let own = checks.iter().filter(|check| check.scope == *scope);
        Ok(PausableObject::target(own.map(|check| &check.object)))
    }

    /// Lists the MachineHealthChecks of all clusters.
    pub(super) async fn list(&self) -> Result<BTreeMap<TargetScope, TargetObject>, ActuatorError> {
        let operation = self.operation("list", None);
        let checks = match self.bounded(operation, self.checks(operation)).await {
            Err(ActuatorError::UnknownKind { .. }) => return Ok(BTreeMap::new()),
            checks => checks?,
        };
        Ok(HealthChecks::targets(checks))
    }

    /// Performs a call of a fencing flow. Each object is changed by a patch of its own that rests
    /// on its version.
    pub(super) async fn perform(
        &self,
        scope: &TargetScope,
        call: &Call,
    ) -> Result<Reply, ActuatorError> {
        let written = match call {
            Call::Read => return self.read(scope).await.map(Reply::Read),
            Call::Fence(write) => {
                let operation = self.operation("pause", Some(scope));
                self.annotate(
                    operation,
                    write.version(),
                    Some(pause_from(self.clock.stamp())),
                )
                .await
            }
            Call::Restore(write) => {
                let operation = self.operation("resume", Some(scope));
                self.annotate(operation, write.version(), None).await
            }
            Call::DropMarker(drop) => {
                let operation = self.operation("resume", Some(scope));
                self.annotate(operation, drop.version(), None).await
            }
            // The pause is the record.
            Call::WriteRecord(_)
            | Call::MoveRecord(_)
            | Call::KeepRecord(_)
            | Call::DropRecord(_) => return Ok(Reply::Rejected),
        };
        match written {
            Ok(answer) => Ok(Reply::Written(answer)),
            Err(error) if error.cause() == Some(&ApiError::Conflict) => Ok(Reply::Conflict),
            Err(error) => Err(error),
        }
    }

    /// Watches the MachineHealthChecks, in one namespace or in all, as one target for each cluster.
    /// The stream never ends.
    pub(super) fn watch(
        &self,
        namespace: Option<&str>,
    ) -> impl Stream<Item = WatchEvent<WatchedTarget>> + Send + use<> {
        let selection = Selection {
            namespace,
            ..Selection::default()
        };
        let events = watch::watch::<HealthCheck>(&self.client, selection, SHORT_WATCH_SECONDS);
        let mut checks = HealthChecks::default();
        events.flat_map(move |event| stream::iter(checks.take_in(event)))
    }

    /// Sets the pause of all objects of a version, or lifts it.
    async fn annotate(
        &self,
        operation: PauseOperation<'_>,
        version: &ResourceVersion,
        pause: Option<String>,
    ) -> Result<WriteAnswer, ActuatorError> {
        let Some(scope) = operation.scope else {
            return Err(operation.failed(ApiError::NotFound));
        };
        let writing = async {
            let kind = self.served(operation).await?;
            let api = self.api(kind, Some(&scope.namespace));
            let members: Vec<(String, String)> = version
                .members()
                .map(|(name, version)| (name.to_owned(), version.to_owned()))
                .collect();
            let writes = members.into_iter().map(|(name, version)| {
                let patch = json!({ "metadata": {
                    "resourceVersion": version,
                    "annotations": { PAUSED_ANNOTATION: pause },
                } });
                let (api, how) = (api.clone(), PatchParams::apply(FIELD_MANAGER));
                async move { suppress_logs(api.patch(&name, &how, &Patch::Merge(patch))).await }
            });
            let written = stream::iter(writes).buffered(WRITES_AT_ONCE);
            let written: Vec<_> = written
                .map(|result| result.map(|check| check.facts.object))
                .map(|result| result.map_err(|error| ApiError::from(&error)))
                .collect()
                .await;
            merged(written).map_err(|cause| operation.failed(cause))
        };
        let objects = self.bounded(operation, writing).await?;
        match PausableObject::target(&objects) {
            Observed::Present(target) => Ok(WriteAnswer::Object(target)),
            // All of them were deleted meanwhile. Others may be there.
            Observed::Missing => Err(operation.failed(ApiError::Conflict)),
        }
    }

    async fn checks(
        &self,
        operation: PauseOperation<'_>,
    ) -> Result<Vec<HealthCheck>, ActuatorError> {
        let kind = self.served(operation).await?;
        let namespace = operation.scope.map(|scope| &*scope.namespace);
        let api = self.api(kind, namespace);
        let mut params = ListParams::default().limit(PAGE);
        let mut checks = Vec::new();
        for _ in 0..MOST_PAGES {
            let page = suppress_logs(api.list(&params)).await.map_err(|error| {
                let error = ApiError::from(&error);
                if error == ApiError::NotFound {
                    // The version may have been removed by an upgrade.
                    self.kind.lock().take();
                }
                operation.failed(error)
            })?;
            checks.extend(page.items.into_iter().map(|item| item.facts));
            match page.metadata.continue_ {
                Some(rest) if !rest.is_empty() => params = params.continue_token(&rest),
                _ => return Ok(checks),
            }
        }
        let reason = format!("there are more than {MOST_PAGES} pages of them");
        Err(operation.failed(ApiError::Unavailable(reason)))
    }

    /// Returns the kind in the newest version that is served.
    async fn served(&self, operation: PauseOperation<'_>) -> Result<ObjectKind, ActuatorError> {
        let known = *self.kind.lock();
        if let Some(kind) = known {
            return Ok(kind);
        }
        let kind = served::<HealthCheck>(&self.client).await;
        let kind = kind.map_err(|error| match error {
            ApiError::NotFound => ActuatorError::UnknownKind {
                what: operation.what(),
                kind: HealthCheck::KIND.kind.to_owned(),
                api_version: HealthCheck::KIND.api_version(),
            },
            error => operation.failed(error),
        })?;
        *self.kind.lock() = Some(kind);
        Ok(kind)
    }

    fn api(&self, kind: ObjectKind, namespace: Option<&str>) -> Api<Projected<HealthCheck>> {
        let client = self.client.clone();
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
            None => Api::all_with(client, &kind),
        }
    }

    async fn bounded<T>(
        &self,
        operation: PauseOperation<'_>,
        call: impl Future<Output = Result<T, ActuatorError>>,
    ) -> Result<T, ActuatorError> {
        let done = timeout(operation.limit, call).await;
        done.unwrap_or_else(|_| Err(operation.failed(ApiError::TimedOut)))
    }
}

/// Returns the value of a pause from this instant on.
fn pause_from(now: Timestamp) -> String {
    let until = now.saturating_add(PLAUSIBLE).unwrap_or(Timestamp::MAX);
    format!("{OUR_PAUSE}{REASON}/{until:.0}")
}

/// Returns the written objects, or the error that stands for all: first one after which a write may
/// still happen, then one that has to be resolved, last a conflict, after which all are read again.
/// An object that was deleted meanwhile is left out.
fn merged(written: Vec<Result<PausableObject, ApiError>>) -> Result<Vec<PausableObject>, ApiError> {
    let (mut objects, mut worst) = (Vec::new(), None);
    let rank = |error: &ApiError| match error {
        ApiError::TimedOut | ApiError::Unavailable(_) => 2,
        ApiError::Conflict => 0,
        _ => 1,
    };
    for result in written {
        match result {
            Ok(object) => objects.push(object),
            Err(ApiError::NotFound) => {}
            Err(error) => {
                if worst
                    .as_ref()
                    .is_none_or(|worst| rank(worst) < rank(&error))
                {
                    worst = Some(error);
                }
            }
        }
    }
    worst.map_or(Ok(objects), Err)
}

pub(super) fn policy_rule(namespace: Option<&str>) -> PolicyRule {
    let ObjectKind { group, plural, .. } = HealthCheck::KIND;
    let verbs = &["list", "watch", "patch"];
    let reason = "pausing the MachineHealthChecks of a cluster, and lifting the pauses";
    PolicyRule::new(verbs, (group, plural), reason).in_namespace(namespace)
}

#[cfg(test)]
mod tests {
    use kelpie_core::Time;
    use kelpie_core::prober::fence::PauseState;

    use super::*;

    #[test]
    fn error_after_which_a_write_may_happen_counts_most() {
        let forbidden = || ApiError::Forbidden("no".into());
        let object = PausableObject {
            name: "a".into(),
            version: "7".into(),
            state: PauseState::Ours,
        };
        for (errors, expected) in [
            (vec![], None),
            (vec![ApiError::NotFound], None),
            (vec![ApiError::Conflict], Some(ApiError::Conflict)),
            (vec![ApiError::Conflict, forbidden()], Some(forbidden())),
            (
                vec![forbidden(), ApiError::TimedOut, ApiError::Conflict],
                Some(ApiError::TimedOut),
            ),
        ] {
            let mut written = vec![Ok(object.clone())];
            written.extend(errors.into_iter().map(Err));
            let expected = expected.map_or_else(|| Ok(vec![object.clone()]), Err);
            assert_eq!(merged(written), expected);
        }
    }

    #[test]
    fn pause_tells_reason_and_end() {
        let clock = SystemClock::new(|| Time::from_micros(1_763_460_000_500_000));
        let pause = pause_from(clock.stamp());
        assert_eq!(pause, "kelpie/silent-nodes/2025-11-18T11:00:00Z");
    }
}
