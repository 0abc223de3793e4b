//! A compact list of leases.

use std::borrow::Cow;

use kelpie_core::Time;
use kelpie_core::prober::Lease;
use serde::Deserialize;

use super::protobuf::{ProtobufFields, ProtobufValue, bytes_field, int32, time};
use super::{List, ListError, ListLimits, MAX_NAMES_BYTES, json, malformed, parse_name};

/// The leases of a cluster in the order of the list. Each takes 16 bytes and its name, whatever the
/// size of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseList {
    /// All names end to end.
    names: String,
    leases: Vec<LeaseEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LeaseEntry {
    /// [`Time::MIN`] means none.
    renew_time: Time,
    /// [`NO_DURATION`] means none.
    duration_seconds: i32,
    /// The end of the name in [`LeaseList::names`]. It starts where the previous name ends.
    name_end: u32,
}

const NO_DURATION: i32 = i32::MIN;

impl LeaseList {
    /// Returns the number of leases.
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Returns whether the list has no leases.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Iterates over the leases in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = Lease<'_>> {
        let mut start = 0;
        self.leases.iter().map(move |entry| {
            let end = entry.name_end as usize;
            let name = self.names.get(start..end).unwrap_or_default();
            start = end;
            Lease {
                name,
                renew_time: Some(entry.renew_time).filter(|time| *time != Time::MIN),
                duration_seconds: Some(entry.duration_seconds).filter(|s| *s != NO_DURATION),
            }
        })
    }

    fn add(
        &mut self,
        name: &[u8],
        renew_time: Option<Time>,
        duration_seconds: Option<i32>,
    ) -> Result<usize, ListError> {
        self.names.push_str(parse_name(name)?);
        let end = u32::try_from(self.names.len());
        self.leases.push(LeaseEntry {
            renew_time: renew_time.unwrap_or(Time::MIN),
            duration_seconds: duration_seconds.unwrap_or(NO_DURATION),
            name_end: end.map_err(|_| malformed("the names are too long"))?,
        });
        Ok(name.len())
    }
}

/// The fields of a lease in JSON that are used.
#[derive(Deserialize)]
struct LeaseJson<'a> {
    #[serde(borrow)]
    metadata: LeaseMetadataJson<'a>,
    #[serde(borrow)]
    spec: Option<LeaseSpecJson<'a>>,
}

#[derive(Deserialize)]
struct LeaseMetadataJson<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseSpecJson<'a> {
    lease_duration_seconds: Option<i32>,
    #[serde(borrow)]
    renew_time: Option<JsonStr<'a>>,
}

/// A borrowed string. Within an `Option`, serde borrows only from a type of its own.
#[derive(Deserialize)]
struct JsonStr<'a>(#[serde(borrow)] Cow<'a, str>);

impl List for LeaseList {
    const KIND: &'static str = "LeaseList";

    /// Kubernetes supports up to 5,000 nodes, and a lease has 842 bytes in JSON. The limits allow
    /// four times as many leases of twice the size.
    const LIMITS: ListLimits = ListLimits {
        body: 32 * 1024 * 1024,
        item: 64 * 1024,
        items: 20_000,
        names: MAX_NAMES_BYTES,
    };

    /// `{ metadata = 1 { name = 1 }, spec = 2 { leaseDurationSeconds = 2, renewTime = 4 } }`
    fn add_protobuf(&mut self, item: &[u8]) -> Result<usize, ListError> {
        let (mut name, mut renew_time, mut duration): (&[u8], _, _) = (&[], None, None);
        for field in ProtobufFields(item) {
            match field? {
                (1, ProtobufValue::Bytes(metadata)) => name = bytes_field(metadata, 1)?,
                (2, ProtobufValue::Bytes(spec)) => {
                    for field in ProtobufFields(spec) {
                        match field? {
                            (2, ProtobufValue::Varint(seconds)) => duration = Some(int32(seconds)),
                            (4, ProtobufValue::Bytes(found)) => renew_time = time(found)?,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        self.add(name, renew_time, duration)
    }

    fn add_json(&mut self, item: &[u8]) -> Result<usize, ListError> {
        let lease: LeaseJson<'_> = json::parse_item(item)?;
        let spec = lease.spec.unwrap_or_default();
        let renew_time = json::parse_time(spec.renew_time.as_ref().map(|text| &*text.0))?;
        let name = lease.metadata.name.as_bytes();
        self.add(name, renew_time, spec.lease_duration_seconds)
    }
}
