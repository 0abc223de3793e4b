//! What there is on this server.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::header;
use serde_json::{Value, json};

use super::answer::Answer;
use super::{Asked, Server};
use crate::kind::Kind;

/// All resources at once, if the client can read that.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Kinds by group and version.
type Groups = BTreeMap<(String, String), Vec<Arc<Kind>>>;

impl Server {
    fn all_groups(&self) -> Groups {
        let mut groups = Groups::new();
        for kind in self.store.lock().kinds().values() {
            let key = (kind.resource.group().to_owned(), kind.version.clone());
            groups.entry(key).or_default().push(Arc::clone(kind));
        }
        // Questions about rights are asked there, and nothing is kept.
        groups
            .entry(("authorization.k8s.io".into(), "v1".into()))
            .or_default();
        groups
    }

    pub(super) fn groups(&self, asked: &Asked<'_>, is_core: bool) -> Answer {
        let mut groups = self.all_groups();
        groups.retain(|(group, _), _| group.is_empty() == is_core);
        let accept = asked.head.headers.get(header::ACCEPT);
        let accept = accept
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if accept.replace(' ', "").contains(AGGREGATED) {
            let items: Vec<Value> = groups.iter().map(aggregated).collect();
            let list = json!({
                "kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2",
                "metadata": {},
                "items": items,
            });
            return Answer::of(200, AGGREGATED, list.to_string());
        }
        if is_core {
            let versions = json!({
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [],
            });
            return Answer::json(200, &versions);
        }
        let groups: Vec<Value> = groups
            .keys()
            .map(|(group, version)| shown(group, version))
            .collect();
        let list = json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups });
        Answer::json(200, &list)
    }

    pub(super) fn group(&self, group: &str) -> Answer {
        let groups = self.all_groups();
        let found = groups.keys().find(|(name, _)| name == group);
        let Some((group, version)) = found else {
            return super::other("");
        };
        let mut shown = shown(group, version);
        shown["kind"] = "APIGroup".into();
        shown["apiVersion"] = "v1".into();
        Answer::json(200, &shown)
    }

    pub(super) fn resources(&self, group: &str, version: &str) -> Answer {
        let groups = self.all_groups();
        let Some(kinds) = groups.get(&(group.to_owned(), version.to_owned())) else {
            return super::other("");
        };
        let api_version = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let mut resources: Vec<Value> = kinds.iter().flat_map(with_subresources).collect();
        if group == "authorization.k8s.io" {
            resources.extend(reviews());
        }
        let list = json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": api_version,
            "resources": resources,
        });
        Answer::json(200, &list)
    }
}

fn shown(group: &str, version: &str) -> Value {
    let version = json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    json!({ "name": group, "versions": [version], "preferredVersion": version })
}

fn with_subresources(kind: &Arc<Kind>) -> Vec<Value> {
    let plural = kind.resource.plural();
    let mut own = json!({
        "name": plural,
        "singularName": kind.singular,
        "namespaced": kind.is_namespaced,
        "kind": kind.name,
        "verbs": kind.verbs(),
    });
    if !kind.short_names.is_empty() {
        own["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        own["categories"] = json!(kind.categories);
    }
    let mut all = vec![own];
    for (subresource, response) in subresources(kind) {
        let mut own = json!({
            "name": format!("{plural}/{subresource}"),
            "singularName": "",
            "namespaced": kind.is_namespaced,
            "kind": response.2,
            "verbs": ["get", "patch", "update"],
        });
        if subresource == "scale" {
            own["group"] = response.0.into();
            own["version"] = response.1.into();
        }
        all.push(own);
    }
    all
}

/// Group, version and kind of what is shown; those of a kind that is built in go without saying.
fn own(kind: &Kind) -> (&str, &str, &str) {
    if kind.is_custom {
        (kind.resource.group(), &kind.version, &kind.name)
    } else {
        ("", "", &kind.name)
    }
}

/// Subresources, each with group, version and kind of what it shows.
fn subresources(kind: &Kind) -> Vec<(&'static str, (&str, &str, &str))> {
    let scale = ("scale", ("autoscaling", "v1", "Scale"));
    let status = ("status", own(kind));
    [scale, status]
        .into_iter()
        .filter(|(name, _)| kind.has(name))
        .collect()
}

fn reviews() -> Vec<Value> {
    let review = |kind: &str| {
        json!({
            "name": format!("{}s", kind.to_lowercase()),
            "singularName": kind.to_lowercase(),
            "namespaced": false,
            "kind": kind,
            "verbs": ["create"],
        })
    };
    vec![
        review("SelfSubjectAccessReview"),
        review("SelfSubjectRulesReview"),
    ]
}

fn aggregated(((group, version), kinds): (&(String, String), &Vec<Arc<Kind>>)) -> Value {
    let resources: Vec<Value> = kinds.iter().map(|kind| aggregated_kind(kind)).collect();
    let metadata = if group.is_empty() {
        json!({})
    } else {
        json!({ "name": group })
    };
    json!({
        "metadata": metadata,
        "versions": [{ "version": version, "resources": resources, "freshness": "Current" }],
    })
}

fn aggregated_kind(kind: &Kind) -> Value {
    let response = |(group, version, kind): (&str, &str, &str)| json!({ "group": group, "version": version, "kind": kind });
    let mut shown = json!({
        "resource": kind.resource.plural(),
        "responseKind": response(own(kind)),
        "scope": if kind.is_namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs(),
    });
    if !kind.short_names.is_empty() {
        shown["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        shown["categories"] = json!(kind.categories);
    }
    let below: Vec<Value> = subresources(kind)
        .into_iter()
        .map(|(name, of)| {
            json!({
                "subresource": name,
                "responseKind": response(of),
                "verbs": ["get", "patch", "update"],
            })
        })
        .collect();
    if !below.is_empty() {
        shown["subresources"] = below.into();
    }
    shown
}
