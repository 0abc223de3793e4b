//! `kelpie pause` and `kelpie resume`.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use kelpie_config::GoDuration;
use kelpie_core::Time;
use kelpie_kube::SystemClock;
use kelpie_kube::leader_leases::{LeaderLease, LeaderLeases};

use crate::exit::ExitStatus;
use crate::printable::readable_instant;
use crate::reach::SeedAccessFlags;
use crate::{component, prober, terminal, weeder};

/// A pause without an end is easily forgotten.
const DEFAULT_PAUSE: &str = "1h";

/// Pause all fences and deletions at once
///
/// While it is paused, the prober fences nothing new and the weeder deletes no pod. A fence that
/// stands stays until its nodes are back; restores go on. The pause ends by itself.
///
/// It is an annotation on the leader Leases, which every replica reads within seconds. It takes
/// the permissions to list and patch Leases in the namespace.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Pause {
    /// Length of the pause, such as 30m or 2h; 0 until `kelpie resume`
    #[arg(long = "for", value_name = "DURATION", default_value = DEFAULT_PAUSE)]
    length: GoDuration,

    /// Reason, which is shown wherever the pause is
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,

    #[command(flatten)]
    seed: SeedAccessFlags,
}

/// Resume what `kelpie pause` has paused
#[derive(Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    seed: SeedAccessFlags,
}

impl Pause {
    pub(crate) fn run(&self) -> Result<ExitStatus> {
        let now = SystemClock::default().now();
        let until = end(now, self.length.0);
        let done = match until {
            Some(until) => format!("paused until {}", readable_instant(until)),
            None => "paused until `kelpie resume`".to_owned(),
        };
        component::run(change(&self.seed, &done, async |leases, lease| {
            leases.pause(&lease.name, until, &self.reason).await?;
            Ok(())
        }))
    }
}

impl Resume {
    pub(crate) fn run(&self) -> Result<ExitStatus> {
        component::run(change(&self.seed, "resumed", async |leases, lease| {
            leases.resume(&lease.name).await?;
            Ok(())
        }))
    }
}

/// Returns the end of a pause of this length; `None` if it has none.
fn end(now: Time, length: Duration) -> Option<Time> {
    (!length.is_zero()).then(|| now.after(length))
}

/// Changes every leader Lease of the prober and the weeder, and prints what was done.
async fn change(
    seed: &SeedAccessFlags,
    done: &str,
    change: impl AsyncFn(&LeaderLeases, &LeaderLease) -> Result<()>,
) -> Result<ExitStatus> {
    let leases = seed.leases("pause").await?;
    let mut text = String::new();
    for component in [prober::LEASE, weeder::LEASE] {
        for lease in leases.list(component).await? {
            change(&leases, &lease)
                .await
                .with_context(|| format!("Lease {}", lease.name))?;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}: {done}", lease.name);
        }
    }
    if text.is_empty() {
        bail!(
            "there is no leader Lease in namespace {}; set the namespace with --namespace",
            seed.namespace
        );
    }
    terminal::stdout(&text).context("cannot write the result")?;
    Ok(ExitStatus::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_a_pause_without_an_end() {
        let now = Time::from_unix(1_700_000_000, 0);
        assert_eq!(end(now, Duration::ZERO), None);
        let hour = Duration::from_hours(1);
        assert_eq!(end(now, hour), Some(now.after(hour)));
    }
}
