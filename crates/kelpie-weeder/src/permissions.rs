//! What the weeder must be allowed to do, and why. The RBAC file and the self-check are made from it.

use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::seed::{FOLLOW, Need};

const SLICES: (&str, &str) = ("discovery.k8s.io", "endpointslices");
const PODS: (&str, &str) = ("", "pods");
const EVENTS: (&str, &str) = ("", "events");

/// In all namespaces or in one; `election`: where the leader is elected, if it is.
pub fn needs(namespace: Option<&str>, election: Option<&ElectionSettings>) -> Vec<Need> {
    let reason = "seeing services come back";
    let mut needs = vec![Need::new(FOLLOW, SLICES, reason).within(namespace)];
    let reason = "the dependants of a service, while its window is open";
    needs.push(Need::new(FOLLOW, PODS, reason).within(namespace));
    let reason = "deleting dependants in CrashLoopBackOff";
    needs.push(Need::new(&["delete"], PODS, reason).within(namespace));
    needs.extend(election.into_iter().flat_map(Need::of_election));
    let reason = "the evidence of each deletion, on the pod; what was given up, on its owner";
    let events = Need::new(&["create", "patch"], EVENTS, reason).within(namespace);
    needs.push(events.or_else("Events; the evidence stands in the log, everything else works"));
    needs
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What Gardener grants dependency-watchdog's weeder: verbs, resource, namespace.
    const GARDENER: [(&[&str], &str, Option<&str>); 4] = [
        (&["get", "list", "watch", "delete"], "pods", None),
        (&["get", "list", "watch"], "endpointslices", None),
        (
            &["create", "get", "watch", "update"],
            "leases",
            Some("garden"),
        ),
        (
            &["create", "get", "update", "patch"],
            "events",
            Some("garden"),
        ),
    ];

    #[test]
    fn nothing_but_events_is_needed_beyond_what_gardener_grants() {
        let election = ElectionSettings {
            namespace: "garden".into(),
            name: "dwd-weeder-leader-election".into(),
            identity: String::new(),
            lease_duration: Duration::ZERO,
            renew_deadline: Duration::ZERO,
            retry_period: Duration::ZERO,
        };
        let needs = needs(None, Some(&election));
        let permissions = needs.iter().flat_map(Need::permissions);
        let beyond = permissions.filter(|wanted| {
            !GARDENER.iter().any(|(verbs, resource, namespace)| {
                verbs.contains(&wanted.verb.as_str())
                    && *resource == wanted.resource
                    && (namespace.is_none() || *namespace == wanted.namespace.as_deref())
            })
        });
        let beyond: Vec<String> = beyond.map(|wanted| wanted.to_string()).collect();
        assert_eq!(beyond, ["create events", "patch events"]);
        let optional = needs.iter().filter(|need| need.lost.is_some());
        let optional: Vec<&str> = optional.map(|need| need.resource.as_str()).collect();
        assert_eq!(optional, ["events"]);
    }

    #[test]
    fn in_one_namespace_nothing_is_needed_elsewhere() {
        let needs = needs(Some("shoot--a"), None);
        assert!(
            needs
                .iter()
                .all(|need| need.namespace.as_deref() == Some("shoot--a"))
        );
    }
}
