//! The permissions that the weeder needs, each with its reason.
//!
//! The RBAC file is generated from them, and `kelpie check` verifies them.

use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::rbac::{PolicyRule, WATCH_VERBS};

const SLICES: (&str, &str) = ("discovery.k8s.io", "endpointslices");
const PODS: (&str, &str) = ("", "pods");

/// Returns the permissions for one namespace, or for all if `namespace` is `None`. `election` is
/// `None` without a leader election.
pub fn policy_rules(
    namespace: Option<&str>,
    election: Option<&ElectionSettings>,
) -> Vec<PolicyRule> {
    let reason = "detecting that a service recovers";
    let mut rules = vec![PolicyRule::new(WATCH_VERBS, SLICES, reason).in_namespace(namespace)];
    let reason = "watching the dependants of a service while its window is open";
    rules.push(PolicyRule::new(WATCH_VERBS, PODS, reason).in_namespace(namespace));
    let reason = "deleting dependants in CrashLoopBackOff";
    rules.push(PolicyRule::new(&["delete"], PODS, reason).in_namespace(namespace));
    rules.extend(election.into_iter().flat_map(PolicyRule::for_election));
    let reason = "reporting each deletion on its pod, and pods that are given up on their owner";
    let events =
        PolicyRule::new(&["create", "patch"], ("", "events"), reason).in_namespace(namespace);
    rules.push(events.optional("Events; the log has the evidence, and everything else works"));
    rules
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Gardener's grants for dependency-watchdog's weeder: verbs, resource, namespace.
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
    fn gardener_grants_everything_but_events() {
        let election = ElectionSettings {
            namespace: "garden".into(),
            name: "dwd-weeder-leader-election".into(),
            identity: String::new(),
            lease_duration: Duration::ZERO,
            renew_deadline: Duration::ZERO,
            retry_period: Duration::ZERO,
        };
        let rules = policy_rules(None, Some(&election));
        let permissions = rules.iter().flat_map(PolicyRule::for_each_verb);
        let missing = permissions.filter(|wanted| {
            !GARDENER.iter().any(|(verbs, resource, namespace)| {
                wanted.verbs.iter().all(|verb| verbs.contains(verb))
                    && *resource == wanted.resource
                    && (namespace.is_none() || *namespace == wanted.namespace.as_deref())
            })
        });
        let missing: Vec<String> = missing.map(|wanted| wanted.to_string()).collect();
        assert_eq!(missing, ["create events", "patch events"]);
        let optional = rules.iter().filter(|rule| rule.missing_if_denied.is_some());
        let optional: Vec<&str> = optional.map(|rule| rule.resource.as_str()).collect();
        assert_eq!(optional, ["events"]);
    }

    #[test]
    fn single_namespace_needs_nothing_elsewhere() {
        let rules = policy_rules(Some("shoot--a"), None);
        assert!(
            rules
                .iter()
                .all(|rule| rule.namespace.as_deref() == Some("shoot--a"))
        );
    }
}
