//! A watch on all targets of one name.

use std::borrow::Cow;

use futures_util::Stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kelpie_core::prober::ResourceRef;
use kube::core::DynamicResourceScope;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::{Deserialize, Deserializer};

use super::object::ScaleObject;
use super::resource::plain_kind;
use crate::actuator::{PAGE, TargetScope, WatchedTarget};
use crate::objects::ObjectKind;
use crate::watch::{SHORT_WATCH_SECONDS, Selection, WatchEvent, watch_api};

/// An object with the metadata that kube's watcher needs.
#[derive(Debug, Clone)]
struct WatchedObject {
    metadata: ObjectMeta,
    target: WatchedTarget,
}

impl<'de> Deserialize<'de> for WatchedObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = ScaleObject::deserialize(deserializer)?;
        let metadata = ObjectMeta {
            name: Some(object.name().to_owned()),
            namespace: Some(object.namespace().to_owned()),
            resource_version: Some(object.version().as_str().to_owned()),
            ..ObjectMeta::default()
        };
        let target = WatchedTarget {
            scope: TargetScope::of_namespace(object.namespace()),
            object: object.to_target(),
        };
        Ok(Self { metadata, target })
    }
}

impl Resource for WatchedObject {
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

/// Watches the objects of this kind and name, in one namespace or in all; `None` if an object of
/// the kind does not show its counts.
pub(super) fn watch(
    client: &Client,
    resource: &ResourceRef,
    namespace: Option<&str>,
) -> Option<impl Stream<Item = WatchEvent<WatchedTarget>> + Send + use<>> {
    let kind = plain_kind(resource)?;
    let client = client.clone();
    let api: Api<WatchedObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    };
    let config = watcher::Config::default()
        .page_size(PAGE)
        .timeout(SHORT_WATCH_SECONDS);
    let selection = Selection {
        name: Some(&resource.name),
        ..Selection::default()
    };
    Some(watch_api(api, config, selection, kind, |object| {
        object.target
    }))
}

#[cfg(test)]
mod tests {
    use kelpie_core::prober::Setting;

    use super::*;

    #[test]
    fn watched_object_keeps_needed_fields() {
        let text = r#"{"metadata": {"name": "kcm", "namespace": "a", "resourceVersion": "7",
            "managedFields": []}, "spec": {"replicas": 2}, "status": {"readyReplicas": 1}}"#;
        let object: WatchedObject = serde_json::from_str(text).unwrap();
        assert_eq!(object.meta().name.as_deref(), Some("kcm"));
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        assert_eq!(object.meta().managed_fields, None);
        let WatchedTarget { scope, object } = object.target;
        assert_eq!(scope, TargetScope::of_namespace("a"));
        assert_eq!((object.setting, object.effective), (Setting(2), Setting(1)));
    }
}
