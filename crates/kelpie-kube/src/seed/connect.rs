//! How the seed is found and spoken to.

use std::env;
use std::path::Path;
use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::timeout::TimeoutLayer;

use super::bucket::Bucket;
use super::inside::Inside;
use super::tally::Tally;
use super::{SeedError, SeedOptions};

pub(super) const CONNECT: Duration = Duration::from_secs(5);
const WRITE: Duration = Duration::from_secs(30);
/// A routine request is answered by then, or not at all: an API server itself gives up after that.
const ROUTINE_ANSWER: Duration = Duration::from_mins(1);
/// Longer than the longest silence of a watch that is well, so that only lists run into it.
const ROUTINE_READ: Duration = Duration::from_secs(75);
/// A connection that was idle for so long is not trusted with a fence: a new one costs a millisecond,
/// one that died unnoticed the whole deadline.
pub(super) const FENCING_READ: Duration = Duration::from_secs(30);

/// Where an in-cluster process finds its API server.
const IN_CLUSTER: &str = "KUBERNETES_SERVICE_HOST";

/// Stands for no proxy at all.
const NO_PROXY: &str = "http://proxy.invalid";

/// The routine client and the fencing client. The answers of both are counted.
pub(super) async fn connect(
    role: &'static str,
    options: &SeedOptions,
    tally: &Tally,
) -> Result<(Client, Client), SeedError> {
    let mut config = find(role, options.kubeconfig.as_deref()).await?;
    let agent = HeaderValue::from_str(&options.user_agent);
    let agent = agent.map_err(|_| SeedError::Setup {
        role,
        reason: "the user agent has characters that no header may have".into(),
    })?;
    config.headers.push((USER_AGENT, agent));
    // A retry that nobody sees would hold up whoever waits for the answer.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT);
    config.write_timeout = Some(WRITE);
    config.reset_reader_on_write = true;

    config.read_timeout = Some(ROUTINE_READ);
    let routine = ClientBuilder::try_from(config.clone()).map_err(|error| setup(role, &error))?;
    config.read_timeout = Some(FENCING_READ);
    let fencing = ClientBuilder::try_from(config).map_err(|error| setup(role, &error))?;
    let limit = Bucket::new(options.qps, options.burst);
    Ok((
        routine
            .with_layer(&patience())
            .with_layer(tally)
            .with_layer(&limit)
            .build(),
        fencing.with_layer(tally).build(),
    ))
}

/// The same two clients for a seed in this process, with the limits that Gardener sets.
pub(super) fn inside(server: &Inside, tally: &Tally) -> (Client, Client) {
    const QPS: f32 = 20.0;
    const BURST: u32 = 100;
    let client = || ClientBuilder::new(server.clone(), "default");
    let limit = Bucket::new(QPS, BURST);
    (
        client()
            .with_layer(&patience())
            .with_layer(tally)
            .with_layer(&limit)
            .build(),
        client().with_layer(tally).build(),
    )
}

/// Counts from the turn of a request on: how long it waits for that is our own doing.
fn patience() -> TimeoutLayer {
    TimeoutLayer::new(ROUTINE_ANSWER)
}

fn setup(role: &'static str, error: &kube::Error) -> SeedError {
    SeedError::Setup {
        role,
        reason: error.to_string(),
    }
}

/// `--kubeconfig`, `$KUBECONFIG`, in-cluster, `~/.kube/config`, in that order.
async fn find(role: &'static str, path: Option<&Path>) -> Result<Config, SeedError> {
    let wrong = |source: &str, error: &dyn std::error::Error| SeedError::Kubeconfig {
        role,
        origin: source.to_owned(),
        reason: error.to_string(),
    };
    if let Some(path) = path {
        let origin = path.display().to_string();
        let kubeconfig = Kubeconfig::read_from(path).map_err(|error| wrong(&origin, &error))?;
        return resolve(role, kubeconfig, &origin).await;
    }
    let origin = "$KUBECONFIG";
    if let Some(kubeconfig) = Kubeconfig::from_env().map_err(|error| wrong(origin, &error))? {
        return resolve(role, kubeconfig, origin).await;
    }
    if env::var_os(IN_CLUSTER).is_some() {
        let origin = "the service account of this pod";
        return Config::incluster().map_err(|error| wrong(origin, &error));
    }
    let origin = "~/.kube/config";
    let kubeconfig = Kubeconfig::read().map_err(|error| wrong(origin, &error))?;
    resolve(role, kubeconfig, origin).await
}

async fn resolve(
    role: &'static str,
    mut kubeconfig: Kubeconfig,
    origin: &str,
) -> Result<Config, SeedError> {
    let wrong = |reason: String| SeedError::Kubeconfig {
        role,
        origin: origin.to_owned(),
        reason,
    };
    if proxy(&kubeconfig).is_some() {
        // Not which one: its URL may hold a password.
        let reason =
            format!("it names a proxy (proxy-url), and the {role} is spoken to directly only");
        return Err(wrong(reason));
    }
    // Where a kubeconfig names no proxy the library takes one from the environment, which is meant
    // for other programs. So it finds one, and it is taken away again.
    for named in &mut kubeconfig.clusters {
        if let Some(cluster) = &mut named.cluster {
            cluster.proxy_url = Some(NO_PROXY.into());
        }
    }
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| wrong(error.to_string()))?;
    config.proxy_url = None;
    Ok(config)
}

/// The proxy that the current context's cluster names.
fn proxy(kubeconfig: &Kubeconfig) -> Option<&str> {
    let current = kubeconfig.current_context.as_deref()?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|context| context.name == current)?;
    let name = &context.context.as_ref()?.cluster;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|cluster| cluster.name == *name)?;
    let url = cluster.cluster.as_ref()?.proxy_url.as_deref();
    url.filter(|url| !url.is_empty())
}
