//! The actuator `scale`: replicas of any kind with a scale subresource.

mod object;
mod resource;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{Stream, future};
use kelpie_core::prober::fence::{
    Call, Observed, Reply, ResourceVersion, TargetObject, WriteAnswer,
};
use kelpie_core::prober::{ResourceRef, Setting};
use kube::Client;
use kube::api::{GetParams, ListParams, Patch, PatchParams};
use kube::core::Request;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::annotations::{MARKER_ANNOTATION, REPLICAS_ANNOTATION};
use super::{ActuatorError, FIELD_MANAGER, LIMIT, MOST_PAGES, PAGE, TargetScope, WatchedTarget};
use crate::client::{ApiError, suppress_logs};
use crate::rbac::PolicyRule;
use crate::watch::WatchEvent;

use object::{ScaleObject, ScalePage};
use resource::ScaleResources;

/// Object and scale are read at the same time. They are read again this often if a write came in
/// between.
const ATTEMPTS: usize = 3;

/// Reads and scales targets. Each call is one request, or two at the same time, with one deadline
/// and without retries.
#[derive(Clone)]
pub struct ScaleClient {
    pub(super) client: Client,
    kinds: ScaleResources,
    limit: Duration,
}

/// One operation on one object, for messages.
#[derive(Clone, Copy)]
struct ScaleOperation<'a> {
    verb: &'static str,
    namespace: &'a str,
    target: &'a ResourceRef,
    /// The time limit for the response.
    limit: Duration,
}

impl ScaleOperation<'_> {
    fn what(&self) -> String {
        if self.namespace.is_empty() {
            self.target.to_string()
        } else {
            format!("{} in namespace {}", self.target, self.namespace)
        }
    }

    fn failed(&self, cause: ApiError) -> ActuatorError {
        ActuatorError::Request {
            verb: self.verb,
            what: self.what(),
            limit: self.limit,
            grant: "get and patch on it and on its scale",
            cause,
        }
    }
}

impl ScaleClient {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            kinds: ScaleResources::default(),
            limit: LIMIT,
        }
    }

    /// Returns the same client with this time limit for each call.
    #[must_use]
    pub fn with_limit(&self, limit: Duration) -> Self {
        Self {
            limit,
            ..self.clone()
        }
    }

    fn operation<'a>(
        &self,
        verb: &'static str,
        namespace: &'a str,
        target: &'a ResourceRef,
    ) -> ScaleOperation<'a> {
        ScaleOperation {
            verb,
            namespace,
            target,
            limit: self.limit,
        }
    }

    /// Checks that a kind exists and can be scaled. The result is remembered.
    pub async fn check_kind(&self, resource: &ResourceRef) -> Result<(), ActuatorError> {
        let operation = self.operation("find the kind of", "", resource);
        let kind = self
            .bounded(operation, self.kinds.find(&self.client, operation))
            .await;
        kind.map(|_| ())
    }

    /// Reads a target with its replicas and annotations.
    pub async fn read(
        &self,
        namespace: &str,
        target: &ResourceRef,
    ) -> Result<Observed, ActuatorError> {
        let operation = self.operation("read", namespace, target);
        match self.bounded(operation, self.read_object(operation)).await {
            Ok(present) => Ok(Observed::Present(present)),
            Err(error) if error.cause() == Some(&ApiError::NotFound) => Ok(Observed::Missing),
            Err(error) => Err(error),
        }
    }

    /// Sets the replicas through the scale subresource. The write rests on `version`.
    pub async fn scale(
        &self,
        namespace: &str,
        target: &ResourceRef,
        version: &ResourceVersion,
        replicas: Setting,
    ) -> Result<ResourceVersion, ActuatorError> {
        let patch = json!({
            "metadata": { "resourceVersion": version.as_str() },
            "spec": { "replicas": replicas },
        });
        let operation = self.operation("scale", namespace, target);
        let scale = self.patch(operation, Some("scale"), &patch).await?;
        Ok(scale.version())
    }

    /// Performs a call of a fencing flow. Every write is one patch that rests on a version. Where
    /// the object has its replicas, a fence carries its record, and a restore drops the marker.
    pub async fn perform(
        &self,
        namespace: &str,
        target: &ResourceRef,
        call: &Call,
    ) -> Result<Reply, ActuatorError> {
        let written = match call {
            Call::Read => return self.read(namespace, target).await.map(Reply::Read),
            Call::WriteRecord(record) => {
                let operation = self.operation("record the fence on", namespace, target);
                let annotations = record_of(record.setting());
                self.annotate(operation, record.version(), &annotations, None)
                    .await
            }
            Call::MoveRecord(record) => {
                let operation = self.operation("move the record to", namespace, target);
                let annotations = record_of(record.setting());
                self.annotate(operation, record.version(), &annotations, None)
                    .await
            }
            // Changes of the leader Lease.
            Call::KeepRecord(_) | Call::DropRecord(_) => return Ok(Reply::Rejected),
            Call::Fence(write) if write.carries_record() => {
                let operation = self.operation("fence", namespace, target);
                let (record, replicas) = (record_of(write.recorded()), Some(write.setting()));
                self.annotate(operation, write.version(), &record, replicas)
                    .await
            }
            Call::Restore(write) if write.drops_marker() => {
                let operation = self.operation("restore", namespace, target);
                let replicas = Some(write.setting());
                self.annotate(operation, write.version(), &no_marker(), replicas)
                    .await
            }
            Call::Fence(write) => {
                let (version, replicas) = (write.version(), write.setting());
                let version = self.scale(namespace, target, version, replicas).await;
                version.map(WriteAnswer::Version)
            }
            Call::Restore(write) => {
                let (version, replicas) = (write.version(), write.setting());
                let version = self.scale(namespace, target, version, replicas).await;
                version.map(WriteAnswer::Version)
            }
            Call::DropMarker(drop) => {
                let operation = self.operation("drop the marker of", namespace, target);
                self.annotate(operation, drop.version(), &no_marker(), None)
                    .await
            }
        };
        match written {
            Ok(answer) => Ok(Reply::Written(answer)),
            Err(error) if error.cause() == Some(&ApiError::Conflict) => Ok(Reply::Conflict),
            Err(error) => Err(error),
        }
    }

    /// Watches the targets of this name with the current client; `None` if their kind does not show
    /// the replicas. The stream never ends.
    pub(super) fn watch(
        &self,
        target: &ResourceRef,
        namespace: Option<&str>,
    ) -> Option<impl Stream<Item = WatchEvent<WatchedTarget>> + Send + use<>> {
        watch::watch(&self.client, target, namespace)
    }

    /// Sets annotations and, where the object has them, the replicas.
    async fn annotate(
        &self,
        operation: ScaleOperation<'_>,
        version: &ResourceVersion,
        annotations: &Value,
        replicas: Option<Setting>,
    ) -> Result<WriteAnswer, ActuatorError> {
        let mut patch = json!({
            "metadata": { "resourceVersion": version.as_str(), "annotations": annotations },
        });
        if let Some(replicas) = replicas {
            patch["spec"] = json!({ "replicas": replicas });
        }
        let object = self.patch(operation, None, &patch).await?;
        Ok(if operation.target.has_plain_replicas() {
            WriteAnswer::Object(object.to_target())
        } else {
            WriteAnswer::Version(object.version())
        })
    }

    async fn patch(
        &self,
        operation: ScaleOperation<'_>,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<ScaleObject, ActuatorError> {
        let patching = async {
            let kind = self.kinds.find(&self.client, operation).await?;
            let request = Request::new(kind.path(Some(operation.namespace)));
            let (name, how) = (&operation.target.name, PatchParams::apply(FIELD_MANAGER));
            let patch = Patch::Merge(patch);
            let request = match subresource {
                None => request.patch(name, &how, &patch),
                Some(subresource) => request.patch_subresource(subresource, name, &how, &patch),
            };
            self.send(operation, request).await
        };
        self.bounded(operation, patching).await
    }

    async fn read_object(
        &self,
        operation: ScaleOperation<'_>,
    ) -> Result<TargetObject, ActuatorError> {
        let kind = self.kinds.find(&self.client, operation).await?;
        let request = Request::new(kind.path(Some(operation.namespace)));
        let (name, how) = (&operation.target.name, GetParams::default());
        if kind.has_plain_counts {
            let object = self.send(operation, request.get(name, &how)).await?;
            return Ok(object.to_target());
        }
        for _ in 0..ATTEMPTS {
            let object = self.send(operation, request.get(name, &how));
            let scale = self.send(operation, request.get_subresource("scale", name));
            let (object, scale) = future::try_join(object, scale).await?;
            // Both must be of one version, or the replicas and the record do not belong together.
            if object.version() == scale.version() {
                // A Scale omits zero.
                let replicas = scale.count("/spec/replicas").unwrap_or(Setting(0));
                let ready = object.ready().or_else(|| scale.count("/status/replicas"));
                return Ok(object.to_target_with(replicas, ready.unwrap_or(Setting(0))));
            }
        }
        let reason = "it keeps changing".into();
        Err(operation.failed(ApiError::Unavailable(reason)))
    }

    /// Lists the targets of this name; `None` if a list of their kind does not show
    /// the replicas.
    pub(super) async fn list(
        &self,
        target: &ResourceRef,
    ) -> Result<Option<BTreeMap<TargetScope, TargetObject>>, ActuatorError> {
        let operation = self.operation("list all", "", target);
        let kind = self.kinds.find(&self.client, operation).await?;
        if !kind.has_plain_counts {
            return Ok(None);
        }
        let request = Request::new(kind.path(None));
        let name = format!("metadata.name={}", target.name);
        let mut how = ListParams::default().fields(&name).limit(PAGE);
        let mut found = BTreeMap::new();
        for _ in 0..MOST_PAGES {
            let page: ScalePage = self.request(operation, request.list(&how)).await?;
            let objects = page.items.iter();
            found.extend(objects.map(|object| {
                let scope = TargetScope::of_namespace(object.namespace());
                (scope, object.to_target())
            }));
            match page.metadata.continue_ {
                Some(rest) if !rest.is_empty() => how = how.continue_token(&rest),
                _ => return Ok(Some(found)),
            }
        }
        let reason = format!("there are more than {MOST_PAGES} pages of them");
        Err(operation.failed(ApiError::Unavailable(reason)))
    }

    async fn send(
        &self,
        operation: ScaleOperation<'_>,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<ScaleObject, ActuatorError> {
        let object: ScaleObject = self.request(operation, request).await?;
        // A write with an empty version would overwrite changes by others.
        if object.version().as_str().is_empty() {
            let reason = "a response without resourceVersion".into();
            return Err(operation.failed(ApiError::Unavailable(reason)));
        }
        Ok(object)
    }

    async fn request<T: DeserializeOwned>(
        &self,
        operation: ScaleOperation<'_>,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, ActuatorError> {
        let failed = |error| operation.failed(error);
        let request = request.map_err(|error| failed(ApiError::Unavailable(error.to_string())))?;
        let answer = suppress_logs(self.client.request(request)).await;
        answer.map_err(|error| {
            let error = ApiError::from(&error);
            if error == ApiError::NotFound {
                self.kinds.forget(operation.target);
            }
            failed(error)
        })
    }

    async fn bounded<T>(
        &self,
        operation: ScaleOperation<'_>,
        call: impl Future<Output = Result<T, ActuatorError>>,
    ) -> Result<T, ActuatorError> {
        let done = timeout(operation.limit, call).await;
        done.unwrap_or_else(|_| Err(operation.failed(ApiError::TimedOut)))
    }
}

/// Returns the annotations that record a fence.
fn record_of(setting: Setting) -> Value {
    json!({ REPLICAS_ANNOTATION: setting.to_string(), MARKER_ANNOTATION: "" })
}

/// Returns the change of annotations that drops the marker. The record stays.
fn no_marker() -> Value {
    json!({ MARKER_ANNOTATION: null })
}

pub(super) fn policy_rules<'a>(
    resources: impl IntoIterator<Item = &'a ResourceRef>,
    namespace: Option<&str>,
) -> Vec<PolicyRule> {
    // Objects of one name are watched, and read together while the watch is down. Both select by
    // name, so the permissions are restricted to it.
    let verbs = &["get", "list", "watch", "patch"];
    let named = |resource: &ResourceRef| (group_and_plural(resource), resource.name.clone());
    let targets: BTreeSet<_> = resources.into_iter().map(named).collect();
    let rule = |verbs, ((group, plural), name): &((String, String), String), reason| {
        PolicyRule::new(verbs, (group.as_str(), plural.as_str()), reason)
            .in_namespace(namespace)
            .named(Some(name))
    };
    let reason = "watching the targets, fencing and restoring them";
    let objects = targets.iter().map(|target| rule(verbs, target, reason));
    let reason = "fencing and restoring: setting the replicas";
    let scales = targets
        .iter()
        .map(|target| rule(&["get", "patch"], target, reason));
    objects
        .chain(scales.map(|rule| rule.subresource("scale")))
        .collect()
}

fn group_and_plural(resource: &ResourceRef) -> (String, String) {
    let group = resource.api_version.rsplit_once('/');
    let group = group.map_or("", |(group, _)| group);
    (group.to_owned(), plural(&resource.kind))
}

/// Guesses the plural as Kubernetes does. It is right for every built-in kind that can be scaled.
fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_of_kinds() {
        for (kind, resource) in [
            ("Deployment", "deployments"),
            ("StatefulSet", "statefulsets"),
            ("Proxy", "proxies"),
            ("Redis", "redises"),
        ] {
            assert_eq!(plural(kind), resource);
        }
    }
}
