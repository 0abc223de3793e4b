//! Files that are in use today, and the configurations they result in.

use std::time::Duration;

use kelpie_config::{
    LabelOperator, ProberConfig, ReadinessRule, SourceConfig, Strictness, WeederConfig, prober,
    weeder,
};
use kelpie_core::Fraction;
use kelpie_core::prober::guard::{GroupHold, GuardSettings};
use kelpie_core::prober::{
    ActuatorKind, FlowRule, ProbeSettings, ResourceRef, Setting, Target, Thresholds,
};
use proptest::prelude::*;

/// The prober's file as Gardener deploys it.
const DEPLOYED: &str = r"
kubeConfigSecretName: shoot-access-dependency-watchdog-probe
kcmNodeMonitorGraceDuration: 40s
probeInterval: 30s
dependentResourceInfos:
- ref:
    kind: Deployment
    name: kube-controller-manager
    apiVersion: apps/v1
  optional: false
  scaleUp:
    level: 0
    initialDelay: 0s
    timeout: 30s
  scaleDown:
    level: 1
    initialDelay: 0s
    timeout: 30s
- ref:
    kind: Deployment
    name: machine-controller-manager
    apiVersion: apps/v1
  optional: false
  scaleUp:
    level: 1
    initialDelay: 30s
  scaleDown:
    level: 0
- ref:
    kind: Deployment
    name: cluster-autoscaler
    apiVersion: apps/v1
  optional: true
  scaleUp:
    level: 2
  scaleDown:
    level: 0
";

/// The same file in flow style, without the settings that have their default value.
const DEPLOYED_FLOW: &str = r#"
{kubeConfigSecretName: "shoot-access-dependency-watchdog-probe", probeInterval: 30s,
 dependentResourceInfos: [
  {ref: {kind: Deployment, name: kube-controller-manager, apiVersion: apps/v1},
   scaleUp: {}, scaleDown: {level: 1}},
  {"ref": {"kind": "Deployment", "name": "machine-controller-manager", "apiVersion": "apps/v1"},
   "scaleUp": {"level": 1, "initialDelay": "30s"}, "scaleDown": {}},
  {ref: {kind: Deployment, name: cluster-autoscaler, apiVersion: apps/v1}, optional: yes,
   scaleUp: {level: 2}, scaleDown: {level: ~}},
]}
"#;

/// The format of releases with two probes: every key set, in the older spellings.
const TWO_PROBES: &str = r#"
name: "kube-apiserver-of-shoots"   # a label
namespace: ""
internalKubeConfigSecretName: "probe-inside"
externalKubeConfigSecretName: "probe-outside"
probeInterval: 20s
initialDelay: 5s
probeTimeout: 12s
successThreshold: 2
failureThreshold: 4
internalProbeFailureBackOffDuration: 1m30s
backOffJitterFactor: 0.25
dependentResourceInfos:
  - ref: &kcm
      kind: "Deployment"
      name: "kube-controller-manager"
      apiVersion: "apps/v1"
    scaleUp: {level: 1, initialDelay: 10s, timeout: 60s, replicas: 1}
    scaleDown: {level: 0, initialDelay: 2s, timeout: 45s, replicas: 0}
  - ref:
      <<: *kcm
      name: machine-controller-manager
    scaleUp: &up {level: 0}
    scaleDown: *up
"#;

/// The keys that dependency-watchdog does not have.
const NEW_KEYS: &str = r"
kubeConfigSecretName: probe
namespace: shoot--dev--one
leaseSuccessThreshold: 2
leaseFailureThreshold: 3
nodeLeaseFailureFraction: 0.5
nodeLeaseRecoveryFraction: .25
fenceReserve: 2500ms
minCandidateNodes: 3
guard: {duration: 5m, zone: {hold: 3m, minNodes: 4}}
kcmNodeMonitorGraceDuration: 50s
internalProbeFailureBackoffDuration: 0
backoffJitterFactor: 0
externalKubeConfigSecretName: ''
dependentResourceInfos:
- {ref: {apiVersion: v1, kind: ReplicationController, name: a.b}, scaleUp: {}, scaleDown: {}}
";

fn parse(file: &str) -> ProberConfig {
    let parsed = prober::parse(file.as_bytes(), Strictness::Strict).unwrap();
    assert_eq!(parsed.warnings, []);
    assert_eq!(
        prober::parse(file.as_bytes(), Strictness::Lenient).unwrap(),
        parsed
    );
    parsed.value
}

fn deployment(name: &str) -> ResourceRef {
    ResourceRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: name.into(),
    }
}

fn level(level: u32) -> FlowRule {
    FlowRule {
        level,
        ..FlowRule::default()
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn gardener_prober_file_is_valid() {
    let config = parse(DEPLOYED);
    let expected = ProberConfig {
        name: String::new(),
        namespace: None,
        shard: None,
        source: gardener("shoot-access-dependency-watchdog-probe", None),
        grace_follows_version: false,
        probe: ProbeSettings {
            probe_interval: seconds(30),
            ..ProbeSettings::default()
        },
        guard: None,
        targets: vec![
            Target {
                resource: deployment("kube-controller-manager"),
                actuator: ActuatorKind::Scale,
                is_deadline_target: true,
                optional: false,
                up: level(0),
                down: level(1),
            },
            Target {
                resource: deployment("machine-controller-manager"),
                actuator: ActuatorKind::Scale,
                is_deadline_target: false,
                optional: false,
                up: FlowRule {
                    initial_delay: seconds(30),
                    ..level(1)
                },
                down: level(0),
            },
            Target {
                resource: deployment("cluster-autoscaler"),
                actuator: ActuatorKind::Scale,
                is_deadline_target: false,
                optional: true,
                up: level(2),
                down: level(0),
            },
        ],
    };
    assert_eq!(config, expected);
}

#[test]
fn deadline_target_defaults_to_the_node_controller() {
    let target = |name: &str, more: &str| {
        let text = format!(
            "kubeConfigSecretName: a\ndependentResourceInfos:\n- ref: {{apiVersion: apps/v1, kind: \
             Deployment, name: {name}}}\n  scaleUp: {{}}\n  scaleDown: {{}}\n{more}"
        );
        parse(&text).targets[0].clone()
    };
    assert!(target("kube-controller-manager", "").is_deadline_target);
    assert!(!target("other", "").is_deadline_target);
    assert!(target("other", "  deadlineTarget: true\n  actuator: scale\n").is_deadline_target);
    let disabled = target("kube-controller-manager", "  deadlineTarget: false\n");
    assert!(!disabled.is_deadline_target);
}

#[test]
fn flow_style_equals_block_style() {
    assert_eq!(parse(DEPLOYED_FLOW), parse(DEPLOYED));
}

fn gardener(secret: &str, external: Option<&str>) -> SourceConfig {
    SourceConfig::Gardener {
        kubeconfig_secret: secret.into(),
        external_kubeconfig_secret: external.map(str::to_owned),
    }
}

#[test]
fn source_is_gardener_by_default() {
    let file = "kubeConfigSecretName: a\nguard: {}\n";
    let explicit = format!("source: {{gardener: {{}}}}\n{file}");
    assert_eq!(parse(file).source, gardener("a", None));
    assert_eq!(parse(&explicit), parse(file));
}

#[test]
fn other_sources_need_no_secret_name() {
    let config = parse("source: {clusterAPI: {}}\nguard: {}\n");
    assert_eq!(config.source, SourceConfig::ClusterApi);
    assert!(config.grace_follows_version);
    let config = parse(
        "source: {secrets: {labelSelector: {matchLabels: {app: vcluster}}, key: config}}\n\
         kcmNodeMonitorGraceDuration: 45s\nguard: {}\n",
    );
    let SourceConfig::Secrets(secrets) = &config.source else {
        panic!("{:?}", config.source);
    };
    assert_eq!(secrets.key, "config");
    assert_eq!(secrets.label_selector.to_string(), "app in (vcluster)");
    let operator = &secrets.label_selector.requirements[0].operator;
    assert!(matches!(operator, LabelOperator::In(_)));
    assert!(!config.grace_follows_version, "the file sets one");
}

/// The target that pauses MachineHealthChecks, with its defaults.
fn health_checks(api_version: &str) -> Target {
    let mut target = Target::new(ResourceRef {
        api_version: api_version.into(),
        kind: "MachineHealthCheck".into(),
        name: String::new(),
    });
    target.actuator = ActuatorKind::Pause;
    target.optional = true;
    target.up.initial_delay = Duration::from_secs(30);
    target
}

#[test]
fn cluster_api_pauses_health_checks_by_default() {
    let source = "source: {clusterAPI: {}}\n";
    let default = vec![health_checks("cluster.x-k8s.io/v1beta2")];
    assert_eq!(parse(source).targets, default);
    assert_eq!(parse(&format!("{source}guard: {{}}\n")).targets, default);
    let none = format!("{source}guard: {{}}\ndependentResourceInfos: []\n");
    assert_eq!(parse(&none).targets, []);
}

#[test]
fn pause_needs_no_rules() {
    let file = |rest: &str| {
        let kind = "apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineHealthCheck";
        format!(
            "source: {{clusterAPI: {{}}}}\ndependentResourceInfos:\n\
             - {{actuator: pause, ref: {{{kind}}}{rest}}}\n"
        )
    };
    let mut expected = health_checks("cluster.x-k8s.io/v1beta1");
    assert_eq!(parse(&file("")).targets, [expected.clone()]);
    expected.up.initial_delay = Duration::from_mins(1);
    expected.down.timeout = Duration::from_secs(5);
    let rules = ", scaleUp: {initialDelay: 1m}, scaleDown: {timeout: 5s}";
    assert_eq!(parse(&file(rules)).targets, [expected]);
}

#[test]
fn sources_survive_serialization() {
    for source in [
        "clusterAPI: {}",
        "secrets: {labelSelector: {matchExpressions: [{key: a, operator: Exists}]}}",
    ] {
        let config = parse(&format!("source: {{{source}}}\nguard: {{}}\n"));
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(parse(&text), config, "{text}");
    }
}

#[test]
fn two_probe_file_is_valid() {
    let config = parse(TWO_PROBES);
    assert_eq!(config.name, "kube-apiserver-of-shoots");
    let source = gardener("probe-inside", Some("probe-outside"));
    assert_eq!(config.source, source);
    let expected = ProbeSettings {
        probe_interval: seconds(20),
        initial_delay: seconds(5),
        probe_timeout: seconds(12),
        jitter: 0.25,
        api_thresholds: Thresholds {
            success: 2,
            failure: 4,
        },
        api_failure_pause: seconds(90),
        ..ProbeSettings::default()
    };
    assert_eq!(config.probe, expected);
    let [kcm, mcm] = config.targets.as_slice() else {
        panic!("two targets")
    };
    assert_eq!(
        kcm.up,
        FlowRule {
            level: 1,
            initial_delay: seconds(10),
            timeout: seconds(60),
            setting: Some(Setting(1))
        }
    );
    assert_eq!(
        kcm.down,
        FlowRule {
            level: 0,
            initial_delay: seconds(2),
            timeout: seconds(45),
            setting: Some(Setting(0))
        }
    );
    // Set through an alias and a merge key.
    assert_eq!(mcm.resource, deployment("machine-controller-manager"));
    assert_eq!(mcm.up, mcm.down);
}

#[test]
fn new_prober_keys_are_parsed() {
    let config = parse(NEW_KEYS);
    assert_eq!(config.namespace.as_deref(), Some("shoot--dev--one"));
    let expected = ProbeSettings {
        jitter: 0.0,
        lease_thresholds: Thresholds {
            success: 2,
            failure: 3,
        },
        api_failure_pause: Duration::ZERO,
        grace: seconds(50),
        failure_fraction: Fraction::new(0.5).unwrap(),
        recovery_fraction: Fraction::new(0.25).unwrap(),
        fence_reserve: Duration::from_millis(2_500),
        min_candidates: 3,
        ..ProbeSettings::default()
    };
    assert_eq!(config.probe, expected);
    let guard = GuardSettings {
        duration: Duration::from_mins(5),
        zone: GroupHold {
            hold: Duration::from_mins(3),
            min_nodes: 4,
        },
        ..GuardSettings::default()
    };
    assert_eq!(config.guard, Some(guard));
}

#[test]
fn guard_is_off_unless_configured() {
    for (guard, is_on) in [
        ("", false),
        ("guard: null, ", false),
        ("guard: {enabled: no}, ", false),
        ("guard: {}, ", true),
    ] {
        let config = parse(&format!(
            "{{{guard}kubeConfigSecretName: a, dependentResourceInfos: \
             [{{ref: {{apiVersion: v1, kind: A, name: a}}, scaleUp: {{}}, scaleDown: {{}}}}]}}",
        ));
        let expected = is_on.then(GuardSettings::default);
        assert_eq!(config.guard, expected, "{guard}");
    }
}

#[test]
fn guard_needs_no_targets() {
    for targets in ["", ", dependentResourceInfos: []"] {
        let file = format!("{{guard: {{}}, kubeConfigSecretName: a{targets}}}");
        assert_eq!(parse(&file).targets, []);
    }
}

#[test]
fn recovery_fraction_defaults_to_failure_fraction() {
    let config = parse(
        "{nodeLeaseFailureFraction: 0.3, kubeConfigSecretName: a, dependentResourceInfos: \
         [{ref: {apiVersion: v1, kind: A, name: a}, scaleUp: {}, scaleDown: {}}]}",
    );
    assert_eq!(config.probe.recovery_fraction, Fraction::new(0.3).unwrap());
}

#[test]
fn booleans_and_integers_have_several_spellings() {
    for boolean in ["true", "yes", "on", "y"] {
        let config = parse(&format!(
            "{{failureThreshold: 2.0, kubeConfigSecretName: a, dependentResourceInfos: \
             [{{ref: {{apiVersion: v1, kind: A, name: a}}, optional: {boolean}, scaleUp: {{}}, \
             scaleDown: {{}}}}]}}",
        ));
        assert!(config.targets[0].optional, "{boolean}");
        assert_eq!(config.probe.api_thresholds.failure, 2);
    }
}

#[test]
fn null_counts_as_absent() {
    let nulls = DEPLOYED
        .replace("initialDelay: 0s", "initialDelay: null")
        .replace(
            "kcmNodeMonitorGraceDuration: 40s",
            "kcmNodeMonitorGraceDuration:\nname: ~\nsuccessThreshold: Null",
        );
    assert_eq!(parse(&nulls), parse(DEPLOYED));
}

#[test]
fn line_ends_bom_and_empty_documents_are_ignored() {
    assert_eq!(parse(&DEPLOYED.replace('\n', "\r\n")), parse(DEPLOYED));
    assert_eq!(parse(&format!("\u{feff}{DEPLOYED}")), parse(DEPLOYED));
    assert_eq!(parse(&format!("---{DEPLOYED}...\n")), parse(DEPLOYED));
    assert_eq!(parse(&format!("---{DEPLOYED}---\n")), parse(DEPLOYED));
}

#[test]
fn explicit_tags_are_honoured() {
    let tagged = DEPLOYED.replace(
        "probeInterval: 30s",
        "probeInterval: !!str 30s\nfailureThreshold: !!int \"3\"\nname: !own 007",
    );
    assert_eq!(parse(&tagged).name, "007");
}

#[test]
fn integers_may_be_written_as_floats() {
    let config = parse(
        &DEPLOYED
            .replace("level: 2", "level: 2.0")
            .replace("probeInterval", "failureThreshold: 3e0\nprobeInterval"),
    );
    assert_eq!(config, parse(DEPLOYED));
}

const WEEDER: &str = r"
watchDuration: 5m0s
servicesAndDependantSelectors:
  etcd-main-client:
    podSelectors:
    - matchExpressions:
      - key: gardener.cloud/role
        operator: In
        values:
        - controlplane
      - key: role
        operator: In
        values:
        - apiserver
  kube-apiserver:
    podSelectors:
    - matchExpressions:
      - key: gardener.cloud/role
        operator: In
        values: [controlplane]
      - key: role
        operator: NotIn
        values: [main, apiserver]
    - matchLabels: {version: 1, critical: true}
      matchExpressions:
      - {key: legacy, operator: DoesNotExist}
      - {key: app, operator: Exists, values: []}
";

fn parse_weeder(file: &str) -> WeederConfig {
    let parsed = weeder::parse(file.as_bytes(), Strictness::Strict).unwrap();
    assert_eq!(parsed.warnings, []);
    assert_eq!(
        weeder::parse(file.as_bytes(), Strictness::Lenient).unwrap(),
        parsed
    );
    parsed.value
}

#[test]
fn gardener_weeder_file_is_valid() {
    let config = parse_weeder(WEEDER);
    assert_eq!(config.watch_duration, seconds(300));
    assert_eq!(config.max_deletions_per_pod, 3);
    assert_eq!(config.readiness, ReadinessRule::Any);
    assert!(!config.dry_run);
    let selectors = |service: &str| {
        config.services[service]
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        selectors("etcd-main-client"),
        ["gardener.cloud/role in (controlplane),role in (apiserver)"]
    );
    assert_eq!(
        selectors("kube-apiserver"),
        [
            "gardener.cloud/role in (controlplane),role notin (apiserver,main)",
            "version in (1),critical in (true),!legacy,app",
        ]
    );
}

#[test]
fn new_weeder_keys_are_parsed() {
    let config = parse_weeder(&format!(
        "maxDeletionsPerPod: 1\nreadiness: all\ndryRun: on\n{}",
        WEEDER.replace("watchDuration: 5m0s", "")
    ));
    assert_eq!(config.watch_duration, seconds(300));
    assert_eq!(
        (
            config.max_deletions_per_pod,
            config.readiness,
            config.dry_run
        ),
        (1, ReadinessRule::All, true)
    );
}

#[test]
fn serialized_configurations_round_trip() {
    for file in [DEPLOYED, TWO_PROBES, NEW_KEYS] {
        let config = parse(file);
        assert_eq!(
            parse(&serde_json::to_string_pretty(&config).unwrap()),
            config
        );
    }
    let config = parse_weeder(WEEDER);
    assert_eq!(
        parse_weeder(&serde_json::to_string(&config).unwrap()),
        config
    );
}

fn duration(least: u64) -> impl Strategy<Value = Duration> {
    (least..=i64::MAX.unsigned_abs()).prop_map(Duration::from_nanos)
}

fn fraction() -> impl Strategy<Value = Fraction> {
    (f64::MIN_POSITIVE..=1.0).prop_map(|share| Fraction::new(share).unwrap())
}

prop_compose! {
    fn rule()(
        level in 0..=i32::MAX.unsigned_abs(),
        initial_delay in duration(0),
        timeout in duration(1),
    ) -> FlowRule {
        FlowRule { level, initial_delay, timeout, setting: None }
    }
}

prop_compose! {
    fn settings()(
        (probe_interval, initial_delay, probe_timeout) in (duration(1), duration(0), duration(1)),
        jitter in 0.0..=1.0,
        (a, b, c, d) in (1..9_u32, 1..9_u32, 1..9_u32, 1..=i32::MAX.unsigned_abs()),
        (api_failure_pause, grace, fence_reserve) in (duration(0), duration(1), duration(0)),
        (x, y) in (fraction(), fraction()),
        min_candidates in 1..=i32::MAX.unsigned_abs(),
    ) -> ProbeSettings {
        let (failure_fraction, recovery_fraction) = if x > y { (x, y) } else { (y, x) };
        ProbeSettings {
            probe_interval, initial_delay, probe_timeout, jitter,
            api_thresholds: Thresholds { success: a, failure: b },
            lease_thresholds: Thresholds { success: c, failure: d },
            api_failure_pause, grace, failure_fraction, recovery_fraction, fence_reserve,
            min_candidates,
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_configurations_round_trip(
        name in "([a-z0-9]{1,20})?",
        probe in settings(),
        (up, down) in (rule(), rule()),
        replicas in proptest::option::of((1..100_u32).prop_flat_map(|up| (Just(up), 0..up))),
        is_deadline_target in any::<bool>(),
        guard in proptest::option::of((60..=3_600_u64, 0..=3_600_u64, 2..100_u32)),
    ) {
        let guard = guard.map(|(duration, hold, min_nodes)| GuardSettings {
            duration: Duration::from_secs(duration),
            pool: GroupHold { hold: Duration::from_secs(hold), min_nodes },
            ..GuardSettings::default()
        });
        let target = Target {
            resource: deployment("a"),
            actuator: ActuatorKind::Scale,
            is_deadline_target,
            optional: true,
            up: FlowRule { setting: replicas.map(|(up, _)| Setting(up)), ..up },
            down: FlowRule { setting: replicas.map(|(_, down)| Setting(down)), ..down },
        };
        let config = ProberConfig {
            name,
            namespace: Some("one".into()),
            shard: None,
            source: gardener("probe", None),
            grace_follows_version: false,
            probe,
            guard,
            targets: vec![target],
        };
        let json = serde_json::to_string(&config).unwrap();
        let parsed = prober::parse(json.as_bytes(), Strictness::Strict);
        prop_assert_eq!(parsed.map(|parsed| parsed.value), Ok(config), "{}", json);
    }
}

/// The example of dependency-watchdog's redesign, to the letter.
#[test]
fn redesign_example_is_understood() {
    let parsed = prober::parse(include_bytes!("redesign.yaml"), Strictness::Strict).unwrap();
    let config = parsed.value;
    let flow = |level, delay, timeout, replicas| FlowRule {
        level,
        initial_delay: Duration::from_secs(delay),
        timeout: Duration::from_secs(timeout),
        setting: Some(Setting(replicas)),
    };
    let target = |name: &str, up, down| {
        let mut target = Target::new(ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: name.into(),
        });
        target.is_deadline_target = name == "kube-controller-manager";
        (target.up, target.down) = (flow(up, 10, 60, 1), flow(down, 15, 45, 0));
        target
    };
    let targets = [
        target("kube-controller-manager", 1, 0),
        target("machine-controller-manager", 1, 0),
        target("cluster-autoscaler", 0, 1),
    ];
    assert_eq!(config.targets, targets);
    assert_eq!(
        (config.name.as_str(), config.namespace),
        ("shoot-kube-apiserver", None)
    );
    let source = SourceConfig::Gardener {
        kubeconfig_secret: "dws-interal-probe-secret-name".into(),
        external_kubeconfig_secret: Some("dwd-external-probe-secret-name".into()),
    };
    assert_eq!(config.source, source);
    let expected = ProbeSettings {
        probe_interval: Duration::from_secs(20),
        initial_delay: Duration::from_secs(5),
        api_thresholds: Thresholds {
            success: 1,
            failure: 3,
        },
        api_failure_pause: Duration::from_secs(30),
        jitter: 0.2,
        ..ProbeSettings::default()
    };
    assert_eq!(config.probe, expected);
    let delays = parsed.warnings.iter();
    assert!(
        delays.clone().count() > 0,
        "a delay of 15 s cannot meet the deadline"
    );
    for warning in delays {
        assert!(warning.path.contains("scaleDown.initialDelay"), "{warning}");
    }
}
