//! The requests to a tenant's API server, and the decoding of their responses.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, header};
use kelpie_core::Time;
use kelpie_core::prober::{NodeRules, NodeSetBuilder};
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

/// Lists the nodes, which are judged by these rules.
#[derive(Clone, Copy)]
pub(super) struct NodesRequest<'a>(pub(super) &'a Arc<NodeRules>);

/// Reads or writes one object as JSON.
#[derive(Clone, Copy)]
pub(super) struct ObjectRequest<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) body: &'a Bytes,
}

/// A decoded list.
#[derive(Debug)]
pub struct Listed<L> {
    /// The items as listed.
    pub items: L,
    /// The `resourceVersion` of the list. `None`: it is not a decimal number.
    pub version: Option<u64>,
    /// The number of items that are too large and were skipped.
    pub oversized: usize,
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
    type Output = Listed<LeaseList>;

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

impl TenantRequest for NodesRequest<'_> {
    /// The list can be large, and no decision waits for it.
    const RACES: bool = false;
    type Output = Listed<NodeSetBuilder>;

    fn path(&self) -> &'static str {
        "/api/v1/nodes"
    }

    async fn decode(
        &self,
        response: Response<'_>,
        received: impl Fn(usize) + Send + Sync,
    ) -> Result<Self::Output, TenantError> {
        let list = NodeList::new(Arc::clone(self.0));
        let listed = decode_list(list, response, received).await?;
        Ok(Listed {
            items: listed.items.nodes,
            version: listed.version,
            oversized: listed.oversized,
        })
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
) -> Result<Listed<L>, TenantError> {
    response.check_length(L::LIMITS.body)?;
    let mut decoder = Decoder::new(list, response.header(&header::CONTENT_TYPE))?;
    while let Some(chunk) = response.chunk().await? {
        received(chunk.len());
        decoder.push(&chunk)?;
    }
    Ok(Listed {
        version: decoder.resource_version(),
        oversized: decoder.oversized(),
        items: decoder.finish()?,
    })
}
