//! The observation of a round as a record keeps it.

use std::ops::Not;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::prober::delays::Delays;
use crate::prober::egress::EgressState;
use crate::prober::leases::AcceptedList;
use crate::prober::probe_status::ProbeResult;
use crate::prober::verdict::{FenceState, ListResult, Observation, Throttle};

/// An [`Observation`] without its list, which is the last one that the evaluator took in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRound {
    /// The start of the round.
    pub start: Time,
    /// The instant of the decision.
    pub end: Time,
    /// The result of the API-server probe.
    pub api_server: ProbeResult,
    /// The result of the external probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ProbeResult>,
    /// The state of the egress, where it does not simply work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressState>,
    /// The result of the lists.
    pub lists: RecordedLists,
    /// Set if a request was answered with 429.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Throttle>,
    /// The targets as last read.
    pub fence: FenceState,
    /// This replica had no fence to make.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub stands_by: bool,
    /// The instant of the last acknowledged release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Time>,
    /// The delays in nanoseconds, in the order of the fields of [`Delays`].
    pub(super) delays: [u64; 5],
    /// The bits of the random number: JSON does not keep every number exactly.
    pub(super) jitter: u64,
}

/// The result of listing the leases, see [`ListResult`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecordedLists {
    /// No list was answered.
    NotAsked,
    /// The list failed.
    Failed,
    /// The connection was refused.
    Refused,
    /// The credentials do not allow to list leases.
    Denied,
    /// The list that the evaluator took in last was read.
    Read,
}

impl RecordedRound {
    /// Creates the record of an observation.
    pub fn new(seen: &Observation) -> Self {
        let Delays {
            list,
            write,
            queue,
            pod_stop,
            wake,
        } = seen.delays;
        let nanos = |delay: Duration| u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Self {
            start: seen.start,
            end: seen.end,
            api_server: seen.api_server,
            external: seen.external,
            egress: Some(seen.egress).filter(|egress| *egress != EgressState::Works),
            lists: match seen.lists {
                ListResult::NotAsked => RecordedLists::NotAsked,
                ListResult::Failed => RecordedLists::Failed,
                ListResult::Refused => RecordedLists::Refused,
                ListResult::Denied => RecordedLists::Denied,
                ListResult::Read(_) => RecordedLists::Read,
            },
            throttled: seen.throttled,
            fence: seen.fence,
            stands_by: seen.stands_by,
            released: seen.released,
            delays: [list, write, queue, pod_stop, wake].map(nanos),
            jitter: seen.jitter.to_bits(),
        }
    }

    /// Returns the observation, with the last list that the evaluator took in.
    pub(super) fn observation(&self, listed: Option<AcceptedList>) -> Observation {
        let [list, write, queue, pod_stop, wake] = self.delays.map(Duration::from_nanos);
        Observation {
            start: self.start,
            end: self.end,
            api_server: self.api_server,
            external: self.external,
            egress: self.egress.unwrap_or(EgressState::Works),
            lists: match self.lists {
                RecordedLists::NotAsked => ListResult::NotAsked,
                RecordedLists::Failed => ListResult::Failed,
                RecordedLists::Refused => ListResult::Refused,
                RecordedLists::Denied => ListResult::Denied,
                // A record that names a list without having one is broken.
                RecordedLists::Read => listed.map_or(ListResult::Failed, ListResult::Read),
            },
            throttled: self.throttled,
            fence: self.fence,
            stands_by: self.stands_by,
            released: self.released,
            delays: Delays {
                list,
                write,
                queue,
                pod_stop,
                wake,
            },
            jitter: f64::from_bits(self.jitter),
        }
    }

    /// Returns a review at an instant after this round at which nothing was answered.
    pub(super) fn review_at(&self, end: Time) -> Self {
        Self {
            end,
            api_server: ProbeResult::Transient,
            external: self.external.map(|_| ProbeResult::Transient),
            lists: RecordedLists::NotAsked,
            throttled: None,
            ..*self
        }
    }
}
