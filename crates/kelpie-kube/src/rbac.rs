//! The permissions that a component needs, with reasons. RBAC manifests and self-checks are
//! generated from them.

use std::{fmt, slice};

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::leader::ElectionSettings;

/// A permission for some verbs on one resource, with the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// The verbs, such as `list`.
    pub verbs: &'static [&'static str],
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource in the plural, such as `deployments`.
    pub resource: String,
    /// The subresource, such as `scale`.
    pub subresource: Option<&'static str>,
    /// The namespace. `None`: all namespaces, or a cluster-scoped resource.
    pub namespace: Option<String>,
    /// The name of the only object that is meant. `None`: all objects.
    pub name: Option<String>,
    /// The use of the permission, for manifests and messages.
    pub reason: &'static str,
    /// The function that is missing without this permission, as a plural noun such as "Events".
    /// `None`: the component cannot work without it.
    pub missing_if_denied: Option<&'static str>,
}

/// The verbs that a watch needs.
pub const WATCH_VERBS: &[&str] = &["list", "watch"];

const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");

impl PolicyRule {
    /// Creates a rule for all objects in all namespaces.
    pub fn new(
        verbs: &'static [&'static str],
        (group, resource): (&str, &str),
        reason: &'static str,
    ) -> Self {
        Self {
            verbs,
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: None,
            namespace: None,
            name: None,
            reason,
            missing_if_denied: None,
        }
    }

    /// Restricts the rule to a namespace. `None` means all namespaces.
    #[must_use]
    pub fn in_namespace(mut self, namespace: Option<&str>) -> Self {
        self.namespace = namespace.map(str::to_owned);
        self
    }

    /// Restricts the rule to the object of this name. `None` means all objects.
    #[must_use]
    pub fn named(mut self, name: Option<&str>) -> Self {
        self.name = name.map(str::to_owned);
        self
    }

    /// Applies the rule to a subresource.
    #[must_use]
    pub fn subresource(mut self, subresource: &'static str) -> Self {
        self.subresource = Some(subresource);
        self
    }

    /// Marks the rule as optional. `missing` is a plural noun, such as "Events".
    #[must_use]
    pub fn optional(mut self, missing: &'static str) -> Self {
        self.missing_if_denied = Some(missing);
        self
    }

    /// Returns one rule for each verb.
    pub fn for_each_verb(&self) -> impl Iterator<Item = Self> {
        self.verbs.iter().map(|verb| Self {
            verbs: slice::from_ref(verb),
            ..self.clone()
        })
    }

    /// Returns the rules for leader election.
    pub fn for_election(election: &ElectionSettings) -> [Self; 2] {
        let lease = |verbs, reason| {
            Self::new(verbs, LEASES, reason).in_namespace(Some(election.namespace.as_str()))
        };
        let reason = "the Lease of the leader; RBAC cannot restrict create to a name";
        let creating = lease(&["create"], reason);
        let renewing = lease(&["get", "update"], "becoming and staying the leader");
        [creating, renewing.named(Some(election.name.as_str()))]
    }
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verbs.join(", "), self.resource)?;
        if let Some(subresource) = self.subresource {
            write!(f, "/{subresource}")?;
        }
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " named {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// Returns the review that asks whether the first verb of a rule is allowed.
pub(crate) fn access_review(rule: &PolicyRule) -> SelfSubjectAccessReview {
    SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: rule.verbs.first().map(ToString::to_string),
                group: Some(rule.group.clone()),
                resource: Some(rule.resource.clone()),
                subresource: rule.subresource.map(str::to_owned),
                namespace: rule.namespace.clone(),
                name: rule.name.clone(),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    }
}

/// Creates a `SelfSubjectAccessReview` for the first verb of a rule. Returns whether it is allowed.
pub(crate) async fn review_access(client: &Client, rule: &PolicyRule) -> Result<bool, kube::Error> {
    let review = access_review(rule);
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = api.create(&PostParams::default(), &review).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}
