//! Kinds of objects, and paths of objects.

use std::fmt;

use kube::Resource;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version, such as `v1`.
    pub version: &'static str,
    /// The kind, such as `Deployment`.
    pub kind: &'static str,
    /// The resource in the plural, such as `deployments`.
    pub plural: &'static str,
}

impl ObjectKind {
    /// Creates a kind from its group, version, kind and plural.
    pub const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
        }
    }

    /// Returns the path of an object. The namespace is empty for a cluster-scoped object, or for
    /// all namespaces; an empty name stands for all objects.
    pub fn named<'a>(self, namespace: &'a str, name: &'a str) -> ObjectPath<'a> {
        ObjectPath {
            kind: self,
            namespace,
            name,
        }
    }

    /// Returns group and version as in the field `apiVersion`.
    pub fn api_version(self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the URL path of the group and version.
    pub(super) fn api_path(self) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        format!("/{root}/{}", self.api_version())
    }

    pub(super) fn resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk(self.group, self.version, self.kind);
        ApiResource::from_gvk_with_plural(&kind, self.plural)
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural)?;
        match self.group {
            "" => Ok(()),
            group => write!(f, ".{group}"),
        }
    }
}

/// The path of an object, or of all objects of a kind in a namespace or in all namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectPath<'a> {
    /// The kind of the objects.
    pub kind: ObjectKind,
    /// The namespace; empty for cluster-scoped objects, or for all namespaces.
    pub namespace: &'a str,
    /// The name; empty for all objects.
    pub name: &'a str,
}

impl ObjectPath<'_> {
    pub(super) fn url_path(&self) -> String {
        let namespace = Some(self.namespace).filter(|namespace| !namespace.is_empty());
        let mut path = DynamicObject::url_path(&self.kind.resource(), namespace);
        if !self.name.is_empty() {
            path.extend(["/", self.name]);
        }
        path
    }
}

impl fmt::Display for ObjectPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            "" => write!(f, "{}", self.kind)?,
            name => write!(f, "{} {name}", self.kind.kind)?,
        }
        match self.namespace {
            "" => Ok(()),
            namespace => write!(f, " in namespace {namespace}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPLOYMENT: ObjectKind = ObjectKind::new("apps", "v1", "Deployment", "deployments");
    const SECRET: ObjectKind = ObjectKind::new("", "v1", "Secret", "secrets");

    #[test]
    fn object_path_as_url_and_text() {
        for (object, path, text) in [
            (
                DEPLOYMENT.named("a", "b"),
                "/apis/apps/v1/namespaces/a/deployments/b",
                "Deployment b in namespace a",
            ),
            (
                SECRET.named("a", ""),
                "/api/v1/namespaces/a/secrets",
                "secrets in namespace a",
            ),
            (
                DEPLOYMENT.named("", ""),
                "/apis/apps/v1/deployments",
                "deployments.apps",
            ),
        ] {
            assert_eq!(object.url_path(), path);
            assert_eq!(object.to_string(), text);
        }
    }
}
