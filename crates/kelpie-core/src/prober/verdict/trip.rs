//! The trip of a cluster: since when, and on what evidence, its leases call for a fence.

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::prober::leases::TripCause;

/// The state of the lease probe's trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum TripState {
    /// The probe never tripped since it started.
    Never,
    /// A fence stands that this probe did not make, or that was made before a gap between lists, or
    /// the targets were not read yet. It is neither extended nor lifted on what is known so far.
    Adopted { since: Time },
    /// The leases tripped the probe.
    Tripped { since: Time, cause: TripCause },
    /// The last trip is over.
    Over,
}

impl TripState {
    /// The instant that renewals are counted from.
    pub(super) fn since(self) -> Option<Time> {
        match self {
            Self::Adopted { since } | Self::Tripped { since, .. } => Some(since),
            Self::Never | Self::Over => None,
        }
    }
}
