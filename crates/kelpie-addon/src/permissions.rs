//! What each part of the addon must be allowed to do, and why.

use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::objects::Kind;
use kelpie_kube::seed::{FOLLOW, Need};

use crate::addon::{ADDON, AddonRef};
use crate::hop::{MANAGED, MANAGED_NAME};
use crate::made::{DEPLOYMENT, MONITOR, RULE, SERVICE};
use crate::operator::{INPUTS, OperatorOptions, POD, STATEFUL_SET};

/// One object: read and followed.
const FOLLOW_ONE: &[&str] = &["get", "list", "watch"];
/// Objects that are applied, and swept away when nobody wants them. Applying what is not there needs
/// both.
const MAKE: &[&str] = &["list", "create", "patch", "delete"];

fn on(kind: Kind) -> (&'static str, &'static str) {
    (kind.group, kind.plural)
}

fn status(addon: &AddonRef, reason: &'static str) -> Need {
    Need::new(&["update"], on(ADDON), reason)
        .of("status")
        .within(Some(&addon.namespace))
        .named(Some(&addon.name))
}

fn own(verbs: &'static [&'static str], addon: &AddonRef, reason: &'static str) -> Need {
    Need::new(verbs, on(ADDON), reason)
        .within(Some(&addon.namespace))
        .named(Some(&addon.name))
}

fn events(addon: &AddonRef) -> Need {
    let reason = "telling what was done, on the addon";
    Need::new(&["create", "patch"], ("", "events"), reason)
        .within(Some(&addon.namespace))
        .or_else("Events; everything else works")
}

/// The operator, on the spoke.
pub fn operator_needs(
    addon: &AddonRef,
    options: &OperatorOptions,
    election: Option<&ElectionSettings>,
) -> Vec<Need> {
    let here = Some(addon.namespace.as_str());
    let mut needs = vec![own(FOLLOW_ONE, addon, "what is wanted of the collectors")];
    if !options.no_status {
        needs.push(status(
            addon,
            "saying how the deployment of each collector went",
        ));
    }
    for (kind, name) in INPUTS {
        let reason = "what the collectors are made from; no other object of this kind is asked for";
        let input = Need::new(FOLLOW_ONE, on(kind), reason);
        needs.push(input.within(here).named(Some(name)));
    }
    for kind in [SERVICE, MONITOR, RULE] {
        let reason = "the collectors' own metrics";
        needs.push(Need::new(MAKE, on(kind), reason).within(here));
    }
    let making: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
    needs.push(Need::new(making, on(DEPLOYMENT), "the collectors").within(here));
    let reason = "why a collector does not get ready, and whether one that goes is gone";
    needs.push(Need::new(&["list"], on(POD), reason).within(here));
    let sources = [(SERVICE, &options.platform), (STATEFUL_SET, &options.uwl)];
    for (kind, source) in sources {
        let reason = "whether there is a Prometheus to collect from";
        let source_need = Need::new(FOLLOW_ONE, on(kind), reason);
        let place = Some(source.namespace.as_str());
        needs.push(source_need.within(place).named(Some(&source.name)));
    }
    needs.extend(election.into_iter().flat_map(Need::of_election));
    needs.push(events(addon));
    needs
}

/// The status controller, on the spoke.
pub fn status_needs(addon: &AddonRef, election: Option<&ElectionSettings>) -> Vec<Need> {
    let reason = "whether the spoke is clean, before the hub's addon may go";
    let mut needs = vec![
        own(FOLLOW_ONE, addon, "the components' conditions"),
        status(addon, "the standard conditions"),
        own(
            &["delete"],
            addon,
            "the hub deletes its addon: the spoke is cleaned first",
        ),
        Need::new(&["list"], on(DEPLOYMENT), reason).within(Some(&addon.namespace)),
    ];
    needs.extend(election.into_iter().flat_map(Need::of_election));
    needs.push(events(addon));
    needs
}

/// The status controller, on the hub: what hubs grant, and no more.
pub fn hub_needs(addon: &AddonRef) -> Vec<Need> {
    let reason = "the addon of this cluster; when it is deleted, taking our finalizer away";
    vec![
        own(&["get", "update"], addon, reason),
        status(addon, "the status of the spoke"),
    ]
}

/// The hop, on the hub, for the clusters of all namespaces.
pub fn hop_needs(election: Option<&ElectionSettings>) -> Vec<Need> {
    let shown = |verbs, reason| Need::new(verbs, on(MANAGED), reason).named(Some(MANAGED_NAME));
    let mut needs = vec![
        Need::new(FOLLOW, on(ADDON), "the addons of all clusters"),
        shown(&["get"], "what the hub shows of each cluster's addon"),
        shown(&["update"], "showing how it is").of("status"),
    ];
    needs.extend(election.into_iter().flat_map(Need::of_election));
    needs
}

/// A collector, on the spoke.
pub fn collector_needs(addon: &AddonRef) -> Vec<Need> {
    vec![
        own(&["get"], addon, "what stands in the status now"),
        status(addon, "saying whether it forwards"),
    ]
}
