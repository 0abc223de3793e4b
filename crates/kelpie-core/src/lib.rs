//! Decisions of Kelpie: values in, values out. No async, no clock, no IO; time is an argument.
//!
//! Reading order, the way of a lease: [`Lease`] (what a list shows) goes into the [`LeaseBook`],
//! which dates it on our own timeline; [`Roster`] says which nodes count; [`Census`] counts them at
//! one instant and finds the instant at which they would trip; [`Judge`] turns that and the other
//! probes into a [`Decision`]; [`fence::Fencing`] carries the decision out, step by step. What the
//! weeder decides stands apart, in [`weeder`].
//!
//! A cluster of two nodes that both stop renewing, as a shell would drive it:
//!
//! ```
//! use std::collections::BTreeMap;
//! use kelpie_core::fence::Fencing;
//! use kelpie_core::*;
//!
//! let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
//! let nodes = ["a", "b"].map(|name| Node { name: name.into(), ..Node::default() });
//! let settings = Settings { initial_delay: std::time::Duration::ZERO, ..Settings::default() };
//! let mut judge = Judge::new(settings, at(0));
//! let mut fencing = Fencing::new([].into()); // the controllers to fence, from the configuration
//!
//! // Lists at these instants; the kubelets renew until 30 s.
//! let mut last = None;
//! for now in [0, 10, 20, 30, 40, 50, 60] {
//!     let renew_time = Some(at(now.min(30)));
//!     let leases = ["a", "b"].map(|name| Lease { name, renew_time, duration_seconds: Some(40) });
//!     let listed = judge.read(Listing { start: at(now), end: at(now) }, leases);
//!     if judge.nodes_due(&listed, fencing.fence()) {
//!         judge.learn(Roster::new(&nodes, None, &BTreeMap::new()), at(now));
//!     }
//!     let decision = judge.decide(&Observation {
//!         start: at(now),
//!         end: at(now),
//!         api_server: Outcome::Success,
//!         external: None,
//!         lists: Lists::Read(listed),
//!         throttled: None,
//!         fence: fencing.fence(),
//!         stands_by: false,
//!         released: fencing.released_at(),
//!         jitter: 0.0,
//!     });
//!     fencing.steer(&decision); // and make the calls that `fencing.poll` asks for
//!     last = Some(decision);
//! }
//! let decision = last.unwrap();
//! assert_eq!(decision.verdict, Verdict::Fence);
//! assert_eq!(decision.deadline, Some(at(70)));
//! println!("{decision}");
//! ```

pub mod addon;
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
mod mirror;
mod observation;
mod schedule;
mod settings;
mod shoot;
mod status;
mod target;
mod time;
pub mod weeder;

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
pub use mirror::Mirror;
pub use observation::{Fence, Lists, Observation};
pub use schedule::{Throttle, Wake, WakeReason};
pub use settings::{Settings, Thresholds};
pub use shoot::{
    Eligibility, Hibernation, NotYet, Operation, OperationKind, Removal, ShootFacts, eligibility,
};
pub use status::{Health, Outcome, ProbeStatus};
pub use target::{ResourceRef, ScaleRule, Target};
pub use time::Time;
