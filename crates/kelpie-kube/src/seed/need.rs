//! What a component must be allowed to do, and why. RBAC files and self-checks are made from it.

use super::Permission;
use crate::leader::ElectionSettings;

/// Verbs on one kind of object, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Such as `list`.
    pub verbs: &'static [&'static str],
    /// API group; empty for the core group.
    pub group: String,
    /// Resource in the plural.
    pub resource: String,
    /// Such as `scale`.
    pub subresource: Option<&'static str>,
    /// `None`: in all namespaces, or for a resource of the whole cluster.
    pub namespace: Option<String>,
    /// Only for the object of this name.
    pub name: Option<String>,
    /// What it is for.
    pub reason: &'static str,
    /// What is missing without it, where that is not the whole work.
    pub lost: Option<&'static str>,
}

/// A list that goes on as a watch.
pub const FOLLOW: &[&str] = &["list", "watch"];

const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");

impl Need {
    /// In all namespaces, for every object.
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
            lost: None,
        }
    }

    /// In this namespace only.
    #[must_use]
    pub fn within(mut self, namespace: Option<&str>) -> Self {
        self.namespace = namespace.map(str::to_owned);
        self
    }

    /// For the object of this name only.
    #[must_use]
    pub fn named(mut self, name: Option<&str>) -> Self {
        self.name = name.map(str::to_owned);
        self
    }

    /// For a subresource.
    #[must_use]
    pub fn of(mut self, subresource: &'static str) -> Self {
        self.subresource = Some(subresource);
        self
    }

    /// It can be done without, at this price.
    #[must_use]
    pub fn or_else(mut self, lost: &'static str) -> Self {
        self.lost = Some(lost);
        self
    }

    /// One question for each verb.
    pub fn permissions(&self) -> impl Iterator<Item = Permission> {
        self.verbs.iter().map(|verb| Permission {
            verb: (*verb).to_owned(),
            group: self.group.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.map(str::to_owned),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        })
    }

    /// Taking part in an election.
    pub fn of_election(election: &ElectionSettings) -> [Self; 2] {
        let lease = |verbs, reason| {
            Self::new(verbs, LEASES, reason).within(Some(election.namespace.as_str()))
        };
        let reason = "the Lease of the leader; RBAC cannot limit its creation to a name";
        let creating = lease(&["create"], reason);
        let renewing = lease(&["get", "update"], "staying, or becoming, the leader");
        [creating, renewing.named(Some(election.name.as_str()))]
    }
}
