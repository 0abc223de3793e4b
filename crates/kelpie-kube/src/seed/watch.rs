//! Watching a set of objects, forever.

use std::borrow::Cow;
use std::fmt;

use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Api, Client, Resource};
use serde::de::{Deserialize, DeserializeSeed, Deserializer};
use serde_json::Value;
use thiserror::Error;

use super::fault::Fault;
use super::quiet::Quiet;
use super::sieve::Keep;

/// One change of a watched set.
///
/// Every list, the first one and those after a broken watch, is delivered as `Restarted`, then
/// `Applied` for each object, then `Synced`: what was not applied in between is gone. A list that
/// breaks off is followed by another `Restarted` without a `Synced`.
#[derive(Debug, Clone)]
pub enum Change<T> {
    /// A list begins.
    Restarted,
    /// An object is there, or has changed.
    Applied(T),
    /// An object is gone.
    Deleted {
        /// Its namespace; empty for an object of the whole cluster.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The list is complete.
    Synced,
    /// The watch broke off and is being taken up again, with growing pauses. For logs and metrics.
    Failed(WatchError),
}

/// Why a watch broke off. It is taken up again in any case.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WatchError {
    /// Somebody has to grant the permission.
    #[error("may not list and watch {what}: {reason}; grant list and watch on it")]
    Denied {
        /// The resource.
        what: String,
        /// What the API server said.
        reason: String,
    },
    /// Somebody has to install the kind.
    #[error("there is no {what} on this API server; install its custom resource definition")]
    Absent {
        /// The resource.
        what: String,
    },
    /// The history since the last event is gone: an ordinary thing, a new list follows.
    #[error("the watch of {what} was too far behind; a new list follows")]
    Expired {
        /// The resource.
        what: String,
    },
    /// The API server has to come back.
    #[error("cannot watch {what}: {reason}; is the API server up?")]
    Unavailable {
        /// The resource.
        what: String,
        /// What went wrong.
        reason: String,
    },
}

/// The server ends a watch after so many seconds, and it goes on where it was. An idle watch hears
/// nothing in between, so this is also how long it takes, and 5 s more, to notice a dead connection.
pub(crate) const ROUND: u32 = 60;
/// The same where it matters more than the few requests it costs.
pub(super) const SHORT_ROUND: u32 = 25;

/// What is made of a watched object.
pub(crate) trait Watched: Clone + fmt::Debug + Send + Sync + 'static {
    const GROUP: &'static str;
    const VERSION: &'static str;
    const KIND: &'static str;
    const PLURAL: &'static str;
    /// The fields that are used, with the name, namespace and resourceVersion of the metadata.
    const KEEP: Keep;

    /// From the kept fields. It always gives something: what is wrong with an object is a fact too.
    fn read(namespace: &str, name: &str, object: &Value) -> Self;
}

/// What the library needs to know of an object, and what we make of it.
#[derive(Debug, Clone)]
pub(crate) struct Thin<T> {
    metadata: ObjectMeta,
    facts: T,
}

impl<'de, T: Watched> Deserialize<'de> for Thin<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = T::KEEP.deserialize(deserializer)?;
        let text = |field: &str| {
            let value = object.get("metadata")?.get(field)?.as_str()?;
            Some(value.to_owned())
        };
        let (namespace, name) = (text("namespace"), text("name"));
        let facts = T::read(
            namespace.as_deref().unwrap_or_default(),
            name.as_deref().unwrap_or_default(),
            &object,
        );
        let metadata = ObjectMeta {
            name,
            namespace,
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, facts })
    }
}

impl<T: Watched> Resource for Thin<T> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        T::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        T::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        T::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        T::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<T> Thin<T> {
    pub(crate) fn into_facts(self) -> T {
        self.facts
    }
}

/// Which objects of a kind are watched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection<'a> {
    /// Of this namespace; `None`: of all.
    pub(crate) namespace: Option<&'a str>,
    /// Of this name; `None`: of any. No other object is ever asked for.
    pub(crate) name: Option<&'a str>,
    /// With these labels; `None`: with any.
    pub(crate) labels: Option<&'a str>,
    /// How many objects a page of a list has.
    pub(crate) page: u32,
    /// How many seconds the server keeps a watch up.
    pub(crate) round: u32,
}

impl Selection<'_> {
    /// Everything, in pages of this size.
    pub(crate) const fn all(page: u32) -> Self {
        Self {
            namespace: None,
            name: None,
            labels: None,
            page,
            round: ROUND,
        }
    }
}

/// Lists and watches, again and again, with pauses that grow while it fails.
pub(crate) fn watch<T: Watched>(
    client: &Client,
    selection: Selection<'_>,
) -> impl Stream<Item = Change<T>> + Send + use<T> {
    let client = client.clone();
    let api: Api<Thin<T>> = match selection.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let mut config = watcher::Config::default()
        .page_size(selection.page)
        .timeout(selection.round);
    if let Some(name) = selection.name {
        config = config.fields(&format!("metadata.name={name}"));
    }
    if let Some(labels) = selection.labels {
        config = config.labels(labels);
    }
    follow(watch_objects(api, config), what::<T>(), Thin::into_facts)
}

/// The changes that the library's events stand for, with pauses that grow while it fails.
pub(crate) fn follow<O: Resource + Send + 'static, T: Send + 'static>(
    events: impl Stream<Item = watcher::Result<Event<O>>> + Send + 'static,
    what: String,
    facts: fn(O) -> T,
) -> impl Stream<Item = Change<T>> + Send {
    let mut begins = false;
    let changes = Quiet::new(events)
        .flat_map(move |event| stream::iter(changes(event, &mut begins, &what, facts)));
    // The pauses come after that: the library announces each list before it has asked for it, and
    // every announcement would end the growth of the pauses.
    let changes = changes.default_backoff();
    changes.map(|change| change.unwrap_or_else(Change::Failed))
}

/// The changes that an event of the library stands for. A list is announced with the first thing in
/// it: one that fails leaves no trace.
fn changes<O: Resource, T>(
    event: watcher::Result<Event<O>>,
    begins: &mut bool,
    what: &str,
    facts: fn(O) -> T,
) -> impl Iterator<Item = Result<Change<T>, WatchError>> + use<O, T> {
    let change = match event {
        Ok(Event::Init) => {
            *begins = true;
            None
        }
        Ok(Event::InitApply(object) | Event::Apply(object)) => {
            Some(Ok(Change::Applied(facts(object))))
        }
        Ok(Event::InitDone) => Some(Ok(Change::Synced)),
        Ok(Event::Delete(object)) => Some(Ok(Change::Deleted {
            namespace: object.meta().namespace.clone().unwrap_or_default(),
            name: object.meta().name.clone().unwrap_or_default(),
        })),
        Err(error) => Some(Err(watch_error(&error, what))),
    };
    let restarted = (*begins && matches!(change, Some(Ok(_)))).then(|| {
        *begins = false;
        Ok(Change::Restarted)
    });
    restarted.into_iter().chain(change)
}

/// How a resource is called in messages.
fn what<T: Watched>() -> String {
    if T::GROUP.is_empty() {
        T::PLURAL.to_owned()
    } else {
        format!("{}.{}", T::PLURAL, T::GROUP)
    }
}

fn watch_error(error: &watcher::Error, what: &str) -> WatchError {
    let fault = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Fault::from(error),
        watcher::Error::WatchError(status) => Fault::from_status(status.code, &status.message),
        watcher::Error::NoResourceVersion => {
            Fault::Unavailable("an object without resourceVersion".into())
        }
    };
    let what = what.to_owned();
    match fault {
        Fault::Unknown(reason) | Fault::Denied(reason) => WatchError::Denied { what, reason },
        Fault::NotFound => WatchError::Absent { what },
        Fault::Expired => WatchError::Expired { what },
        fault => WatchError::Unavailable {
            what,
            reason: fault.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::ClusterFacts;
    use super::*;

    fn object(name: &str) -> Thin<ClusterFacts> {
        let text = format!(r#"{{"metadata": {{"name": "{name}", "resourceVersion": "7"}}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn expired() -> watcher::Error {
        let status = kube::core::Status::failure("too old", "Expired").with_code(410);
        watcher::Error::WatchError(status.boxed())
    }

    /// What becomes of a row of events, shortly.
    fn told(events: Vec<watcher::Result<Event<Thin<ClusterFacts>>>>) -> Vec<String> {
        let mut begins = false;
        let changes = events.into_iter().flat_map(|event| {
            let what = what::<ClusterFacts>();
            changes(event, &mut begins, &what, Thin::into_facts)
        });
        let tell = |change: Result<Change<ClusterFacts>, WatchError>| match change {
            Ok(Change::Restarted) => "restarted".to_owned(),
            Ok(Change::Applied(cluster)) => format!("applied {}", cluster.name),
            Ok(Change::Deleted { name, .. }) => format!("deleted {name}"),
            Ok(Change::Synced) => "synced".to_owned(),
            Ok(Change::Failed(error)) | Err(error) => error.to_string(),
        };
        changes.map(tell).collect()
    }

    #[test]
    fn a_list_is_a_beginning_its_objects_and_an_end() {
        let events = vec![
            Ok(Event::Init),
            Ok(Event::InitApply(object("a"))),
            Ok(Event::InitApply(object("b"))),
            Ok(Event::InitDone),
            Ok(Event::Apply(object("c"))),
            Ok(Event::Delete(object("a"))),
        ];
        let expected = [
            "restarted",
            "applied a",
            "applied b",
            "synced",
            "applied c",
            "deleted a",
        ];
        assert_eq!(told(events), expected);
    }

    #[test]
    fn an_empty_list_has_a_beginning_and_an_end() {
        let events = vec![Ok(Event::Init), Ok(Event::InitDone)];
        assert_eq!(told(events), ["restarted", "synced"]);
    }

    #[test]
    fn a_list_that_fails_has_no_beginning_and_one_that_breaks_off_begins_again() {
        let error = "the watch of clusters.extensions.gardener.cloud was too far behind; a new \
            list follows";
        let events = vec![
            Ok(Event::Init),
            Err(expired()),
            Ok(Event::Init),
            Ok(Event::InitApply(object("a"))),
            Err(expired()),
            Ok(Event::Init),
            Ok(Event::InitDone),
        ];
        let expected = [
            error,
            "restarted",
            "applied a",
            error,
            "restarted",
            "synced",
        ];
        assert_eq!(told(events), expected);
    }

    #[test]
    fn an_object_keeps_what_the_library_needs() {
        let object = object("a");
        assert_eq!(object.meta().name.as_deref(), Some("a"));
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        assert_eq!(object.meta().managed_fields, None);
        let path = Thin::<ClusterFacts>::url_path(&(), None);
        assert_eq!(path, "/apis/extensions.gardener.cloud/v1alpha1/clusters");
    }
}
