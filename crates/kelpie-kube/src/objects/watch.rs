//! Following objects of a kind.

use futures_util::Stream;
use kube::api::DynamicObject;
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::Value;

use super::Kind;
use crate::seed::{Change, ROUND, follow};

const PAGE: u32 = 100;

pub(super) fn watch(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: Option<&str>,
) -> impl Stream<Item = Change<Value>> + Send + use<> {
    let resource = kind.resource();
    let client = client.clone();
    let api: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(client, &resource)
    } else {
        Api::namespaced_with(client, namespace, &resource)
    };
    let mut config = watcher::Config::default().page_size(PAGE).timeout(ROUND);
    if let Some(name) = name {
        config = config.fields(&format!("metadata.name={name}"));
    }
    follow(watcher(api, config), kind.to_string(), value)
}

/// Who manages which field is of no use to anybody here.
fn value(mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).unwrap_or_default()
}
