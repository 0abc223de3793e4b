//! Invalid prober files and the problems reported for them.

use kelpie_config::{Strictness, prober};

const TARGETS: &str = "\
dependentResourceInfos:
- ref: {apiVersion: apps/v1, kind: Deployment, name: kube-controller-manager}
  scaleUp: {}
  scaleDown: {}
";

/// An otherwise valid file with `lines` at its top.
fn with(lines: &str) -> String {
    format!("{lines}\nkubeConfigSecretName: probe-secret\n{TARGETS}")
}

/// A file whose only target is `lines`.
fn target(lines: &str) -> String {
    format!("kubeConfigSecretName: probe-secret\ndependentResourceInfos:\n{lines}\n")
}

/// A file whose only target has this `ref` and is otherwise valid.
fn reference(reference: &str) -> String {
    target(&format!(
        "- {{ref: {reference}, scaleUp: {{}}, scaleDown: {{}}}}"
    ))
}

const HEALTH_CHECK: &str = "apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineHealthCheck";

/// A file with this source whose only target is paused and has this `ref`.
fn pause(source: &str, reference: &str) -> String {
    format!(
        "source: {{{source}}}\ndependentResourceInfos:\n- actuator: pause\n  ref: {{{reference}}}\n"
    )
}

/// A file whose only target has these rules and is otherwise valid.
fn rules(up: &str, down: &str) -> String {
    target(&format!(
        "- ref: {{apiVersion: apps/v1, kind: Deployment, name: kube-controller-manager}}\n  \
         scaleUp: {up}\n  scaleDown: {down}"
    ))
}

fn cases() -> Vec<(&'static str, String)> {
    vec![
        // The source.
        (
            "unknown source",
            "source: {clusterApi: {}}\nguard: {}\n".into(),
        ),
        ("no source", "source: {}\nguard: {}\n".into()),
        (
            "two sources",
            "source: {clusterAPI: {}, gardener: {}}\nguard: {}\n".into(),
        ),
        ("source is text", "source: clusterAPI\nguard: {}\n".into()),
        (
            "source with settings",
            "source: {clusterAPI: {a: b}}\nguard: {}\n".into(),
        ),
        (
            "source and Gardener's Secret",
            with("source: {clusterAPI: {}}"),
        ),
        (
            "pause without Cluster API",
            pause(
                "secrets: {labelSelector: {matchLabels: {a: b}}}",
                HEALTH_CHECK,
            ),
        ),
        (
            "pause of a named object",
            pause("clusterAPI: {}", &format!("{HEALTH_CHECK}, name: a")),
        ),
        (
            "pause of another kind",
            pause(
                "clusterAPI: {}",
                "apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine",
            ),
        ),
        (
            "pause of another version",
            pause(
                "clusterAPI: {}",
                "apiVersion: cluster.x-k8s.io/v1, kind: MachineHealthCheck",
            ),
        ),
        (
            "pause with replicas and a deadline",
            pause("clusterAPI: {}", HEALTH_CHECK)
                + "  scaleUp: {replicas: 2}\n  deadlineTarget: true\n",
        ),
        (
            "pause and no targets",
            "source: {clusterAPI: {}}\ndependentResourceInfos: []\n".into(),
        ),
        (
            "Secrets without labels",
            "source: {secrets: {}}\nguard: {}\n".into(),
        ),
        (
            "Secrets with every label",
            "source: {secrets: {labelSelector: {}, key: a/b}}\nguard: {}\n".into(),
        ),
        // The whole file.
        ("empty", String::new()),
        ("only comments", "# nothing here\n".into()),
        ("only null", "null\n".into()),
        ("only document markers", "---\n...\n".into()),
        ("a list", "- kubeConfigSecretName: a\n".into()),
        ("a text", "kubeConfigSecretName\n".into()),
        ("a number", "42\n".into()),
        ("a truth value", "yes\n".into()),
        (
            "a ConfigMap",
            "apiVersion: v1\nkind: ConfigMap\ndata: {config.yaml: ''}\n".into(),
        ),
        (
            "a Secret",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {}\n".into(),
        ),
        (
            "a List",
            "kind: List\napiVersion: v1\nitems: [{kind: ConfigMap}]\n".into(),
        ),
        (
            "group and kind among the keys",
            with("apiVersion: v1\nkind: Prober"),
        ),
        (
            "a weeder file",
            "watchDuration: 5m\nservicesAndDependantSelectors: {}\n".into(),
        ),
        (
            "a weeder file with a setting of the prober",
            "watchDuration: 5m\nprobeInterval: 10s\n".into(),
        ),
        ("two documents", format!("{}---\nname: second\n", with(""))),
        (
            "tab indentation",
            "dependentResourceInfos:\n\t- ref: {}\n".into(),
        ),
        (
            "a tab after a value",
            "name: a\nnamespace: b\n\tprobeInterval: 10s\n".into(),
        ),
        (
            "a tab among spaces",
            "dependentResourceInfos:\n- ref:\n    kind: a\n  \tname: b\n".into(),
        ),
        (
            "a tab in a text that goes on",
            "name: a\n  b\n \tc: d\n".into(),
        ),
        (
            "too little indentation",
            "dependentResourceInfos:\n- ref:\n    kind: a\n   name: b\n".into(),
        ),
        (
            "too little indentation in a list",
            "dependentResourceInfos:\n  - ref: {}\n - ref: {}\n".into(),
        ),
        ("a list below a setting", "name: a\n- b\n".into()),
        ("a setting below a list", "- a\nname: b\n".into()),
        (
            "a merge conflict",
            with("<<<<<<< HEAD\nname: a\n=======\nname: b\n>>>>>>> other"),
        ),
        (
            "a merge conflict below",
            "name: a\n<<<<<<< HEAD\nnamespace: a\n=======\n>>>>>>> other\n".into(),
        ),
        ("a template", with("name: {{ .Values.name }}")),
        (
            "a template with a condition",
            with("{{- if .Values.name }}\nname: a\n{{- end }}"),
        ),
        (
            "a template that brings keys",
            with("name: a\n{{ include \"settings\" . }}"),
        ),
        (
            "a template within a text",
            with("namespace: shoot-{{ .Values.name }}\nprobeInterval: '{{ .Values.interval }}'"),
        ),
        ("text after a quote", "name: \"a\" b\n".into()),
        ("no comma", "{name: a namespace: b}\n".into()),
        ("no comma in a list", "name: [a: b c: d]\n".into()),
        ("a bracket too many", "name: a\n]\n".into()),
        ("a bracket too few", "name: [a\nb: c\n".into()),
        ("unclosed bracket", "dependentResourceInfos: [\n".into()),
        (
            "mismatched brackets",
            "dependentResourceInfos: [{]}\n".into(),
        ),
        (
            "unclosed quote",
            "kubeConfigSecretName: \"probe\nname: x\n".into(),
        ),
        ("bad indentation", "name: a\n  namespace: b\n".into()),
        (
            "missing space after colon",
            "name: a\nkubeConfigSecretName:probe\n".into(),
        ),
        ("stray percent", "name: %a\n".into()),
        ("a list as key", "[a, b]: c\n".into()),
        ("a map as key", "{a: b}: c\n".into()),
        (
            "alias without anchor",
            "kubeConfigSecretName: *secret\n".into(),
        ),
        (
            "alias of itself",
            "dependentResourceInfos: &all\n- *all\n".into(),
        ),
        ("merge of a text", "<<: everything\n".into()),
        ("merge of a list of texts", "<<: [everything]\n".into()),
        ("nothing but a foreign key", "foo: bar\n".into()),
        // Keys.
        ("one letter too many", with("probeIntervall: 10s")),
        ("letters swapped", with("probeInetrval: 10s")),
        ("wrong case", with("probeinterval: 10s")),
        ("snake case", with("probe_interval: 10s")),
        ("hyphens", with("probe-interval: 10s")),
        ("close to an alias", with("internalKubeconfigSecret: a")),
        (
            "keys of other releases",
            with("apiServerProbeFailureBackoffDuration: 30s\nleaseFailureThresholdFraction: 0.5"),
        ),
        ("nothing close", with("replicaCount: 10")),
        (
            "an endless key",
            with(&format!("{}: 10s", "interval".repeat(30))),
        ),
        ("belongs under scaleUp", with("level: 1")),
        ("belongs under ref", with("kind: Deployment")),
        ("belongs in a target", with("optional: true")),
        (
            "key twice",
            with("probeInterval: 10s\nname: x\nprobeInterval: 10s"),
        ),
        (
            "key and its alias",
            with("internalKubeConfigSecretName: other"),
        ),
        (
            "both spellings of jitter",
            with("backoffJitterFactor: 0.1\nbackOffJitterFactor: 0.1"),
        ),
        (
            "both spellings of the pause",
            with(
                "internalProbeFailureBackOffDuration: 1s\ninternalProbeFailureBackoffDuration: 1s",
            ),
        ),
        (
            "a merged key and a foreign one",
            "x: &x {probeInterval: 1s, foo: 2}\n<<: *x\n".into(),
        ),
        // Texts and names.
        ("no secret", TARGETS.into()),
        (
            "secret without value",
            format!("kubeConfigSecretName:\n{TARGETS}"),
        ),
        (
            "empty secret",
            format!("kubeConfigSecretName: ''\n{TARGETS}"),
        ),
        (
            "secret with capitals",
            format!("kubeConfigSecretName: Probe-Secret\n{TARGETS}"),
        ),
        (
            "secret with a slash",
            format!("kubeConfigSecretName: garden/probe\n{TARGETS}"),
        ),
        (
            "secret is a list",
            format!("kubeConfigSecretName: [probe]\n{TARGETS}"),
        ),
        (
            "secret is a map",
            format!("kubeConfigSecretName: {{name: probe}}\n{TARGETS}"),
        ),
        (
            "alias of the secret is bad",
            format!("internalKubeConfigSecretName: a_b\n{TARGETS}"),
        ),
        (
            "endless secret",
            format!("kubeConfigSecretName: {}\n{TARGETS}", "x".repeat(300)),
        ),
        (
            "external secret with a space",
            with("externalKubeConfigSecretName: 'a b'"),
        ),
        ("name is a list", with("name: [a]")),
        ("name is a float", with("name: 1.10")),
        ("name is a loose truth value", with("name: no")),
        ("namespace with a dot", with("namespace: shoot.dev")),
        ("namespace with a line break", with("namespace: \"a\\nb\"")),
        // Durations.
        ("interval without unit", with("probeInterval: 10")),
        ("interval without unit, quoted", with("probeInterval: '10'")),
        (
            "interval with a fraction without unit",
            with("probeInterval: 1.5"),
        ),
        ("zero interval", with("probeInterval: 0s")),
        ("zero interval without unit", with("probeInterval: 0")),
        ("negative interval", with("probeInterval: -10s")),
        ("interval in days", with("probeInterval: 1d")),
        ("interval with a space", with("probeInterval: 10 s")),
        ("interval with a capital", with("probeInterval: 10S")),
        ("interval in words", with("probeInterval: ten seconds")),
        ("interval as ISO 8601", with("probeInterval: PT10S")),
        ("interval as clock", with("probeInterval: '00:10'")),
        ("empty interval", with("probeInterval: ''")),
        ("endless interval", with("probeInterval: 9999999h")),
        ("interval is a list", with("probeInterval: [10s]")),
        ("interval is a map", with("probeInterval: {seconds: 10}")),
        ("interval is a truth value", with("probeInterval: true")),
        ("interval is no number", with("probeInterval: .nan")),
        ("negative initial delay", with("initialDelay: -1s")),
        ("zero timeout", with("probeTimeout: 0ms")),
        ("zero grace", with("kcmNodeMonitorGraceDuration: 0s")),
        ("negative reserve", with("fenceReserve: -3s")),
        (
            "negative pause",
            with("internalProbeFailureBackoffDuration: -1m"),
        ),
        // Numbers.
        ("negative jitter", with("backoffJitterFactor: -0.1")),
        ("jitter above one", with("backoffJitterFactor: 20")),
        ("jitter in percent", with("backoffJitterFactor: 20%")),
        ("jitter is infinite", with("backOffJitterFactor: .inf")),
        ("jitter is no number", with("backoffJitterFactor: .nan")),
        ("jitter in quotes", with("backoffJitterFactor: '0.2'")),
        ("zero threshold", with("successThreshold: 0")),
        ("negative threshold", with("failureThreshold: -3")),
        ("threshold with a fraction", with("failureThreshold: 1.5")),
        ("threshold in quotes", with("leaseFailureThreshold: \"1\"")),
        (
            "threshold beyond 32 bits",
            with("leaseSuccessThreshold: 4294967296"),
        ),
        ("threshold in octal", with("failureThreshold: 010")),
        ("threshold in hex", with("failureThreshold: 0x3")),
        ("threshold is a list", with("successThreshold: [1]")),
        ("threshold is a truth value", with("successThreshold: true")),
        ("no candidates", with("minCandidateNodes: 0")),
        ("guard is no map", with("guard: true")),
        ("zone is no map", with("guard: {zone: 5m}")),
        ("hold that is too long", with("guard: {zone: {hold: 2h}}")),
        (
            "a single node is no group",
            with("guard: {pool: {hold: 5m, minNodes: 1}}"),
        ),
        ("unknown key of the guard", with("guard: {until: 2m}")),
        ("guard that is too short", with("guard: {duration: 10s}")),
        ("fraction of zero", with("nodeLeaseFailureFraction: 0")),
        ("fraction above one", with("nodeLeaseFailureFraction: 1.1")),
        ("fraction in percent", with("nodeLeaseFailureFraction: 60")),
        ("negative fraction", with("nodeLeaseFailureFraction: -0.6")),
        ("fraction is text", with("nodeLeaseFailureFraction: most")),
        (
            "fraction is no number",
            with("nodeLeaseFailureFraction: .NaN"),
        ),
        (
            "recovery above failure",
            with("nodeLeaseFailureFraction: 0.5\nnodeLeaseRecoveryFraction: 0.6"),
        ),
        (
            "recovery above the default failure",
            with("nodeLeaseRecoveryFraction: 0.7"),
        ),
        ("recovery of zero", with("nodeLeaseRecoveryFraction: 0")),
        (
            "recovery and failure both bad",
            with("nodeLeaseFailureFraction: 2\nnodeLeaseRecoveryFraction: 3"),
        ),
        // Targets.
        ("no targets", "kubeConfigSecretName: probe-secret\n".into()),
        (
            "targets without value",
            "kubeConfigSecretName: probe-secret\ndependentResourceInfos:\n".into(),
        ),
        ("empty list of targets", target("  []")),
        ("targets are a map", target("  ref: {}")),
        (
            "targets are a text",
            "kubeConfigSecretName: a\ndependentResourceInfos: all\n".into(),
        ),
        ("a target is a text", target("- kube-controller-manager")),
        ("a target is nothing", target("-")),
        ("an empty target", target("- {}")),
        (
            "only a ref",
            target("- ref: {apiVersion: apps/v1, kind: Deployment, name: a}"),
        ),
        ("rules without value", rules("", "")),
        ("a rule without a space", rules("level:1", "{}")),
        ("rules are texts", rules("one", "[0]")),
        (
            "optional is text",
            target(
                "- {ref: {apiVersion: apps/v1, kind: Deployment, name: a}, optional: 'true', \
                 scaleUp: {}, scaleDown: {}}",
            ),
        ),
        (
            "optional is a number",
            target(
                "- {ref: {apiVersion: apps/v1, kind: Deployment, name: a}, optional: 1, \
                 scaleUp: {}, scaleDown: {}}",
            ),
        ),
        (
            "an old key",
            target(
                "- {ref: {apiVersion: apps/v1, kind: Deployment, name: a}, shouldExist: true, \
                 scaleUp: {}, scaleDown: {}}",
            ),
        ),
        ("ref is a text", reference("kube-controller-manager")),
        ("ref is empty", reference("{}")),
        (
            "ref without name",
            reference("{apiVersion: apps/v1, kind: Deployment}"),
        ),
        (
            "ref without group and version",
            reference("{kind: Deployment, name: a}"),
        ),
        (
            "kind in lower case",
            reference("{apiVersion: apps/v1, kind: deployment, name: a}"),
        ),
        (
            "kind in the plural, with the group",
            reference("{apiVersion: apps/v1, kind: deployments.apps, name: a}"),
        ),
        (
            "a dot between group and version",
            reference("{apiVersion: apps.v1, kind: Deployment, name: a}"),
        ),
        (
            "version is a number",
            reference("{apiVersion: 1, kind: Deployment, name: a}"),
        ),
        (
            "group alone",
            reference("{apiVersion: apps, kind: Deployment, name: a}"),
        ),
        (
            "group without version",
            reference("{apiVersion: apps/, kind: Deployment, name: a}"),
        ),
        (
            "name with capitals",
            reference("{apiVersion: apps/v1, kind: Deployment, name: KCM}"),
        ),
        (
            "misspelt key of a ref",
            reference("{apiversion: apps/v1, kind: Deployment, name: a}"),
        ),
        (
            "namespace in a ref",
            reference("{apiVersion: apps/v1, kind: Deployment, name: a, namespace: garden}"),
        ),
        (
            "target twice",
            format!(
                "{}{}",
                with(""),
                TARGETS
                    .lines()
                    .skip(1)
                    .fold(String::new(), |s, l| s + l + "\n")
            ),
        ),
        (
            "target twice, in two versions",
            target(
                "- {ref: {apiVersion: apps/v1, kind: Deployment, name: a}, \
                 scaleUp: {}, scaleDown: {}}\n\
                 - {ref: {apiVersion: apps/v1beta2, kind: Deployment, name: a}, \
                 scaleUp: {}, scaleDown: {}}",
            ),
        ),
        ("negative level", rules("{level: -1}", "{level: 0}")),
        ("level with a fraction", rules("{level: 0.5}", "{}")),
        ("level in words", rules("{level: first}", "{}")),
        (
            "level beyond 32 bits",
            rules("{level: 99999999999999999999}", "{}"),
        ),
        ("misspelt level", rules("{levl: 1}", "{}")),
        (
            "level of the target",
            target(
                "- {ref: {apiVersion: apps/v1, kind: Deployment, name: a}, level: 1, \
                 scaleUp: {}, scaleDown: {}}",
            ),
        ),
        (
            "zero scale timeout",
            rules("{timeout: 0s}", "{timeout: 0s}"),
        ),
        ("negative scale delay", rules("{initialDelay: -30s}", "{}")),
        (
            "scale delay without unit",
            rules("{initialDelay: 30}", "{}"),
        ),
        ("negative replicas", rules("{replicas: -1}", "{}")),
        (
            "replicas beyond 31 bits",
            rules("{replicas: 2147483648}", "{}"),
        ),
        ("replicas in quotes", rules("{replicas: '1'}", "{}")),
        ("up to nothing", rules("{replicas: 0}", "{}")),
        ("up below down", rules("{replicas: 1}", "{replicas: 2}")),
        ("level twice", rules("{level: 1, level: 2}", "{}")),
    ]
}

#[test]
fn every_problem_has_position_and_remedy() {
    let cases = cases();
    for (name, file) in &cases {
        assert!(
            prober::parse(file.as_bytes(), Strictness::Strict).is_err(),
            "{name} is accepted"
        );
    }
    let table =
        super::error_report::table(&cases, |bytes| prober::parse(bytes, Strictness::Strict));
    insta::assert_snapshot!(table);
}

#[test]
fn case_templates_are_valid() {
    for file in [
        with(""),
        rules("{}", "{}"),
        rules("{replicas: 2}", "{replicas: 1}"),
    ] {
        assert!(
            prober::parse(file.as_bytes(), Strictness::Strict).is_ok(),
            "{file}"
        );
    }
}
