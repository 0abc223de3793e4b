//! The prober: a shell round the decisions of kelpie-core.
//!
//! Reading order, the way of a cluster: watches on the seed feed the `registry`, which says which
//! clusters get a probe; the `fleet` starts one task for each. A `probe` owns all state of its
//! cluster: its `eyes` look at the cluster and give the judge an observation, its `hands` carry out
//! what was decided. Fencing calls of all clusters pass one `gate`, the most urgent first. The
//! `scribe` tells people: log, `metrics`, Events, and the `board` behind `/debug/state`. What all of
//! that must be allowed to do stands in `permissions`.

mod board;
mod exhibit;
mod eyes;
mod fleet;
mod gate;
mod hands;
mod inputs;
mod metrics;
mod permissions;
mod probe;
mod prober;
mod registry;
mod scribe;

pub use board::{ClusterState, LastFlow, Shown, State, TargetState, Unprobed, Words};
pub use exhibit::Exhibit;
pub use permissions::{seed_needs, shoot_needs};
pub use prober::{Options, Prober};
