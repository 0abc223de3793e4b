//! The requests to a tenant's API server, and the decoding of their responses.

use http::header;
use kelpie_core::prober::NodeConventions;
use kelpie_net::Response;

use super::error::TenantError;
use super::stats::StatsRecorder;
use crate::lists::{Decoder, LeaseList, List, NodeList};

/// The maximum size of a body whose content is not used.
pub(super) const MAX_UNUSED_BODY_BYTES: usize = 64 * 1024;

/// A request and the decoding of its response.
pub(super) trait TenantRequest: Copy + Send + Sync {
    const PATH: &'static str;
    type Output: Send;

    /// Reads and decodes a successful response to its end.
    fn decode(
        &self,
        response: Response<'_>,
        stats: &StatsRecorder,
    ) -> impl Future<Output = Result<Self::Output, TenantError>> + Send;
}

/// Tests whether the API server responds at all.
#[derive(Clone, Copy)]
pub(super) struct VersionRequest;

/// Lists the node leases. Without a resourceVersion this is a consistent read, never one from a
/// stale cache.
#[derive(Clone, Copy)]
pub(super) struct LeasesRequest;

/// Lists the nodes, which are decoded with the conventions of their platform.
#[derive(Clone, Copy)]
pub(super) struct NodesRequest(pub(super) NodeConventions);

impl TenantRequest for VersionRequest {
    const PATH: &'static str = "/version";
    type Output = ();

    async fn decode(
        &self,
        response: Response<'_>,
        stats: &StatsRecorder,
    ) -> Result<(), TenantError> {
        let body = response.collect(MAX_UNUSED_BODY_BYTES).await?;
        stats.update(|stats| stats.bytes += body.len() as u64);
        Ok(())
    }
}

impl TenantRequest for LeasesRequest {
    const PATH: &'static str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    type Output = LeaseList;

    async fn decode(
        &self,
        response: Response<'_>,
        stats: &StatsRecorder,
    ) -> Result<LeaseList, TenantError> {
        decode_list(LeaseList::default(), response, stats).await
    }
}

impl TenantRequest for NodesRequest {
    const PATH: &'static str = "/api/v1/nodes";
    type Output = NodeList;

    async fn decode(
        &self,
        response: Response<'_>,
        stats: &StatsRecorder,
    ) -> Result<NodeList, TenantError> {
        decode_list(NodeList::new(self.0), response, stats).await
    }
}

async fn decode_list<L: List>(
    list: L,
    mut response: Response<'_>,
    stats: &StatsRecorder,
) -> Result<L, TenantError> {
    response.check_length(L::LIMITS.body)?;
    let mut decoder = Decoder::new(list, response.header(&header::CONTENT_TYPE))?;
    while let Some(chunk) = response.chunk().await? {
        stats.update(|stats| stats.bytes += chunk.len() as u64);
        decoder.push(&chunk)?;
    }
    Ok(decoder.finish()?)
}
