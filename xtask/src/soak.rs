//! `cargo xtask soak`: two probers on real servers under continuous faults.

use anyhow::Result;

use crate::bench::cargo_bench;

/// Run two replicas of the prober on real servers under continuous faults.
///
/// Faults are partitions, restarts of API servers, credential rotations, killed and paused
/// replicas, manual scaling and wrong clocks, for half an hour or `-- --minutes`. Afterwards, every
/// target must have the replicas that its owner set, and the seed's audit log is checked: never two
/// replicas act at once, no fence without a cause, a record before every fence, exact restores.
#[derive(clap::Args)]
pub(crate) struct SoakArgs {
    /// Arguments for the soak test: --minutes, --clusters, --seed, …
    #[arg(last = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(arguments: &SoakArgs) -> Result<()> {
    cargo_bench("kelpie-e2e", "soak", &arguments.arguments)
}
