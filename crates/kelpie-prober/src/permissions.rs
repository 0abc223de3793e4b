//! The permissions that the prober needs, each with its reason.
//!
//! The RBAC files are generated from them, and `kelpie check` verifies them.

use kelpie_config::{ProberConfig, ShardConfig};
use kelpie_core::prober::guard::GUARD_NAME;
use kelpie_kube::actuator;
use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::rbac::PolicyRule;

use crate::source::cluster_source;

/// The namespace in which kubelets renew their leases.
const NODE_LEASE_NAMESPACE: &str = "kube-node-lease";

/// Returns the permissions on the seed for this configuration. `election` is `None` without a
/// leader election.
pub fn seed_rules(config: &ProberConfig, election: Option<&ElectionSettings>) -> Vec<PolicyRule> {
    let mut rules = cluster_source(config).policy_rules();
    let only = config.namespace.as_deref();
    rules.extend(actuator::policy_rules(&config.targets, only));
    rules.extend(election.into_iter().flat_map(PolicyRule::for_election));
    if let (Some(shard), Some(election)) = (&config.shard, election) {
        rules.extend(shard_rules(shard, election));
        let reason = "giving clusters to other shards when the engine of the ring asks for it";
        let ring = shard.ring().map(|_| cluster_source(config).kind(""));
        rules.extend(ring.map(|kind| {
            let resource = (kind.group, kind.plural);
            let moves = PolicyRule::new(&["patch"], resource, reason);
            moves.optional("moves of clusters by the engine of the ring")
        }));
    }
    let reason = "reporting fences and restores, on the Cluster and on each target";
    let events = PolicyRule::new(&["create", "patch"], ("", "events"), reason);
    rules.push(events.optional("Events; everything else works"));
    rules
}

/// Returns the permissions on the Leases of shards.
fn shard_rules(shard: &ShardConfig, election: &ElectionSettings) -> [PolicyRule; 2] {
    let lease = |verbs, reason| {
        let rule = PolicyRule::new(verbs, ("coordination.k8s.io", "leases"), reason);
        rule.in_namespace(Some(election.namespace.as_str()))
    };
    let reading = lease(&["list"], "knowing the clusters of the other shards");
    let renewing = lease(
        &["update"],
        "telling the other shards which clusters this one has",
    );
    [reading, renewing.named(Some(shard.lease_name().as_str()))]
}

/// Returns the permissions on each probed cluster. `/version` needs none: every authenticated
/// client may read it.
pub fn shoot_rules() -> Vec<PolicyRule> {
    let reason = "detecting kubelets that do not renew their leases";
    let leases = PolicyRule::new(&["list"], ("coordination.k8s.io", "leases"), reason);
    let reason = "finding the nodes whose leases count";
    let nodes = PolicyRule::new(&["list"], ("", "nodes"), reason);
    vec![leases.in_namespace(Some(NODE_LEASE_NAMESPACE)), nodes]
}

/// Returns the further permissions on each cluster that is guarded. RBAC cannot restrict create to
/// a name.
pub fn guard_rules() -> Vec<PolicyRule> {
    const MISSING: &str = "guards; clusters are fenced as without them";
    let group = "admissionregistration.k8s.io";
    let policies = [
        (group, "validatingadmissionpolicies"),
        (group, "validatingadmissionpolicybindings"),
    ];
    let mut rules = Vec::new();
    for resource in policies {
        let reason = "the guard, without whose permit no node turns Unknown";
        rules.push(PolicyRule::new(&["create"], resource, reason));
        let reason = "renewing the guard, and removing it from clusters without a probe";
        let own = PolicyRule::new(&["get", "update", "delete"], resource, reason);
        rules.push(own.named(Some(GUARD_NAME)));
    }
    let leases = ("coordination.k8s.io", "leases");
    let reason = "the Lease whose dry run tells what is enforced";
    rules.push(PolicyRule::new(&["create"], leases, reason).in_namespace(Some("kube-system")));
    let dry_run = PolicyRule::new(&["patch"], leases, "the dry run itself");
    rules.push(
        dry_run
            .in_namespace(Some("kube-system"))
            .named(Some(GUARD_NAME)),
    );
    rules
        .into_iter()
        .map(|rule| rule.optional(MISSING))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelpie_config::{Strictness, prober};

    use super::*;

    const FILE: &str = include_str!("../../../docs/examples/prober.yaml");

    fn config(text: &str) -> ProberConfig {
        let parsed = prober::parse(text.as_bytes(), Strictness::Strict);
        parsed.unwrap().value
    }

    fn election() -> ElectionSettings {
        ElectionSettings {
            namespace: "garden".into(),
            name: "dwd-prober-leader-election".into(),
            identity: "a".into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// Verbs, group, resources, namespace, name.
    type Grant = (
        &'static [&'static str],
        &'static str,
        &'static [&'static str],
        Option<&'static str>,
        Option<&'static str>,
    );

    const READ: &[&str] = &["get", "list", "watch"];
    const SCALE: &[&str] = &["get", "list", "watch", "update", "patch"];

    /// The grants of Gardener 1.136 for dependency-watchdog's prober on the seed.
    const GARDENER_ON_SEED: &[Grant] = &[
        (READ, "extensions.gardener.cloud", &["clusters"], None, None),
        (READ, "", &["namespaces", "secrets"], None, None),
        (READ, "machine.sapcloud.io", &["machines"], None, None),
        (
            SCALE,
            "apps",
            &["deployments", "deployments/scale"],
            None,
            None,
        ),
        (
            &["create"],
            "coordination.k8s.io",
            &["leases"],
            Some("garden"),
            None,
        ),
        (
            &["get", "watch", "update"],
            "coordination.k8s.io",
            &["leases"],
            Some("garden"),
            Some("dwd-prober-leader-election"),
        ),
        (
            &["create", "get", "update", "patch"],
            "",
            &["events"],
            Some("garden"),
            None,
        ),
    ];

    /// The grants of Gardener 1.136 for dependency-watchdog's prober on the shoot.
    const GARDENER_ON_SHOOT: &[Grant] = &[
        (
            &["get", "list"],
            "coordination.k8s.io",
            &["leases"],
            Some("kube-node-lease"),
            None,
        ),
        (&["get", "list"], "", &["nodes"], None, None),
    ];

    fn is_granted(grants: &[Grant], wanted: &PolicyRule) -> bool {
        let subresource = wanted.subresource.iter();
        let path: String = subresource.fold(wanted.resource.clone(), |path, sub| path + "/" + sub);
        let covers = |limit: Option<&str>, wanted: Option<&str>| limit.is_none() || limit == wanted;
        grants
            .iter()
            .any(|(verbs, group, resources, namespace, name)| {
                wanted.verbs.iter().all(|verb| verbs.contains(verb))
                    && *group == wanted.group
                    && resources.contains(&path.as_str())
                    && covers(*namespace, wanted.namespace.as_deref())
                    && covers(*name, wanted.name.as_deref())
            })
    }

    fn not_granted(grants: &[Grant], rules: &[PolicyRule]) -> Vec<String> {
        let needed = rules.iter().filter(|rule| rule.missing_if_denied.is_none());
        let wanted = needed.flat_map(PolicyRule::for_each_verb);
        let missing = wanted.filter(|wanted| !is_granted(grants, wanted));
        missing.map(|wanted| wanted.to_string()).collect()
    }

    #[test]
    fn gardener_grants_everything_needed() {
        let gardeners = config(FILE);
        let rules = seed_rules(&gardeners, Some(&election()));
        assert_eq!(not_granted(GARDENER_ON_SEED, &rules), [""; 0]);
        assert_eq!(not_granted(GARDENER_ON_SHOOT, &shoot_rules()), [""; 0]);
        let one = config(&format!("namespace: shoot--a\n{FILE}"));
        assert_eq!(
            not_granted(GARDENER_ON_SEED, &seed_rules(&one, None)),
            [""; 0]
        );
    }

    #[test]
    fn missing_grants_are_found() {
        let file = FILE.replace("kind: Deployment", "kind: StatefulSet");
        let more = seed_rules(&config(&file), None);
        assert!(
            not_granted(GARDENER_ON_SEED, &more).contains(
                &"patch statefulsets/scale.apps named kube-controller-manager".to_owned()
            )
        );
        let elsewhere = ElectionSettings {
            namespace: "kube-system".into(),
            ..election()
        };
        let elsewhere = seed_rules(&config(FILE), Some(&elsewhere));
        assert_eq!(not_granted(GARDENER_ON_SEED, &elsewhere).len(), 3);
    }

    #[test]
    fn optional_inputs_and_events_are_optional() {
        let external = config(&format!("externalKubeConfigSecretName: outside\n{FILE}"));
        let rules = seed_rules(&external, Some(&election()));
        let optional: Vec<&str> = rules
            .iter()
            .filter(|rule| rule.missing_if_denied.is_some())
            .map(|rule| rule.resource.as_str())
            .collect();
        assert_eq!(optional, ["secrets", "machines", "events"]);
    }

    #[test]
    fn targets_are_restricted_by_name() {
        let rules = seed_rules(&config(FILE), None);
        let named = |subresource: Option<&str>| -> Vec<&str> {
            let targets = rules.iter().filter(|rule| rule.resource == "deployments");
            let targets = targets.filter(|rule| rule.subresource == subresource);
            targets.filter_map(|rule| rule.name.as_deref()).collect()
        };
        let targets = [
            "cluster-autoscaler",
            "kube-controller-manager",
            "machine-controller-manager",
        ];
        assert_eq!(named(None), targets);
        assert_eq!(named(Some("scale")), targets);
        let unnamed = rules.iter().filter(|rule| rule.name.is_none());
        assert!(
            unnamed
                .into_iter()
                .all(|rule| rule.resource != "deployments")
        );
    }

    #[test]
    fn secrets_are_restricted_by_name() {
        let external = config(&format!("externalKubeConfigSecretName: outside\n{FILE}"));
        let rules = seed_rules(&external, None);
        let secrets = rules.iter().filter(|rule| rule.resource == "secrets");
        let names: Vec<_> = secrets.map(|rule| rule.name.as_deref()).collect();
        let configured = "shoot-access-dependency-watchdog-probe";
        assert_eq!(names, [Some(configured), Some("outside")]);
        assert!(rules.iter().all(|rule| rule.resource != "leases"));
    }
}
