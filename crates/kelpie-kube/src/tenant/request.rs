//! The requests to a tenant's API server, and the decoding of their responses.

use bytes::Bytes;
use http::{Method, header};
use kelpie_core::Time;
use kelpie_core::prober::{Node, NodeConventions};
use kelpie_net::Response;
use serde_json::Value;

use super::error::TenantError;
use crate::lists::{Decoder, LeaseList, List, NodeList};

/// The maximum size of a body whose content is not used.
pub(super) const MAX_UNUSED_BODY_BYTES: usize = 64 * 1024;

/// The maximum size of one object.
const MAX_OBJECT_BYTES: usize = 512 * 1024;

/// A request and the decoding of its response.
pub(super) trait TenantRequest: Copy + Send + Sync {
    /// True if a new connection is raced when a kept one is silent.
    const RACES: bool;
    type Output: Send;

    fn path(&self) -> &str;

    fn method(&self) -> Method {
        Method::GET
    }

    fn body(&self) -> Bytes {
        Bytes::new()
    }

    /// Returns whether a response with this status is decoded. Others are errors.
    fn decodes(&self, status: u16) -> bool {
        (200..=299).contains(&status)
    }

    /// Reads and decodes a response to its end. `received` is called with the number of
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

/// Reads or writes one object as JSON.
#[derive(Clone, Copy)]
pub(super) struct ObjectRequest<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) body: &'a Bytes,
}

/// The answer to a request for one object.
#[derive(Clone, Debug)]
pub struct ObjectAnswer {
    /// The HTTP status: a success, 404, 409 or 422.
    pub status: u16,
    /// The object, or the `Status` that tells why there is none; null if the body is not JSON.
    pub object: Value,
    /// The API server's clock, by the `Date` header.
    pub date: Option<Time>,
}

impl TenantRequest for VersionRequest {
    const RACES: bool = false;
    type Output = ();

    fn path(&self) -> &'static str {
        "/version"
    }

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
    const RACES: bool = true;
    /// The leases and the version of the list.
    type Output = (LeaseList, Option<u64>);

    fn path(&self) -> &'static str {
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    }

    async fn decode(
        &self,
        response: Response<'_>,
        received: impl Fn(usize) + Send + Sync,
    ) -> Result<Self::Output, TenantError> {
        decode_list(LeaseList::default(), response, received).await
    }
}

impl TenantRequest for NodesRequest {
    /// The list can be large, and no decision waits for it.
    const RACES: bool = false;
    type Output = Vec<Node>;

    fn path(&self) -> &'static str {
        "/api/v1/nodes"
    }

    async fn decode(
        &self,
        response: Response<'_>,
        received: impl Fn(usize) + Send + Sync,
    ) -> Result<Vec<Node>, TenantError> {
        let (list, _) = decode_list(NodeList::new(self.0), response, received).await?;
        Ok(list.nodes)
    }
}

impl TenantRequest for ObjectRequest<'_> {
    /// A write must not be sent twice at once.
    const RACES: bool = false;
    type Output = ObjectAnswer;

    fn path(&self) -> &str {
        self.path
    }

    fn method(&self) -> Method {
        self.method.clone()
    }

    fn body(&self) -> Bytes {
        self.body.clone()
    }

    fn decodes(&self, status: u16) -> bool {
        matches!(status, 200..=299 | 404 | 409 | 422)
    }

    async fn decode(
        &self,
        response: Response<'_>,
        received: impl Fn(usize) + Send + Sync,
    ) -> Result<ObjectAnswer, TenantError> {
        let status = response.status.as_u16();
        let date = response.header(&header::DATE).and_then(read_date);
        let body = response.collect(MAX_OBJECT_BYTES).await?;
        received(body.len());
        Ok(ObjectAnswer {
            status,
            object: serde_json::from_slice(&body).unwrap_or(Value::Null),
            date,
        })
    }
}

fn read_date(text: &str) -> Option<Time> {
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Time::from_micros(date.timestamp().as_microsecond()))
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
