//! Node leases: the last renewal of each on the prober's timeline, and the counts that decide
//! whether a cluster trips.

mod counts;
mod lease;
mod limits;
mod list_version;
mod node_clock;
mod outages;
mod tracker;

pub use counts::{LeaseCounts, TripCause};
pub use lease::{Lease, ListSpan};
pub use tracker::{AcceptedList, LeaseRole, LeaseStatus, LeaseTracker};

pub(crate) use counts::{CountContext, complete, first_deadline, is_group_late, is_quorum_late};
pub(crate) use lease::Heartbeat;
pub(crate) use limits::GraceLimits;
pub(crate) use tracker::TrackedLease;
