//! Fetching the state page of a running prober.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::{HeaderMap, StatusCode};
use kelpie_net::{ConnectError, Endpoint, EndpointError, HttpConnection, percent_encode};
use kelpie_prober::Unprobed;
use tokio::time::timeout;

/// Time limit for the whole request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The state of one cluster has a few KB.
const LARGEST: usize = 4 << 20;

/// Explains how to reach a prober in another cluster.
const HINT: &str = "forward its port first: `kubectl -n garden port-forward \
                    deploy/kelpie-prober 9643`, or name its address with --from";

/// The state of a cluster as JSON, or the prober's response about a cluster without a probe.
type Response = Result<String, Unprobed>;

pub(super) async fn fetch(url: &str, cluster: &str) -> Result<Response> {
    let endpoint = Endpoint::new(url, None).map_err(|error| match error {
        EndpointError::NeedsTls => crate::cli::usage_error(
            "--from: the prober speaks http, not https; forward its port and use http",
        ),
        other => crate::cli::usage_error(&format!("--from: {other}")),
    })?;
    match timeout(PATIENCE, request(&endpoint, cluster)).await {
        Ok(answer) => answer,
        Err(_) => bail!("{url} did not answer within {PATIENCE:?}; is it a prober? {HINT}"),
    }
}

async fn request(endpoint: &Endpoint, cluster: &str) -> Result<Response> {
    let mut connection = HttpConnection::open(endpoint)
        .await
        .map_err(|error| match error {
            ConnectError::Refused { at } => {
                anyhow::anyhow!("nothing listens on {at}: if the prober runs elsewhere, {HINT}")
            }
            other => anyhow::anyhow!("the prober cannot be reached: {other}; {HINT}"),
        })?;
    let mut path = "/debug/state?cluster=".to_owned();
    percent_encode(cluster, &mut path);
    let answer = connection.get(&path, &HeaderMap::new()).await;
    let answer = answer.context("the prober did not answer")?;
    let status = answer.status;
    let body = answer.collect(LARGEST).await;
    let body = body.context("the prober did not answer completely")?;
    match status {
        StatusCode::OK => {
            let text = String::from_utf8(body.to_vec());
            Ok(Ok(text.context("the answer is not text")?))
        }
        StatusCode::NOT_FOUND => match serde_json::from_slice(&body) {
            Ok(unprobed) => Ok(Err(unprobed)),
            Err(_) => bail!(
                "what answers at {} is not a prober: it has no /debug/state; {HINT}",
                endpoint.authority()
            ),
        },
        other => bail!("{} answered {other}; {HINT}", endpoint.authority()),
    }
}
