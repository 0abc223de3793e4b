//! Kinds that can be scaled, and their paths.

use std::collections::HashMap;
use std::sync::Arc;

use kelpie_core::prober::ResourceRef;
use kube::Client;
use parking_lot::Mutex;

use crate::client::{ApiError, suppress_logs};

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

/// The reason why a kind cannot be a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KindError {
    /// The kind does not exist.
    Unknown,
    /// The kind has no scale subresource, or is cluster-scoped.
    NotScalable,
    /// The API server could not be asked for its kinds.
    Api(ApiError),
}

/// The kinds that were discovered so far. A failed discovery is repeated.
#[derive(Debug, Clone, Default)]
pub(super) struct ScaleResources(Arc<Mutex<HashMap<(String, String), ScaleResource>>>);

impl ScaleResources {
    /// Discovers a kind, once. Well-known kinds need no discovery.
    pub(super) async fn find(
        &self,
        client: &Client,
        resource: &ResourceRef,
    ) -> Result<ScaleResource, KindError> {
        if let Some(kind) = well_known(resource) {
            return Ok(kind);
        }
        let key = (resource.api_version.clone(), resource.kind.clone());
        if let Some(kind) = self.0.lock().get(&key) {
            return Ok(kind.clone());
        }
        let kind = discover(client, resource).await?;
        self.0.lock().insert(key, kind.clone());
        Ok(kind)
    }

    /// Discovers the kind again next time: it may be gone, or have another plural now.
    pub(super) fn forget(&self, resource: &ResourceRef) {
        let key = (resource.api_version.clone(), resource.kind.clone());
        self.0.lock().remove(&key);
    }
}

fn well_known(resource: &ResourceRef) -> Option<ScaleResource> {
    let plural = match (resource.api_version.as_str(), resource.kind.as_str()) {
        ("apps/v1", "Deployment") => "deployments",
        ("apps/v1", "StatefulSet") => "statefulsets",
        ("apps/v1", "ReplicaSet") => "replicasets",
        _ => return None,
    };
    Some(ScaleResource::new(&resource.api_version, plural, true))
}

async fn discover(client: &Client, resource: &ResourceRef) -> Result<ScaleResource, KindError> {
    let version = &resource.api_version;
    let list = if version.contains('/') {
        suppress_logs(client.list_api_group_resources(version)).await
    } else {
        suppress_logs(client.list_core_api_resources(version)).await
    };
    let list = list.map_err(|error| match ApiError::from(&error) {
        ApiError::NotFound => KindError::Unknown,
        error => KindError::Api(error),
    })?;
    let found = list.resources.iter();
    let mut found = found.filter(|found| found.kind == resource.kind && !found.name.contains('/'));
    let found = found.next().ok_or(KindError::Unknown)?;
    let scale = format!("{}/scale", found.name);
    let has_scale = list.resources.iter().any(|other| other.name == scale);
    if !has_scale || !found.namespaced {
        return Err(KindError::NotScalable);
    }
    Ok(ScaleResource::new(version, &found.name, false))
}
