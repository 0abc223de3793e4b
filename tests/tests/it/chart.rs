//! The Helm chart: a real helm puts it on a real API server, and the binary runs there as its pods would.

use std::fs;
use std::path::Path;
use std::time::Duration;

use kelpie_e2e::{ControlPlane, Pod, kelpie, poll};
use serde_json::Value;
use xtask::cache;

/// Not the one that the RBAC files name.
const NAMESPACE: &str = "watchdogs";
const IMAGE: &str = "--set=image.repository=registry.example/kelpie";
const PATIENCE: Duration = Duration::from_secs(30);

fn chart() -> String {
    let chart = cache::repository().join("deploy/charts/kelpie");
    chart.to_str().unwrap().to_owned()
}

/// A seed on which the chart is installed.
struct Seed {
    plane: ControlPlane,
}

impl Seed {
    async fn start() -> Self {
        let plane = ControlPlane::start().await.unwrap();
        let definitions = [
            "clusters.extensions.gardener.cloud",
            "machines.machine.sapcloud.io",
        ];
        plane.api.install_definitions(&definitions).await.unwrap();
        Self { plane }
    }

    async fn helm(&self, verb: &[&str], settings: &[&str]) -> String {
        let namespace = format!("--namespace={NAMESPACE}");
        let arguments = [verb, &[&namespace], settings].concat();
        self.plane.api.helm(&arguments).await.unwrap()
    }

    async fn kubectl(&self, arguments: &[&str]) -> String {
        let namespace = format!("--namespace={NAMESPACE}");
        let arguments = [&[namespace.as_str()], arguments].concat();
        self.plane.api.kubectl(&arguments).await.unwrap()
    }

    async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.kubectl(&["get", kind, name, "--output=json"]).await;
        serde_json::from_str(&found).unwrap()
    }

    /// The names of all that are there of these kinds, in any namespace, and ours.
    async fn ours(&self, kinds: &str) -> Vec<String> {
        let all = ["get", kinds, "--all-namespaces", "--output=name"];
        let all = self.kubectl(&all).await;
        let ours = all.lines().filter(|name| name.contains("/kelpie-"));
        ours.map(str::to_owned).collect()
    }

    async fn pod(&self, component: &str) -> Pod {
        let name = format!("kelpie-{component}");
        let pod = Pod::of(&self.plane.api, NAMESPACE, &name).await;
        pod.unwrap()
    }
}

#[tokio::test]
async fn the_pods_of_the_chart_have_all_they_need() {
    let seed = Seed::start().await;
    let said = seed
        .helm(
            &["install", "kelpie", &chart()],
            &[IMAGE, "--create-namespace"],
        )
        .await;
    assert!(said.contains("port-forward deploy/kelpie-prober"), "{said}");

    for component in ["prober", "weeder"] {
        let pod = seed.pod(component).await;
        let known = [
            "--config-file",
            "--kubeconfig",
            "--enable-leader",
            "--leader-",
        ];
        let flags = pod.arguments().iter().map(String::as_str);
        let flags = flags.filter(|word| known.iter().any(|flag| word.starts_with(flag)));
        let check: Vec<&str> = ["check", component].into_iter().chain(flags).collect();
        // Its authorizer hears of new rights by a watch.
        let rights = poll::until("the rights to be in force", PATIENCE, async || {
            let said = kelpie::run(&check).await?;
            Ok(said.status.success().then_some(()))
        });
        rights.await.unwrap();

        let running = pod.start().await.unwrap();
        running
            .until_line(&["this replica acts"], PATIENCE)
            .await
            .unwrap();
        let lease = format!("dwd-{component}-leader-election");
        let lease = seed.get("lease", &lease).await;
        assert!(lease["spec"]["holderIdentity"].is_string(), "{lease}");
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn an_upgrade_changes_what_it_should_and_uninstalling_leaves_nothing() {
    let seed = Seed::start().await;
    let checksum = async || {
        let deployment = seed.get("deployment", "kelpie-prober").await;
        let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
        annotations["checksum/config"].as_str().unwrap().to_owned()
    };
    seed.helm(
        &["install", "kelpie", &chart()],
        &[IMAGE, "--create-namespace"],
    )
    .await;
    let before = checksum().await;

    let dry = "--set=prober.dryRun=true,weeder.enabled=false";
    seed.helm(&["upgrade", "kelpie", &chart()], &[IMAGE, dry])
        .await;
    assert_eq!(checksum().await, before);
    let pod = seed.pod("prober").await;
    let arguments = pod.arguments();
    assert!(
        arguments.iter().any(|word| word == "--dry-run=true"),
        "{arguments:?}"
    );
    assert_eq!(
        seed.ours("deployments").await,
        ["deployment.apps/kelpie-prober"]
    );

    let secret = "--set=prober.config.kubeConfigSecretName=another";
    seed.helm(&["upgrade", "kelpie", &chart()], &[IMAGE, secret])
        .await;
    assert_ne!(checksum().await, before, "another file needs another pod");
    let role = seed.get("clusterrole", "kelpie-prober").await;
    assert!(
        role["rules"].to_string().contains(r#"["another"]"#),
        "{role}"
    );

    seed.helm(&["uninstall", "kelpie"], &[]).await;
    let kinds = "deployments,configmaps,serviceaccounts,poddisruptionbudgets,\
        roles,rolebindings,clusterroles,clusterrolebindings";
    assert_eq!(seed.ours(kinds).await, [""; 0]);
}

/// helm without a cluster.
async fn helm(arguments: &[&str]) -> Result<String, String> {
    let mut helm = tokio::process::Command::new(cache::find("helm").unwrap());
    let done = helm.args(arguments).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if done.status.success() {
        Ok(text(done.stdout))
    } else {
        Err(text(done.stderr))
    }
}

async fn render(settings: &[&str]) -> Result<Vec<Value>, String> {
    let chart = chart();
    let template = ["template", "kelpie", &chart, "--namespace", NAMESPACE];
    let rendered = helm(&[&template, settings].concat()).await?;
    Ok(serde_saphyr::from_multiple(&rendered).unwrap())
}

fn of_kind<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let such = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    let found = objects.iter().find(such);
    found.unwrap_or_else(|| panic!("no {kind} {name} among {objects:#?}"))
}

fn read(file: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

#[tokio::test]
async fn the_configuration_that_comes_with_the_chart_is_the_example() {
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
async fn the_prometheus_operator_gets_the_alerts_and_the_pods() {
    let quiet = render(&[IMAGE]).await.unwrap();
    let monitoring = |object: &Value| object["apiVersion"] == "monitoring.coreos.com/v1";
    assert!(!quiet.iter().any(monitoring));

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
async fn what_a_person_sets_wrong_is_refused_by_name() {
    for (settings, words) in [
        (vec![], vec!["image.repository is not set"]),
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
            vec![IMAGE, "--set=log.level=loud"],
            vec!["log/level", "'error'"],
        ),
        (
            vec![IMAGE, "--set=prober.config.kubeConfigSecretName="],
            vec!["prober/config/kubeConfigSecretName"],
        ),
    ] {
        let said = render(&settings).await.unwrap_err();
        for word in words {
            assert!(
                said.contains(word),
                "{settings:?}: {word:?} is not in {said}"
            );
        }
    }
}

#[tokio::test]
async fn helm_finds_nothing_to_say_about_the_chart() {
    let said = helm(&["lint", "--strict", &chart(), IMAGE]).await.unwrap();
    assert!(said.contains("0 chart(s) failed"), "{said}");
}

#[test]
fn the_chart_has_the_version_of_the_binary() {
    let chart = read(&Path::new(&chart()).join("Chart.yaml"));
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}
