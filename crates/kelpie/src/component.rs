//! Flags and servers that the components of a seed have in common.

mod election;
mod logging;
mod process_metrics;
mod seed;
mod serving;

use anyhow::{Context, Result};
use tokio::runtime;

pub(crate) use election::{ElectionFlags, default_election, identity};
pub(crate) use logging::{LoggingFlags, PlainLoggingFlags};
pub(crate) use process_metrics::register_process_metrics;
pub(crate) use seed::SeedFlags;
pub(crate) use serving::{Loop, ServingFlags, register_dry_run};

/// Runs a component or command to its end on one thread. Its work between awaits takes well under a
/// millisecond, and handing it between threads would cost as much again.
pub(crate) fn run<T>(component: impl Future<Output = Result<T>>) -> Result<T> {
    kelpie_net::install_crypto();
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(component)
}
