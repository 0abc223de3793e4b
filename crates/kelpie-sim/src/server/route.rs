//! From a path to what it names.

use std::sync::Arc;

use http::Method;

use super::query::{Query, decode};
use crate::kind::{Kind, Kinds};
use crate::resource::Resource;

/// What a path names.
#[derive(Clone, Debug)]
pub(super) enum Route {
    /// Objects, or one of them.
    Objects(Place),
    /// A question about oneself: the plural of the review, such as `selfsubjectaccessreviews`.
    Review(String),
    /// All groups: the core group, or the others.
    Groups { is_core: bool },
    /// One group.
    Group(String),
    /// The resources of a version of a group.
    Version { group: String, version: String },
    /// No resource of a group and version that there are.
    Unknown,
    /// Anything else: the whole path.
    Other(String),
}

/// Objects, or one of them.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) kind: Arc<Kind>,
    /// Empty: all, or none.
    pub(super) namespace: String,
    /// Empty: all of them.
    pub(super) name: String,
    pub(super) subresource: String,
}

/// Who may do what, and who one is.
const REVIEWS: &str = "authorization.k8s.io";
const WHO: &str = "authentication.k8s.io";

impl Route {
    pub(super) fn of(path: &str, kinds: &Kinds) -> Self {
        let steps: Vec<String> = path
            .split('/')
            .filter(|step| !step.is_empty())
            .map(decode)
            .collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let found = match steps.as_slice() {
            ["api"] => Some(Self::Groups { is_core: true }),
            ["apis"] => Some(Self::Groups { is_core: false }),
            ["apis", group] => Some(Self::Group((*group).to_owned())),
            ["api", version] => Some(Self::version("", version)),
            ["apis", group, version] => Some(Self::version(group, version)),
            ["apis", REVIEWS | WHO, "v1", review] => Some(Self::Review((*review).to_owned())),
            ["api", version, rest @ ..] => place(kinds, "", version, rest),
            ["apis", group, version, rest @ ..] => place(kinds, group, version, rest),
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

    /// The API's word for what is to be done.
    pub(super) fn verb(&self, method: &Method, query: &Query) -> &'static str {
        let is_one = matches!(self, Self::Objects(place) if !place.name.is_empty());
        let is_objects = matches!(self, Self::Objects(_));
        match *method {
            Method::GET if is_objects && !is_one && query.is_true("watch") => "watch",
            Method::GET if is_objects && !is_one => "list",
            Method::GET => "get",
            Method::POST if is_objects => "create",
            Method::POST => "post",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if is_one => "delete",
            Method::DELETE => "deletecollection",
            Method::HEAD => "head",
            _ => "options",
        }
    }
}

fn place(kinds: &Kinds, group: &str, version: &str, steps: &[&str]) -> Option<Route> {
    let is_version = |kind: &Arc<Kind>| kind.resource.group() == group && kind.version == version;
    let found = object_place(kinds, group, version, steps).map(Route::Objects);
    found.or_else(|| kinds.values().any(is_version).then_some(Route::Unknown))
}

fn object_place(kinds: &Kinds, group: &str, version: &str, steps: &[&str]) -> Option<Place> {
    let of = |plural: &str| {
        let kind = kinds.get(&Resource::new(group, plural))?;
        (kind.version == version).then(|| Arc::clone(kind))
    };
    let (kind, namespace, rest) = match steps {
        ["namespaces", namespace, plural, rest @ ..]
            if of(plural).is_some_and(|kind| kind.is_namespaced) =>
        {
            (of(plural)?, *namespace, rest)
        }
        [plural, rest @ ..] => (of(plural)?, "", rest),
        [] => return None,
    };
    // One object of a namespace is only found by way of that.
    if kind.is_namespaced && namespace.is_empty() && !rest.is_empty() {
        return None;
    }
    let (name, subresource) = match rest {
        [] => ("", ""),
        [name] => (*name, ""),
        [name, subresource] if kind.has(subresource) => (*name, *subresource),
        _ => return None,
    };
    Some(Place {
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

    fn shown(path: &str) -> String {
        match Route::of(path, &KINDS) {
            Route::Objects(place) => format!(
                "{} [{}] [{}] [{}]",
                place.kind.resource, place.namespace, place.name, place.subresource
            ),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_path_names_objects() {
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
        ] {
            assert_eq!(shown(path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_not_there_is_no_place() {
        for path in [
            "/api/v2/pods",
            "/api/v1/dragons",
            "/api/v1/pods/b",
            "/api/v1/namespaces/a/pods/b/scale",
            "/api/v1/namespaces/a/nodes",
            "/apis/apps/v1/namespaces/a/deployments/b/scale/c",
            "/metrics",
        ] {
            let route = Route::of(path, &KINDS);
            assert!(matches!(route, Route::Other(_) | Route::Unknown), "{path}");
        }
    }
}
