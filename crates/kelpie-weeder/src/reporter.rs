//! Reports on a namespace: in the log, the metrics, Events and on the state page.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::weeder::{Deletion, DeletionResult, ServiceRef, Skip, SkipReason, Windows};
use kelpie_kube::client::ApiError;
use kelpie_kube::events::{EventRecorder, EventType, NewEvent, ObjectRef};
use kelpie_kube::resources::DeleteError;
use kelpie_kube::watch::WatchError;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::metrics::{WeederMetrics, skip_cause};
use crate::state_page::{LastAction, ServiceState, ServiceStatePage};

/// The longest time that a deletion waits for its Event, which usually takes a few milliseconds.
const EVENT_TIMEOUT: Duration = Duration::from_millis(200);

/// The metrics, the state page and the Event recorder that all namespaces share.
#[derive(Clone)]
pub(crate) struct WeederTelemetry {
    pub(crate) metrics: WeederMetrics,
    pub(crate) state_page: ServiceStatePage,
    /// `None` in a dry run, which writes nothing to the seed.
    pub(crate) events: Option<EventRecorder>,
}

/// Reports on one namespace. Repeated errors are logged once.
pub(crate) struct WeederReporter {
    namespace: Arc<str>,
    telemetry: WeederTelemetry,
    /// The services with an open window.
    open: BTreeSet<String>,
    /// The last error of the watch on pods, until it recovers.
    watch_error: Option<String>,
    /// The last error of a deletion, until one is answered without an error.
    delete_error: Option<DeleteError>,
}

impl WeederReporter {
    pub(crate) fn new(namespace: Arc<str>, telemetry: WeederTelemetry) -> Self {
        Self {
            namespace,
            telemetry,
            open: BTreeSet::new(),
            watch_error: None,
            delete_error: None,
        }
    }

    pub(crate) fn opened(&mut self, service: &str, again: bool) {
        let (namespace, what) = (&*self.namespace, if again { "restarted" } else { "opened" });
        info!(namespace, service, "window {what}");
        if self.open.insert(service.to_owned()) {
            self.telemetry.metrics.active_windows.inc();
        }
    }

    pub(crate) fn closed(&mut self, service: &str) {
        if !self.open.remove(service) {
            return;
        }
        if self.open.is_empty() {
            self.watch_error = None;
        }
        let namespace = &*self.namespace;
        info!(namespace, service, "window closed");
        self.telemetry.metrics.active_windows.dec();
        self.update(service, |state| state.window = None);
    }

    /// Shows the open windows on the state page.
    pub(crate) fn show(&self, windows: &Windows) {
        for (service, summary) in windows.services() {
            self.update(service, |state| state.window = Some(summary));
        }
    }

    /// Reports an error of the watch on pods.
    pub(crate) fn watch_failed(&mut self, error: &WatchError) {
        self.telemetry.metrics.watch_failures.inc();
        let text = error.to_string();
        if self.watch_error.as_ref() != Some(&text) {
            let namespace = &*self.namespace;
            warn!(namespace, "watch on pods failed; retrying: {text}");
            self.watch_error = Some(text);
        }
    }

    /// Marks the watch as working. Its next error is logged, even if it is the same.
    pub(crate) fn watch_restored(&mut self) {
        self.watch_error = None;
    }

    /// Reports a pod that is about to be deleted. The deletion has to wait for the returned future,
    /// so that the evidence is published first.
    pub(crate) fn deleting(&self, deletion: &Deletion) -> impl Future<Output = ()> + use<> {
        let (service, pod) = (&deletion.service, &deletion.pod);
        let (owner, crash) = (&deletion.owner, &deletion.crash);
        let namespace = &*self.namespace;
        info!(namespace, service, pod, %owner, "deleting pod: {crash}");
        let event = NewEvent {
            about: self.pod(pod, &deletion.uid),
            kind: EventType::Normal,
            reason: "Weeded",
            message: format!(
                "Deleted so that {owner} creates a new pod at once: {service} is back, but this \
                 pod waits in CrashLoopBackOff: {crash}"
            ),
            action: "Delete",
        };
        let events = self.telemetry.events.clone();
        async move {
            if let Some(events) = events {
                // Best effort: the log has the evidence too.
                let _ = timeout(EVENT_TIMEOUT, events.deliver(event)).await;
            }
        }
    }

    /// Reports the result of a deletion.
    pub(crate) fn completed(
        &mut self,
        deletion: &Deletion,
        result: &Result<(), DeleteError>,
        now: Time,
    ) {
        let (namespace, metrics) = (&*self.namespace, &self.telemetry.metrics);
        let Deletion { service, pod, .. } = deletion;
        let what = match result {
            Ok(()) => {
                let after = deletion.recovered.map(|recovered| now.since(recovered));
                metrics.deleted(service, after);
                if let Some(after) = after {
                    let after = after.as_secs_f64();
                    info!(
                        namespace,
                        service, pod, after, "pod deleted {after:.2} s after the recovery"
                    );
                } else {
                    info!(namespace, service, pod, "pod deleted");
                }
                "deleted"
            }
            Err(DeleteError(ApiError::Conflict)) => {
                metrics.changed(service);
                info!(
                    namespace,
                    service, pod, "pod not deleted: it has changed meanwhile"
                );
                "not deleted: it has changed meanwhile"
            }
            Err(DeleteError(ApiError::NotFound)) => {
                info!(namespace, service, pod, "pod not deleted: already gone");
                "already gone"
            }
            Err(error) => {
                metrics.failed(service);
                if self.delete_error.as_ref() != Some(error) {
                    warn!(
                        namespace,
                        service, pod, "pod not deleted; retrying: {error}"
                    );
                    self.delete_error = Some(error.clone());
                }
                return;
            }
        };
        self.delete_error = None;
        let last = LastAction {
            at: now,
            pod: pod.clone(),
            what: what.to_owned(),
            why: deletion.crash.to_string(),
        };
        self.update(service, |state| state.remember(last));
    }

    /// Reports a crash-looping pod that is not deleted.
    pub(crate) fn skipped(&self, skip: &Skip, now: Time) {
        let (namespace, metrics) = (&*self.namespace, &self.telemetry.metrics);
        let (service, cause, deletions) = (&skip.service, skip.cause, skip.deletions);
        metrics.skipped(service, skip_cause(cause));
        let (pod, name) = (&skip.pod, &skip.pod.name);
        let evidence = pod
            .crash
            .as_ref()
            .map_or_else(String::new, ToString::to_string);
        match cause {
            // Nothing to report: the pod was deleted, by the weeder or by another client.
            SkipReason::Terminating => return,
            SkipReason::Ownerless => {
                warn!(
                    namespace,
                    service,
                    pod = name,
                    "pod not deleted: {cause}: {evidence}"
                );
                let message = format!(
                    "Not deleted although {service} is back: {cause}. This pod waits in \
                     CrashLoopBackOff: {evidence}"
                );
                self.publish_warning(self.pod(name, &pod.uid), "NotWeeded", message);
            }
            SkipReason::Capped => {
                let Some(owner) = &pod.owner else { return };
                warn!(
                    namespace,
                    service,
                    pod = name,
                    deletions,
                    %owner,
                    "gave up on this owner until {service} recovers again: {cause}: {evidence}"
                );
                let about = ObjectRef {
                    api_version: owner.api_version.clone(),
                    kind: owner.kind.clone(),
                    namespace: self.namespace.to_string(),
                    name: owner.name.clone(),
                    uid: Some(owner.uid.clone()),
                };
                let message = format!(
                    "Gave up after {deletions} deletions: {service} is back, but pods still end in \
                     CrashLoopBackOff. Pod {name}: {evidence}"
                );
                self.publish_warning(about, "WeedingGaveUp", message);
            }
            SkipReason::DryRun => {
                info!(
                    namespace,
                    service,
                    pod = name,
                    "dry run: would delete: {evidence}"
                );
            }
        }
        let last = LastAction {
            at: now,
            pod: name.clone(),
            what: format!("not deleted: {cause}"),
            why: evidence,
        };
        self.update(service, |state| state.remember(last));
    }

    fn update(&self, service: &str, change: impl FnOnce(&mut ServiceState)) {
        let service = ServiceRef {
            namespace: self.namespace.to_string(),
            name: service.to_owned(),
        };
        self.telemetry.state_page.update(&service, change);
    }

    fn pod(&self, name: &str, uid: &str) -> ObjectRef {
        ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: self.namespace.to_string(),
            name: name.to_owned(),
            uid: Some(uid.to_owned()),
        }
    }

    /// Publishes a Warning Event.
    fn publish_warning(&self, about: ObjectRef, reason: &'static str, message: String) {
        if let Some(events) = &self.telemetry.events {
            events.publish(NewEvent {
                about,
                kind: EventType::Warning,
                reason,
                message,
                action: reason,
            });
        }
    }
}

/// Closes the windows, even if the worker panicked.
impl Drop for WeederReporter {
    fn drop(&mut self) {
        for service in std::mem::take(&mut self.open) {
            self.telemetry.metrics.active_windows.dec();
            self.update(&service, |state| state.window = None);
        }
    }
}

/// Translates the result of a request for the windows.
pub(crate) fn outcome(result: &Result<(), DeleteError>) -> DeletionResult {
    match result {
        Ok(()) => DeletionResult::Deleted,
        Err(DeleteError(ApiError::Conflict)) => DeletionResult::Changed,
        Err(DeleteError(ApiError::NotFound)) => DeletionResult::Gone,
        Err(DeleteError(cause)) if cause.denied().is_some() => DeletionResult::Refused,
        Err(_) => DeletionResult::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn watch_error_is_new_again_after_recovery() {
        let telemetry = WeederTelemetry {
            metrics: WeederMetrics::new(&mut Registry::default(), std::iter::empty()),
            state_page: ServiceStatePage::default(),
            events: None,
        };
        let mut reporter = WeederReporter::new("shoot".into(), telemetry);
        let denied = WatchError {
            what: "pods".into(),
            server: None,
            cause: ApiError::Forbidden("no".into()),
        };
        reporter.opened("etcd", false);
        reporter.opened("api", false);
        reporter.watch_failed(&denied);
        assert!(reporter.watch_error.is_some());
        reporter.closed("api");
        assert!(reporter.watch_error.is_some(), "it is still needed");
        reporter.watch_restored();
        assert_eq!(reporter.watch_error, None);
        reporter.watch_failed(&denied);
        reporter.closed("etcd");
        assert_eq!(reporter.watch_error, None, "in another window");
    }
}
