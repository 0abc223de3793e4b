//! Events about a cluster and its targets.

use std::sync::Arc;

use kelpie_kube::events::{EventRecorder, EventType, NewEvent, ObjectRef};

use super::ProbeReporter;

/// The recorder for Events.
#[derive(Clone)]
pub(crate) struct ClusterEventSink {
    pub(crate) events: EventRecorder,
    /// The namespace of Events about clusters whose objects are cluster-scoped.
    pub(crate) namespace: Arc<str>,
}

impl ProbeReporter {
    pub(super) fn record_cluster_event(
        &self,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        if let Some(sink) = &self.events {
            let mut about = self.cluster.object.clone();
            if about.namespace.is_empty() {
                about.namespace = sink.namespace.to_string();
            }
            self.record(about, kind, reason, message);
        }
    }

    pub(super) fn record(
        &self,
        about: ObjectRef,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        if let Some(sink) = &self.events {
            sink.events.publish(NewEvent {
                about,
                kind,
                reason,
                message,
                action: reason,
            });
        }
    }
}

/// Starts a text with a capital, as messages of Events do.
pub(super) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next();
    let first = first.into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}
