//! The requests to a tenant's API server, and the decoding of their responses.

use http::header;
use kelpie_core::prober::{Node, NodeConventions};
use kelpie_net::Response;

use super::error::TenantError;
use crate::lists::{Decoder, LeaseList, List, NodeList};

/// The maximum size of a body whose content is not used.
pub(super) const MAX_UNUSED_BODY_BYTES: usize = 64 * 1024;

/// A request and the decoding of its response.
pub(super) trait TenantRequest: Copy + Send + Sync {
    const PATH: &'static str;
    /// True if a new connection is raced when a kept one is silent.
    const RACES: bool;
    type Output: Send;

    /// Reads and decodes a successful response to its end. `received` is called with the number of
    /// bytes of each part.
    fn decode(
        &self,
        response: Response<'_>,
        received: impl Fn(usize) + Send + Sync,
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
    const RACES: bool = false;
    type Output = ();

    async fn decode(
        &self,
        response: Response<'_>,
        received: impl Fn(usize) + Send + Sync,
    ) -> Result<(), TenantError> {
        let body = response.collect(MAX_UNUSED_BODY_BYTES).await?;
        received(body.len());
        Ok(())
    }
}

impl TenantRequest for LeasesRequest {
    const PATH: &'static str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    const RACES: bool = true;
    /// The leases and the version of the list.
    type Output = (LeaseList, Option<u64>);

    async fn decode(
        &self,
        response: Response<'_>,
        received: impl Fn(usize) + Send + Sync,
    ) -> Result<Self::Output, TenantError> {
        decode_list(LeaseList::default(), response, received).await
    }
}

impl TenantRequest for NodesRequest {
    const PATH: &'static str = "/api/v1/nodes";
    /// The list can be large, and no decision waits for it.
    const RACES: bool = false;
    type Output = Vec<Node>;

    async fn decode(
        &self,
        response: Response<'_>,
        received: impl Fn(usize) + Send + Sync,
    ) -> Result<Vec<Node>, TenantError> {
        let (list, _) = decode_list(NodeList::new(self.0), response, received).await?;
        Ok(list.nodes)
    }
}

async fn decode_list<L: List>(
    list: L,
    mut response: Response<'_>,
    received: impl Fn(usize),
) -> Result<(L, Option<u64>), TenantError> {
    response.check_length(L::LIMITS.body)?;
    let mut decoder = Decoder::new(list, response.header(&header::CONTENT_TYPE))?;
    while let Some(chunk) = response.chunk().await? {
        received(chunk.len());
        decoder.push(&chunk)?;
    }
    let version = decoder.resource_version();
    Ok((decoder.finish()?, version))
}
