//! The queue of Events that wait to be sent.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::refusals::EventRefusals;
use super::{DroppedEvents, ObjectRef, QueuedEvent};

/// The maximum length of the queue. An outage of a whole seed creates several Events per cluster.
const MAX_LENGTH: usize = 4096;
/// The namespace for Events about cluster-scoped objects, as in client-go.
const CLUSTER_SCOPED_NAMESPACE: &str = "default";

/// A queue of Events, oldest first. Events that the API server would refuse are not kept.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    events: VecDeque<QueuedEvent>,
    pub(super) refusals: EventRefusals,
    pub(super) dropped: DroppedEvents,
}

impl EventQueue {
    /// Adds an Event. If the queue is full, it drops the first Event whose namespace is not known
    /// to accept Events, otherwise the oldest.
    pub(super) fn push(&mut self, queued: QueuedEvent, now: Instant) {
        let namespace = event_namespace(&queued.event.about);
        if self.refusals.is_refused(namespace, now) {
            self.dropped.refused += 1;
            return;
        }
        if self.events.len() >= MAX_LENGTH {
            let refusals = &self.refusals;
            let may_be_refused =
                |other: &QueuedEvent| !refusals.is_accepted(event_namespace(&other.event.about));
            let index = self.events.iter().position(may_be_refused);
            self.events.remove(index.unwrap_or(0));
            self.dropped.dropped += 1;
        }
        self.events.push_back(queued);
    }

    pub(super) fn pop(&mut self) -> Option<QueuedEvent> {
        self.events.pop_front()
    }

    /// Records that the API server refused an Event in this namespace, and drops the queued Events
    /// that it would refuse too. Returns whether it is the first refusal.
    pub(super) fn record_refused(&mut self, namespace: &str, now: Instant) -> bool {
        self.refusals.record_refused(namespace, now);
        let before = self.events.len();
        let refusals = &self.refusals;
        self.events
            .retain(|queued| !refusals.is_refused(event_namespace(&queued.event.about), now));
        let is_first = self.dropped.refused == 0;
        self.dropped.refused += 1 + (before - self.events.len()) as u64;
        is_first
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
        queue.refusals.record_accepted("garden");
        let mut refuse = |namespace| {
            let is_first = queue.record_refused(namespace, now);
            (is_first, queue.dropped.refused)
        };
        assert_eq!(refuse("shoot-0"), (true, 2), "itself and the queued one");
        assert_eq!(refuse("shoot-1"), (false, 4));
        assert_eq!(refuse("shoot-2"), (false, 7), "and the untried one");
        assert_eq!(messages(&queue), ["garden"; 4]);
        queue.push(queued("shoot-9", "shoot"), now);
        queue.push(queued("garden", "garden"), now);
        assert_eq!(messages(&queue), ["garden"; 5]);
        assert_eq!((queue.dropped.refused, queue.dropped.dropped), (8, 0));
    }

    #[test]
    fn full_queue_drops_doubtful_events_first() {
        let (mut queue, now) = (EventQueue::default(), Instant::now());
        queue.refusals.record_accepted("garden");
        queue.push(queued("garden", "oldest"), now);
        queue.push(queued("shoot", "doubtful"), now);
        for _ in 2..MAX_LENGTH {
            queue.push(queued("garden", "new"), now);
        }
        assert_eq!(queue.dropped, DroppedEvents::default());
        queue.push(queued("garden", "new"), now);
        assert_eq!((queue.dropped.refused, queue.dropped.dropped), (0, 1));
        assert_eq!(queue.events.len(), MAX_LENGTH);
        assert_eq!(messages(&queue)[..2], ["oldest", "new"]);
        queue.push(queued("garden", "new"), now);
        assert_eq!(messages(&queue)[0], "new");
    }
}
