//! `cargo xtask soak`: two probers on real servers while everything goes wrong.

use anyhow::Result;

use crate::bench::cargo_bench;

/// Run two replicas of the prober on real servers while everything goes wrong.
///
/// Partitions, restarts of API servers, rotations, replicas that are killed and stopped, people who scale
/// by hand, wrong clocks: for half an hour, or as long as `-- --minutes` says. Then everything has to be
/// as people have left it, and the seed's audit log is checked: never two actors, no fence without cause,
/// a record before each, exact restores.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Passed on: --minutes, --clusters, --seed, …
    #[arg(last = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    cargo_bench("kelpie-e2e", "soak", &arguments.arguments)
}
