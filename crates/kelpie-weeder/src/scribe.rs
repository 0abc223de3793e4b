//! Tells people what is done in a namespace: log, metrics, Events, the board.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::weeder::{Cause, Deletion, Outcome, ServiceRef, Skip, Windows};
use kelpie_kube::seed::{DeleteError, Events, Note, NoteKind, ObjectRef, WatchError};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::board::{Board, Last, ServiceState};
use crate::metrics::Metrics;

/// A deletion waits this long for its Event, which is a few milliseconds as a rule.
const EVENT_PATIENCE: Duration = Duration::from_millis(200);

/// What all namespaces tell to.
#[derive(Clone)]
pub(crate) struct Audience {
    pub(crate) metrics: Metrics,
    pub(crate) board: Board,
    /// `None`: nothing is written to the seed.
    pub(crate) events: Option<Events>,
}

/// The chronicler of one namespace.
pub(crate) struct Scribe {
    namespace: Arc<str>,
    audience: Audience,
    /// Services with an open window.
    open: BTreeSet<String>,
    /// What the watches of a service complain about, until it is over.
    complaints: BTreeMap<String, String>,
    /// Why deletions fail now.
    trouble: Option<DeleteError>,
}

impl Scribe {
    pub(crate) fn new(namespace: Arc<str>, audience: Audience) -> Self {
        Self {
            namespace,
            audience,
            open: BTreeSet::new(),
            complaints: BTreeMap::new(),
            trouble: None,
        }
    }

    pub(crate) fn opened(&mut self, service: &str, again: bool) {
        let (namespace, what) = (&*self.namespace, if again { "restarted" } else { "opened" });
        info!(namespace, service, "window {what}");
        if self.open.insert(service.to_owned()) {
            self.audience.metrics.active_windows.inc();
        }
    }

    pub(crate) fn closed(&mut self, service: &str) {
        self.complaints.remove(service);
        if !self.open.remove(service) {
            return;
        }
        let namespace = &*self.namespace;
        info!(namespace, service, "window closed");
        self.audience.metrics.active_windows.dec();
        self.update(service, |state| state.window = None);
    }

    /// How the open windows stand.
    pub(crate) fn show(&self, windows: &Windows) {
        for (service, sum) in windows.services() {
            self.update(service, |state| state.window = Some(sum));
        }
    }

    /// A watch on pods broke.
    pub(crate) fn watch_failed(&mut self, service: &str, error: &WatchError) {
        self.audience.metrics.watch_failures.inc();
        let text = error.to_string();
        if self.is_news(service, &text) {
            let namespace = &*self.namespace;
            warn!(
                namespace,
                service, "the watch on pods broke and is begun again: {text}"
            );
        }
    }

    /// A watch on pods is well again: what breaks it next is told, whatever that is.
    pub(crate) fn watch_restored(&mut self, service: &str) {
        self.complaints.remove(service);
    }

    /// Whether the watches of a service did not complain about the same just before.
    fn is_news(&mut self, service: &str, text: &str) -> bool {
        let before = self.complaints.insert(service.to_owned(), text.to_owned());
        before.as_deref() != Some(text)
    }

    /// A pod is about to be deleted: the evidence goes first.
    pub(crate) fn deleting(&self, deletion: &Deletion) -> impl Future<Output = ()> + use<> {
        let Deletion {
            service,
            pod,
            owner,
            crash,
            ..
        } = deletion;
        let namespace = &*self.namespace;
        info!(namespace, service, pod, %owner, "deleting: {crash}");
        let note = Note {
            about: self.pod(pod, &deletion.uid),
            kind: NoteKind::Normal,
            reason: "Weeded",
            message: format!(
                "deleted, so that {owner} makes a new one at once: {service} is back, and this pod \
                 waits in CrashLoopBackOff: {crash}"
            ),
            action: "Delete",
        };
        let events = self.audience.events.clone();
        async move {
            if let Some(events) = events {
                // Best effort: the evidence stands in the log as well.
                let _ = timeout(EVENT_PATIENCE, events.deliver(note)).await;
            }
        }
    }

    /// What came of it.
    pub(crate) fn settled(
        &mut self,
        deletion: &Deletion,
        result: &Result<(), DeleteError>,
        now: Time,
    ) {
        let (namespace, metrics) = (&*self.namespace, &self.audience.metrics);
        let Deletion { service, pod, .. } = deletion;
        let what = match result {
            Ok(()) => {
                let after = now.since(deletion.recovered);
                metrics.deleted(service, after);
                let after = after.as_secs_f64();
                info!(namespace, service, pod, after, "deleted");
                "deleted"
            }
            Err(DeleteError::Changed) => {
                metrics.changed(service);
                info!(
                    namespace,
                    service, pod, "not deleted: it has changed meanwhile"
                );
                "not deleted: it has changed meanwhile"
            }
            Err(DeleteError::Gone) => {
                info!(namespace, service, pod, "not deleted: it is gone already");
                "gone already"
            }
            Err(error) => {
                metrics.failed(service);
                if self.trouble.as_ref() != Some(error) {
                    warn!(namespace, service, pod, "not deleted, tried again: {error}");
                    self.trouble = Some(error.clone());
                }
                return;
            }
        };
        self.trouble = None;
        let last = Last {
            at: now,
            pod: pod.clone(),
            what: what.to_owned(),
            why: deletion.crash.to_string(),
        };
        self.update(service, |state| state.remember(last));
    }

    /// A pod is passed over.
    pub(crate) fn skipped(&self, skip: &Skip, now: Time) {
        let namespace = &*self.namespace;
        let Skip {
            service,
            cause,
            pod,
            deletions,
        } = skip;
        self.audience.metrics.skipped(service, *cause);
        let name = &pod.name;
        let evidence = pod.crash.as_ref().map(ToString::to_string);
        let evidence = evidence.unwrap_or_default();
        match cause {
            // Nothing to see: it was deleted, by us or by somebody else.
            Cause::Leaving => return,
            Cause::Ownerless => {
                warn!(
                    namespace,
                    service,
                    pod = name,
                    "not deleted: {cause}: {evidence}"
                );
                let message = format!(
                    "not deleted, although {service} is back: {cause}. It waits in \
                     CrashLoopBackOff: {evidence}"
                );
                self.tell(self.pod(name, &pod.uid), "NotWeeded", message);
            }
            Cause::Capped => {
                let Some(owner) = &pod.owner else { return };
                warn!(
                    namespace,
                    service,
                    pod = name,
                    deletions,
                    %owner,
                    "gave up until {service} comes back once more: {cause}: {evidence}"
                );
                let about = ObjectRef {
                    api_version: owner.api_version.clone(),
                    kind: owner.kind.clone(),
                    namespace: self.namespace.to_string(),
                    name: owner.name.clone(),
                    uid: Some(owner.uid.clone()),
                };
                let message = format!(
                    "gave up after {deletions} deletions: {service} is back, and pods still end in \
                     CrashLoopBackOff. {name}: {evidence}"
                );
                self.tell(about, "WeedingGaveUp", message);
            }
            Cause::DryRun => {
                info!(
                    namespace,
                    service,
                    pod = name,
                    "dry run: would delete: {evidence}"
                );
            }
        }
        let last = Last {
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
        self.audience.board.update(&service, change);
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

    fn tell(&self, about: ObjectRef, reason: &'static str, message: String) {
        if let Some(events) = &self.audience.events {
            events.publish(Note {
                about,
                kind: NoteKind::Warning,
                reason,
                message,
                action: reason,
            });
        }
    }
}

/// However the task ended, its windows are over.
impl Drop for Scribe {
    fn drop(&mut self) {
        for service in std::mem::take(&mut self.open) {
            self.audience.metrics.active_windows.dec();
            self.update(&service, |state| state.window = None);
        }
    }
}

/// What the windows make of an answer.
pub(crate) fn outcome(result: &Result<(), DeleteError>) -> Outcome {
    match result {
        Ok(()) => Outcome::Deleted,
        Err(DeleteError::Changed) => Outcome::Changed,
        Err(DeleteError::Gone) => Outcome::Gone,
        Err(DeleteError::Denied { .. }) => Outcome::Refused,
        Err(DeleteError::Unavailable { .. }) => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn an_outage_of_a_watch_is_told_once_and_the_next_one_again() {
        let audience = Audience {
            metrics: Metrics::new(&mut Registry::default(), std::iter::empty()),
            board: Board::default(),
            events: None,
        };
        let mut scribe = Scribe::new("shoot".into(), audience);
        assert!(scribe.is_news("etcd", "refused"));
        assert!(!scribe.is_news("etcd", "refused"));
        assert!(scribe.is_news("etcd", "denied"));
        scribe.watch_restored("other");
        assert!(!scribe.is_news("etcd", "denied"));
        scribe.watch_restored("etcd");
        assert!(scribe.is_news("etcd", "denied"));
        scribe.closed("etcd");
        assert!(scribe.is_news("etcd", "denied"), "of another window");
    }
}
