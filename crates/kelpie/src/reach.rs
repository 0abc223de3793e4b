//! Reaching running probers: at a URL, or the pods of their leaders through the API server.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueHint};
use http::{HeaderMap, StatusCode};
use kelpie_kube::client::{ClientOptions, ClusterClient};
use kelpie_kube::leader_leases::{LeaderLease, LeaderLeases};
use kelpie_net::{ConnectError, Endpoint, EndpointError, HttpConnection};
use tokio::time::timeout;

use crate::prober::LEASE;

/// Time limit for one request, with the connection to it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest answer. The summary of a cluster has less than 1 KB, its raw state a few KB.
const LARGEST: usize = 64 << 20;
/// The address at which a prober serves its state in its own pod.
const LOCAL: &str = "http://127.0.0.1:9643";
const PORT: u16 = 9643;
/// The kubelet sets this variable in every pod.
const IN_CLUSTER_ENV: &str = "KUBERNETES_SERVICE_HOST";
/// Commands are used by people, and make a few requests.
const QPS: f32 = 20.0;
const BURST: u32 = 100;

const HINT: &str = "leave --url out to find the leader through the kubeconfig";

/// Flags that say how to reach the prober.
#[derive(Args)]
#[command(next_help_heading = "Reaching the prober")]
pub(crate) struct ReachFlags {
    /// URL at which a prober serves its metrics [default: the leader is found; inside of a pod
    /// <http://127.0.0.1:9643>]
    #[arg(long, value_name = "URL", visible_alias = "from")]
    url: Option<String>,

    #[command(flatten)]
    seed: SeedAccessFlags,
}

/// Flags that say which seed is meant.
#[derive(Args)]
pub(crate) struct SeedAccessFlags {
    /// Kubeconfig of the seed [default: $KUBECONFIG, in-cluster, ~/.kube/config]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    kubeconfig: Option<PathBuf>,

    /// Namespace of the leader Lease and of the pods
    #[arg(short, long, value_name = "NAMESPACE", default_value = "garden")]
    pub(crate) namespace: String,
}

/// A prober that can be asked.
pub(crate) struct Server {
    endpoint: Endpoint,
    /// Its name in messages.
    pub(crate) name: String,
}

impl SeedAccessFlags {
    /// Returns the leader Leases in the namespace, and a client for the seed.
    pub(crate) async fn leases(&self, command: &str) -> Result<LeaderLeases> {
        let options = ClientOptions {
            kubeconfig: self.kubeconfig.clone(),
            qps: QPS,
            burst: BURST,
            user_agent: format!("kelpie/{} ({command})", env!("CARGO_PKG_VERSION")),
        };
        let seed = ClusterClient::connect(&options).await?;
        Ok(LeaderLeases::new(&seed, &self.namespace))
    }

    /// Finds the leaders: one, or one of each shard.
    async fn leaders(&self, command: &str) -> Result<Vec<Server>> {
        let leases = self.leases(command).await?;
        let found = timeout(PATIENCE, leases.list(LEASE)).await;
        let found =
            found.map_err(|_| anyhow!("the API server did not answer in {PATIENCE:?}"))??;
        if found.is_empty() {
            bail!(
                "there is no Lease {LEASE} in namespace {}; set the prober's namespace with \
                 --namespace",
                self.namespace
            );
        }
        let mut servers = Vec::new();
        for lease in &found {
            servers.extend(self.leader(&leases, lease).await?);
        }
        if servers.is_empty() {
            bail!(
                "no prober leads: no Lease in namespace {} has a holder",
                self.namespace
            );
        }
        Ok(servers)
    }

    async fn leader(&self, leases: &LeaderLeases, lease: &LeaderLease) -> Result<Option<Server>> {
        let (Some(pod), namespace) = (lease.pod(), &self.namespace) else {
            return Ok(None);
        };
        let Some(port) = timeout(PATIENCE, leases.metrics_port(pod, PORT))
            .await
            .context("the API server did not answer in time")??
        else {
            bail!(
                "the leader by Lease {} is {pod}, but namespace {namespace} has no such pod; if it \
                 runs elsewhere, name its address with --url",
                lease.name
            );
        };
        let endpoint = Endpoint::new(&format!("http://127.0.0.1:{port}"), None)?;
        Ok(Some(Server {
            endpoint: endpoint.with_network(&leases.pod_network(pod)),
            name: format!("pod {namespace}/{pod}"),
        }))
    }
}

impl ReachFlags {
    /// Returns the probers to ask: the one at the URL, or the leader of each shard.
    pub(crate) async fn servers(&self, command: &str) -> Result<Vec<Server>> {
        let is_in_pod = env::var_os(IN_CLUSTER_ENV).is_some() && self.seed.kubeconfig.is_none();
        let url = match &self.url {
            Some(url) => url,
            None if is_in_pod => LOCAL,
            None => return self.seed.leaders(command).await,
        };
        let endpoint = Endpoint::new(url, None).map_err(|error| match error {
            EndpointError::NeedsTls => crate::cli::usage_error(
                "--url: the prober speaks http, not https; forward its port and use http",
            ),
            other => crate::cli::usage_error(&format!("--url: {other}")),
        })?;
        Ok(vec![Server {
            endpoint,
            name: url.to_owned(),
        }])
    }
}

impl Server {
    /// Sends a GET request.
    pub(crate) async fn get(&self, path: &str) -> Result<(StatusCode, Vec<u8>)> {
        match timeout(PATIENCE, self.request(path)).await {
            Ok(answer) => answer,
            Err(_) => bail!(
                "{} did not answer within {PATIENCE:?}; is it a prober? {HINT}",
                self.name
            ),
        }
    }

    async fn request(&self, path: &str) -> Result<(StatusCode, Vec<u8>)> {
        let connection = HttpConnection::open(&self.endpoint).await;
        let mut connection = connection.map_err(|error| match error {
            ConnectError::Refused { at } => {
                anyhow!("nothing listens on {at}: if the prober runs elsewhere, {HINT}")
            }
            other => anyhow!("the prober cannot be reached: {other}"),
        })?;
        let answer = connection.get(path, &HeaderMap::new()).await;
        let answer = answer.context("the prober did not answer")?;
        let status = answer.status;
        let body = answer.collect(LARGEST).await;
        let body = body.context("the prober did not answer completely")?;
        Ok((status, body.to_vec()))
    }

    /// Returns the error for an answer that no prober gives.
    pub(crate) fn unexpected(&self, status: StatusCode) -> anyhow::Error {
        if status == StatusCode::NOT_FOUND {
            return anyhow!(
                "what answers at {} is not a prober: it has no /debug/state; {HINT}",
                self.endpoint.authority()
            );
        }
        anyhow!("{} answered {status}; {HINT}", self.endpoint.authority())
    }
}
