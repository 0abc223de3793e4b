//! `kelpie prober` on real API servers: a seed, shoots, kubelets that are cut off.
//!
//! Times are scaled down together (`Pace`). `-- prober --nocapture` also prints what was measured.

mod crash;
mod eligibility;
mod partition;
mod scaling;
mod stage;
