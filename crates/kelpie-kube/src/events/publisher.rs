//! Sends queued Events to the API server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::queue::event_namespace;
use super::{EventType, NewEvent, QueuedEvent, RecorderState};
use crate::client::ApiError;
use crate::client::suppress_logs;

/// Equal Events within this time are aggregated into one Event with a count.
const AGGREGATION_WINDOW: Duration = Duration::from_mins(10);
/// The maximum number of Events that are remembered for aggregation.
const MAX_REMEMBERED: usize = 8192;
/// The API server rejects longer messages.
const MAX_MESSAGE_BYTES: usize = 1024;
/// Leaves room for the suffix that the API server generates.
const MAX_PREFIX_CHARS: usize = 200;

/// Sends Events one after the other.
pub(super) struct EventPublisher {
    state: Arc<RecorderState>,
    /// The Event that is being sent. It is kept here so that a cancelled call does not lose it.
    current: Option<QueuedEvent>,
    /// By [`aggregation_key`].
    published: HashMap<NewEvent, PublishedEvent>,
}

/// An Event on the API server.
struct PublishedEvent {
    /// The name that the API server generated.
    name: String,
    count: u64,
    until: Instant,
}

impl EventPublisher {
    pub(super) fn new(state: Arc<RecorderState>) -> Self {
        Self {
            state,
            current: None,
            published: HashMap::new(),
        }
    }

    /// Sends all queued Events. With `wait`, it waits for further ones and never returns.
    pub(super) async fn publish_all(&mut self, wait: bool) {
        loop {
            if self.current.is_none() {
                self.current = self.state.queue.lock().pop();
            }
            let event = self.current.as_ref().map(|queued| queued.event.clone());
            match event {
                Some(event) => {
                    self.publish(&event).await;
                    self.current = None;
                }
                None if wait => self.state.pushed.notified().await,
                None => return,
            }
        }
    }

    async fn publish(&mut self, event: &NewEvent) {
        let now = Instant::now();
        self.published.retain(|_, published| published.until > now);
        let namespace = event_namespace(&event.about);
        match self.create_or_count(event, namespace, now).await {
            Ok(()) => {
                let mut queue = self.state.queue.lock();
                queue.refusals.record_accepted(namespace);
            }
            Err(error) => self.report(event, namespace, &error),
        }
    }

    async fn create_or_count(
        &mut self,
        event: &NewEvent,
        namespace: &str,
        now: Instant,
    ) -> Result<(), ApiError> {
        let request = Request::new(format!("/api/v1/namespaces/{namespace}/events"));
        let key = aggregation_key(event);
        if let Some(published) = self.published.get_mut(&key) {
            let patch = json!({
                "count": published.count + 1,
                "lastTimestamp": seconds(self.state.clock.stamp()),
                "message": shortened(&event.message),
            });
            let params = PatchParams::default();
            let request = request.patch(&published.name, &params, &Patch::Merge(&patch));
            match self.state.send(request).await {
                Ok(_) => {
                    published.count += 1;
                    return Ok(());
                }
                // The API server deletes Events after a while, an hour by default.
                Err(ApiError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        let event = self
            .state
            .event_json(event, namespace, self.state.clock.stamp());
        let body = serde_json::to_vec(&event);
        let body = body.map_err(|error| ApiError::Unavailable(error.to_string()))?;
        let request = request.create(&PostParams::default(), body);
        let created = self.state.send(request).await?;
        if self.published.len() < MAX_REMEMBERED {
            let published = PublishedEvent {
                name: created.metadata.name,
                count: 1,
                until: now + AGGREGATION_WINDOW,
            };
            self.published.insert(key, published);
        }
        Ok(())
    }

    fn report(&self, event: &NewEvent, namespace: &str, error: &ApiError) {
        // A missing permission stays missing for long. Credentials that are not accepted (401) may
        // be accepted again at once, for example after a rotation.
        let ApiError::Forbidden(reason) = error else {
            self.state.queue.lock().dropped.failed += 1;
            debug!(namespace, reason = event.reason, %error, "cannot record an Event");
            return;
        };
        let now = Instant::now();
        let is_first = self.state.queue.lock().record_refused(namespace, now);
        if is_first {
            warn!(
                namespace,
                reason,
                "Events are refused in this namespace and will not be sent; grant create and \
                 patch on events. Further namespaces that refuse Events are only counted"
            );
        }
    }
}

/// The fields of a response that are used.
#[derive(Deserialize)]
struct CreatedEvent {
    metadata: CreatedEventMetadata,
}

#[derive(Deserialize)]
struct CreatedEventMetadata {
    name: String,
}

impl RecorderState {
    async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<CreatedEvent, ApiError> {
        let request = request.map_err(|error| ApiError::Unavailable(error.to_string()))?;
        // There is no timeout here: waiting in the rate limiter is not a failure, and the client
        // has a timeout for the API server itself.
        let response = suppress_logs(self.client.request(request)).await;
        response.map_err(|error| ApiError::from(&error))
    }

    fn event_json(&self, event: &NewEvent, namespace: &str, now: Timestamp) -> Value {
        let about = &event.about;
        let prefix: String = about.name.chars().take(MAX_PREFIX_CHARS).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "namespace": namespace, "generateName": format!("{prefix}.") },
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid.as_deref().unwrap_or_default(),
            },
            "type": match event.kind {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            },
            "reason": event.reason,
            "action": event.action,
            "message": shortened(&event.message),
            "count": 1,
            "firstTimestamp": seconds(now),
            "lastTimestamp": seconds(now),
            "source": { "component": self.component },
            "reportingComponent": self.component,
            "reportingInstance": self.instance,
        })
    }
}

/// Returns the key by which equal Events are aggregated. They may have different counts and times
/// in their messages.
fn aggregation_key(event: &NewEvent) -> NewEvent {
    let letters = event.message.chars().filter(|c| !c.is_ascii_digit());
    NewEvent {
        message: letters.collect(),
        ..event.clone()
    }
}

/// Formats a time as the API requires it in these fields, in whole seconds.
fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn shortened(message: &str) -> &str {
    &message[..message.floor_char_boundary(MAX_MESSAGE_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::super::ObjectRef;
    use super::*;

    fn event(message: &str) -> NewEvent {
        NewEvent {
            about: ObjectRef::default(),
            kind: EventType::Normal,
            reason: "Released",
            message: message.to_owned(),
            action: "ScaleUp",
        }
    }

    #[test]
    fn events_with_other_numbers_are_equal() {
        assert_eq!(
            aggregation_key(&event("3 of 4 nodes")),
            aggregation_key(&event("12 of 40 nodes"))
        );
        assert_ne!(
            aggregation_key(&event("3 of 4 nodes")),
            aggregation_key(&event("3 of 4 leases"))
        );
        let warning = NewEvent {
            kind: EventType::Warning,
            ..event("3 of 4 nodes")
        };
        assert_ne!(
            aggregation_key(&event("3 of 4 nodes")),
            aggregation_key(&warning)
        );
    }

    #[test]
    fn long_message_is_cut_between_characters() {
        let long = "ä".repeat(1000);
        assert_eq!(shortened(&long).len(), MAX_MESSAGE_BYTES);
        let odd = format!("x{long}");
        assert_eq!(shortened(&odd).len(), MAX_MESSAGE_BYTES - 1);
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn timestamps_have_whole_seconds() {
        let at = Timestamp::from_microsecond(1_700_000_000_999_999).unwrap();
        assert_eq!(seconds(at), "2023-11-14T22:13:20Z");
    }
}
