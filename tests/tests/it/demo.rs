//! `kelpie demo --keep` and those who look around in it.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kelpie_core::Time;
use kelpie_e2e::process::Process;
use kelpie_e2e::{kelpie, kubectl, poll, python};
use kelpie_kube::WallClock;
use tempfile::TempDir;

/// How long anything may take that is expected to happen, on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(3);

const CLUSTER: &str = "shoot--sim--c0000";

/// A landscape that stays up. It ends when dropped.
struct Kept {
    process: Process,
    /// Where it keeps what others need.
    place: PathBuf,
    kubeconfig: String,
    folder: TempDir,
}

impl Kept {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["demo", "--once", "--keep", "--clusters=3", "--nodes=3"];
        let arguments = arguments.map(str::to_owned);
        let log = folder.path().join("log");
        let process = Process::start(&kelpie::program().unwrap(), &arguments, &log).unwrap();
        let path = poll::until("the kubeconfig", PATIENCE, async || {
            // The last thing that it says.
            let log = process.log();
            let all = log.contains("weeder: http://").then_some(log);
            Ok(all.as_deref().and_then(|log| after(log, "  cd ")))
        });
        let place = PathBuf::from(path.await.unwrap());
        Self {
            process,
            kubeconfig: std::fs::read_to_string(place.join("kubeconfig")).unwrap(),
            place,
            folder,
        }
    }

    async fn kubectl(&self, arguments: &[&str]) -> String {
        let done = kubectl::run(&self.kubeconfig, self.folder.path(), arguments);
        done.await.unwrap()
    }

    /// Waits until kubectl prints this.
    async fn until(&self, arguments: &[&str], expected: &str) {
        let printed = poll::until(expected, PATIENCE, async || {
            Ok((self.kubectl(arguments).await == expected).then_some(()))
        });
        printed.await.unwrap();
    }
}

/// The word that stands behind `before`.
fn after(text: &str, before: &str) -> Option<String> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_whitespace().next()?.to_owned())
}

#[tokio::test]
async fn a_kept_landscape_is_one_that_kubectl_and_kelpie_believe() {
    let kept = Kept::start().await;
    let clusters = kept.kubectl(&["get", "clusters", "--output=name"]).await;
    assert_eq!(clusters.lines().count(), 3, "{clusters}");
    let nodes = ["--context", CLUSTER, "get", "nodes", "--output=name"];
    let nodes = kept.kubectl(&nodes).await;
    assert_eq!(nodes, "node/node-0000\nnode/node-0001\nnode/node-0002\n");

    // Everybody goes on as before, in real time: pods follow, and those that are deleted come again.
    let here = ["--namespace", CLUSTER];
    let controller = "deployment/machine-controller-manager";
    kept.kubectl(&[&here[..], &["scale", controller, "--replicas=2"]].concat())
        .await;
    let ready = [
        "get",
        controller,
        "--output=jsonpath={.status.readyReplicas}",
    ];
    kept.until(&[&here[..], &ready].concat(), "2").await;
    let available = [
        "wait",
        "--for=condition=Available",
        "--timeout=2m",
        controller,
    ];
    kept.kubectl(&[&here[..], &available].concat()).await;
    let annotate = ["annotate", controller, "looked=at"];
    kept.kubectl(&[&here[..], &annotate].concat()).await;
    let rolled_out = ["rollout", "status", "--timeout=2m", controller];
    kept.kubectl(&[&here[..], &rolled_out].concat()).await;
    kept.kubectl(&[&here[..], &["delete", "pod/kube-apiserver-0"]].concat())
        .await;
    let pods = ["get", "pods", "--output=name"];
    kept.until(&[&here[..], &pods].concat(), "pod/kube-apiserver-1\n")
        .await;
    let phase = ["get", "pods", "--output=jsonpath={.items[*].status.phase}"];
    kept.until(&[&here[..], &phase].concat(), "Running").await;

    let prober = after(&kept.process.log(), "--from ").unwrap();
    let told = poll::until("a round of the prober", PATIENCE, async || {
        let explained = kelpie::run(&["explain", CLUSTER, "--from", &prober]).await?;
        let text = String::from_utf8(explained.stdout)?;
        Ok(text.contains("Release, its controllers").then_some(()))
    });
    told.await.unwrap();
}

#[tokio::test]
async fn the_kubeconfigs_in_a_kept_landscape_lead_to_its_clusters() {
    let kept = Kept::start().await;
    let path = ".data.kubeconfig";
    let secret = kelpie_sim::Plan::SECRET;
    let read = format!("--output=go-template={{{{{path} | base64decode}}}}");
    let get = ["--namespace", CLUSTER, "get", "secret", secret, &read];
    let inner = kept.kubectl(&get).await;
    let leases = [
        "--namespace=kube-node-lease",
        "get",
        "leases",
        "--output=name",
    ];
    let leases = kubectl::run(&inner, kept.folder.path(), &leases).await;
    assert_eq!(leases.unwrap().lines().count(), 3);
}

#[tokio::test]
async fn pythons_client_trusts_a_kept_landscape_and_reads_all_of_it() {
    let kept = Kept::start().await;
    let said = python::run(include_str!("demo.py"), &kept.kubeconfig).await;
    let expected = "version v1.36.4
deployments 9
pods 3
services 3
slices 3
clusters 3
nodes 3 linux
leases 3
";
    assert_eq!(said.unwrap(), expected);
}

#[tokio::test]
async fn objects_in_a_kept_landscape_are_as_old_as_the_story_is_long() {
    let kept = Kept::start().await;
    let created = "--output=jsonpath={.items[0].metadata.creationTimestamp}";
    let read = ["--context", CLUSTER, "get", "nodes", created];
    let created: Timestamp = kept.kubectl(&read).await.parse().unwrap();
    let created = Time::from_micros(created.as_microsecond());
    // By the clock of who looks at it; what is still to come would be no time ago.
    let minutes = WallClock::default().now().since(created).as_secs() / 60;
    assert!((20..90).contains(&minutes), "{created}: {minutes} minutes");
}

#[tokio::test]
async fn a_kept_landscape_passes_the_checks_with_the_files_that_lie_beside_it() {
    let kept = Kept::start().await;
    let file = |name: &str| kept.place.join(name).display().to_string();
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
