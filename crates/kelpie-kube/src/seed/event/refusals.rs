//! Where Events are refused, and where they are taken.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

/// A namespace that refused an Event is left alone for so long.
const MEMORY: Duration = Duration::from_mins(10);
/// Namespaces that are remembered.
const REMEMBERED: usize = 8192;
/// Once so many have refused one, those that have never taken one are not tried either: roles differ
/// between our own namespace and all others, seldom among the others.
const MANY: usize = 3;

/// What is known about namespaces.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Until when they are left alone.
    shunned: HashMap<String, Instant>,
    /// Have taken an Event.
    open: HashSet<String>,
}

impl Refusals {
    /// It refused an Event.
    pub(super) fn refused(&mut self, namespace: &str, now: Instant) {
        self.open.remove(namespace);
        if self.shunned.len() >= REMEMBERED {
            self.shunned.retain(|_, until| *until > now);
        }
        if self.shunned.len() < REMEMBERED {
            self.shunned.insert(namespace.to_owned(), now + MEMORY);
        }
    }

    /// It took an Event.
    pub(super) fn taken(&mut self, namespace: &str) {
        if self.open.len() < REMEMBERED && !self.open.contains(namespace) {
            self.open.insert(namespace.to_owned());
        }
    }

    /// Whether it has taken Events so far.
    pub(super) fn takes(&self, namespace: &str) -> bool {
        self.open.contains(namespace)
    }

    /// Whether an Event there would be refused, as far as one can tell.
    pub(super) fn refuses(&self, namespace: &str, now: Instant) -> bool {
        if self.takes(namespace) {
            return false;
        }
        let is_shunned = |until: &Instant| *until > now;
        let shunned = self.shunned.values().filter(|until| is_shunned(until));
        self.shunned.get(namespace).is_some_and(is_shunned) || shunned.take(MANY).count() == MANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_refuses_is_left_alone_for_a_while() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        refusals.refused("a", now);
        assert!(refusals.refuses("a", now));
        assert!(!refusals.refuses("b", now));
        assert!(!refusals.refuses("a", now + MEMORY));
    }

    #[test]
    fn where_many_refuse_only_those_that_took_one_are_tried() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        refusals.taken("garden");
        for namespace in ["a", "b", "c"] {
            assert!(!refusals.refuses("z", now));
            refusals.refused(namespace, now);
        }
        assert!(refusals.refuses("z", now), "never tried");
        assert!(!refusals.refuses("garden", now));
        assert!(!refusals.refuses("z", now + MEMORY), "tried again");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        for number in 0..REMEMBERED + 10 {
            refusals.refused(&number.to_string(), now);
            refusals.taken(&format!("open-{number}"));
        }
        assert_eq!(refusals.shunned.len(), REMEMBERED);
        assert_eq!(refusals.open.len(), REMEMBERED);
    }
}
