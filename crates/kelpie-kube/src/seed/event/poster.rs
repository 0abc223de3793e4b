//! Posting notes as Events.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::{Letter, Note, NoteKind, ObjectRef, Shared};
use crate::seed::fault::Fault;
use crate::seed::{quiet, stamp};

/// Equal Events within this time are one Event with a count; a namespace that refused one is left
/// alone for so long.
const MEMORY: Duration = Duration::from_mins(10);
/// Events and namespaces that are remembered.
const REMEMBERED: usize = 8192;
/// For one request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The API server's own limits.
const LONGEST_MESSAGE: usize = 1024;
const LONGEST_PREFIX: usize = 200;
/// Where the API server wants Events about objects of the whole cluster.
const HOME_OF_CLUSTER_SCOPED: &str = "default";

/// Posts notes one after the other.
pub(super) struct Poster {
    shared: Arc<Shared>,
    /// What is being posted: if that is cut off, it is not lost.
    current: Option<Letter>,
    posted: HashMap<Key, Posted>,
    /// Namespaces to be left alone, until when.
    shunned: HashMap<String, Instant>,
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
            shunned: HashMap::new(),
        }
    }

    pub(super) async fn post_all(&mut self, goes_on: bool) {
        loop {
            if self.current.is_none() {
                let queue = self.shared.queue.lock();
                self.current = queue.unwrap_or_else(PoisonError::into_inner).pop_front();
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
        self.forget(now);
        let namespace = home(&note.about);
        if self.shunned.contains_key(namespace) {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if let Err(fault) = self.write(note, namespace, now).await {
            self.report(note, namespace, &fault, now);
        }
    }

    async fn write(&mut self, note: &Note, namespace: &str, now: Instant) -> Result<(), Fault> {
        let request = Request::new(format!("/api/v1/namespaces/{namespace}/events"));
        let key = Key::of(note);
        if let Some(posted) = self.posted.get_mut(&key) {
            let patch = json!({
                "count": posted.count + 1,
                "lastTimestamp": seconds(stamp::now()),
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
        let event = self.shared.event(note, namespace, stamp::now());
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

    fn report(&mut self, note: &Note, namespace: &str, fault: &Fault, now: Instant) {
        let Fault::Denied(reason) = fault else {
            self.shared.failed.fetch_add(1, Ordering::Relaxed);
            debug!(namespace, reason = note.reason, %fault, "an Event could not be posted");
            return;
        };
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        if self.shunned.len() < REMEMBERED {
            self.shunned.insert(namespace.to_owned(), now + MEMORY);
        }
        if !self.shared.refusal_was_told.swap(true, Ordering::Relaxed) {
            warn!(
                namespace,
                reason,
                "Events are refused here and left out from now on; grant create and patch on \
                 events to see them. Other namespaces that refuse them are only counted"
            );
        }
    }

    fn forget(&mut self, now: Instant) {
        self.posted.retain(|_, posted| posted.until > now);
        self.shunned.retain(|_, until| *until > now);
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
        let call = quiet::call(self.client.request(request));
        match timeout(PATIENCE, call).await {
            Ok(Ok(created)) => Ok(created),
            Ok(Err(error)) => Err(Fault::from(&error)),
            Err(_) => Err(Fault::TimedOut),
        }
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

/// The namespace an Event about this object has to be in.
fn home(about: &ObjectRef) -> &str {
    if about.namespace.is_empty() {
        HOME_OF_CLUSTER_SCOPED
    } else {
        &about.namespace
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
