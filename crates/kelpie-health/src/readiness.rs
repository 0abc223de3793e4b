//! Readiness by handle: whoever has to be ready holds one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Check, Reason, Verdict};

/// A check that passes while every component that took a handle says that it is ready.
///
/// Take the handles before the server starts: a component without one is not waited for.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    components: Arc<Mutex<BTreeMap<u64, Component>>>,
}

/// A component's say in [`Readiness`]. Not ready until [`ReadyHandle::ready`]; not ready when
/// dropped, so that a task that ends, or panics, takes its readiness with it.
#[derive(Debug)]
pub struct ReadyHandle {
    key: u64,
    components: Arc<Mutex<BTreeMap<u64, Component>>>,
}

#[derive(Debug)]
struct Component {
    name: String,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Starting,
    Ready,
    NotReady(Reason),
    /// The handle was dropped.
    Gone,
}

impl Readiness {
    /// Nobody to wait for, yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A component that has to be ready. One of the same name whose handle was dropped is replaced:
    /// a component may be started again.
    pub fn handle(&self, name: &str) -> ReadyHandle {
        let mut components = lock(&self.components);
        components.retain(|_, other| other.name != name || other.state != State::Gone);
        let key = components.keys().next_back().map_or(0, |last| last + 1);
        let component = Component {
            name: name.to_owned(),
            state: State::Starting,
        };
        components.insert(key, component);
        ReadyHandle {
            key,
            components: Arc::clone(&self.components),
        }
    }

    fn verdict(&self) -> Verdict {
        let mut reasons = String::new();
        for component in lock(&self.components).values() {
            let why = match &component.state {
                State::Ready => continue,
                State::Starting => "not ready yet",
                State::NotReady(reason) => reason.as_str(),
                State::Gone => "gone",
            };
            let comma = if reasons.is_empty() { "" } else { "; " };
            // Writing to a string cannot fail.
            let _ = write!(reasons, "{comma}{}: {why}", component.name);
        }
        match reasons.as_str() {
            "" => Ok(()),
            reasons => Err(Reason::from(reasons)),
        }
    }
}

impl Check for Readiness {
    async fn run(&self) -> Verdict {
        self.verdict()
    }
}

impl ReadyHandle {
    /// The component does its work.
    pub fn ready(&self) {
        self.set(State::Ready);
    }

    /// It does not, and says why.
    pub fn not_ready(&self, reason: impl Into<Reason>) {
        self.set(State::NotReady(reason.into()));
    }

    fn set(&self, state: State) {
        if let Some(component) = lock(&self.components).get_mut(&self.key) {
            component.state = state;
        }
    }
}

impl Drop for ReadyHandle {
    fn drop(&mut self) {
        self.set(State::Gone);
    }
}

/// A panic elsewhere leaves the map whole: every change is one assignment.
fn lock(components: &Mutex<BTreeMap<u64, Component>>) -> MutexGuard<'_, BTreeMap<u64, Component>> {
    components.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(readiness: &Readiness) -> String {
        readiness
            .verdict()
            .map_or_else(|reason| reason.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn everybody_has_to_be_ready() {
        let readiness = Readiness::new();
        assert_eq!(reason(&readiness), "ok", "nobody to wait for");
        let prober = readiness.handle("prober");
        let weeder = readiness.handle("weeder");
        assert_eq!(
            reason(&readiness),
            "prober: not ready yet; weeder: not ready yet"
        );
        weeder.ready();
        assert_eq!(reason(&readiness), "prober: not ready yet");
        prober.ready();
        assert_eq!(reason(&readiness), "ok");
        weeder.not_ready("no\nwatch");
        assert_eq!(reason(&readiness), "weeder: no watch");
    }

    #[test]
    fn a_dropped_handle_is_not_ready() {
        let readiness = Readiness::new();
        let prober = readiness.handle("prober");
        prober.ready();
        drop(prober);
        assert_eq!(reason(&readiness), "prober: gone");
    }

    #[test]
    fn a_component_may_be_started_again() {
        let readiness = Readiness::new();
        let first = readiness.handle("prober");
        let second = readiness.handle("prober");
        drop(first);
        second.ready();
        assert_eq!(reason(&readiness), "prober: gone");
        let third = readiness.handle("prober");
        assert_eq!(reason(&readiness), "prober: not ready yet");
        third.ready();
        assert_eq!(reason(&readiness), "ok");
    }
}
