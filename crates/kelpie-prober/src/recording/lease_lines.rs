//! Lists of leases as lines. Most lists have the names of the list before, so only the change of
//! each `renewTime` is written.

use kelpie_core::Time;
use kelpie_core::prober::{Lease, ListSpan};
use kelpie_kube::lists::LeaseList;
use serde::{Deserialize, Serialize};

/// A lease: its name, `renewTime` in microseconds and its duration in seconds.
type RecordedLease = (String, Option<i64>, Option<i32>);

/// A list of leases. Without `all` and `later` it is the same as the list before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LeaseLine {
    start: Time,
    end: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    all: Option<Vec<RecordedLease>>,
    /// By how many microseconds each `renewTime` is later than in the list before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    later: Option<Vec<i64>>,
}

/// Writes the lists of one cluster.
#[derive(Debug, Default)]
pub(super) struct LeaseEncoder {
    last: Option<LeaseList>,
}

impl LeaseEncoder {
    pub(super) fn encode(
        &mut self,
        span: ListSpan,
        version: Option<u64>,
        leases: LeaseList,
    ) -> LeaseLine {
        let mut line = LeaseLine {
            start: span.start,
            end: span.end,
            version,
            ..LeaseLine::default()
        };
        match self.last.as_ref().and_then(|last| later(last, &leases)) {
            Some(later) if later.iter().all(|micros| *micros == 0) => {}
            Some(later) => line.later = Some(later),
            None => {
                let all = leases.iter().map(|lease| {
                    let renewal = lease.renew_time.map(Time::as_micros);
                    (lease.name.to_owned(), renewal, lease.duration_seconds)
                });
                line.all = Some(all.collect());
            }
        }
        self.last = Some(leases);
        line
    }
}

/// Returns by how much each lease was renewed; `None` if anything else has changed.
fn later(last: &LeaseList, next: &LeaseList) -> Option<Vec<i64>> {
    let change = |(last, next): (Lease<'_>, Lease<'_>)| {
        let is_same = last.name == next.name && last.duration_seconds == next.duration_seconds;
        match (is_same, last.renew_time, next.renew_time) {
            (true, None, None) => Some(0),
            (true, Some(last), Some(next)) => next.as_micros().checked_sub(last.as_micros()),
            _ => None,
        }
    };
    let is_same_length = last.len() == next.len();
    is_same_length.then(|| last.iter().zip(next.iter()).map(change).collect())?
}

/// Reads the lists of one cluster.
#[derive(Debug, Default)]
pub(super) struct LeaseDecoder {
    last: Option<Vec<RecordedLease>>,
}

impl LeaseDecoder {
    /// Takes in a line. Fails if it rests on a list that is not there.
    pub(super) fn decode(&mut self, line: LeaseLine) -> Result<(), &'static str> {
        if let Some(all) = line.all {
            self.last = Some(all);
            return Ok(());
        }
        let last = self.last.as_mut().ok_or("there is no list before it")?;
        let Some(later) = line.later else {
            return Ok(());
        };
        if later.len() != last.len() {
            return Err("it has another length than the list before it");
        }
        for ((_, renewal, _), later) in last.iter_mut().zip(later) {
            *renewal = renewal.map(|renewal| renewal.saturating_add(later));
        }
        Ok(())
    }

    /// Returns the last list.
    pub(super) fn leases(&self) -> impl Iterator<Item = Lease<'_>> {
        let last = self.last.iter().flatten();
        last.map(|(name, renewal, duration_seconds)| Lease {
            name,
            renew_time: renewal.map(Time::from_micros),
            duration_seconds: *duration_seconds,
        })
    }
}

impl LeaseLine {
    pub(super) fn span(&self) -> ListSpan {
        ListSpan {
            start: self.start,
            end: self.end,
        }
    }

    pub(super) fn version(&self) -> Option<u64> {
        self.version
    }
}
