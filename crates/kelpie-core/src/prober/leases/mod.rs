//! Node leases: the last renewal of each on the prober's timeline, and the counts that decide
//! whether a cluster trips.

mod counts;
mod lease;
mod limits;
mod node_clock;
mod tracker;

pub use counts::{LeaseCounts, TripCause};
pub use lease::{Lease, ListSpan};
pub use tracker::{AcceptedList, LeaseRole, LeaseStatus, LeaseTracker};

pub(crate) use counts::CountContext;
pub(crate) use limits::GraceLimits;
