//! Notes that wait to be posted.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::refusals::Refusals;
use super::{Letter, ObjectRef};

/// Events that wait to be posted. An outage of a whole seed makes several per cluster.
const MOST: usize = 4096;
/// Where the API server wants Events about objects of the whole cluster.
const HOME_OF_CLUSTER_SCOPED: &str = "default";

/// What waits, oldest first, and what is known about where it goes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    letters: VecDeque<Letter>,
    refusals: Refusals,
}

/// Notes that will not be posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// None.
    None,
    /// One, because it would be refused.
    Refused,
    /// One, because too many wait.
    Dropped,
}

impl Queue {
    /// Takes a note in. If too many wait, one goes whose namespace is not known to take Events, else
    /// the oldest.
    pub(super) fn push(&mut self, letter: Letter, now: Instant) -> Lost {
        if self.refusals.refuses(home(&letter.note.about), now) {
            return Lost::Refused;
        }
        let is_full = self.letters.len() >= MOST;
        if is_full {
            let mut letters = self.letters.iter();
            let doubtful = letters.position(|other| !self.refusals.takes(home(&other.note.about)));
            self.letters.remove(doubtful.unwrap_or(0));
        }
        self.letters.push_back(letter);
        if is_full { Lost::Dropped } else { Lost::None }
    }

    /// The note that is to be posted next.
    pub(super) fn pop(&mut self) -> Option<Letter> {
        self.letters.pop_front()
    }

    /// A namespace has taken an Event.
    pub(super) fn taken(&mut self, namespace: &str) {
        self.refusals.taken(namespace);
    }

    /// A namespace has refused an Event; gives how many that wait go with it.
    pub(super) fn refused(&mut self, namespace: &str, now: Instant) -> usize {
        self.refusals.refused(namespace, now);
        let before = self.letters.len();
        let refusals = &self.refusals;
        self.letters
            .retain(|letter| !refusals.refuses(home(&letter.note.about), now));
        before - self.letters.len()
    }
}

/// The namespace an Event about this object has to be in.
pub(super) fn home(about: &ObjectRef) -> &str {
    if about.namespace.is_empty() {
        HOME_OF_CLUSTER_SCOPED
    } else {
        &about.namespace
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Note, NoteKind};
    use super::*;

    fn note(namespace: &str, message: &str) -> Letter {
        let note = Note {
            about: ObjectRef {
                namespace: namespace.to_owned(),
                ..ObjectRef::default()
            },
            kind: NoteKind::Normal,
            reason: "Released",
            message: message.to_owned(),
            action: "ScaleUp",
        };
        Letter {
            note,
            _receipt: None,
        }
    }

    fn waiting(queue: &Queue) -> Vec<&str> {
        let letters = queue.letters.iter();
        letters.map(|letter| letter.note.message.as_str()).collect()
    }

    #[test]
    fn notes_for_namespaces_that_refuse_them_do_not_wait() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for number in 0..4 {
            queue.push(note(&format!("shoot-{number}"), "shoot"), now);
            queue.push(note("garden", "garden"), now);
        }
        queue.taken("garden");
        assert_eq!(queue.refused("shoot-0", now), 1);
        assert_eq!(queue.refused("shoot-1", now), 1);
        assert_eq!(queue.refused("shoot-2", now), 2, "and the untried one");
        assert_eq!(waiting(&queue), ["garden"; 4]);
        assert_eq!(queue.push(note("shoot-9", "shoot"), now), Lost::Refused);
        assert_eq!(queue.push(note("garden", "garden"), now), Lost::None);
    }

    #[test]
    fn if_too_many_wait_those_that_may_be_refused_go_first() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.taken("garden");
        queue.push(note("garden", "oldest"), now);
        queue.push(note("shoot", "doubtful"), now);
        for _ in 2..MOST {
            queue.push(note("garden", "new"), now);
        }
        assert_eq!(queue.push(note("garden", "new"), now), Lost::Dropped);
        assert_eq!(queue.letters.len(), MOST);
        assert_eq!(waiting(&queue)[..2], ["oldest", "new"]);
        queue.push(note("garden", "new"), now);
        assert_eq!(waiting(&queue)[0], "new");
    }
}
