//! Watches on objects of any kind.

use futures_util::Stream;
use kube::api::DynamicObject;
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::Value;

use super::ObjectKind;
use crate::watch::{WATCH_SECONDS, WatchEvent, watch_events};

/// The number of objects on a page of a list.
const PAGE: u32 = 100;

pub(super) fn watch(
    client: &Client,
    kind: ObjectKind,
    namespace: &str,
    name: Option<&str>,
) -> impl Stream<Item = WatchEvent<Value>> + Send + use<> {
    let resource = kind.resource();
    let client = client.clone();
    let api: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(client, &resource)
    } else {
        Api::namespaced_with(client, namespace, &resource)
    };
    let mut config = watcher::Config::default()
        .page_size(PAGE)
        .timeout(WATCH_SECONDS);
    if let Some(name) = name {
        config = config.fields(&format!("metadata.name={name}"));
    }
    watch_events(watcher(api, config), kind.to_string(), value)
}

/// Converts an object to JSON without its managedFields, which are large and unused.
fn value(mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).unwrap_or_default()
}
