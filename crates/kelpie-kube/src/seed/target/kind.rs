//! Which kinds can be scaled, and how they are addressed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kelpie_core::ResourceRef;
use kube::Client;

use crate::seed::fault::Fault;
use crate::seed::quiet;

/// A kind with a scale subresource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleKind {
    api_version: String,
    plural: String,
    /// `spec.replicas` and `status.readyReplicas` are known to be the counts.
    pub(super) has_plain_counts: bool,
}

impl ScaleKind {
    fn new(api_version: &str, plural: &str, has_plain_counts: bool) -> Self {
        Self {
            api_version: api_version.to_owned(),
            plural: plural.to_owned(),
            has_plain_counts,
        }
    }

    /// Where the objects of a namespace are.
    pub(super) fn path(&self, namespace: &str) -> String {
        format!("{}/namespaces/{namespace}/{}", self.root(), self.plural)
    }

    /// Where the objects of all namespaces are.
    pub(super) fn path_of_all(&self) -> String {
        format!("{}/{}", self.root(), self.plural)
    }

    fn root(&self) -> String {
        let root = if self.api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        format!("/{root}/{}", self.api_version)
    }

    /// Such as `deployments`.
    pub fn plural(&self) -> &str {
        &self.plural
    }
}

/// Why a kind is no target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unfit {
    /// There is no such kind.
    Unknown,
    /// It exists, without a scale subresource or outside of namespaces.
    NotScalable,
    /// The API server could not be asked.
    Asking(Fault),
}

/// The kinds that were found so far. What could not be found is looked for again.
#[derive(Debug, Clone, Default)]
pub(super) struct Kinds(Arc<Mutex<HashMap<(String, String), ScaleKind>>>);

impl Kinds {
    /// Asks the API server once per kind; the kinds that every API server has, not at all.
    pub(super) async fn find(
        &self,
        client: &Client,
        resource: &ResourceRef,
    ) -> Result<ScaleKind, Unfit> {
        if let Some(kind) = well_known(resource) {
            return Ok(kind);
        }
        let key = (resource.api_version.clone(), resource.kind.clone());
        if let Some(kind) = self.lock().get(&key) {
            return Ok(kind.clone());
        }
        let kind = discover(client, resource).await?;
        self.lock().insert(key, kind.clone());
        Ok(kind)
    }

    /// Looks again next time: the kind may have gone, or come back under another plural.
    pub(super) fn forget(&self, resource: &ResourceRef) {
        let key = (resource.api_version.clone(), resource.kind.clone());
        self.lock().remove(&key);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), ScaleKind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn well_known(resource: &ResourceRef) -> Option<ScaleKind> {
    let plural = match (resource.api_version.as_str(), resource.kind.as_str()) {
        ("apps/v1", "Deployment") => "deployments",
        ("apps/v1", "StatefulSet") => "statefulsets",
        ("apps/v1", "ReplicaSet") => "replicasets",
        _ => return None,
    };
    Some(ScaleKind::new(&resource.api_version, plural, true))
}

async fn discover(client: &Client, resource: &ResourceRef) -> Result<ScaleKind, Unfit> {
    let version = &resource.api_version;
    let list = if version.contains('/') {
        quiet::call(client.list_api_group_resources(version)).await
    } else {
        quiet::call(client.list_core_api_resources(version)).await
    };
    let list = list.map_err(|error| match Fault::from(&error) {
        Fault::NotFound => Unfit::Unknown,
        fault => Unfit::Asking(fault),
    })?;
    let found = list.resources.iter();
    let mut found = found.filter(|found| found.kind == resource.kind && !found.name.contains('/'));
    let found = found.next().ok_or(Unfit::Unknown)?;
    let scale = format!("{}/scale", found.name);
    let has_scale = list.resources.iter().any(|other| other.name == scale);
    if !has_scale || !found.namespaced {
        return Err(Unfit::NotScalable);
    }
    Ok(ScaleKind::new(version, &found.name, false))
}
