//! The Leases by which the shards of a component know of each other.
//!
//! They are apart from the Leases of leaders: the leader of a shard renews the one of the shard.
//! Listing takes `list` on the Leases of the namespace, renewing `create`, and `get` and `update`
//! on the own one.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Api;
use kube::api::{ListParams, PostParams};

use crate::client::{ApiError, ClusterClient, call_within};
use crate::leader::LeaseName;
use crate::system_clock::SystemClock;

/// The label of the Lease of a shard. Its value is the name of the shard.
pub const SHARD_LABEL: &str = "kelpie.dev/shard";
/// The label by which kubernetes-controller-sharding finds the shards of a ring.
const RING_LABEL: &str = "alpha.sharding.timebertt.dev/controllerring";
/// The prefix of the annotations.
const PREFIX: &str = "kelpie.dev/";
/// The most shards that are read. They are taken in the order of their names.
const MOST_SHARDS: usize = 200;
/// The limit on one annotation that is read. All of an object together may have 256 KiB.
const LONGEST_ANNOTATION: usize = 128 << 10;
/// The time limit of a request. It is shorter than the time between a renewal and its expiry.
const LIMIT: Duration = Duration::from_secs(5);

/// Reads the Leases of all shards, and renews one of them.
#[derive(Clone)]
pub struct ShardLeases {
    leases: Api<Lease>,
    lease: LeaseName,
    shard: String,
    ring: Option<String>,
    clock: SystemClock,
}

/// The Lease of a shard.
#[derive(Clone, Debug)]
pub struct ShardLease {
    /// The name of the shard.
    pub shard: String,
    /// False if another process has taken the Lease, as the engine of a ring does with those that
    /// have expired.
    pub is_held: bool,
    /// A value that every renewal changes.
    pub renewal: String,
    /// The duration of the lease.
    pub duration: Duration,
    /// The annotations of Kelpie without their prefix.
    pub content: BTreeMap<String, String>,
    lease: Lease,
}

impl ShardLeases {
    /// Prepares the Lease of a shard. A `ring` of kubernetes-controller-sharding assigns objects
    /// to it.
    pub fn new(
        client: &ClusterClient,
        lease: LeaseName,
        shard: impl Into<String>,
        ring: Option<&str>,
    ) -> Self {
        Self {
            leases: Api::namespaced(client.urgent(), &lease.namespace),
            lease,
            shard: shard.into(),
            ring: ring.map(str::to_owned),
            clock: client.system_clock().clone(),
        }
    }

    /// Returns the name of the Lease.
    pub fn name(&self) -> &LeaseName {
        &self.lease
    }

    /// Lists the Leases of all shards, at least as new as the call.
    pub async fn list(&self) -> Result<Vec<ShardLease>, ApiError> {
        let params = ListParams::default().labels(SHARD_LABEL);
        let list = call_within(LIMIT, self.leases.list(&params)).await?;
        let shards = list.items.into_iter().filter_map(read);
        Ok(shards.take(MOST_SHARDS).collect())
    }

    /// Renews the Lease, as it was read, with this content. `None` creates it.
    pub async fn renew(
        &self,
        read: Option<&ShardLease>,
        content: BTreeMap<String, String>,
        duration: Duration,
    ) -> Result<(), ApiError> {
        let mut lease = read.map_or_else(|| self.new_lease(), |read| read.lease.clone());
        lease.metadata.managed_fields = None;
        let labels = lease.metadata.labels.get_or_insert_default();
        labels.insert(SHARD_LABEL.to_owned(), self.shard.clone());
        if let Some(ring) = &self.ring {
            labels.insert(RING_LABEL.to_owned(), ring.clone());
        }
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.retain(|key, _| !key.starts_with(PREFIX));
        let content = content.into_iter();
        annotations.extend(content.map(|(key, value)| (format!("{PREFIX}{key}"), value)));
        let (now, spec) = (
            MicroTime(self.clock.stamp()),
            lease.spec.get_or_insert_default(),
        );
        // The engine of a ring takes a shard for dead whose Lease is held under another name.
        spec.holder_identity = Some(self.lease.name.clone());
        spec.lease_duration_seconds = i32::try_from(duration.as_secs()).ok();
        spec.acquire_time.get_or_insert_with(|| now.clone());
        spec.renew_time = Some(now);
        let how = PostParams::default();
        let written = async {
            match read {
                Some(_) => self.leases.replace(&self.lease.name, &how, &lease).await,
                None => self.leases.create(&how, &lease).await,
            }
        };
        call_within(LIMIT, written).await.map(|_| ())
    }

    fn new_lease(&self) -> Lease {
        Lease {
            metadata: ObjectMeta {
                namespace: Some(self.lease.namespace.clone()),
                name: Some(self.lease.name.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        }
    }
}

/// Reads the Lease of a shard. `None`: its name is not the one that its label demands, so another
/// one has the name of the shard.
fn read(lease: Lease) -> Option<ShardLease> {
    let metadata = &lease.metadata;
    let shard = metadata.labels.as_ref()?.get(SHARD_LABEL)?.clone();
    if metadata.name.as_deref()? != lease_name(&shard) {
        return None;
    }
    let annotations = metadata.annotations.iter().flatten();
    let own = annotations.filter_map(|(key, value)| {
        let is_short = value.len() <= LONGEST_ANNOTATION;
        let key = key.strip_prefix(PREFIX).filter(|_| is_short)?;
        Some((key.to_owned(), value.clone()))
    });
    let content = own.collect();
    let spec = lease.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    let seconds = u64::try_from(seconds.unwrap_or_default()).unwrap_or_default();
    Some(ShardLease {
        shard,
        is_held: spec.and_then(|spec| spec.holder_identity.as_ref()) == metadata.name.as_ref(),
        renewal: format!("{:?}", spec.and_then(|spec| spec.renew_time.as_ref())),
        duration: Duration::from_secs(seconds),
        content,
        lease,
    })
}

/// Returns the name of the Lease of a shard.
pub fn lease_name(shard: &str) -> String {
    format!("kelpie-shard-{shard}")
}
