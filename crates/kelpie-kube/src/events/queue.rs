//! The queue of Events that wait to be sent.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::refusals::EventRefusals;
use super::{ObjectRef, QueuedEvent};

/// The maximum length of the queue. An outage of a whole seed creates several Events per cluster.
const MAX_LENGTH: usize = 4096;
/// The namespace for Events about cluster-scoped objects, as in client-go.
const CLUSTER_SCOPED_NAMESPACE: &str = "default";

/// A queue of Events, oldest first. Events that the API server would refuse are not kept.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    events: VecDeque<QueuedEvent>,
    refusals: EventRefusals,
}

/// The result of pushing an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PushOutcome {
    /// The Event was queued.
    Queued,
    /// The Event was not queued, because the API server would refuse it.
    Refused,
    /// The Event was queued, and another was dropped because the queue was full.
    QueuedAndDropped,
}

impl EventQueue {
    /// Adds an Event. If the queue is full, it drops the first Event whose namespace is not known
    /// to accept Events, otherwise the oldest.
    pub(super) fn push(&mut self, queued: QueuedEvent, now: Instant) -> PushOutcome {
        let namespace = event_namespace(&queued.event.about);
        if self.refusals.is_refused(namespace, now) {
            return PushOutcome::Refused;
        }
        let is_full = self.events.len() >= MAX_LENGTH;
        if is_full {
            let refusals = &self.refusals;
            let may_be_refused =
                |other: &QueuedEvent| !refusals.is_accepted(event_namespace(&other.event.about));
            let index = self.events.iter().position(may_be_refused);
            self.events.remove(index.unwrap_or(0));
        }
        self.events.push_back(queued);
        if is_full {
            PushOutcome::QueuedAndDropped
        } else {
            PushOutcome::Queued
        }
    }

    /// Removes the oldest Event.
    pub(super) fn pop(&mut self) -> Option<QueuedEvent> {
        self.events.pop_front()
    }

    /// Records that the API server accepted an Event in this namespace.
    pub(super) fn record_accepted(&mut self, namespace: &str) {
        self.refusals.record_accepted(namespace);
    }

    /// Records that the API server refused an Event in this namespace. Returns the number of queued
    /// Events that are dropped with it.
    pub(super) fn record_refused(&mut self, namespace: &str, now: Instant) -> usize {
        self.refusals.record_refused(namespace, now);
        let before = self.events.len();
        let refusals = &self.refusals;
        self.events
            .retain(|queued| !refusals.is_refused(event_namespace(&queued.event.about), now));
        before - self.events.len()
    }
}

/// Returns the namespace that an Event about this object has to be in.
pub(super) fn event_namespace(about: &ObjectRef) -> &str {
    if about.namespace.is_empty() {
        CLUSTER_SCOPED_NAMESPACE
    } else {
        &about.namespace
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EventType, NewEvent};
    use super::*;

    fn queued(namespace: &str, message: &str) -> QueuedEvent {
        let event = NewEvent {
            about: ObjectRef {
                namespace: namespace.to_owned(),
                ..ObjectRef::default()
            },
            kind: EventType::Normal,
            reason: "Released",
            message: message.to_owned(),
            action: "ScaleUp",
        };
        QueuedEvent { event, _done: None }
    }

    fn messages(queue: &EventQueue) -> Vec<&str> {
        let events = queue.events.iter();
        events.map(|queued| queued.event.message.as_str()).collect()
    }

    #[test]
    fn events_that_would_be_refused_are_dropped() {
        let (mut queue, now) = (EventQueue::default(), Instant::now());
        for number in 0..4 {
            queue.push(queued(&format!("shoot-{number}"), "shoot"), now);
            queue.push(queued("garden", "garden"), now);
        }
        queue.record_accepted("garden");
        assert_eq!(queue.record_refused("shoot-0", now), 1);
        assert_eq!(queue.record_refused("shoot-1", now), 1);
        assert_eq!(
            queue.record_refused("shoot-2", now),
            2,
            "and the untried one"
        );
        assert_eq!(messages(&queue), ["garden"; 4]);
        assert_eq!(
            queue.push(queued("shoot-9", "shoot"), now),
            PushOutcome::Refused
        );
        assert_eq!(
            queue.push(queued("garden", "garden"), now),
            PushOutcome::Queued
        );
    }

    #[test]
    fn full_queue_drops_doubtful_events_first() {
        let (mut queue, now) = (EventQueue::default(), Instant::now());
        queue.record_accepted("garden");
        queue.push(queued("garden", "oldest"), now);
        queue.push(queued("shoot", "doubtful"), now);
        for _ in 2..MAX_LENGTH {
            queue.push(queued("garden", "new"), now);
        }
        assert_eq!(
            queue.push(queued("garden", "new"), now),
            PushOutcome::QueuedAndDropped
        );
        assert_eq!(queue.events.len(), MAX_LENGTH);
        assert_eq!(messages(&queue)[..2], ["oldest", "new"]);
        queue.push(queued("garden", "new"), now);
        assert_eq!(messages(&queue)[0], "new");
    }
}
