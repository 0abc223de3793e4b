//! Kinds of objects, and where an object is.

use std::fmt;

use kube::core::ApiResource;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Such as `v1`.
    pub version: &'static str,
    /// Such as `Deployment`.
    pub kind: &'static str,
    /// Such as `deployments`.
    pub plural: &'static str,
}

impl Kind {
    /// Group, version, kind and its plural.
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

    /// The object of this name; an empty namespace is that of objects of the whole cluster, an empty
    /// name stands for all.
    pub fn named<'a>(self, namespace: &'a str, name: &'a str) -> Place<'a> {
        Place {
            kind: self,
            namespace,
            name,
        }
    }

    /// As `apiVersion` has it.
    pub fn api_version(self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    pub(super) fn folder(self) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        format!("/{root}/{}", self.api_version())
    }

    pub(super) fn resource(self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural)?;
        match self.group {
            "" => Ok(()),
            group => write!(f, ".{group}"),
        }
    }
}

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl Place<'_> {
    pub(super) fn path(&self) -> String {
        let Self {
            kind,
            namespace,
            name,
        } = self;
        let mut path = kind.folder();
        if !namespace.is_empty() {
            path.extend(["/namespaces/", namespace]);
        }
        path.extend(["/", kind.plural]);
        if !name.is_empty() {
            path.extend(["/", name]);
        }
        path
    }
}

impl fmt::Display for Place<'_> {
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

    const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment", "deployments");
    const SECRET: Kind = Kind::new("", "v1", "Secret", "secrets");

    #[test]
    fn every_place_has_a_path_and_words() {
        for (place, path, words) in [
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
            assert_eq!(place.path(), path);
            assert_eq!(place.to_string(), words);
        }
    }
}
