//! Kelpie's decisions: values in, values out. No async, no clock, no IO; time is an argument.
//!
//! The best order to read this crate is the path of a lease:
//!
//! 1. [`LeaseTracker`](prober::LeaseTracker) takes in each listed [`Lease`](prober::Lease) and
//!    dates its renewals on the prober's own timeline.
//! 2. [`NodeSet`](prober::NodeSet) tells which nodes count as candidates.
//! 3. [`LeaseCounts`](prober::LeaseCounts) counts the leases at one instant, and finds the instant
//!    at which the cluster would trip.
//! 4. [`Evaluator`](prober::Evaluator) turns the counts and the results of the other probes into a
//!    [`Decision`](prober::Decision).
//! 5. [`Fencing`](prober::fence::Fencing) carries the decision out, step by step.
//!
//! The decisions of the other two components are independent of this: [`weeder`] and [`addon`].
//!
//! # Example
//!
//! A cluster of two nodes that both stop renewing their leases. The caller does the IO.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::time::Duration;
//!
//! use kelpie_core::Time;
//! use kelpie_core::prober::fence::Fencing;
//! use kelpie_core::prober::*;
//!
//! let at = |seconds: i64| Time::from_micros(seconds * 1_000_000);
//! let nodes = ["a", "b"].map(|name| Node { name: name.into(), ..Node::default() });
//! let settings = ProbeSettings { initial_delay: Duration::ZERO, ..ProbeSettings::default() };
//! let mut evaluator = Evaluator::new(settings, at(0));
//! let mut fencing = Fencing::new([].into()); // The configuration names the targets.
//!
//! // The leases are listed at these instants. The kubelets stop renewing at 30 s.
//! let mut last = None;
//! for now in [0, 10, 20, 30, 40, 50, 60] {
//!     let renew_time = Some(at(now.min(30)));
//!     let leases = ["a", "b"].map(|name| Lease { name, renew_time, duration_seconds: Some(40) });
//!     let span = ListSpan { start: at(now), end: at(now) };
//!     let listed = evaluator.observe_leases(span, None, leases);
//!     if evaluator.nodes_due(&listed, fencing.fence()) {
//!         let conventions = NodeConventions::default();
//!         let nodes = NodeSet::new(&nodes, None, &BTreeMap::new(), &conventions);
//!         evaluator.observe_nodes(nodes, at(now));
//!     }
//!     let decision = evaluator.decide(&Observation {
//!         start: at(now),
//!         end: at(now),
//!         api_server: ProbeResult::Success,
//!         external: None,
//!         egress: EgressState::Works,
//!         lists: ListResult::Read(listed),
//!         throttled: None,
//!         fence: fencing.fence(),
//!         stands_by: false,
//!         released: fencing.released_at(),
//!         delays: Delays::default(),
//!         jitter: 0.0,
//!     });
//!     fencing.apply(&decision); // Then make the calls that `fencing.poll` returns.
//!     last = Some(decision);
//! }
//! let decision = last.unwrap();
//! assert_eq!(decision.verdict, Verdict::Fence);
//! assert_eq!(decision.deadline, Some(at(70)));
//! println!("{decision}");
//! ```

pub mod addon;
mod fnv1a;
mod fraction;
mod pause_switch;
pub mod prober;
mod shared_name;
mod text;
mod time;
mod watch_cache;
pub mod weeder;

pub use fnv1a::fnv1a;
pub use fraction::Fraction;
pub use pause_switch::{PAUSE_ANNOTATION, PAUSE_REASON_ANNOTATION, PauseSwitch};
pub use text::truncated;
pub use time::Time;
pub use watch_cache::WatchCache;
