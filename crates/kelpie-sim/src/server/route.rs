//! Routing: from a path to the requested resource.

use std::sync::Arc;

use http::Method;

use super::query::{QueryParams, percent_decode};
use crate::kind::{ResourceKind, ResourceKinds};
use crate::resource::GroupResource;

/// The target of a path.
#[derive(Clone, Debug)]
pub(super) enum Route {
    /// A resource: one object or a collection.
    Objects(ResourcePath),
    /// A review, by its plural such as `selfsubjectaccessreviews`.
    Review(String),
    /// The list of groups: the core group, or all others.
    Groups { is_core: bool },
    /// A single API group.
    Group(String),
    /// The resources of a group and version.
    Version { group: String, version: String },
    /// An unknown resource of an existing group and version.
    Unknown,
    /// Any other path, such as `/version`.
    Other(String),
}

/// The path of an object or a collection.
#[derive(Clone, Debug)]
pub(super) struct ResourcePath {
    pub(super) kind: Arc<ResourceKind>,
    /// Empty for all namespaces, and for cluster-scoped kinds.
    pub(super) namespace: String,
    /// Empty for a collection.
    pub(super) name: String,
    pub(super) subresource: String,
}

/// The groups of reviews: access reviews, and `SelfSubjectReview`.
const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

impl Route {
    pub(super) fn parse(path: &str, kinds: &ResourceKinds) -> Self {
        let segments: Vec<String> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(percent_decode)
            .collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let found = match segments.as_slice() {
            ["api"] => Some(Self::Groups { is_core: true }),
            ["apis"] => Some(Self::Groups { is_core: false }),
            ["apis", group] => Some(Self::Group((*group).to_owned())),
            ["api", version] => Some(Self::version("", version)),
            ["apis", group, version] => Some(Self::version(group, version)),
            ["apis", AUTHORIZATION | AUTHENTICATION, "v1", review] => {
                Some(Self::Review((*review).to_owned()))
            }
            ["api", version, rest @ ..] => resource_route(kinds, "", version, rest),
            ["apis", group, version, rest @ ..] => resource_route(kinds, group, version, rest),
            _ => None,
        };
        found.unwrap_or_else(|| Self::Other(path.to_owned()))
    }

    fn version(group: &str, version: &str) -> Self {
        Self::Version {
            group: group.to_owned(),
            version: version.to_owned(),
        }
    }

    /// Returns the API verb of a request.
    pub(super) fn verb(&self, method: &Method, query: &QueryParams) -> &'static str {
        let is_named = matches!(self, Self::Objects(path) if !path.name.is_empty());
        let is_resource = matches!(self, Self::Objects(_));
        match *method {
            Method::GET if is_resource && !is_named && query.flag("watch") => "watch",
            Method::GET if is_resource && !is_named => "list",
            Method::GET => "get",
            Method::POST if is_resource => "create",
            Method::POST => "post",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if is_named => "delete",
            Method::DELETE => "deletecollection",
            Method::HEAD => "head",
            _ => "options",
        }
    }
}

fn resource_route(
    kinds: &ResourceKinds,
    group: &str,
    version: &str,
    segments: &[&str],
) -> Option<Route> {
    let is_version =
        |kind: &Arc<ResourceKind>| kind.resource.group() == group && kind.version == version;
    let found = resource_path(kinds, group, version, segments).map(Route::Objects);
    found.or_else(|| kinds.values().any(is_version).then_some(Route::Unknown))
}

fn resource_path(
    kinds: &ResourceKinds,
    group: &str,
    version: &str,
    segments: &[&str],
) -> Option<ResourcePath> {
    let kind_of = |plural: &str| {
        let kind = kinds.get(&GroupResource::new(group, plural))?;
        (kind.version == version).then(|| Arc::clone(kind))
    };
    let (kind, namespace, rest) = match segments {
        ["namespaces", namespace, plural, rest @ ..]
            if kind_of(plural).is_some_and(|kind| kind.is_namespaced) =>
        {
            (kind_of(plural)?, *namespace, rest)
        }
        [plural, rest @ ..] => (kind_of(plural)?, "", rest),
        [] => return None,
    };
    // A namespaced object needs its namespace in the path.
    if kind.is_namespaced && namespace.is_empty() && !rest.is_empty() {
        return None;
    }
    let (name, subresource) = match rest {
        [] => ("", ""),
        [name] => (*name, ""),
        [name, subresource] if kind.has_subresource(subresource) => (*name, *subresource),
        _ => return None,
    };
    Some(ResourcePath {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::KINDS;

    fn describe(path: &str) -> String {
        match Route::parse(path, &KINDS) {
            Route::Objects(path) => format!(
                "{} [{}] [{}] [{}]",
                path.kind.resource, path.namespace, path.name, path.subresource
            ),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn parses_resource_paths() {
        for (path, expected) in [
            ("/api/v1/pods", "pods [] [] []"),
            ("/api/v1/nodes/n1", "nodes [] [n1] []"),
            ("/api/v1/nodes/n1/status", "nodes [] [n1] [status]"),
            ("/api/v1/namespaces", "namespaces [] [] []"),
            ("/api/v1/namespaces/a", "namespaces [] [a] []"),
            ("/api/v1/namespaces/a/status", "namespaces [] [a] [status]"),
            ("/api/v1/namespaces/a/pods/b", "pods [a] [b] []"),
            (
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "deployments.apps [a] [b] [scale]",
            ),
            (
                "/apis/apps/v1/namespaces/a/deployments/b%2Fc",
                "deployments.apps [a] [b/c] []",
            ),
            ("/api/v1/namespaces/a/pods/b+c%2Bd", "pods [a] [b+c+d] []"),
        ] {
            assert_eq!(describe(path), expected, "{path}");
        }
    }

    #[test]
    fn unknown_resources_have_no_path() {
        for path in [
            "/api/v2/pods",
            "/api/v1/dragons",
            "/api/v1/pods/b",
            "/api/v1/namespaces/a/pods/b/scale",
            "/api/v1/namespaces/a/nodes",
            "/apis/apps/v1/namespaces/a/deployments/b/scale/c",
            "/metrics",
        ] {
            let route = Route::parse(path, &KINDS);
            assert!(matches!(route, Route::Other(_) | Route::Unknown), "{path}");
        }
    }
}
