//! The permissions that each process of the addon needs, with reasons.

use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::objects::ObjectKind;
use kelpie_kube::rbac::{PolicyRule, WATCH_VERBS};

use crate::addon::{ADDON, AddonRef};
use crate::hub_status::{MANAGED_ADDON, MANAGED_ADDON_NAME};
use crate::operator::{INPUT_OBJECTS, OperatorOptions, POD, STATEFUL_SET};
use crate::owned::{DEPLOYMENT, PROMETHEUS_RULE, SERVICE, SERVICE_MONITOR};

/// For a single object that is read and watched.
const WATCH_ONE: &[&str] = &["get", "list", "watch"];
/// For objects that are applied, and deleted when they are no longer desired. Server-side apply
/// needs create and patch.
const APPLY: &[&str] = &["list", "create", "patch", "delete"];

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
    for kind in [SERVICE, SERVICE_MONITOR, PROMETHEUS_RULE] {
        let reason = "exposing the collectors' own metrics";
        rules.push(PolicyRule::new(APPLY, resource(kind), reason).in_namespace(own_namespace));
    }
    let verbs: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
    let reason = "deploying the collectors";
    rules.push(PolicyRule::new(verbs, resource(DEPLOYMENT), reason).in_namespace(own_namespace));
    let reason = "finding out why a collector is not ready, and when its pods are gone";
    rules.push(PolicyRule::new(&["list"], resource(POD), reason).in_namespace(own_namespace));
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
        PolicyRule::new(&["list"], resource(DEPLOYMENT), reason)
            .in_namespace(Some(&addon.namespace)),
    ];
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
