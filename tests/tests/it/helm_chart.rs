//! The Helm chart: the real helm installs it on a real API server, and the binary runs as its pods
//! would.

use std::fs;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kelpie_config::{ProberConfig, Strictness, prober};
use kelpie_e2e::{ControlPlane, LocalPod, kelpie, poll};
use kelpie_prober::leader_lease;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use xtask::cache;

/// A namespace other than that of the RBAC files.
const NAMESPACE: &str = "watchdogs";
const IMAGE: &str = "--set=image.repository=registry.example/kelpie";
const TIMEOUT: Duration = Duration::from_secs(30);

fn chart() -> String {
    let chart = cache::repository().join("deploy/charts/kelpie");
    chart.to_str().unwrap().to_owned()
}

/// A seed cluster for the chart.
pub(crate) struct Fixture {
    control_plane: ControlPlane,
}

impl Fixture {
    async fn start() -> Self {
        let control_plane = ControlPlane::start().await.unwrap();
        let definitions = [
            "clusters.extensions.gardener.cloud",
            "machines.machine.sapcloud.io",
        ];
        control_plane.api.install_crds(&definitions).await.unwrap();
        Self { control_plane }
    }

    /// Starts a seed cluster with the chart.
    pub(crate) async fn with_chart() -> Self {
        let fixture = Self::start().await;
        let create = [IMAGE, "--create-namespace"];
        fixture
            .helm(&["install", "kelpie", &chart()], &create)
            .await;
        fixture
    }

    pub(crate) async fn uninstall(&self) {
        self.helm(&["uninstall", "kelpie"], &[]).await;
    }

    pub(crate) fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    async fn helm(&self, verb: &[&str], settings: &[&str]) -> String {
        let namespace = format!("--namespace={NAMESPACE}");
        let arguments = [verb, &[&namespace], settings].concat();
        self.control_plane.api.helm(&arguments).await.unwrap()
    }

    async fn kubectl(&self, arguments: &[&str]) -> String {
        let namespace = format!("--namespace={NAMESPACE}");
        let arguments = [&[namespace.as_str()], arguments].concat();
        self.control_plane.api.kubectl(&arguments).await.unwrap()
    }

    async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.kubectl(&["get", kind, name, "--output=json"]).await;
        serde_json::from_str(&found).unwrap()
    }

    /// Lists the objects of these kinds that belong to the chart, in all namespaces.
    async fn installed(&self, kinds: &str) -> Vec<String> {
        let all = ["get", kinds, "--all-namespaces", "--output=name"];
        let all = self.kubectl(&all).await;
        let ours = all.lines().filter(|name| name.contains("/kelpie-"));
        ours.map(str::to_owned).collect()
    }

    pub(crate) async fn pod(&self, component: &str) -> LocalPod {
        let name = format!("kelpie-{component}");
        let pod = LocalPod::from_deployment(&self.control_plane.api, NAMESPACE, &name).await;
        pod.unwrap()
    }
}

#[tokio::test]
async fn pods_start_and_lead() {
    let fixture = Fixture::start().await;
    let notes = fixture
        .helm(
            &["install", "kelpie", &chart()],
            &[IMAGE, "--create-namespace"],
        )
        .await;
    assert!(
        notes.contains("port-forward deploy/kelpie-prober"),
        "{notes}"
    );

    for component in ["prober", "weeder"] {
        let pod = fixture.pod(component).await;
        let known = [
            "--config-file",
            "--kubeconfig",
            "--enable-leader",
            "--leader-",
        ];
        let flags = pod.arguments().iter().map(String::as_str);
        let flags = flags.filter(|word| known.iter().any(|flag| word.starts_with(flag)));
        let check: Vec<&str> = ["check", component].into_iter().chain(flags).collect();
        // The authorizer of the API server learns of new roles through a watch.
        let allowed = poll::until("the roles to take effect", TIMEOUT, async || {
            let output = kelpie::run(&check).await?;
            Ok(output.status.success().then_some(()))
        });
        allowed.await.unwrap();

        let running = pod.start().await.unwrap();
        running
            .until_line(&["became leader"], TIMEOUT)
            .await
            .unwrap();
        let lease = format!("dwd-{component}-leader-election");
        let lease = fixture.get("lease", &lease).await;
        assert!(lease["spec"]["holderIdentity"].is_string(), "{lease}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn upgrade_and_uninstall() {
    let fixture = Fixture::start().await;
    let checksum = async || {
        let deployment = fixture.get("deployment", "kelpie-prober").await;
        let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
        annotations["checksum/config"].as_str().unwrap().to_owned()
    };
    fixture
        .helm(
            &["install", "kelpie", &chart()],
            &[IMAGE, "--create-namespace"],
        )
        .await;
    let before = checksum().await;

    let dry = "--set=prober.dryRun=true,weeder.enabled=false";
    fixture
        .helm(&["upgrade", "kelpie", &chart()], &[IMAGE, dry])
        .await;
    assert_eq!(checksum().await, before);
    let pod = fixture.pod("prober").await;
    let arguments = pod.arguments();
    assert!(
        arguments.iter().any(|word| word == "--dry-run=true"),
        "{arguments:?}"
    );
    assert_eq!(
        fixture.installed("deployments").await,
        ["deployment.apps/kelpie-prober"]
    );

    let secret = "--set=prober.config.kubeConfigSecretName=another";
    fixture
        .helm(&["upgrade", "kelpie", &chart()], &[IMAGE, secret])
        .await;
    assert_ne!(
        checksum().await,
        before,
        "a changed config must restart the pods"
    );
    let role = fixture.get("clusterrole", "kelpie-prober").await;
    assert!(
        role["rules"].to_string().contains(r#"["another"]"#),
        "{role}"
    );

    fixture.uninstall().await;
    let kinds = "deployments,configmaps,serviceaccounts,poddisruptionbudgets,\
        roles,rolebindings,clusterroles,clusterrolebindings";
    assert_eq!(fixture.installed(kinds).await, [""; 0]);
}

/// Tries to do with the token of the prober what a thief would do.
#[tokio::test]
async fn prober_may_change_only_replicas_and_its_annotations() {
    let fixture = Fixture::start().await;
    let on = "--set=prober.admissionPolicy.enabled=true";
    let install = ["install", "kelpie", &chart()];
    fixture
        .helm(&install, &[IMAGE, on, "--create-namespace"])
        .await;
    let api = &fixture.control_plane.api;
    let admin = fixture.control_plane.client().await.unwrap();
    let all: Api<Deployment> = Api::namespaced(admin, NAMESPACE);
    for name in ["kube-controller-manager", "gardener-resource-manager"] {
        let deployment = json!({
            "metadata": { "name": name, "annotations": { "owner": "gardener" } },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "a", "image": "a" }] },
                },
            },
        });
        let deployment = serde_json::from_value(deployment).unwrap();
        all.create(&PostParams::default(), &deployment)
            .await
            .unwrap();
    }
    let account = format!("system:serviceaccount:{NAMESPACE}:kelpie-prober");
    let thief = api.client(&api.user(&account, &[]).unwrap()).await.unwrap();
    let everywhere: Api<Deployment> = Api::all(thief.clone());
    let here: Api<Deployment> = Api::namespaced(thief, NAMESPACE);
    let patch = async |name: &str, change: Value| {
        let change = Patch::Merge(change);
        let patched = here.patch(name, &PatchParams::default(), &change).await;
        patched.map(drop).map_err(|error| error.to_string())
    };
    let kcm = "kube-controller-manager";
    // Roles and policies take effect after a moment. A patch that still succeeded must not make the
    // next one a change of nothing.
    let mut attempt = 0;
    poll::until("the policy to take effect", TIMEOUT, async || {
        attempt += 1;
        let container = json!({ "name": "a", "image": format!("evil:{attempt}") });
        let spec = json!({ "containers": [container] });
        let denied = patch(kcm, json!({ "spec": { "template": { "spec": spec } } })).await;
        let words = "may change only the replicas";
        Ok(denied
            .is_err_and(|error| error.contains(words))
            .then_some(()))
    })
    .await
    .unwrap();
    for (what, change) in [
        ("a label", json!({ "metadata": { "labels": { "a": "b" } } })),
        (
            "a finalizer",
            json!({ "metadata": { "finalizers": ["a/b"] } }),
        ),
        (
            "an annotation",
            json!({ "metadata": { "annotations": { "a": "b" } } }),
        ),
        (
            "its owner's",
            json!({ "metadata": { "annotations": { "owner": null } } }),
        ),
        (
            "the strategy",
            json!({ "spec": { "strategy": { "type": "Recreate", "rollingUpdate": null } } }),
        ),
        ("a pause", json!({ "spec": { "paused": true } })),
    ] {
        let denied = patch(kcm, change).await.unwrap_err();
        assert!(denied.contains("may change only"), "{what}: {denied}");
    }

    // The fence and its restore.
    let prefix = "dependency-watchdog.gardener.cloud";
    let annotations = |replicas: Value, marker: Value| {
        json!({ format!("{prefix}/replicas"): replicas,
            format!("{prefix}/meltdown-protection-active"): marker })
    };
    for (replicas, annotations) in [
        (0, annotations(json!("1"), json!(""))),
        (1, annotations(Value::Null, Value::Null)),
    ] {
        let change = json!({
            "metadata": { "annotations": annotations },
            "spec": { "replicas": replicas },
        });
        patch(kcm, change).await.unwrap();
    }
    let scale = Patch::Merge(json!({ "spec": { "replicas": 0 } }));
    let scaled = here.patch_scale(kcm, &PatchParams::default(), &scale).await;
    scaled.unwrap();

    // Rights end at the names of the targets.
    let other = patch(
        "gardener-resource-manager",
        json!({ "spec": { "replicas": 0 } }),
    )
    .await;
    assert!(other.unwrap_err().contains("forbidden"));
    let named = ListParams::default().fields(&format!("metadata.name={kcm}"));
    assert_eq!(everywhere.list(&named).await.unwrap().items.len(), 1);
    let everything = everywhere.list(&ListParams::default()).await;
    assert!(everything.unwrap_err().to_string().contains("forbidden"));
}

#[tokio::test]
async fn fencing_requests_have_a_priority_level() {
    let fixture = Fixture::start().await;
    let install = ["install", "kelpie", &chart()];
    fixture.helm(&install, &[IMAGE, "--create-namespace"]).await;
    let schema = fixture.get("flowschema", "kelpie-fencing").await;
    let dangling = async || {
        let schema = fixture.get("flowschema", "kelpie-fencing").await;
        let conditions = schema["status"]["conditions"].as_array()?.clone();
        let is_dangling = |condition: &&Value| condition["type"] == "Dangling";
        let found = conditions.iter().find(is_dangling)?["status"].clone();
        found.as_str().map(str::to_owned)
    };
    let level = poll::until("the schema to be checked", TIMEOUT, async || {
        Ok(dangling().await)
    });
    assert_eq!(level.await.unwrap(), "False", "{schema}");
}

/// Runs helm without a cluster. Returns its stdout, or its stderr if it fails.
async fn helm(arguments: &[&str]) -> Result<String, String> {
    let mut helm = tokio::process::Command::new(cache::find("helm").unwrap());
    let output = helm.args(arguments).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}

async fn render(settings: &[&str]) -> Result<Vec<Value>, String> {
    let chart = chart();
    let template = ["template", "kelpie", &chart, "--namespace", NAMESPACE];
    let rendered = helm(&[&template, settings].concat()).await?;
    Ok(serde_saphyr::from_multiple(&rendered).unwrap())
}

fn of_kind<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let matches = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    let found = objects.iter().find(matches);
    found.unwrap_or_else(|| panic!("no {kind} {name} among {objects:#?}"))
}

fn read(file: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

#[tokio::test]
async fn default_config_matches_example() {
    let objects = render(&[IMAGE]).await.unwrap();
    for component in ["prober", "weeder"] {
        let map = of_kind(&objects, "ConfigMap", &format!("kelpie-{component}"));
        let config = map["data"]["config.yaml"].as_str().unwrap();
        let config: Value = serde_saphyr::from_str(config).unwrap();
        let examples = cache::repository().join("docs/examples");
        assert_eq!(config, read(&examples.join(format!("{component}.yaml"))));
    }
}

#[tokio::test]
async fn prometheus_operator_objects() {
    let without = render(&[IMAGE]).await.unwrap();
    let monitoring = |object: &Value| object["apiVersion"] == "monitoring.coreos.com/v1";
    assert!(!without.iter().any(monitoring));

    let on = "--set=prometheusOperator.enabled=true,prometheusOperator.labels.prometheus=seed";
    let objects = render(&[IMAGE, on]).await.unwrap();
    for component in ["prober", "weeder"] {
        let name = format!("kelpie-{component}");
        let alerts = cache::repository().join("deploy/alerts");
        let rule = of_kind(&objects, "PrometheusRule", &name);
        assert_eq!(
            rule["spec"],
            read(&alerts.join(format!("{component}.yaml")))
        );

        let monitor = of_kind(&objects, "PodMonitor", &name);
        assert_eq!(monitor["metadata"]["labels"]["prometheus"], "seed");
        let template = &of_kind(&objects, "Deployment", &name)["spec"]["template"];
        let wanted = monitor["spec"]["selector"]["matchLabels"]
            .as_object()
            .unwrap();
        for (label, value) in wanted {
            assert_eq!(&template["metadata"]["labels"][label], value);
        }
        let port = &monitor["spec"]["podMetricsEndpoints"][0]["port"];
        let ports = template["spec"]["containers"][0]["ports"]
            .as_array()
            .unwrap();
        assert!(ports.iter().any(|found| &found["name"] == port));
    }
}

#[tokio::test]
async fn each_shard_is_a_deployment() {
    let json = r#"prober.shards=[
        {"name": "a", "clusterSelector": {"matchLabels": {"kelpie.dev/shard": "a"}}},
        {"name": "b", "clusterSelector": {"matchLabels": {
            "shard.alpha.sharding.timebertt.dev/ring": "kelpie-shard-b"}}}]"#;
    let on = "--set=prometheusOperator.enabled=true";
    let objects = render(&[IMAGE, on, "--set-json", json]).await.unwrap();
    for (name, label) in [
        ("a", "kelpie.dev/shard"),
        ("b", "shard.alpha.sharding.timebertt.dev/ring"),
    ] {
        let full = format!("kelpie-prober-{name}");
        let map = of_kind(&objects, "ConfigMap", &full);
        let text = map["data"]["config.yaml"].as_str().unwrap();
        let config = parsed(text);
        let lease = leader_lease(&config);
        let shard = config.shard.unwrap();
        assert_eq!(shard.name, name);
        assert_eq!(shard.selector.requirements[0].key, label);
        let deployment = of_kind(&objects, "Deployment", &full);
        let wanted = &deployment["spec"]["selector"]["matchLabels"];
        assert_eq!(wanted["kelpie.dev/shard"], name);
        assert_eq!(deployment["spec"]["replicas"], 2);
        let roles = of_kind(&objects, "Role", "kelpie-prober-shards").to_string();
        for lease in [lease, shard.lease_name()] {
            assert!(roles.contains(&lease), "{roles}");
        }
    }
    let named = |kind: &str, name: &str| {
        let matches = |it: &&Value| it["kind"] == kind && it["metadata"]["name"] == name;
        objects.iter().filter(matches).count()
    };
    assert_eq!(named("Deployment", "kelpie-prober"), 0);
    assert_eq!(named("PrometheusRule", "kelpie-prober"), 1);
    let moves = of_kind(&objects, "ClusterRole", "kelpie-prober-shards").to_string();
    assert!(moves.contains(r#""patch""#), "{moves}");
}

fn parsed(config: &str) -> ProberConfig {
    let parsed = prober::parse(config.as_bytes(), Strictness::Strict);
    parsed.unwrap().value
}

#[tokio::test]
async fn invalid_values_are_rejected_by_name() {
    for (settings, words) in [
        (vec![], vec!["image.repository is not set"]),
        (
            vec![IMAGE, "--set=image.digest=latest"],
            vec!["image/digest"],
        ),
        (vec![IMAGE, "--set=probr.enabled=true"], vec!["probr"]),
        (
            vec![IMAGE, "--set=prober.replica=3"],
            vec!["prober", "replica"],
        ),
        (
            vec![IMAGE, "--set=prober.replicas=two"],
            vec!["prober/replicas", "integer"],
        ),
        (
            vec![IMAGE, "--set=weeder.replicas=0"],
            vec!["weeder/replicas", "minimum"],
        ),
        (
            vec![IMAGE, "--set=weeder.shards[0].name=a"],
            vec!["weeder/shards"],
        ),
        (
            vec![IMAGE, "--set=prober.shards[0].name=a"],
            vec!["prober/shards/0", "clusterSelector"],
        ),
        (
            vec![IMAGE, "--set=log.level=loud"],
            vec!["log/level", "'error'"],
        ),
        (
            vec![IMAGE, "--set=prober.config.kubeConfigSecretName="],
            vec!["prober/config/kubeConfigSecretName"],
        ),
    ] {
        let error = render(&settings).await.unwrap_err();
        for word in words {
            assert!(
                error.contains(word),
                "{settings:?}: {word:?} is not in {error}"
            );
        }
    }
}

#[tokio::test]
async fn pods_are_hardened() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let set = format!("--set=image.digest={digest},serviceAccount.annotations.a=b");
    let objects = render(&[IMAGE, &set]).await.unwrap();
    for component in ["prober", "weeder"] {
        let name = format!("kelpie-{component}");
        let deployment = of_kind(&objects, "Deployment", &name);
        let pod = &deployment["spec"]["template"]["spec"];
        let image = format!("registry.example/kelpie@{digest}");
        assert_eq!(pod["containers"][0]["image"], image);
        assert_eq!(pod["priorityClassName"], "system-cluster-critical");
        let spread = pod["topologySpreadConstraints"].to_string();
        assert!(spread.contains("topology.kubernetes.io/zone"), "{spread}");
        let policy = &of_kind(&objects, "NetworkPolicy", &name)["spec"];
        assert_eq!(policy["policyTypes"], json!(["Ingress"]));
        let labels = &deployment["spec"]["selector"]["matchLabels"];
        assert_eq!(&policy["podSelector"]["matchLabels"], labels);
        assert_eq!(policy["ingress"][0]["ports"][0]["port"], "metrics");
        let account = of_kind(&objects, "ServiceAccount", &name);
        assert_eq!(account["metadata"]["annotations"]["a"], "b");
    }
}

#[tokio::test]
async fn roles_follow_the_configured_targets() {
    let target = json!([{
        "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "kcm"},
        "scaleUp": {}, "scaleDown": {},
    }]);
    let default = json!([
        "cluster-autoscaler",
        "kube-controller-manager",
        "machine-controller-manager"
    ]);
    // RBAC takes no names for all names, so a guard without targets keeps the default ones.
    for (targets, expected) in [(target, json!(["kcm"])), (json!([]), default)] {
        let set = format!("--set-json=prober.config.dependentResourceInfos={targets}");
        let objects = render(&[IMAGE, &set, "--set-json=prober.config.guard={}"]).await;
        let objects = objects.unwrap();
        let role = of_kind(&objects, "ClusterRole", "kelpie-prober");
        let rules = role["rules"].as_array().unwrap().iter();
        let about = rules.filter(|rule| rule["apiGroups"] == json!(["apps"]));
        let names: Vec<_> = about.map(|rule| rule["resourceNames"].clone()).collect();
        assert_eq!(names, [expected.clone(), expected]);
    }
}

#[tokio::test]
async fn helm_lint_passes() {
    let output = helm(&["lint", "--strict", &chart(), IMAGE]).await.unwrap();
    assert!(output.contains("0 chart(s) failed"), "{output}");
}

#[test]
fn chart_version_matches_binary() {
    let chart = read(&Path::new(&chart()).join("Chart.yaml"));
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}

#[tokio::test]
async fn typos_in_the_configuration_are_refused() {
    for (setting, key) in [
        ("prober.config.probeIntervall=10s", "probeIntervall"),
        (
            "prober.config.dependentResourceInfos[0].scaleUp.levle=1",
            "levle",
        ),
        ("prober.config.guard.zones.hold=1m", "zones"),
        ("weeder.config.watchDurations=1m", "watchDurations"),
    ] {
        let error = render(&[IMAGE, "--set", setting]).await.unwrap_err();
        assert!(error.contains(key), "{error}");
    }
    let valid = r#"prober.config.guard={"zone": {"hold": "1m"}, "enabled": true}"#;
    render(&[IMAGE, "--set-json", valid]).await.unwrap();
}

#[tokio::test]
async fn named_probe_set_may_use_its_lease() {
    let objects = render(&[IMAGE, "--set=prober.config.name=eu"])
        .await
        .unwrap();
    let map = of_kind(&objects, "ConfigMap", "kelpie-prober");
    let lease = leader_lease(&parsed(map["data"]["config.yaml"].as_str().unwrap()));
    assert_eq!(lease, "dwd-prober-leader-election-eu");
    let is_role = |object: &&Value| object["kind"] == "Role";
    let roles: Vec<_> = objects
        .iter()
        .filter(is_role)
        .map(Value::to_string)
        .collect();
    assert!(
        roles
            .iter()
            .any(|role| role.contains(&format!("\"{lease}\""))),
        "{roles:?}"
    );
}
