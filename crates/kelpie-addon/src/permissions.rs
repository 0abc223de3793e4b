//! The permissions that each process of the addon needs, with reasons.

use kelpie_core::addon::AddonComponent;
use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::objects::ObjectKind;
use kelpie_kube::rbac::{PolicyRule, WATCH_VERBS};

use crate::addon::{ADDON, AddonRef};
use crate::addon_lease::{ADDON_LEASE, LEASE};
use crate::hub_status::{MANAGED_ADDON, MANAGED_ADDON_NAME};
use crate::operator::{
    CLUSTER_VERSION, CLUSTER_VERSION_NAME, INPUT_OBJECTS, OperatorOptions, POD, STATEFUL_SET,
};
use crate::owned::{DEPLOYMENT, PROMETHEUS_RULE, SERVICE, SERVICE_MONITOR, object_name};

/// For a single object that is read and watched.
const WATCH_ONE: &[&str] = &["get", "list", "watch"];
/// For objects that are applied, and deleted when they are no longer desired. Server-side apply
/// needs create as well.
const APPLY: &[&str] = &["get", "patch", "delete"];

fn resource(kind: ObjectKind) -> (&'static str, &'static str) {
    (kind.group, kind.plural)
}

fn update_status(addon: &AddonRef, reason: &'static str) -> PolicyRule {
    on_addon(&["update"], addon, reason).subresource("status")
}

fn on_addon(verbs: &'static [&'static str], addon: &AddonRef, reason: &'static str) -> PolicyRule {
    PolicyRule::new(verbs, resource(ADDON), reason)
        .in_namespace(Some(&addon.namespace))
        .named(Some(&addon.name))
}

/// Server-side apply needs create as well.
fn addon_lease(addon: &AddonRef) -> [PolicyRule; 2] {
    let lease = |verbs, reason| {
        PolicyRule::new(verbs, resource(LEASE), reason)
            .in_namespace(Some(&addon.namespace))
            .optional("leases of ManagedClusterAddOns")
    };
    let reason = "telling the hub's registration agent that the addon is alive";
    let renewing = lease(&["patch"], reason).named(Some(ADDON_LEASE));
    let reason = "creating its Lease; RBAC cannot restrict create to a name";
    [renewing, lease(&["create"], reason)]
}

fn events(addon: &AddonRef) -> PolicyRule {
    let reason = "publishing Events about the addon";
    PolicyRule::new(&["create", "patch"], ("", "events"), reason)
        .in_namespace(Some(&addon.namespace))
        .optional("Events; everything else works")
}

/// Returns the permissions of the operator on the spoke.
pub fn operator_rules(
    addon: &AddonRef,
    options: &OperatorOptions,
    election: Option<&ElectionSettings>,
) -> Vec<PolicyRule> {
    let own_namespace = Some(addon.namespace.as_str());
    let mut rules = vec![on_addon(
        WATCH_ONE,
        addon,
        "reading the desired state of the collectors",
    )];
    if !options.no_status {
        rules.push(update_status(
            addon,
            "reporting the deployment of each collector",
        ));
    }
    for (kind, name) in INPUT_OBJECTS {
        let reason =
            "reading the inputs of the collectors; no other object of this kind is requested";
        let input = PolicyRule::new(WATCH_ONE, resource(kind), reason);
        rules.push(input.in_namespace(own_namespace).named(Some(name)));
    }
    for (kind, reason) in [
        (SERVICE, "exposing the collectors' own metrics"),
        (SERVICE_MONITOR, "exposing the collectors' own metrics"),
        (PROMETHEUS_RULE, "alerting on the collectors"),
        (DEPLOYMENT, "deploying the collectors"),
    ] {
        for component in AddonComponent::ALL {
            let mut verbs = vec![APPLY];
            // Its readiness is watched.
            verbs.extend((kind == DEPLOYMENT).then_some(WATCH_VERBS));
            let named = verbs.into_iter().map(|verbs| {
                let rule = PolicyRule::new(verbs, resource(kind), reason);
                rule.in_namespace(own_namespace)
                    .named(Some(object_name(component)))
            });
            rules.extend(named);
        }
        let reason = "creating them; RBAC cannot restrict create to a name";
        rules
            .push(PolicyRule::new(&["create"], resource(kind), reason).in_namespace(own_namespace));
    }
    let reason = "finding out why a collector is not ready, and when its pods are gone";
    rules.push(PolicyRule::new(&["list"], resource(POD), reason).in_namespace(own_namespace));
    let reason = "detecting OpenShift, and reading the ID of the cluster";
    let version = PolicyRule::new(&["get"], resource(CLUSTER_VERSION), reason)
        .named(Some(CLUSTER_VERSION_NAME));
    rules.push(version.optional("IDs of OpenShift clusters"));
    let sources = [(SERVICE, &options.platform), (STATEFUL_SET, &options.uwl)];
    for (kind, source) in sources {
        let reason = "detecting the Prometheus to collect from";
        let rule = PolicyRule::new(WATCH_ONE, resource(kind), reason);
        let namespace = Some(source.namespace.as_str());
        rules.push(rule.in_namespace(namespace).named(Some(&source.name)));
    }
    rules.extend(election.into_iter().flat_map(PolicyRule::for_election));
    rules.push(events(addon));
    rules
}

/// Returns the permissions of the status controller on the spoke.
pub fn status_rules(addon: &AddonRef, election: Option<&ElectionSettings>) -> Vec<PolicyRule> {
    let reason = "waiting for a clean spoke before the hub's addon may go";
    let mut rules = vec![
        on_addon(WATCH_ONE, addon, "watching the components' conditions"),
        update_status(addon, "writing the standard conditions"),
        on_addon(
            &["delete"],
            addon,
            "deleting the spoke's addon after a deletion on the hub",
        ),
    ];
    rules.extend(addon_lease(addon));
    rules.extend(AddonComponent::ALL.map(|component| {
        PolicyRule::new(&["get"], resource(DEPLOYMENT), reason)
            .in_namespace(Some(&addon.namespace))
            .named(Some(object_name(component)))
    }));
    rules.extend(election.into_iter().flat_map(PolicyRule::for_election));
    rules.push(events(addon));
    rules
}

/// Returns the permissions of the status controller on the hub. They are no more than what hubs
/// grant.
pub fn hub_rules(addon: &AddonRef) -> Vec<PolicyRule> {
    let reason = "reading the addon of this cluster, and removing its finalizer after a deletion";
    vec![
        on_addon(&["get", "update"], addon, reason),
        update_status(addon, "replicating the spoke's status"),
    ]
}

/// Returns the permissions of the hub status controller on the hub, for clusters in all namespaces.
pub fn hub_status_rules(election: Option<&ElectionSettings>) -> Vec<PolicyRule> {
    let on_managed_addon = |verbs, reason| {
        PolicyRule::new(verbs, resource(MANAGED_ADDON), reason).named(Some(MANAGED_ADDON_NAME))
    };
    let mut rules = vec![
        PolicyRule::new(
            WATCH_VERBS,
            resource(ADDON),
            "watching the addons of all clusters",
        ),
        on_managed_addon(&["get"], "reading each cluster's ManagedClusterAddOn"),
        on_managed_addon(&["update"], "showing the state of the addon").subresource("status"),
    ];
    rules.extend(election.into_iter().flat_map(PolicyRule::for_election));
    rules
}

/// Returns the permissions of a collector on the spoke.
pub fn collector_rules(addon: &AddonRef) -> Vec<PolicyRule> {
    vec![
        on_addon(&["get"], addon, "reading the current status"),
        update_status(addon, "reporting the state of forwarding"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_objects_are_restricted_by_name() {
        let addon = AddonRef {
            namespace: "spoke".into(),
            name: "addon".into(),
        };
        let rules = operator_rules(&addon, &OperatorOptions::default(), None);
        let status = status_rules(&addon, None);
        let owned = [
            "services",
            "servicemonitors",
            "prometheusrules",
            "deployments",
        ];
        for rule in rules.iter().chain(&status) {
            let is_owned = owned.contains(&rule.resource.as_str());
            if is_owned && rule.namespace.as_deref() == Some("spoke") && rule.name.is_none() {
                assert_eq!(rule.verbs, ["create"], "{rule}");
            }
        }
    }
}
