//! What a tenant's API server is asked, and how its answer is read.

use http::header;
use kelpie_net::Response;

use super::error::TenantError;
use super::traffic::Meter;
use crate::wire::{Decoder, LeaseList, List, NodeList};

/// The body of an answer that only has to be there.
pub(super) const SMALL: usize = 64 * 1024;

/// A request and what becomes of its answer.
pub(super) trait Question {
    /// What is asked for.
    const PATH: &'static str;
    /// What is learnt.
    type Answer: Send;

    /// Reads an answer with a status of success, to its end.
    fn read(
        response: Response<'_>,
        meter: &Meter,
    ) -> impl Future<Output = Result<Self::Answer, TenantError>> + Send;
}

/// Whether the API server answers at all.
pub(super) struct Version;

/// The nodes' leases. Without a resourceVersion: a consistent read, never a stale cache.
pub(super) struct Leases;

/// The nodes.
pub(super) struct Nodes;

impl Question for Version {
    const PATH: &'static str = "/version";
    type Answer = ();

    async fn read(response: Response<'_>, meter: &Meter) -> Result<(), TenantError> {
        let body = response.collect(SMALL).await?;
        meter.count(|traffic| traffic.bytes += body.len() as u64);
        Ok(())
    }
}

impl Question for Leases {
    const PATH: &'static str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    type Answer = LeaseList;

    async fn read(response: Response<'_>, meter: &Meter) -> Result<LeaseList, TenantError> {
        list(response, meter).await
    }
}

impl Question for Nodes {
    const PATH: &'static str = "/api/v1/nodes";
    type Answer = NodeList;

    async fn read(response: Response<'_>, meter: &Meter) -> Result<NodeList, TenantError> {
        list(response, meter).await
    }
}

async fn list<L: List>(mut response: Response<'_>, meter: &Meter) -> Result<L, TenantError> {
    response.check_length(L::LIMITS.body)?;
    let mut decoder = Decoder::new(response.header(&header::CONTENT_TYPE))?;
    while let Some(piece) = response.chunk().await? {
        meter.count(|traffic| traffic.bytes += piece.len() as u64);
        decoder.push(&piece)?;
    }
    Ok(decoder.finish()?)
}
