//! Kinds that can be scaled, and their paths.

use std::collections::HashMap;
use std::sync::Arc;

use kelpie_core::prober::ResourceRef;
use kube::Client;
use parking_lot::Mutex;

use super::ScaleOperation;
use crate::actuator::ActuatorError;
use crate::client::{ApiError, suppress_logs};
use crate::objects::ObjectKind;

/// A kind with a scale subresource.
#[derive(Debug, Clone)]
pub(super) struct ScaleResource {
    api_version: String,
    plural: String,
    /// `spec.replicas` and `status.readyReplicas` are known to be the counts.
    pub(super) has_plain_counts: bool,
}

impl ScaleResource {
    fn new(api_version: &str, plural: &str, has_plain_counts: bool) -> Self {
        Self {
            api_version: api_version.to_owned(),
            plural: plural.to_owned(),
            has_plain_counts,
        }
    }

    /// Returns the path of the objects in a namespace, or in all namespaces.
    pub(super) fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        let namespace = namespace.map(|namespace| format!("namespaces/{namespace}/"));
        let namespace = namespace.unwrap_or_default();
        format!("/{root}/{}/{namespace}{}", self.api_version, self.plural)
    }
}

/// The kinds that were discovered so far. A failed discovery is repeated.
#[derive(Debug, Clone, Default)]
pub(super) struct ScaleResources(Arc<Mutex<HashMap<(String, String), ScaleResource>>>);

impl ScaleResources {
    /// Discovers a kind, once. Well-known kinds need no discovery.
    pub(super) async fn find(
        &self,
        client: &Client,
        operation: ScaleOperation<'_>,
    ) -> Result<ScaleResource, ActuatorError> {
        let resource = operation.target;
        if let Some(kind) = well_known(resource) {
            return Ok(kind);
        }
        let key = (resource.api_version.clone(), resource.kind.clone());
        if let Some(kind) = self.0.lock().get(&key) {
            return Ok(kind.clone());
        }
        let kind = discover(client, operation).await?;
        self.0.lock().insert(key, kind.clone());
        Ok(kind)
    }

    /// Discovers the kind again next time: it may be gone, or have another plural now.
    pub(super) fn forget(&self, resource: &ResourceRef) {
        let key = (resource.api_version.clone(), resource.kind.clone());
        self.0.lock().remove(&key);
    }
}

/// Returns the kind of a resource whose counts are plain; it needs no discovery.
pub(super) fn plain_kind(resource: &ResourceRef) -> Option<ObjectKind> {
    let (kind, plural) = match resource.kind.as_str() {
        "Deployment" => ("Deployment", "deployments"),
        "StatefulSet" => ("StatefulSet", "statefulsets"),
        "ReplicaSet" => ("ReplicaSet", "replicasets"),
        _ => return None,
    };
    let is_plain = resource.has_plain_replicas();
    is_plain.then_some(ObjectKind::new("apps", "v1", kind, plural))
}

fn well_known(resource: &ResourceRef) -> Option<ScaleResource> {
    let kind = plain_kind(resource)?;
    Some(ScaleResource::new(&kind.api_version(), kind.plural, true))
}

async fn discover(
    client: &Client,
    operation: ScaleOperation<'_>,
) -> Result<ScaleResource, ActuatorError> {
    let ResourceRef {
        api_version, kind, ..
    } = operation.target;
    let unknown = || ActuatorError::UnknownKind {
        what: operation.what(),
        kind: kind.clone(),
        api_version: api_version.clone(),
    };
    let list = if api_version.contains('/') {
        suppress_logs(client.list_api_group_resources(api_version)).await
    } else {
        suppress_logs(client.list_core_api_resources(api_version)).await
    };
    let list = list.map_err(|error| match ApiError::from(&error) {
        ApiError::NotFound => unknown(),
        error => operation.failed(error),
    })?;
    let mut found = list.resources.iter();
    let found = found.find(|found| found.kind == *kind && !found.name.contains('/'));
    let found = found.ok_or_else(unknown)?;
    let scale = format!("{}/scale", found.name);
    let has_scale = list.resources.iter().any(|other| other.name == scale);
    if !has_scale || !found.namespaced {
        let what = operation.what();
        return Err(ActuatorError::NotScalable { what });
    }
    Ok(ScaleResource::new(api_version, &found.name, false))
}
