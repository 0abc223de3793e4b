//! What is kept of a list of leases.

use std::borrow::Cow;

use kelpie_core::{Lease, Time};
use serde::Deserialize;

use super::protobuf::{Fields, Value, int32, time};
use super::{Limits, List, WireError, json, malformed, name};

/// The leases of a cluster in the order of the list: 16 bytes each and the names end to end, however
/// large the objects were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseList {
    names: String,
    leases: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// [`Time::MIN`]: none.
    renew_time: Time,
    /// [`NO_DURATION`]: none.
    duration_seconds: i32,
    /// Where its name ends; it begins where the one before ends.
    name_end: u32,
}

const NO_DURATION: i32 = i32::MIN;

impl LeaseList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// The leases, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = Lease<'_>> {
        let mut begin = 0;
        self.leases.iter().map(move |entry| {
            let end = entry.name_end as usize;
            let name = self.names.get(begin..end).unwrap_or_default();
            begin = end;
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
    ) -> Result<(), WireError> {
        self.names.push_str(name::check(name)?);
        let end = u32::try_from(self.names.len());
        self.leases.push(Entry {
            renew_time: renew_time.unwrap_or(Time::MIN),
            duration_seconds: duration_seconds.unwrap_or(NO_DURATION),
            name_end: end.map_err(|_| malformed("the names are too long"))?,
        });
        Ok(())
    }
}

/// What is used of a lease in JSON.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    spec: Option<Spec<'a>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(default)]
    lease_duration_seconds: Option<i32>,
    #[serde(borrow, default)]
    renew_time: Option<Text<'a>>,
}

/// Within an `Option`, serde borrows only what is a type of its own.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl List for LeaseList {
    const KIND: &'static str = "LeaseList";

    /// Kubernetes' own limit is 5,000 nodes at 842 bytes each in JSON; four times that, twice as fat,
    /// is no cluster any more.
    const LIMITS: Limits = Limits {
        body: 32 * 1024 * 1024,
        item: 64 * 1024,
        items: 20_000,
    };

    /// `{ metadata = 1 { name = 1 }, spec = 2 { leaseDurationSeconds = 2, renewTime = 4 } }`
    fn protobuf(&mut self, item: &[u8]) -> Result<(), WireError> {
        let (mut name, mut renew_time, mut duration): (&[u8], _, _) = (&[], None, None);
        for field in Fields(item) {
            match field? {
                (1, Value::Bytes(metadata)) => {
                    for field in Fields(metadata) {
                        if let (1, Value::Bytes(found)) = field? {
                            name = found;
                        }
                    }
                }
                (2, Value::Bytes(spec)) => {
                    for field in Fields(spec) {
                        match field? {
                            (2, Value::Varint(seconds)) => duration = Some(int32(seconds)),
                            (4, Value::Bytes(found)) => renew_time = time(found)?,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        self.add(name, renew_time, duration)
    }

    fn json(&mut self, item: &[u8]) -> Result<(), WireError> {
        let written: Written<'_> = json::item(item)?;
        let spec = written.spec.unwrap_or_default();
        let renew_time = json::time(spec.renew_time.as_ref().map(|text| &*text.0))?;
        let name = written.metadata.name.as_bytes();
        self.add(name, renew_time, spec.lease_duration_seconds)
    }
}
