//! Kelpie's clients and leader election on a real API server.

mod access_review;
mod authentication;
mod events;
mod gardener_crds;
mod guard_policy;
mod leader_election;
mod lease_encodings;
mod scale_targets;
mod tenant_client;
mod watches;

use std::io::Write;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use kelpie_e2e::{Credentials, KubeApiServer};
use kelpie_kube::client::{ClientOptions, ClusterClient};
use tempfile::NamedTempFile;
use tokio::time::timeout;

/// Limit for steps that take milliseconds on an idle machine, or the pause before a watch is
/// retried.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Connects Kelpie's client to an API server, with these credentials.
async fn connect(api: &KubeApiServer, credentials: &Credentials) -> ClusterClient {
    connect_with(&api.kubeconfig(credentials)).await
}

/// Connects Kelpie's client with a kubeconfig.
pub(crate) async fn connect_with(kubeconfig: &str) -> ClusterClient {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(kubeconfig.as_bytes()).unwrap();
    let options = ClientOptions {
        kubeconfig: Some(file.path().to_owned()),
        qps: 50.0,
        burst: 100,
        user_agent: "kelpie-e2e".into(),
    };
    ClusterClient::connect(&options).await.unwrap()
}

/// Returns the next item of an endless stream.
async fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> T {
    let next = timeout(TIMEOUT, stream.next()).await;
    next.expect("an item in time").expect("an endless stream")
}

/// Applies a manifest with kubectl.
async fn apply(api: &KubeApiServer, manifest: &str) {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(manifest.as_bytes()).unwrap();
    let path = file.path().display().to_string();
    let arguments = ["apply", "--server-side", "--filename", &path];
    api.kubectl(&arguments).await.unwrap();
}
