//! Asking a running prober.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::{HeaderMap, StatusCode};
use kelpie_net::{ConnectError, Connection, Endpoint, EndpointError, escape};
use serde::Deserialize;
use tokio::time::timeout;

/// For the whole inquiry.
const PATIENCE: Duration = Duration::from_secs(10);
/// One cluster's state has a few KB.
const LARGEST: usize = 4 << 20;

/// How to get to a prober that runs elsewhere.
const HINT: &str = "forward its port first: `kubectl -n garden port-forward \
                    deploy/dependency-watchdog-prober 9643`, or name its address with --from";

/// What the prober says.
pub(super) enum Answer {
    /// The state of the cluster, as JSON.
    State(String),
    /// It has no probe.
    Unprobed(Unprobed),
}

/// What is said about a cluster without a probe.
#[derive(Deserialize)]
pub(super) struct Unprobed {
    /// Why, if there is such a cluster.
    pub(super) reason: Option<String>,
    /// Clusters with names like it.
    pub(super) near: Vec<String>,
}

pub(super) async fn ask(url: &str, cluster: &str) -> Result<Answer> {
    let endpoint = Endpoint::new(url, None).map_err(|error| match error {
        EndpointError::NeedsTls => crate::cli::usage_error(
            "--from: the prober speaks http, not https; forward its port and use http",
        ),
        other => crate::cli::usage_error(&format!("--from: {other}")),
    })?;
    match timeout(PATIENCE, fetch(&endpoint, cluster)).await {
        Ok(answer) => answer,
        Err(_) => bail!("{url} did not answer within {PATIENCE:?}; is it a prober? {HINT}"),
    }
}

async fn fetch(endpoint: &Endpoint, cluster: &str) -> Result<Answer> {
    let mut connection = Connection::open(endpoint)
        .await
        .map_err(|error| match error {
            ConnectError::Refused { at } => {
                anyhow::anyhow!("nothing listens on {at}: if the prober runs elsewhere, {HINT}")
            }
            other => anyhow::anyhow!("the prober cannot be reached: {other}; {HINT}"),
        })?;
    let mut path = "/debug/state?cluster=".to_owned();
    escape(cluster, &mut path);
    let answer = connection.get(&path, &HeaderMap::new()).await;
    let answer = answer.context("the prober did not answer")?;
    let status = answer.status;
    let body = answer.collect(LARGEST).await;
    let body = body.context("the prober did not answer completely")?;
    match status {
        StatusCode::OK => {
            let text = String::from_utf8(body.to_vec());
            Ok(Answer::State(text.context("the answer is not text")?))
        }
        StatusCode::NOT_FOUND => match serde_json::from_slice(&body) {
            Ok(unprobed) => Ok(Answer::Unprobed(unprobed)),
            Err(_) => bail!(
                "what answers at {} is not a prober: it has no /debug/state; {HINT}",
                endpoint.authority()
            ),
        },
        other => bail!("{} answered {other}; {HINT}", endpoint.authority()),
    }
}
