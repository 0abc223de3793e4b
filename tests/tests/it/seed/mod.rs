//! The seed's API server, as the product speaks to it.

mod access;
mod election;
mod events;
mod targets;
mod watches;

use std::io::Write;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use kelpie_e2e::{ApiServer, Credentials};
use kelpie_kube::seed::{Seed, SeedOptions};
use tempfile::NamedTempFile;
use tokio::time::timeout;

/// For things that take milliseconds on an idle machine, and a pause of the watches at worst.
const PATIENCE: Duration = Duration::from_mins(1);

/// The seed behind an API server, as somebody.
async fn seed(api: &ApiServer, credentials: &Credentials) -> Seed {
    seed_of(&api.kubeconfig(credentials)).await
}

/// The seed that a kubeconfig leads to.
pub(crate) async fn seed_of(kubeconfig: &str) -> Seed {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(kubeconfig.as_bytes()).unwrap();
    let options = SeedOptions {
        kubeconfig: Some(file.path().to_owned()),
        qps: 50.0,
        burst: 100,
        user_agent: "kelpie-e2e".into(),
    };
    Seed::connect(&options).await.unwrap()
}

/// The next thing of an endless stream.
async fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> T {
    let next = timeout(PATIENCE, stream.next()).await;
    next.expect("something new in time")
        .expect("an endless stream")
}

/// Applies what kubectl can read.
async fn apply(api: &ApiServer, manifest: &str) {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(manifest.as_bytes()).unwrap();
    let path = file.path().display().to_string();
    let arguments = ["apply", "--server-side", "--filename", &path];
    api.kubectl(&arguments).await.unwrap();
}
