//! Helpers shared by the end-to-end tests of several components.

use std::sync::Arc;

use kelpie_config::{Strictness, prober};
use kelpie_core::prober::NodeRules;
use kelpie_prober::source::{ClusterSource, cluster_source};
use std::fs;
use std::process::Output;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kelpie_e2e::landscape::SeedCluster;
use kelpie_e2e::{Kelpie, KubeApiServer, kelpie, poll};
use serde_json::Value;
use tempfile::TempDir;
use xtask::cache;

/// Upper limit for anything a test expects to happen. Generous, because the machine may be loaded.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Flags for a leader election that is decided within seconds.
pub(crate) const ELECTION: [&str; 4] = [
    "--enable-leader-election=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
];

/// Returns true if `replica` is the leader according to its `/debug/state`.
pub(crate) async fn leads(replica: &Kelpie) -> bool {
    let reply = replica.get("/debug/state").await.unwrap();
    let state: Value = serde_json::from_str(&reply.body).unwrap();
    state["leads"] == true
}

/// Waits until `replica` is the leader.
pub(crate) async fn until_leading(replica: &Kelpie) {
    let leading = poll::until("a leader", TIMEOUT, async || {
        Ok(leads(replica).await.then_some(()))
    });
    leading.await.unwrap();
}

/// Waits for an Event with this reason about the object called `name`, and returns the Event.
pub(crate) async fn until_event(
    seed: &SeedCluster,
    namespace: &str,
    reason: &str,
    name: &str,
    timeout: Duration,
) -> Value {
    let what = format!("an Event {reason} about {name}");
    let found = poll::until(&what, timeout, async || {
        let events = seed.events(namespace).await?;
        let matches =
            |event: &Value| event["reason"] == reason && event["involvedObject"]["name"] == name;
        Ok(events.into_iter().find(matches))
    });
    found.await.unwrap()
}

/// Returns a finished command's exit code, and its stdout followed by its stderr.
pub(crate) fn exit_code_and_text(output: Output) -> (Option<i32>, String) {
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// Runs `kelpie check` for a component with its example configuration, as this user of `api`.
pub(crate) async fn run_check(api: &KubeApiServer, component: &str, user: &str) -> Output {
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let credentials = api.user(user, &[]).unwrap();
    fs::write(&kubeconfig, api.kubeconfig(&credentials)).unwrap();
    let example = cache::repository().join(format!("docs/examples/{component}.yaml"));
    let arguments = [
        "check",
        component,
        "--enable-leader-election",
        "--output=json",
        &format!("--config-file={}", example.display()),
        &format!("--kubeconfig={}", kubeconfig.display()),
    ];
    kelpie::run(&arguments).await.unwrap()
}

/// Returns the rows of this grade in the report of `kelpie check --output=json`, as `about: found`.
pub(crate) fn check_rows(output: &Output, grade: &str) -> Vec<String> {
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report in JSON");
    let rows = report["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["grade"] == grade);
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    rows.map(|row| format!("{}: {}", text(row, "about"), text(row, "found")))
        .collect()
}

/// The wall clock in milliseconds since the Unix epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "real servers compare the timestamps of samples with the wall clock"
)]
pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// The Gardener source as the prober uses it: all clusters, or the one of this name.
pub(crate) fn gardener_source(only: Option<&str>) -> Arc<dyn ClusterSource> {
    let namespace = only.map_or_else(String::new, |only| format!("namespace: {only}\n"));
    let yaml = format!(
        "kubeConfigSecretName: shoot-access
{namespace}dependentResourceInfos:
- ref: {{apiVersion: apps/v1, kind: Deployment, name: kube-controller-manager}}
  scaleUp: {{}}
  scaleDown: {{}}
"
    );
    let config = prober::parse(yaml.as_bytes(), Strictness::Strict);
    cluster_source(&config.unwrap().value)
}

/// The rules by which Gardener's nodes are judged.
pub(crate) fn gardener_nodes() -> Arc<NodeRules> {
    let conventions = gardener_source(None).node_conventions();
    let named = ["DiskPressure", "Ready"].map(str::to_owned);
    let pools = [("pool-a".to_owned(), named.to_vec())].into();
    Arc::new(NodeRules::new(conventions, Arc::new(pools)))
}
