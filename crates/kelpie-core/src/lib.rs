//! Decisions of Kelpie: values in, values out. No async, no clock, no IO; time is an argument.
//!
//! Reading order, the way of a lease: [`Lease`] (what a list shows) goes into the [`LeaseBook`],
//! which dates it on our own timeline; [`Roster`] says which nodes count; [`Census`] counts them at
//! one instant and finds the instant at which they would trip; [`Judge`] turns that and the other
//! probes into a [`Decision`]; [`fence::Fencing`] carries the decision out, step by step.

mod book;
mod candidate;
mod census;
mod clock;
mod decision;
pub mod fence;
mod fraction;
mod judge;
mod lease;
mod limits;
mod observation;
mod schedule;
mod settings;
mod status;
mod target;
mod time;

pub use book::{LeaseBook, LeaseView, Listed, Role};
pub use candidate::{
    Condition, DEFAULT_UNHEALTHY_CONDITIONS, Exclusion, Exclusions, MachinePhase, Machines, Node,
    PoolConditions, Roster, exclusion,
};
pub use census::{Census, TripCause};
pub use decision::{Decision, Reasons, Rule, Verdict};
pub use fraction::Fraction;
pub use judge::Judge;
pub use lease::{Lease, Listing};
pub use observation::{Fence, Lists, Observation};
pub use schedule::{Throttle, Wake, WakeReason};
pub use settings::{Settings, Thresholds};
pub use status::{Health, Outcome, ProbeStatus};
pub use target::{ResourceRef, ScaleRule, Target};
pub use time::Time;
