//! `kelpie demo --keep`, and other clients of the landscape that it keeps running.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kelpie_core::Time;
use kelpie_e2e::process::ServerProcess;
use kelpie_e2e::{kelpie, kubectl, poll, python};
use kelpie_kube::SystemClock;
use tempfile::TempDir;

/// Limit for anything that is expected to happen, on a loaded machine.
const TIMEOUT: Duration = Duration::from_mins(3);

const CLUSTER: &str = "shoot--sim--c0000";

/// A running `kelpie demo --keep`. It is killed on drop.
struct Fixture {
    process: ServerProcess,
    /// The folder with the files for other clients.
    files: PathBuf,
    kubeconfig: String,
    folder: TempDir,
}

impl Fixture {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["demo", "--once", "--keep", "--clusters=3", "--nodes=3"];
        let arguments = arguments.map(str::to_owned);
        let log = folder.path().join("log");
        let process = ServerProcess::start(&kelpie::binary().unwrap(), &arguments, &log).unwrap();
        let path = poll::until("the kubeconfig", TIMEOUT, async || {
            // This line is printed last.
            let log = process.log();
            let all = log.contains("weeder: http://").then_some(log);
            Ok(all.as_deref().and_then(|log| word_after(log, "  cd ")))
        });
        let files = PathBuf::from(path.await.unwrap());
        Self {
            process,
            kubeconfig: std::fs::read_to_string(files.join("kubeconfig")).unwrap(),
            files,
            folder,
        }
    }

    async fn kubectl(&self, arguments: &[&str]) -> String {
        let done = kubectl::run(&self.kubeconfig, self.folder.path(), arguments);
        done.await.unwrap()
    }

    /// Waits until kubectl prints `expected`.
    async fn until(&self, arguments: &[&str], expected: &str) {
        let printed = poll::until(expected, TIMEOUT, async || {
            Ok((self.kubectl(arguments).await == expected).then_some(()))
        });
        printed.await.unwrap();
    }
}

/// Returns the word after `before`.
fn word_after(text: &str, before: &str) -> Option<String> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_whitespace().next()?.to_owned())
}

#[tokio::test]
async fn kubectl_and_explain_work() {
    let fixture = Fixture::start().await;
    let clusters = fixture.kubectl(&["get", "clusters", "--output=name"]).await;
    assert_eq!(clusters.lines().count(), 3, "{clusters}");
    let nodes = ["--context", CLUSTER, "get", "nodes", "--output=name"];
    let nodes = fixture.kubectl(&nodes).await;
    assert_eq!(nodes, "node/node-0000\nnode/node-0001\nnode/node-0002\n");

    // The simulated controllers continue in real time: pods follow their Deployments, and deleted
    // pods are replaced.
    let here = ["--namespace", CLUSTER];
    let controller = "deployment/machine-controller-manager";
    fixture
        .kubectl(&[&here[..], &["scale", controller, "--replicas=2"]].concat())
        .await;
    let ready = [
        "get",
        controller,
        "--output=jsonpath={.status.readyReplicas}",
    ];
    fixture.until(&[&here[..], &ready].concat(), "2").await;
    let available = [
        "wait",
        "--for=condition=Available",
        "--timeout=2m",
        controller,
    ];
    fixture.kubectl(&[&here[..], &available].concat()).await;
    let annotate = ["annotate", controller, "looked=at"];
    fixture.kubectl(&[&here[..], &annotate].concat()).await;
    let rolled_out = ["rollout", "status", "--timeout=2m", controller];
    fixture.kubectl(&[&here[..], &rolled_out].concat()).await;
    fixture
        .kubectl(&[&here[..], &["delete", "pod/kube-apiserver-0"]].concat())
        .await;
    let pods = ["get", "pods", "--output=name"];
    fixture
        .until(&[&here[..], &pods].concat(), "pod/kube-apiserver-1\n")
        .await;
    let phase = ["get", "pods", "--output=jsonpath={.items[*].status.phase}"];
    fixture
        .until(&[&here[..], &phase].concat(), "Running")
        .await;

    let prober = word_after(&fixture.process.log(), "--from ").unwrap();
    let explained = poll::until("a round of the prober", TIMEOUT, async || {
        let output = kelpie::run(&["explain", CLUSTER, "--from", &prober]).await?;
        let text = String::from_utf8(output.stdout)?;
        Ok(text.contains("Healthy, nothing is fenced").then_some(()))
    });
    explained.await.unwrap();
}

#[tokio::test]
async fn kubeconfig_secrets_reach_their_clusters() {
    let fixture = Fixture::start().await;
    let path = ".data.kubeconfig";
    let secret = kelpie_sim::LandscapePlan::SECRET;
    let read = format!("--output=go-template={{{{{path} | base64decode}}}}");
    let get = ["--namespace", CLUSTER, "get", "secret", secret, &read];
    let inner = fixture.kubectl(&get).await;
    let leases = [
        "--namespace=kube-node-lease",
        "get",
        "leases",
        "--output=name",
    ];
    let leases = kubectl::run(&inner, fixture.folder.path(), &leases).await;
    assert_eq!(leases.unwrap().lines().count(), 3);
}

#[tokio::test]
async fn python_client_reads_all_kinds() {
    let fixture = Fixture::start().await;
    let output = python::run(include_str!("demo_keep.py"), &fixture.kubeconfig).await;
    let expected = "version v1.36.4
deployments 9
pods 3
services 3
slices 3
clusters 3
nodes 3 linux
leases 3
";
    assert_eq!(output.unwrap(), expected);
}

#[tokio::test]
async fn objects_have_plausible_ages() {
    let fixture = Fixture::start().await;
    let created = "--output=jsonpath={.items[0].metadata.creationTimestamp}";
    let read = ["--context", CLUSTER, "get", "nodes", created];
    let created: Timestamp = fixture.kubectl(&read).await.parse().unwrap();
    let created = Time::from_micros(created.as_microsecond());
    // By the clock of this process. A creation time in the future would give an age of zero.
    let minutes = SystemClock::default().now().since(created).as_secs() / 60;
    assert!((20..90).contains(&minutes), "{created}: {minutes} minutes");
}

#[tokio::test]
async fn checks_pass_with_provided_files() {
    let fixture = Fixture::start().await;
    let file = |name: &str| fixture.files.join(name).display().to_string();
    for component in ["prober", "weeder"] {
        let config = file(&format!("{component}.yaml"));
        let kubeconfig = file("kubeconfig");
        let arguments = ["--config-file", &config, "--kubeconfig", &kubeconfig];
        let checked = kelpie::run(&[&["check", component], &arguments[..]].concat()).await;
        let checked = checked.unwrap();
        let table = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.success(), "{table}");
    }
}
