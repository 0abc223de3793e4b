//! Events about a cluster and its targets.

use std::sync::Arc;

use kelpie_kube::events::{EventRecorder, EventType, NewEvent, ObjectRef};

use super::ProbeReporter;
use crate::source::ClusterSource;

/// The recorder for Events, and the source of the objects that Events about a cluster refer to.
#[derive(Clone)]
pub(crate) struct ClusterEventSink {
    pub(crate) events: EventRecorder,
    /// The namespace of Events about clusters, whose objects have none.
    pub(crate) namespace: Arc<str>,
    pub(crate) source: Arc<dyn ClusterSource>,
}

impl ProbeReporter {
    pub(super) fn record_cluster_event(
        &self,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        if let Some(sink) = &self.events {
            let mut about = sink.source.cluster_object(&self.cluster);
            about.namespace = sink.namespace.to_string();
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
