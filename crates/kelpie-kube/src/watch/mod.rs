//! Watches on sets of objects that resume forever.

mod optional;
mod served_version;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::core::DynamicResourceScope;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Api, Client, Resource};
use serde::de::{Deserialize, DeserializeOwned, DeserializeSeed, Deserializer};
use serde_json::Value;

use crate::client::{ApiError, call_within, suppress_logs_of};
use crate::objects::ObjectKind;
use crate::projection::{FieldMask, FieldPath};
pub use optional::OptionalEvent;
pub(crate) use optional::optional;
pub(crate) use served_version::served;

/// An event of a watch.
///
/// Every list, both the first one and those after a broken watch, is delivered as `Init`, then
/// `Apply` for each object, then `InitDone`. Objects that were not applied in between are gone. A
/// list that fails halfway is followed by another `Init` without an `InitDone`.
#[derive(Debug, Clone)]
pub enum WatchEvent<T> {
    /// The start of a list.
    Init,
    /// An object that exists, is new or has changed.
    Apply(T),
    /// An object was deleted. The namespace is empty for a cluster-scoped object.
    #[expect(missing_docs, reason = "the names explain themselves")]
    Delete { namespace: String, name: String },
    /// The end of a list.
    InitDone,
    /// The watch failed and is retried with backoff. For logs and metrics.
    Error(WatchError),
}

/// The reason of a failed watch, which is retried in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchError {
    /// The resource, such as `leases.coordination.k8s.io`.
    pub what: String,
    /// The API server, as [`ClusterClient::server`](crate::client::ClusterClient::server) describes
    /// it; `None` if the caller knows it.
    pub server: Option<Arc<str>>,
    /// The reason, by remedy. A watch that has expired is normal; a new list follows.
    pub cause: ApiError,
}

impl WatchError {
    /// Adds the server.
    pub(crate) fn at(self, server: &Arc<str>) -> Self {
        Self {
            server: Some(Arc::clone(server)),
            ..self
        }
    }
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            server,
            cause,
        } = self;
        let at = server.as_ref().map(|server| format!(" at {server}"));
        let at = at.unwrap_or_default();
        match cause {
            ApiError::Forbidden(reason) => write!(
                f,
                "may not list and watch {what}: {reason}; grant list and watch on it"
            ),
            ApiError::NotFound => write!(
                f,
                "there is no {what} on the API server{at}; install its custom resource definition"
            ),
            ApiError::Expired => {
                write!(f, "the watch on {what} is too far behind; listing again")
            }
            cause => write!(f, "cannot watch {what}{at}: {cause}; {}", cause.remedy()),
        }
    }
}

/// The API server ends a watch after this time, and the next one resumes it. An idle watch receives
/// nothing in between, so a dead connection is noticed after this time and 5 s more.
pub(crate) const WATCH_SECONDS: u32 = 60;
/// The time for watches that have to notice a dead connection sooner, at the cost of more requests.
pub(crate) const SHORT_WATCH_SECONDS: u32 = 25;

/// The priority of a watch's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Never delayed. A dead connection is noticed within half a minute.
    Urgent,
    /// Subject to the limit on routine requests. A dead connection is noticed after a minute.
    Routine,
}

/// A resource reduced to the fields that are used of it.
pub trait WatchedResource: Clone + fmt::Debug + Send + Sync + 'static {
    /// The kind of the objects.
    const KIND: ObjectKind;
    /// Older versions of the kind, the newest first. One of them is watched if the API server does
    /// not serve `KIND`.
    const OLDER: &'static [ObjectKind] = &[];
    /// The fields that are used, besides the name, namespace and resourceVersion.
    const FIELDS: &'static [FieldPath];
    /// The number of objects on a page of a list. A page should have a few MB at most.
    const PAGE: u32 = 500;

    /// Builds the value from the kept fields. It never fails: a malformed object gives a value too.
    fn read(namespace: &str, name: &str, object: &Value) -> Self;
}

/// An object reduced to the metadata that kube's watcher needs and to the fields that are used.
#[derive(Debug, Clone)]
pub(crate) struct Projected<T> {
    metadata: ObjectMeta,
    pub(crate) facts: T,
}

impl<'de, T: WatchedResource> Deserialize<'de> for Projected<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = FieldMask::new(T::FIELDS).deserialize(deserializer)?;
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

impl<T: WatchedResource> Resource for Projected<T> {
    /// Its version is the one that is requested.
    type DynamicType = ObjectKind;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ObjectKind) -> Cow<'_, str> {
        kind.kind.into()
    }

    fn group(kind: &ObjectKind) -> Cow<'_, str> {
        kind.group.into()
    }

    fn version(kind: &ObjectKind) -> Cow<'_, str> {
        kind.version.into()
    }

    fn plural(kind: &ObjectKind) -> Cow<'_, str> {
        kind.plural.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The objects of a kind that are watched. The default selects all of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selection<'a> {
    /// Only objects of this namespace.
    pub namespace: Option<&'a str>,
    /// Only the object of this name. No other object is ever requested.
    pub name: Option<&'a str>,
    /// Only objects with these labels.
    pub labels: Option<&'a str>,
}

/// Lists and watches forever. The API server ends each watch after `seconds`.
pub(crate) fn watch<T: WatchedResource>(
    client: &Client,
    selection: Selection<'_>,
    seconds: u32,
) -> impl Stream<Item = WatchEvent<T>> + Send + use<T> {
    if T::OLDER.is_empty() {
        watch_version(client, T::KIND, selection, seconds).left_stream()
    } else {
        served_version::watch_served(client, selection, seconds).right_stream()
    }
}

/// Lists and watches a kind in one version.
fn watch_version<T: WatchedResource>(
    client: &Client,
    kind: ObjectKind,
    selection: Selection<'_>,
    seconds: u32,
) -> impl Stream<Item = WatchEvent<T>> + Send + use<T> {
    let api = api::<T>(client, kind, selection);
    let config = watcher::Config::default()
        .page_size(T::PAGE)
        .timeout(seconds);
    watch_api(api, config, selection, kind, |object| object.facts)
}

/// Lists once, without a cache: the list is at least as new as the call.
pub(crate) fn list_now<T: WatchedResource>(
    client: &Client,
    selection: Selection<'_>,
    limit: Duration,
) -> impl Future<Output = Result<Vec<T>, ApiError>> + Send + use<T> {
    let api = api::<T>(client, T::KIND, selection);
    let mut params = ListParams::default();
    if let Some(name) = selection.name {
        params = params.fields(&name_selector(name));
    }
    if let Some(labels) = selection.labels {
        params = params.labels(labels);
    }
    async move {
        let list = call_within(limit, api.list(&params)).await?;
        Ok(list.items.into_iter().map(|object| object.facts).collect())
    }
}

fn api<T: WatchedResource>(
    client: &Client,
    kind: ObjectKind,
    selection: Selection<'_>,
) -> Api<Projected<T>> {
    let client = client.clone();
    match selection.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    }
}

fn name_selector(name: &str) -> String {
    format!("metadata.name={name}")
}

/// Watches the objects of an API, with backoff while that fails.
pub(crate) fn watch_api<O, T: Send + 'static>(
    api: Api<O>,
    mut config: watcher::Config,
    selection: Selection<'_>,
    kind: ObjectKind,
    facts: fn(O) -> T,
) -> impl Stream<Item = WatchEvent<T>> + Send + use<O, T>
where
    O: Resource + Clone + DeserializeOwned + fmt::Debug + Send + 'static,
{
    if let Some(name) = selection.name {
        config = config.fields(&name_selector(name));
    }
    if let Some(labels) = selection.labels {
        config = config.labels(labels);
    }
    let (events, what) = (watch_objects(api, config), kind.to_string());
    let mut init_pending = false;
    let events = suppress_logs_of(events)
        .flat_map(move |event| stream::iter(convert(event, &mut init_pending, &what, facts)));
    // The backoff has to come after the conversion: kube's watcher sends `Init` before it has
    // listed anything, and every such event would reset the backoff.
    let events = events.default_backoff();
    events.map(|event| event.unwrap_or_else(WatchEvent::Error))
}

/// Converts one event. `Init` is held back until the first event of its list, so that a list that
/// fails at once leaves no trace.
fn convert<O: Resource, T>(
    event: watcher::Result<Event<O>>,
    init_pending: &mut bool,
    what: &str,
    facts: fn(O) -> T,
) -> impl Iterator<Item = Result<WatchEvent<T>, WatchError>> + use<O, T> {
    let converted = match event {
        Ok(Event::Init) => {
            *init_pending = true;
            None
        }
        Ok(Event::InitApply(object) | Event::Apply(object)) => {
            Some(Ok(WatchEvent::Apply(facts(object))))
        }
        Ok(Event::InitDone) => Some(Ok(WatchEvent::InitDone)),
        Ok(Event::Delete(object)) => Some(Ok(WatchEvent::Delete {
            namespace: object.meta().namespace.clone().unwrap_or_default(),
            name: object.meta().name.clone().unwrap_or_default(),
        })),
        Err(error) => Some(Err(watch_error(&error, what))),
    };
    let init = (*init_pending && matches!(converted, Some(Ok(_)))).then(|| {
        *init_pending = false;
        Ok(WatchEvent::Init)
    });
    init.into_iter().chain(converted)
}

fn watch_error(error: &watcher::Error, what: &str) -> WatchError {
    let cause = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => ApiError::from(error),
        watcher::Error::WatchError(status) => ApiError::from_status(status.code, &status.message),
        watcher::Error::NoResourceVersion => {
            ApiError::Unavailable("an object has no resourceVersion".into())
        }
    };
    WatchError {
        what: what.to_owned(),
        server: None,
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug)]
    struct Widget {
        name: String,
    }

    impl WatchedResource for Widget {
        const KIND: ObjectKind = ObjectKind::new("example.com", "v1", "Widget", "widgets");
        const FIELDS: &'static [FieldPath] = &[];

        fn read(_namespace: &str, name: &str, _object: &Value) -> Self {
            Self {
                name: name.to_owned(),
            }
        }
    }

    fn object(name: &str) -> Projected<Widget> {
        let text = format!(r#"{{"metadata": {{"name": "{name}", "resourceVersion": "7"}}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn expired() -> watcher::Error {
        let status = kube::core::Status::failure("too old", "Expired").with_code(410);
        watcher::Error::WatchError(status.boxed())
    }

    /// Converts events and describes the results.
    fn describe(events: Vec<watcher::Result<Event<Projected<Widget>>>>) -> Vec<String> {
        let mut init_pending = false;
        let events = events.into_iter().flat_map(|event| {
            let what = Widget::KIND.to_string();
            convert(event, &mut init_pending, &what, |object| object.facts)
        });
        let describe = |event: Result<WatchEvent<Widget>, WatchError>| match event {
            Ok(WatchEvent::Init) => "init".to_owned(),
            Ok(WatchEvent::Apply(widget)) => format!("apply {}", widget.name),
            Ok(WatchEvent::Delete { name, .. }) => format!("delete {name}"),
            Ok(WatchEvent::InitDone) => "init done".to_owned(),
            Ok(WatchEvent::Error(error)) | Err(error) => error.to_string(),
        };
        events.map(describe).collect()
    }

    #[test]
    fn list_is_delivered_between_init_and_init_done() {
        let events = vec![
            Ok(Event::Init),
            Ok(Event::InitApply(object("a"))),
            Ok(Event::InitApply(object("b"))),
            Ok(Event::InitDone),
            Ok(Event::Apply(object("c"))),
            Ok(Event::Delete(object("a"))),
        ];
        let expected = [
            "init",
            "apply a",
            "apply b",
            "init done",
            "apply c",
            "delete a",
        ];
        assert_eq!(describe(events), expected);
    }

    #[test]
    fn empty_list_has_init_and_init_done() {
        let events = vec![Ok(Event::Init), Ok(Event::InitDone)];
        assert_eq!(describe(events), ["init", "init done"]);
    }

    #[test]
    fn failed_list_has_no_init() {
        let error = "the watch on widgets.example.com is too far behind; listing again";
        let events = vec![
            Ok(Event::Init),
            Err(expired()),
            Ok(Event::Init),
            Ok(Event::InitApply(object("a"))),
            Err(expired()),
            Ok(Event::Init),
            Ok(Event::InitDone),
        ];
        let expected = [error, "init", "apply a", error, "init", "init done"];
        assert_eq!(describe(events), expected);
    }

    #[test]
    fn projected_object_keeps_needed_metadata() {
        let object = object("a");
        assert_eq!(object.meta().name.as_deref(), Some("a"));
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        assert_eq!(object.meta().managed_fields, None);
        let path = Projected::<Widget>::url_path(&Widget::KIND, None);
        assert_eq!(path, "/apis/example.com/v1/widgets");
    }
}
