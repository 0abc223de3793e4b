//! What the prober must be allowed to do, and why. RBAC files and the self-check are made from it.

use std::collections::BTreeSet;

use kelpie_config::ProberConfig;
use kelpie_core::ResourceRef;
use kelpie_kube::leader::ElectionSettings;
use kelpie_kube::seed::{FOLLOW, Need};

const CLUSTERS: (&str, &str) = ("extensions.gardener.cloud", "clusters");
const MACHINES: (&str, &str) = ("machine.sapcloud.io", "machines");
const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");
const SECRETS: (&str, &str) = ("", "secrets");
const EVENTS: (&str, &str) = ("", "events");
const NODES: (&str, &str) = ("", "nodes");

/// A write that rests on what was read.
const CHANGE: &[&str] = &["get", "patch"];

/// Where kubelets renew their leases.
const NODE_LEASES: &str = "kube-node-lease";

/// On the seed, for this configuration; `election`: where the leader is elected, if it is.
pub fn seed_needs(config: &ProberConfig, election: Option<&ElectionSettings>) -> Vec<Need> {
    let only = config.namespace.as_deref();
    let secrets = [
        Some(&config.kubeconfig_secret),
        config.external_kubeconfig_secret.as_ref(),
    ];
    let mut needs = vec![
        Need::new(
            FOLLOW,
            CLUSTERS,
            "which clusters there are, and their Shoots",
        )
        .named(only),
    ];
    needs.extend(secrets.into_iter().flatten().map(|secret| {
        let reason = "the kubeconfigs of the clusters; no other Secret is asked for";
        Need::new(FOLLOW, SECRETS, reason)
            .within(only)
            .named(Some(secret))
    }));
    let reason = "nodes whose machine failed or is going do not count";
    needs.push(Need::new(FOLLOW, MACHINES, reason).within(only));
    for kind in kinds(config) {
        let kind = (kind.0.as_str(), kind.1.as_str());
        let reason = "reading what is to be fenced, and recording its replicas";
        needs.push(Need::new(CHANGE, kind, reason).within(only));
        let reason = "fencing and restoring: setting the replicas";
        needs.push(Need::new(CHANGE, kind, reason).of("scale").within(only));
    }
    needs.extend(election.into_iter().flat_map(Need::of_election));
    let reason = "telling what was done, on the Cluster and on each scaled object";
    let events = Need::new(&["create", "patch"], EVENTS, reason);
    needs.push(events.or_else("Events; everything else works"));
    needs
}

/// On each cluster that is watched over. `/version` is open to everybody who is authenticated.
pub fn shoot_needs() -> Vec<Need> {
    let leases = Need::new(&["list"], LEASES, "whether kubelets still renew");
    vec![
        leases.within(Some(NODE_LEASES)),
        Need::new(&["list"], NODES, "which nodes count"),
    ]
}

/// Group and plural of what is fenced, each once.
fn kinds(config: &ProberConfig) -> BTreeSet<(String, String)> {
    let targets = config.targets.iter();
    let kind = |resource: &ResourceRef| {
        let group = resource.api_version.rsplit_once('/');
        let group = group.map_or("", |(group, _)| group);
        (group.to_owned(), plural(&resource.kind))
    };
    targets.map(|target| kind(&target.resource)).collect()
}

/// As Kubernetes itself guesses it: right for every built-in kind that can be scaled.
fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelpie_config::{Strictness, prober};

    use kelpie_kube::seed::Permission;

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
    type Rule = (
        &'static [&'static str],
        &'static str,
        &'static [&'static str],
        Option<&'static str>,
        Option<&'static str>,
    );

    const READ: &[&str] = &["get", "list", "watch"];
    const SCALE: &[&str] = &["get", "list", "watch", "update", "patch"];

    /// What Gardener 1.136 allows dependency-watchdog's prober in the seed.
    const GARDENER: &[Rule] = &[
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

    /// And in the shoot.
    const IN_SHOOT: &[Rule] = &[
        (
            &["get", "list"],
            "coordination.k8s.io",
            &["leases"],
            Some("kube-node-lease"),
            None,
        ),
        (&["get", "list"], "", &["nodes"], None, None),
    ];

    fn is_granted(rules: &[Rule], wanted: &Permission) -> bool {
        let subresource = wanted.subresource.iter();
        let path: String = subresource.fold(wanted.resource.clone(), |path, sub| path + "/" + sub);
        let covers = |limit: Option<&str>, wanted: Option<&str>| limit.is_none() || limit == wanted;
        rules
            .iter()
            .any(|(verbs, group, resources, namespace, name)| {
                verbs.contains(&wanted.verb.as_str())
                    && *group == wanted.group
                    && resources.contains(&path.as_str())
                    && covers(*namespace, wanted.namespace.as_deref())
                    && covers(*name, wanted.name.as_deref())
            })
    }

    fn beyond(rules: &[Rule], needs: &[Need]) -> Vec<String> {
        let needed = needs.iter().filter(|need| need.lost.is_none());
        let wanted = needed.flat_map(Need::permissions);
        let beyond = wanted.filter(|wanted| !is_granted(rules, wanted));
        beyond.map(|wanted| wanted.to_string()).collect()
    }

    #[test]
    fn nothing_is_needed_beyond_what_gardener_grants() {
        let gardeners = config(FILE);
        let needs = seed_needs(&gardeners, Some(&election()));
        assert_eq!(beyond(GARDENER, &needs), [""; 0]);
        assert_eq!(beyond(IN_SHOOT, &shoot_needs()), [""; 0]);
        let one = config(&format!("namespace: shoot--a\n{FILE}"));
        assert_eq!(beyond(GARDENER, &seed_needs(&one, None)), [""; 0]);
    }

    #[test]
    fn the_comparison_can_tell_the_difference() {
        let file = FILE.replace("kind: Deployment", "kind: StatefulSet");
        let more = seed_needs(&config(&file), None);
        assert!(beyond(GARDENER, &more).contains(&"patch statefulsets/scale.apps".to_owned()));
        let elsewhere = ElectionSettings {
            namespace: "kube-system".into(),
            ..election()
        };
        let elsewhere = seed_needs(&config(FILE), Some(&elsewhere));
        assert_eq!(beyond(GARDENER, &elsewhere).len(), 3);
    }

    #[test]
    fn only_events_may_be_missing() {
        let needs = seed_needs(&config(FILE), Some(&election()));
        let optional: Vec<&str> = needs
            .iter()
            .filter(|need| need.lost.is_some())
            .map(|need| need.resource.as_str())
            .collect();
        assert_eq!(optional, ["events"]);
    }

    #[test]
    fn secrets_are_asked_for_by_name_and_leases_only_where_there_is_an_election() {
        let external = config(&format!("externalKubeConfigSecretName: outside\n{FILE}"));
        let needs = seed_needs(&external, None);
        let secrets = needs.iter().filter(|need| need.resource == "secrets");
        let names: Vec<_> = secrets.map(|need| need.name.as_deref()).collect();
        let configured = "shoot-access-dependency-watchdog-probe";
        assert_eq!(names, [Some(configured), Some("outside")]);
        assert!(needs.iter().all(|need| need.resource != "leases"));
    }

    #[test]
    fn kinds_become_resources() {
        for (kind, resource) in [
            ("Deployment", "deployments"),
            ("StatefulSet", "statefulsets"),
            ("Proxy", "proxies"),
            ("Redis", "redises"),
        ] {
            assert_eq!(plural(kind), resource);
        }
    }
}
