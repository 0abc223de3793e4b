//! A readiness check that passes once all components of a process are ready.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{CheckResult, FailureReason, HealthCheck};

/// A check that passes while every component that holds a handle is ready.
///
/// Take the handles before the server starts: a component without a handle is not waited for.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    components: Arc<Mutex<Components>>,
}

/// Reports the readiness of one component to [`Readiness`].
///
/// The component is not ready before [`ReadyHandle::ready`] and after the handle is dropped, so a
/// task that ends or panics takes its readiness with it.
#[derive(Debug)]
pub struct ReadyHandle {
    key: u64,
    components: Arc<Mutex<Components>>,
}

type Components = BTreeMap<u64, ReadyComponent>;

#[derive(Debug)]
struct ReadyComponent {
    name: String,
    state: ReadyState,
}

#[derive(Debug, PartialEq, Eq)]
enum ReadyState {
    Starting,
    Ready,
    NotReady(FailureReason),
    /// The handle was dropped.
    Gone,
}

impl Readiness {
    /// Creates a check without components. It passes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a component that must become ready.
    ///
    /// A component of the same name whose handle was dropped is replaced, so a component may be
    /// restarted.
    pub fn handle(&self, name: &str) -> ReadyHandle {
        let mut components = self.components.lock();
        components.retain(|_, other| other.name != name || other.state != ReadyState::Gone);
        let key = components.keys().next_back().map_or(0, |last| last + 1);
        let component = ReadyComponent {
            name: name.to_owned(),
            state: ReadyState::Starting,
        };
        components.insert(key, component);
        ReadyHandle {
            key,
            components: Arc::clone(&self.components),
        }
    }

    fn result(&self) -> CheckResult {
        let mut reasons = String::new();
        for component in self.components.lock().values() {
            let reason = match &component.state {
                ReadyState::Ready => continue,
                ReadyState::Starting => "not ready yet",
                ReadyState::NotReady(reason) => reason.as_str(),
                ReadyState::Gone => "gone",
            };
            let separator = if reasons.is_empty() { "" } else { "; " };
            // Writing to a string cannot fail.
            let _ = write!(reasons, "{separator}{}: {reason}", component.name);
        }
        match reasons.as_str() {
            "" => Ok(()),
            reasons => Err(FailureReason::from(reasons)),
        }
    }
}

impl HealthCheck for Readiness {
    async fn run(&self) -> CheckResult {
        self.result()
    }
}

impl ReadyHandle {
    /// Marks the component as ready.
    pub fn ready(&self) {
        self.set(ReadyState::Ready);
    }

    /// Marks the component as not ready, for a reason that readyz shows.
    pub fn not_ready(&self, reason: impl Into<FailureReason>) {
        self.set(ReadyState::NotReady(reason.into()));
    }

    fn set(&self, state: ReadyState) {
        if let Some(component) = self.components.lock().get_mut(&self.key) {
            component.state = state;
        }
    }
}

impl Drop for ReadyHandle {
    fn drop(&mut self) {
        self.set(ReadyState::Gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(readiness: &Readiness) -> String {
        readiness
            .result()
            .map_or_else(|reason| reason.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn every_component_must_be_ready() {
        let readiness = Readiness::new();
        assert_eq!(reason(&readiness), "ok", "no component");
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
    fn dropped_handle_is_not_ready() {
        let readiness = Readiness::new();
        let prober = readiness.handle("prober");
        prober.ready();
        drop(prober);
        assert_eq!(reason(&readiness), "prober: gone");
    }

    #[test]
    fn component_may_restart() {
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
