//! Posting notes as Events.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::queue::home;
use super::{Letter, Note, NoteKind, ObjectRef, Shared};
use crate::seed::fault::Fault;
use crate::seed::quiet;

/// Equal Events within this time are one Event with a count.
const MEMORY: Duration = Duration::from_mins(10);
/// Events that are remembered.
const REMEMBERED: usize = 8192;
/// The API server's own limits.
const LONGEST_MESSAGE: usize = 1024;
const LONGEST_PREFIX: usize = 200;

/// Posts notes one after the other.
pub(super) struct Poster {
    shared: Arc<Shared>,
    /// What is being posted: if that is cut off, it is not lost.
    current: Option<Letter>,
    posted: HashMap<Key, Posted>,
}

/// What makes two notes the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    about: ObjectRef,
    kind: NoteKind,
    reason: &'static str,
    action: &'static str,
    message: String,
}

struct Posted {
    /// The name the API server gave it.
    name: String,
    count: u64,
    until: Instant,
}

impl Poster {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            current: None,
            posted: HashMap::new(),
        }
    }

    pub(super) async fn post_all(&mut self, goes_on: bool) {
        loop {
            if self.current.is_none() {
                self.current = self.shared.queue().pop();
            }
            let note = self.current.as_ref().map(|letter| letter.note.clone());
            match note {
                Some(note) => {
                    self.post(&note).await;
                    self.current = None;
                }
                None if goes_on => self.shared.arrived.notified().await,
                None => return,
            }
        }
    }

    async fn post(&mut self, note: &Note) {
        let now = Instant::now();
        self.posted.retain(|_, posted| posted.until > now);
        let namespace = home(&note.about);
        match self.write(note, namespace, now).await {
            Ok(()) => self.shared.queue().taken(namespace),
            Err(fault) => self.report(note, namespace, &fault),
        }
    }

    async fn write(&mut self, note: &Note, namespace: &str, now: Instant) -> Result<(), Fault> {
        let request = Request::new(format!("/api/v1/namespaces/{namespace}/events"));
        let key = Key::of(note);
        if let Some(posted) = self.posted.get_mut(&key) {
            let patch = json!({
                "count": posted.count + 1,
                "lastTimestamp": seconds(self.shared.wall.stamp()),
                "message": shortened(&note.message),
            });
            let how = PatchParams::default();
            let request = request.patch(&posted.name, &how, &Patch::Merge(&patch));
            match self.shared.send(request).await {
                Ok(_) => {
                    posted.count += 1;
                    return Ok(());
                }
                // Events do not live long; it may be gone.
                Err(Fault::NotFound) => {}
                Err(fault) => return Err(fault),
            }
        }
        let event = self.shared.event(note, namespace, self.shared.wall.stamp());
        let body = serde_json::to_vec(&event);
        let body = body.map_err(|error| Fault::Unavailable(error.to_string()))?;
        let request = request.create(&PostParams::default(), body);
        let created = self.shared.send(request).await?;
        if self.posted.len() < REMEMBERED {
            let posted = Posted {
                name: created.metadata.name,
                count: 1,
                until: now + MEMORY,
            };
            self.posted.insert(key, posted);
        }
        Ok(())
    }

    fn report(&self, note: &Note, namespace: &str, fault: &Fault) {
        // Only a right that is missing is missing for long: who is not known may be so at once again.
        let Fault::Denied(reason) = fault else {
            self.shared.failed.fetch_add(1, Ordering::Relaxed);
            debug!(namespace, reason = note.reason, %fault, "an Event could not be posted");
            return;
        };
        let others = self.shared.queue().refused(namespace, Instant::now());
        let refused = 1 + others as u64;
        self.shared.refused.fetch_add(refused, Ordering::Relaxed);
        if !self.shared.refusal_was_told.swap(true, Ordering::Relaxed) {
            warn!(
                namespace,
                reason,
                "Events are refused here and left out from now on; grant create and patch on \
                 events to see them. Other namespaces that refuse them are only counted"
            );
        }
    }
}

/// What is read of an answer.
#[derive(Deserialize)]
struct Created {
    metadata: Named,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl Shared {
    async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Created, Fault> {
        let request = request.map_err(|error| Fault::Unavailable(error.to_string()))?;
        // Without a limit of its own: waiting for a turn behind other routine requests is no failure,
        // and the client notices an API server that does not answer.
        let answer = quiet::call(self.client.request(request)).await;
        answer.map_err(|error| Fault::from(&error))
    }

    fn event(&self, note: &Note, namespace: &str, now: Timestamp) -> Value {
        let about = &note.about;
        let prefix: String = about.name.chars().take(LONGEST_PREFIX).collect();
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
            "type": match note.kind {
                NoteKind::Normal => "Normal",
                NoteKind::Warning => "Warning",
            },
            "reason": note.reason,
            "action": note.action,
            "message": shortened(&note.message),
            "count": 1,
            "firstTimestamp": seconds(now),
            "lastTimestamp": seconds(now),
            "source": { "component": self.component },
            "reportingComponent": self.component,
            "reportingInstance": self.instance,
        })
    }
}

impl Key {
    fn of(note: &Note) -> Self {
        Self {
            about: note.about.clone(),
            kind: note.kind,
            reason: note.reason,
            action: note.action,
            // Counts and times change from one to the next; what happened does not.
            message: note
                .message
                .chars()
                .filter(|c| !c.is_ascii_digit())
                .collect(),
        }
    }
}

/// Times in these fields have whole seconds.
fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn shortened(message: &str) -> &str {
    let mut end = message.len().min(LONGEST_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(message: &str) -> Note {
        Note {
            about: ObjectRef::default(),
            kind: NoteKind::Normal,
            reason: "Released",
            message: message.to_owned(),
            action: "ScaleUp",
        }
    }

    #[test]
    fn notes_that_differ_only_in_numbers_are_the_same() {
        assert_eq!(
            Key::of(&note("3 of 4 nodes")),
            Key::of(&note("12 of 40 nodes"))
        );
        assert_ne!(
            Key::of(&note("3 of 4 nodes")),
            Key::of(&note("3 of 4 leases"))
        );
        let warning = Note {
            kind: NoteKind::Warning,
            ..note("3 of 4 nodes")
        };
        assert_ne!(Key::of(&note("3 of 4 nodes")), Key::of(&warning));
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let long = "ä".repeat(1000);
        assert_eq!(shortened(&long).len(), LONGEST_MESSAGE);
        let odd = format!("x{long}");
        assert_eq!(shortened(&odd).len(), LONGEST_MESSAGE - 1);
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn stamps_have_whole_seconds() {
        let at = Timestamp::from_microsecond(1_700_000_000_999_999).unwrap();
        assert_eq!(seconds(at), "2023-11-14T22:13:20Z");
    }
}
