//! Fetching the state of a cluster from running probers.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use http::StatusCode;
use kelpie_net::percent_encode;
use kelpie_prober::Unprobed;

use crate::reach::Server;

/// The state of a cluster as JSON, or the probers' response about a cluster without a probe.
type Response = Result<String, Unprobed>;

/// Asks one prober after the other, until one of them watches the cluster.
pub(crate) async fn fetch(servers: &[Server], cluster: &str) -> Result<Response> {
    let mut unprobed: Option<Unprobed> = None;
    for server in servers {
        let found = match fetch_from(server, cluster).await? {
            Ok(state) => return Ok(Ok(state)),
            Err(found) => found,
        };
        unprobed = Some(match unprobed {
            None => found,
            Some(before) => combine(before, found),
        });
    }
    unprobed.map(Err).context("there is no prober to ask")
}

fn combine(a: Unprobed, b: Unprobed) -> Unprobed {
    let near: BTreeSet<String> = a.near.into_iter().chain(b.near).collect();
    Unprobed {
        error: a.error,
        reason: a.reason.or(b.reason),
        near: near.into_iter().collect(),
    }
}

async fn fetch_from(server: &Server, cluster: &str) -> Result<Response> {
    let mut path = "/debug/state?cluster=".to_owned();
    percent_encode(cluster, &mut path);
    let (status, body) = server.get(&path).await?;
    match status {
        StatusCode::OK => Ok(Ok(
            String::from_utf8(body).context("the answer is not text")?
        )),
        StatusCode::NOT_FOUND => match serde_json::from_slice(&body) {
            Ok(unprobed) => Ok(Err(unprobed)),
            Err(_) => Err(server.unexpected(status)),
        },
        other => Err(server.unexpected(other)),
    }
}
