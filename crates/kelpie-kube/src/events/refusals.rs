//! Namespaces in which Events are refused or accepted.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

/// The time until another Event is tried in a namespace that refused one.
const RETRY_AFTER: Duration = Duration::from_mins(10);
/// The maximum number of namespaces of each kind that are remembered.
const MAX_REMEMBERED: usize = 8192;
/// Once this many namespaces refuse Events, namespaces that never accepted one are not tried
/// either. Roles often differ between the component's own namespace and all others, seldom among
/// the others.
const REFUSE_ALL_AFTER: usize = 3;

#[derive(Debug, Default)]
pub(super) struct EventRefusals {
    /// Namespaces that refused an Event, with the time until which none is sent there.
    refused_until: HashMap<String, Instant>,
    accepted: HashSet<String>,
}

impl EventRefusals {
    pub(super) fn record_refused(&mut self, namespace: &str, now: Instant) {
        self.accepted.remove(namespace);
        if self.refused_until.len() >= MAX_REMEMBERED {
            self.refused_until.retain(|_, until| *until > now);
        }
        if self.refused_until.len() < MAX_REMEMBERED {
            self.refused_until
                .insert(namespace.to_owned(), now + RETRY_AFTER);
        }
    }

    pub(super) fn record_accepted(&mut self, namespace: &str) {
        if self.accepted.len() < MAX_REMEMBERED && !self.accepted.contains(namespace) {
            self.accepted.insert(namespace.to_owned());
        }
    }

    /// Returns whether the last Event in this namespace was accepted.
    pub(super) fn is_accepted(&self, namespace: &str) -> bool {
        self.accepted.contains(namespace)
    }

    /// Returns whether an Event in this namespace would probably be refused.
    pub(super) fn is_refused(&self, namespace: &str, now: Instant) -> bool {
        if self.is_accepted(namespace) {
            return false;
        }
        let is_ahead = |until: &Instant| *until > now;
        let refusing = self.refused_until.values().filter(|until| is_ahead(until));
        self.refused_until.get(namespace).is_some_and(is_ahead)
            || refusing.take(REFUSE_ALL_AFTER).count() == REFUSE_ALL_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusing_namespace_is_retried_later() {
        let (mut refusals, now) = (EventRefusals::default(), Instant::now());
        refusals.record_refused("a", now);
        assert!(refusals.is_refused("a", now));
        assert!(!refusals.is_refused("b", now));
        assert!(!refusals.is_refused("a", now + RETRY_AFTER));
    }

    #[test]
    fn many_refusals_exclude_untried_namespaces() {
        let (mut refusals, now) = (EventRefusals::default(), Instant::now());
        refusals.record_accepted("garden");
        for namespace in ["a", "b", "c"] {
            assert!(!refusals.is_refused("z", now));
            refusals.record_refused(namespace, now);
        }
        assert!(refusals.is_refused("z", now), "never tried");
        assert!(!refusals.is_refused("garden", now));
        assert!(!refusals.is_refused("z", now + RETRY_AFTER), "tried again");
    }

    #[test]
    fn remembered_namespaces_are_bounded() {
        let (mut refusals, now) = (EventRefusals::default(), Instant::now());
        for number in 0..MAX_REMEMBERED + 10 {
            refusals.record_refused(&number.to_string(), now);
            refusals.record_accepted(&format!("open-{number}"));
        }
        assert_eq!(refusals.refused_until.len(), MAX_REMEMBERED);
        assert_eq!(refusals.accepted.len(), MAX_REMEMBERED);
    }
}
