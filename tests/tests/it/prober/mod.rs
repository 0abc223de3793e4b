//! `kelpie prober` on real API servers: a seed, shoots, kubelets that are cut off.
//!
//! Times are scaled down together (`Pace`). `-- prober --nocapture` also prints what was measured.

mod boot;
mod candidates;
mod clocks;
mod crash;
mod dry_run;
mod election;
mod eligibility;
mod explain;
mod external;
mod failover;
mod flow;
mod handover;
mod latency;
mod outage;
mod pages;
mod partition;
mod race;
mod rights;
mod scaling;
mod seed_trouble;
mod soak;
mod stage;
mod telling;
mod tenants;
