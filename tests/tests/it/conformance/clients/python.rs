//! The client of a third language: Python's `kubernetes`.

use std::io::Write;
use std::time::Duration;

use kelpie_e2e::Credentials;
use tempfile::NamedTempFile;
use tokio::process::Command;
use tokio::time::timeout;
use xtask::cache;

use super::{cluster, deployment};

/// Importing the package alone takes seconds on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn pythons_client_gets_lists_watches_patches_scales_and_deletes() {
    let simulated = cluster().await;
    let mut kubeconfig = NamedTempFile::new().unwrap();
    let text = simulated.kubeconfig(&Credentials::admin());
    kubeconfig.write_all(text.as_bytes()).unwrap();
    let mut python = Command::new("python3");
    python
        .args(["-B", "-c", include_str!("client.py")])
        .arg(kubeconfig.path())
        .env("PYTHONPATH", cache::find(cache::PYTHON).unwrap())
        // The server is on loopback, whatever proxy the environment names.
        .env("NO_PROXY", "*")
        .kill_on_drop(true);
    let done = timeout(PATIENCE, python.output()).await;
    let done = done.expect("an end in time").unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let failed = String::from_utf8_lossy(&done.stderr);
    let expected = "version v1.36.4
nodes n1 n2
replicas 2
pods kcm-a kcm-b
scale 0
event ADDED a {'k': 'v'}
event MODIFIED a {'k': 'w'}
event DELETED a {'k': 'w'}
gone 404
";
    assert_eq!(said, expected, "{failed}");
    let deployment = deployment(&simulated);
    assert_eq!(deployment["spec"]["replicas"], 0);
    assert_eq!(deployment["metadata"]["annotations"]["from"], "python");
}
