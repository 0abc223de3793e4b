//! Records of fences on a Lease, for targets that cannot be annotated.
//!
//! Many clusters may have to be fenced at once. One task serves all changes, and those that arrive
//! while it writes go together into the next write. It needs `get`, `create` and `update` on the
//! Lease.

mod record_set;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kelpie_core::prober::fence::{KeptRecord, ResourceVersion};
use kube::Api;
use kube::api::PostParams;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::warn;

use record_set::Refusal;
pub use record_set::{RECORDS_ANNOTATION, RecordKey, RecordSet};

use crate::client::{ApiError, ClusterClient, suppress_logs};
use crate::leader::LeaseName;

/// The first try of a write gets this long, each further one twice as long as the one before.
const FIRST_LIMIT: Duration = Duration::from_secs(2);
const LONGEST_LIMIT: Duration = Duration::from_secs(30);
/// The pause after a conflict that follows another one.
const CONFLICT_PAUSE: Duration = Duration::from_millis(50);
/// The pauses between two tries of the first read: the first one, and the longest.
const READ_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_READ_PAUSE: Duration = Duration::from_mins(5);
/// The number of changes in one write.
const MOST_CHANGES: usize = 10_000;

/// The records on a Lease. Clones share them.
#[derive(Clone, Debug)]
pub struct LeaseRecords {
    lease: LeaseName,
    changes: mpsc::UnboundedSender<RequestedChange>,
    records: watch::Receiver<Arc<RecordSet>>,
}

/// The reason why a record was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages show the fields")]
pub enum RecordError {
    /// Another replica has kept a newer record of the target.
    #[error("Lease {lease} has a newer record")]
    Outdated { lease: LeaseName },
    /// The change was not made in time, and will not be made.
    #[error("no change of Lease {lease} in time")]
    Expired { lease: LeaseName },
    /// There are too many records.
    #[error("Lease {lease} is full: its records would take more than 230 KB")]
    Full { lease: LeaseName },
    /// The API server did not accept the change, or its answer was lost.
    #[error("cannot change the records on Lease {lease}: {cause}; it takes get, create and update")]
    Request { lease: LeaseName, cause: ApiError },
}

#[derive(Debug)]
struct RequestedChange {
    key: RecordKey,
    record: KeptRecord,
    keeps: bool,
    /// Not made after this instant: the right to make it has ended.
    until: Instant,
    done: oneshot::Sender<Result<(), RecordError>>,
}

impl LeaseRecords {
    pub(crate) fn new(
        client: &ClusterClient,
        lease: LeaseName,
        seen: watch::Receiver<Lease>,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (changes, requested) = mpsc::unbounded_channel();
        let (published, records) = watch::channel(Arc::default());
        let writer = RecordWriter {
            leases: Api::namespaced(client.urgent(), &lease.namespace),
            lease: lease.clone(),
            requested,
            seen,
            version: ResourceVersion::new(""),
            published,
            has_bad_entries: false,
        };
        let store = Self {
            lease,
            changes,
            records,
        };
        (store, writer.run())
    }

    /// Returns the name of the Lease.
    pub fn lease(&self) -> &LeaseName {
        &self.lease
    }

    /// Returns the records as last seen, as a channel.
    pub fn records(&self) -> watch::Receiver<Arc<RecordSet>> {
        self.records.clone()
    }

    /// Keeps the record of a target, unless it takes longer than `until`.
    pub async fn keep(
        &self,
        key: RecordKey,
        record: KeptRecord,
        until: Instant,
    ) -> Result<(), RecordError> {
        self.change(key, record, true, until).await
    }

    /// Drops the record of a target, unless it takes longer than `until`. Another record of the
    /// target stays.
    pub async fn drop_record(
        &self,
        key: RecordKey,
        record: KeptRecord,
        until: Instant,
    ) -> Result<(), RecordError> {
        self.change(key, record, false, until).await
    }

    async fn change(
        &self,
        key: RecordKey,
        record: KeptRecord,
        keeps: bool,
        until: Instant,
    ) -> Result<(), RecordError> {
        let (done, answer) = oneshot::channel();
        let change = RequestedChange {
            key,
            record,
            keeps,
            until,
            done,
        };
        let expired = || RecordError::Expired {
            lease: self.lease.clone(),
        };
        self.changes.send(change).map_err(|_| expired())?;
        answer.await.unwrap_or_else(|_| Err(expired()))
    }
}

/// Makes the changes of all clusters.
struct RecordWriter {
    leases: Api<Lease>,
    lease: LeaseName,
    requested: mpsc::UnboundedReceiver<RequestedChange>,
    /// The Lease as an election sees it.
    seen: watch::Receiver<Lease>,
    /// The version of the published records.
    version: ResourceVersion,
    published: watch::Sender<Arc<RecordSet>>,
    /// True if the annotation has entries that are no records, which is logged once.
    has_bad_entries: bool,
}

impl RecordWriter {
    async fn run(mut self) {
        let mut changes = Vec::new();
        let mut is_elected = true;
        let (mut read_at, mut pause) = (Instant::now(), READ_PAUSE);
        loop {
            let reads = !is_elected && self.version.as_str().is_empty();
            tokio::select! {
                biased;
                count = self.requested.recv_many(&mut changes, MOST_CHANGES) => {
                    if count == 0 {
                        return;
                    }
                    self.write(&mut changes).await;
                }
                seen = self.seen.changed(), if is_elected => match seen {
                    Ok(()) => {
                        let lease = self.seen.borrow_and_update().clone();
                        self.publish(&lease);
                    }
                    // There is no election, so nothing else reads the Lease.
                    Err(_) => is_elected = false,
                },
                read = read_from(&self.leases, &self.lease, read_at), if reads => match read {
                    Ok(Some(lease)) => self.publish(&lease),
                    Ok(None) => self.version = ResourceVersion::new("0"),
                    // A fence that needs the Lease reports why it cannot be read.
                    Err(_) => {
                        read_at = Instant::now() + pause;
                        pause = (pause * 2).min(LONGEST_READ_PAUSE);
                    }
                },
            }
        }
    }

    /// Makes changes, and those that are requested meanwhile.
    async fn write(&mut self, changes: &mut Vec<RequestedChange>) {
        let (mut limit, mut conflicts) = (FIRST_LIMIT, 0_u32);
        while !changes.is_empty() {
            let now = Instant::now();
            for change in changes.extract_if(.., |change| now >= change.until) {
                let lease = self.lease.clone();
                change.finish(Err(RecordError::Expired { lease }));
            }
            match timeout(limit, self.try_write(changes)).await {
                Ok(Ok((lease, refusals))) => {
                    self.publish(&lease);
                    for (change, refusal) in changes.drain(..).zip(refusals) {
                        let lease = self.lease.clone();
                        change.finish(match refusal {
                            None => Ok(()),
                            Some(Refusal::Outdated) => Err(RecordError::Outdated { lease }),
                            Some(Refusal::Full) => Err(RecordError::Full { lease }),
                        });
                    }
                }
                // The leader has renewed the Lease, or another replica has changed its records.
                Ok(Err(ApiError::Conflict)) => {
                    conflicts += 1;
                    if conflicts > 1 {
                        sleep(CONFLICT_PAUSE).await;
                    }
                }
                Ok(Err(cause)) => {
                    for change in changes.drain(..) {
                        let (lease, cause) = (self.lease.clone(), cause.clone());
                        change.finish(Err(RecordError::Request { lease, cause }));
                    }
                }
                // A write that happens all the same rests on a version.
                Err(_) => limit = (limit * 2).min(LONGEST_LIMIT),
            }
            while let Ok(change) = self.requested.try_recv() {
                changes.push(change);
            }
        }
    }

    /// Makes changes in one write. Returns the Lease after it, and for each change why it was not
    /// made.
    async fn try_write(
        &self,
        changes: &[RequestedChange],
    ) -> Result<(Lease, Vec<Option<Refusal>>), ApiError> {
        let name = &self.lease.name;
        let found = read_from(&self.leases, &self.lease, Instant::now()).await?;
        let is_new = found.is_none();
        let mut lease = found.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                namespace: Some(self.lease.namespace.clone()),
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let (before, _) = RecordSet::parse(annotation(&lease));
        let mut records = before.clone();
        let changed = changes.iter().map(|change| {
            if change.keeps {
                records.keep(&change.key, &change.record).err()
            } else {
                records.drop_record(&change.key, &change.record);
                None
            }
        });
        let refusals = changed.collect();
        if records == before {
            return Ok((lease, refusals));
        }
        lease.metadata.managed_fields = None;
        let annotations = lease.metadata.annotations.get_or_insert_default();
        match records.annotation() {
            Some(text) => annotations.insert(RECORDS_ANNOTATION.to_owned(), text),
            None => annotations.remove(RECORDS_ANNOTATION),
        };
        let how = PostParams::default();
        let written = if is_new {
            suppress_logs(self.leases.create(&how, &lease)).await
        } else {
            suppress_logs(self.leases.replace(name, &how, &lease)).await
        };
        let lease = written.map_err(|error| ApiError::from(&error))?;
        Ok((lease, refusals))
    }

    /// Publishes the records of a Lease, unless newer ones are known.
    fn publish(&mut self, lease: &Lease) {
        let version = lease.metadata.resource_version.as_deref();
        let version = ResourceVersion::new(version.unwrap_or_default());
        if version.as_str().is_empty() || version.is_older_than(&self.version) {
            return;
        }
        self.version = version;
        let (records, has_bad_entries) = RecordSet::parse(annotation(lease));
        if has_bad_entries && !self.has_bad_entries {
            let lease = self.lease.to_string();
            warn!(
                lease,
                "annotation {RECORDS_ANNOTATION} has entries that are no records"
            );
        }
        self.has_bad_entries = has_bad_entries;
        self.published.send_if_modified(|published| {
            let is_new = **published != records;
            if is_new {
                *published = Arc::new(records);
            }
            is_new
        });
    }
}

impl RequestedChange {
    fn finish(self, result: Result<(), RecordError>) {
        // A caller that has ended needs no answer.
        let _ = self.done.send(result);
    }
}

fn annotation(lease: &Lease) -> &str {
    let annotations = lease.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(RECORDS_ANNOTATION));
    text.map_or("", String::as_str)
}

/// Reads the Lease, not before this instant.
async fn read_from(
    leases: &Api<Lease>,
    lease: &LeaseName,
    at: Instant,
) -> Result<Option<Lease>, ApiError> {
    sleep_until(at).await;
    let lease = suppress_logs(leases.get_opt(&lease.name)).await;
    lease.map_err(|error| ApiError::from(&error))
}
