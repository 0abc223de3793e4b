//! The watches on the operator's inputs, as one stream of changes.

use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{SelectAll, select_all};
use futures_util::{Stream, StreamExt};
use kelpie_core::addon::AddonComponent;
use kelpie_kube::objects::{ObjectClient, ObjectKind};
use kelpie_kube::watch::WatchEvent;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use super::inputs::{INPUT_OBJECTS, STATEFUL_SET};
use super::options::OperatorOptions;
use super::readiness;
use crate::addon::{ADDON, AddonRef};
use crate::owned::{DEPLOYMENT, SERVICE, object_name};

/// The first reconciliation waits at most this long for the watches.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

type ObjectEvents = Pin<Box<dyn Stream<Item = (usize, WatchEvent<Value>)> + Send>>;

/// Watches all inputs of the operator.
pub(super) struct InputWatch {
    events: SelectAll<ObjectEvents>,
    objects: Vec<WatchedObject>,
}

/// A watched object, as last seen.
struct WatchedObject {
    kind: ObjectKind,
    name: String,
    /// The part of the object whose changes matter. `None` if it does not exist.
    version: Option<Value>,
    /// The list that is arriving has the object.
    is_listed: bool,
    /// The watch has listed or failed at least once.
    has_answered: bool,
    is_failing: bool,
}

impl InputWatch {
    pub(super) fn start(
        objects: &ObjectClient,
        addon: &AddonRef,
        options: &OperatorOptions,
    ) -> Self {
        let own = addon.namespace.as_str();
        let (platform, uwl) = (&options.platform, &options.uwl);
        let mut watched: Vec<(ObjectKind, &str, &str)> = vec![
            (ADDON, own, &addon.name),
            (SERVICE, &platform.namespace, &platform.name),
            (STATEFUL_SET, &uwl.namespace, &uwl.name),
        ];
        watched.extend(INPUT_OBJECTS.map(|(kind, name)| (kind, own, name)));
        watched
            .extend(AddonComponent::ALL.map(|component| (DEPLOYMENT, own, object_name(component))));
        let streams = watched.iter().enumerate();
        let streams = streams.map(|(index, (kind, namespace, name))| -> ObjectEvents {
            let events = objects.watch(*kind, namespace, Some(name));
            Box::pin(events.map(move |event| (index, event)))
        });
        Self {
            events: select_all(streams),
            objects: watched
                .iter()
                .map(|(kind, _, name)| WatchedObject::new(*kind, name))
                .collect(),
        }
    }

    /// Waits until every watch has listed its object or failed, for a few seconds at most.
    pub(super) async fn listed(&mut self) {
        let give_up = Instant::now() + LIST_TIMEOUT;
        while !self.objects.iter().all(|object| object.has_answered) {
            match timeout_at(give_up, self.events.next()).await {
                Ok(Some((index, event))) => self.objects[index].handle(event),
                _ => return,
            };
        }
    }

    /// Waits until an input has changed.
    pub(super) async fn changed(&mut self) {
        while let Some((index, event)) = self.events.next().await {
            if self.objects[index].handle(event) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Waits for this time, and takes all changes in it.
    pub(super) async fn gather(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while timeout_at(end, self.changed()).await.is_ok() {}
    }

    /// Takes the state of a Deployment after the operator's own write, which is no change.
    pub(super) fn set_deployment(&mut self, component: AddonComponent, object: Option<&Value>) {
        let name = object_name(component);
        let mut objects = self.objects.iter_mut();
        let found = objects.find(|it| it.kind == DEPLOYMENT && it.name == name);
        if let Some(found) = found {
            found.version = object.map(|object| relevant_version(DEPLOYMENT, object));
        }
    }
}

impl WatchedObject {
    fn new(kind: ObjectKind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            version: None,
            is_listed: false,
            has_answered: false,
            is_failing: false,
        }
    }

    /// Records an event. Returns true if the object has changed.
    fn handle(&mut self, event: WatchEvent<Value>) -> bool {
        match event {
            WatchEvent::Init => {
                self.is_listed = false;
                false
            }
            WatchEvent::Apply(object) => {
                self.is_failing = false;
                self.is_listed = true;
                self.replace(Some(relevant_version(self.kind, &object)))
            }
            WatchEvent::Delete { .. } => self.replace(None),
            WatchEvent::InitDone => {
                self.has_answered = true;
                !self.is_listed && self.replace(None)
            }
            WatchEvent::Error(error) => {
                self.has_answered = true;
                if self.is_failing {
                    debug!(%error, "the watch still fails");
                } else {
                    warn!("{error}; changes take effect at the next resync");
                }
                self.is_failing = true;
                false
            }
        }
    }

    fn replace(&mut self, version: Option<Value>) -> bool {
        let has_changed = self.version != version;
        self.version = version;
        has_changed
    }
}

/// Returns a value that changes when a reconciliation may have to act: with anything but the
/// status, and with the readiness of a Deployment.
fn relevant_version(kind: ObjectKind, object: &Value) -> Value {
    let metadata = &object["metadata"];
    if kind == DEPLOYMENT {
        let ready = readiness::is_ready(object);
        json!([metadata["uid"], metadata["generation"], ready])
    } else if kind == ADDON {
        let is_terminating = metadata["deletionTimestamp"].is_string();
        json!([metadata["uid"], metadata["generation"], is_terminating])
    } else if kind == STATEFUL_SET || kind == SERVICE {
        metadata["uid"].clone()
    } else {
        metadata["resourceVersion"].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_missing_from_a_new_list_has_changed() {
        let mut watched = WatchedObject::new(SERVICE, "a");
        let object = || WatchEvent::Apply(json!({ "metadata": { "name": "a", "uid": "u" } }));
        assert!(watched.handle(object()));
        assert!(!watched.handle(WatchEvent::InitDone));
        assert!(!watched.handle(WatchEvent::Init));
        assert!(!watched.handle(object()));
        assert!(!watched.handle(WatchEvent::InitDone));
        assert!(!watched.handle(WatchEvent::Init));
        assert!(watched.handle(WatchEvent::InitDone), "the object is gone");
    }
}
