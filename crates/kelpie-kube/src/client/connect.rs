//! Finds the API server's configuration and builds the clients.

use std::env;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::timeout::TimeoutLayer;

use super::body_timeout::BodyTimeoutLayer;
use super::in_process::InProcess;
use super::rate_limit::RateLimit;
use super::response_counter::ResponseCounter;
use super::{ClientError, ClientOptions};

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The API server itself gives up on a request after this time.
const ROUTINE_TIMEOUT: Duration = Duration::from_mins(1);
/// Longer than a healthy watch can be idle, so that only lists run into it.
const ROUTINE_READ_TIMEOUT: Duration = Duration::from_secs(75);
/// A connection that was idle for this long is not used for a fence. A new connection costs a
/// millisecond; one that died unnoticed costs the whole deadline.
pub(super) const FENCING_READ_TIMEOUT: Duration = Duration::from_secs(30);

const ROUTINE_BODY: BodyTimeoutLayer = BodyTimeoutLayer {
    watch: ROUTINE_READ_TIMEOUT,
};
const FENCING_BODY: BodyTimeoutLayer = BodyTimeoutLayer {
    watch: FENCING_READ_TIMEOUT,
};

/// The kubelet sets this variable in every pod.
const IN_CLUSTER_ENV: &str = "KUBERNETES_SERVICE_HOST";

/// A placeholder that keeps the library from taking a proxy from the environment.
const NO_PROXY: &str = "http://proxy.invalid";

/// The clients for one API server.
pub(super) struct Clients {
    pub(super) routine: Client,
    pub(super) fencing: Client,
    /// The same as the fencing client, over connections of its own.
    pub(super) overtaking: Client,
}

/// Builds the clients, and describes the server. `counter` counts the responses of all.
pub(super) async fn connect(
    role: &'static str,
    options: &ClientOptions,
    counter: &ResponseCounter,
) -> Result<(Clients, Arc<str>), ClientError> {
    let (origin, config) = infer_config(role, options.kubeconfig.as_deref()).await;
    let (mut config, context) = match config {
        Ok(found) => found,
        Err(reason) => {
            return Err(ClientError::Kubeconfig {
                role,
                origin,
                reason,
            });
        }
    };
    let origin = match &options.kubeconfig {
        Some(_) => format!("kubeconfig {origin}"),
        None => origin,
    };
    let server = describe_server(&config, &origin, context.as_deref());
    let setup = |reason: String| ClientError::Setup { role, reason };
    let agent = HeaderValue::from_str(&options.user_agent);
    let invalid = "the user agent contains characters that are not allowed in a header";
    let agent = agent.map_err(|_| setup(invalid.to_owned()))?;
    config.headers.push((USER_AGENT, agent));
    // A hidden retry would delay the caller, which has its own deadline and retries.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.write_timeout = Some(WRITE_TIMEOUT);
    config.reset_reader_on_write = true;

    config.read_timeout = Some(ROUTINE_READ_TIMEOUT);
    let routine =
        ClientBuilder::try_from(config.clone()).map_err(|error| setup(error.to_string()))?;
    config.read_timeout = Some(FENCING_READ_TIMEOUT);
    let fencing =
        ClientBuilder::try_from(config.clone()).map_err(|error| setup(error.to_string()))?;
    let overtaking = ClientBuilder::try_from(config).map_err(|error| setup(error.to_string()))?;
    let limit = RateLimit::new(options.qps, options.burst);
    let clients = Clients {
        routine: routine
            .with_layer(&ROUTINE_BODY)
            .with_layer(&routine_timeout())
            .with_layer(&counter.layer())
            .with_layer(&limit)
            .build(),
        fencing: fencing
            .with_layer(&FENCING_BODY)
            .with_layer(&counter.layer())
            .build(),
        overtaking: overtaking
            .with_layer(&FENCING_BODY)
            .with_layer(&counter.layer())
            .build(),
    };
    Ok((clients, server))
}

/// Describes a server for messages: `https://api:443 (~/.kube/config, context dev)`. User
/// information in the URL is left out, as it may contain a password.
fn describe_server(config: &Config, origin: &str, context: Option<&str>) -> Arc<str> {
    let url = &config.cluster_url;
    let authority = url.authority().map_or("", |it| it.as_str());
    let host = authority.rsplit_once('@').map_or(authority, |(_, it)| it);
    let scheme = url.scheme_str().unwrap_or("https");
    let path = url.path().trim_end_matches('/');
    let context = context.map_or_else(String::new, |context| format!(", context {context}"));
    format!("{scheme}://{host}{path} ({origin}{context})").into()
}

/// Builds the same clients for an API server in this process, with the rate limits that Gardener
/// sets.
pub(super) fn in_process(server: &InProcess, counter: &ResponseCounter) -> Clients {
    const QPS: f32 = 20.0;
    const BURST: u32 = 100;
    let client = || ClientBuilder::new(server.clone(), "default");
    let limit = RateLimit::new(QPS, BURST);
    let fencing = client()
        .with_layer(&FENCING_BODY)
        .with_layer(&counter.layer())
        .build();
    Clients {
        routine: client()
            .with_layer(&ROUTINE_BODY)
            .with_layer(&routine_timeout())
            .with_layer(&counter.layer())
            .with_layer(&limit)
            .build(),
        // Every request has its own stream.
        overtaking: fencing.clone(),
        fencing,
    }
}

/// The timeout of a routine request. It starts after the rate limiter has let the request through.
fn routine_timeout() -> TimeoutLayer {
    TimeoutLayer::new(ROUTINE_TIMEOUT)
}

/// Tries `--kubeconfig`, `$KUBECONFIG`, the pod's service account and `~/.kube/config`, in that
/// order. Returns where the configuration comes from too, and the current context.
async fn infer_config(
    role: &'static str,
    path: Option<&Path>,
) -> (String, Result<(Config, Option<String>), String>) {
    if let Some(path) = path {
        let found = resolve(role, Kubeconfig::read_from(path)).await;
        return (path.display().to_string(), found);
    }
    let (origin, found) = match Kubeconfig::from_env().transpose() {
        Some(found) => ("$KUBECONFIG", resolve(role, found).await),
        None if env::var_os(IN_CLUSTER_ENV).is_some() => (
            "the service account of this pod",
            match Config::incluster() {
                Ok(config) => Ok((config, None)),
                Err(error) => Err(error.to_string()),
            },
        ),
        None => ("~/.kube/config", resolve(role, Kubeconfig::read()).await),
    };
    (origin.to_owned(), found)
}

async fn resolve(
    role: &'static str,
    kubeconfig: Result<Kubeconfig, KubeconfigError>,
) -> Result<(Config, Option<String>), String> {
    let mut kubeconfig = kubeconfig.map_err(|error| error.to_string())?;
    if proxy(&kubeconfig).is_some() {
        // The URL is not shown: it may contain a password.
        return Err(format!(
            "it names a proxy (proxy-url), but connections to the {role} must be direct"
        ));
    }
    // If a kubeconfig names no proxy, the library takes one from the environment, which is meant
    // for other programs. The placeholder prevents that and is removed again below.
    for named in &mut kubeconfig.clusters {
        if let Some(cluster) = &mut named.cluster {
            cluster.proxy_url = Some(NO_PROXY.into());
        }
    }
    let context = kubeconfig.current_context.clone();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| error.to_string())?;
    config.proxy_url = None;
    Ok((config, context))
}

/// Returns the proxy of the current context's cluster.
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
