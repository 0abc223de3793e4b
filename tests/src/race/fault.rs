//! The second fault of a trial, beside the partition.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::time::Instant;

use super::cut::Cut;

/// The time for which the seed refuses watches, unless a fault says otherwise.
const WATCHES_REFUSED: Duration = Duration::from_mins(1);

/// The time for which an API server does not answer, unless a fault says otherwise.
const AWAY: Duration = Duration::from_mins(1);

const AT_THE_CUT: FaultTime = FaultTime::AfterCut(Duration::ZERO);

/// A fault beside the partition.
///
/// Faults without a time begin just before the cut and end with the restore of the last cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RaceFault {
    /// Only the partition. The requests pass through the proxies.
    None,
    /// Each request of the probers to the seed takes this much longer.
    SeedLatency(Duration),
    /// The seed rejects this share of the probers' requests with status 429.
    SeedThrottling(f64),
    /// The cluster rejects this share of the probers' requests with status 503.
    ShootErrors(f64),
    /// The cluster's API server is unreachable for this long, for all its clients. The time is the
    /// middle of the outage.
    ShootAway(Duration, FaultTime),
    /// The leader is killed with SIGKILL, and started again after the trials of the round.
    LeaderKill(FaultTime),
    /// The token in the kubeconfig is replaced, the old one is rejected with status 401, and the
    /// watches on the seed are cut. The seed refuses new ones for this long.
    RotationWithWatchDrop(Duration, FaultTime),
    /// All replicas are killed with SIGKILL, and started again after the trials of the round.
    ProberKill(FaultTime),
    /// The seed answers no request of the probers for this long, from this time on.
    SeedAway(Duration, FaultTime),
    /// The cluster's API server answers no request for this long, from this time on.
    ShootStall(Duration, FaultTime),
    /// The cluster's API server is killed with SIGKILL and started again.
    ShootRestart(FaultTime),
    /// The cluster rejects all requests of the probers with status 401.
    CredentialsRefused,
}

/// The time of a fault within a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FaultTime {
    /// Seconds after the expected trip of the cluster; negative before it.
    AfterTrip(f64),
    /// The time after the cut.
    AfterCut(Duration),
}

impl RaceFault {
    /// The faults that [`RaceFault::from_str`] reads, for `--help`.
    pub const HELP: &str = "\
none                          only the partition, through the same proxies
seed-latency=3s               each request to the seed takes this much longer
seed-429=0.5                  the seed rejects this share of the requests with 429
shoot-503=0.5                 the cluster rejects this share of the requests with 503
shoot-away=5s@T               the cluster's API server is unreachable for 5 s, for everybody
leader-kill@T                 the leader is killed with SIGKILL; needs --replicas 2
rotation+watch-drop[=60s][@T-3s]
                              the token in the kubeconfig is replaced, the old one gets 401,
                              and the seed cuts all watches and refuses new ones for 60 s
prober-kill[@0s]              all replicas are killed with SIGKILL
seed-away[=60s][@0s]          the seed answers no request for 60 s
shoot-stall[=60s][@0s]        the cluster's API server answers no request for 60 s
shoot-restart[@T]             the cluster's API server is killed and started again
credentials-refused           the cluster rejects all requests of the prober with 401

T is the expected trip: T-3s, T+2s and 20s (after the cut) are other times. An outage has its
middle there. Faults without a time begin just before the cut and last until the clusters are
restored, or for three grace periods after the partition.";

    /// Returns true if the fault needs a second replica of the prober.
    pub fn needs_replicas(&self) -> bool {
        matches!(self, Self::LeaderKill(_))
    }
}

impl FaultTime {
    /// The time of the fault in the trial that began with `cut`.
    pub(super) fn resolve(self, cut: &Cut) -> Instant {
        let trip = cut.trip();
        match self {
            Self::AfterCut(time) => cut.at + time,
            Self::AfterTrip(seconds) if seconds < 0.0 => {
                let before = Duration::from_secs_f64(-seconds);
                trip.checked_sub(before).unwrap_or(trip)
            }
            Self::AfterTrip(seconds) => trip + Duration::from_secs_f64(seconds),
        }
    }
}

impl FromStr for RaceFault {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (head, time) = match text.split_once('@') {
            Some((head, time)) => (head, Some(time.parse()?)),
            None => (text, None),
        };
        let (name, value) = match head.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (head, None),
        };
        let given = || value.with_context(|| format!("{name} needs a value, as in {name}=…"));
        let fault = match name {
            "none" => Self::None,
            "seed-latency" => Self::SeedLatency(duration(given()?)?),
            "seed-429" => Self::SeedThrottling(share(given()?)?),
            "shoot-503" => Self::ShootErrors(share(given()?)?),
            "shoot-away" => Self::ShootAway(
                duration(given()?)?,
                time.unwrap_or(FaultTime::AfterTrip(0.0)),
            ),
            "leader-kill" => Self::LeaderKill(time.unwrap_or(FaultTime::AfterTrip(0.0))),
            "rotation+watch-drop" => Self::RotationWithWatchDrop(
                value.map_or(Ok(WATCHES_REFUSED), duration)?,
                time.unwrap_or(FaultTime::AfterTrip(-3.0)),
            ),
            "prober-kill" => Self::ProberKill(time.unwrap_or(AT_THE_CUT)),
            "seed-away" => Self::SeedAway(
                value.map_or(Ok(AWAY), duration)?,
                time.unwrap_or(AT_THE_CUT),
            ),
            "shoot-stall" => Self::ShootStall(
                value.map_or(Ok(AWAY), duration)?,
                time.unwrap_or(AT_THE_CUT),
            ),
            "shoot-restart" => Self::ShootRestart(time.unwrap_or(FaultTime::AfterTrip(0.0))),
            "credentials-refused" => Self::CredentialsRefused,
            _ => bail!("there is no fault {name}"),
        };
        let has_time = match fault {
            Self::None
            | Self::SeedLatency(_)
            | Self::SeedThrottling(_)
            | Self::ShootErrors(_)
            | Self::CredentialsRefused => false,
            Self::ShootAway(..)
            | Self::LeaderKill(_)
            | Self::RotationWithWatchDrop(..)
            | Self::ProberKill(_)
            | Self::SeedAway(..)
            | Self::ShootStall(..)
            | Self::ShootRestart(_) => true,
        };
        ensure!(has_time || time.is_none(), "{name} has no time");
        let has_value = !matches!(
            fault,
            Self::None
                | Self::LeaderKill(_)
                | Self::ProberKill(_)
                | Self::ShootRestart(_)
                | Self::CredentialsRefused
        );
        ensure!(has_value || value.is_none(), "{name} has no value");
        Ok(fault)
    }
}

impl FromStr for FaultTime {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.strip_prefix('T') {
            None => Self::AfterCut(duration(text)?),
            Some("") => Self::AfterTrip(0.0),
            Some(offset) => match offset.split_at_checked(1) {
                Some(("+", time)) => Self::AfterTrip(duration(time)?.as_secs_f64()),
                Some(("-", time)) => Self::AfterTrip(-duration(time)?.as_secs_f64()),
                _ => bail!("{text} is no time: T, T-3s, T+2s or 20s"),
            },
        })
    }
}

/// Parses seconds or milliseconds, as in `3s` and `500ms`.
fn duration(text: &str) -> Result<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1_000.0),
        None => (text.strip_suffix('s').unwrap_or_default(), 1.0),
    };
    let number: f64 = number
        .parse()
        .with_context(|| format!("{text} is no duration: 3s or 500ms"))?;
    Ok(Duration::try_from_secs_f64(number / unit)?)
}

fn share(text: &str) -> Result<f64> {
    let share: f64 = text.parse()?;
    ensure!((0.0..=1.0).contains(&share), "{text} is no share: 0 to 1");
    Ok(share)
}

impl fmt::Display for RaceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: &Duration| time.as_secs_f64();
        match self {
            Self::None => f.write_str("none"),
            Self::SeedLatency(time) => write!(f, "seed-latency={}s", seconds(time)),
            Self::SeedThrottling(share) => write!(f, "seed-429={share}"),
            Self::ShootErrors(share) => write!(f, "shoot-503={share}"),
            Self::ShootAway(time, at) => write!(f, "shoot-away={}s@{at}", seconds(time)),
            Self::LeaderKill(at) => write!(f, "leader-kill@{at}"),
            Self::RotationWithWatchDrop(time, at) => {
                write!(f, "rotation+watch-drop={}s@{at}", seconds(time))
            }
            Self::ProberKill(at) => write!(f, "prober-kill@{at}"),
            Self::SeedAway(time, at) => write!(f, "seed-away={}s@{at}", seconds(time)),
            Self::ShootStall(time, at) => write!(f, "shoot-stall={}s@{at}", seconds(time)),
            Self::ShootRestart(at) => write!(f, "shoot-restart@{at}"),
            Self::CredentialsRefused => f.write_str("credentials-refused"),
        }
    }
}

impl fmt::Display for FaultTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfterTrip(0.0) => f.write_str("T"),
            Self::AfterTrip(seconds) => write!(f, "T{seconds:+}s"),
            Self::AfterCut(time) => write!(f, "{}s", time.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_printed() {
        for (text, printed) in [
            ("none", "none"),
            ("seed-latency=2900ms", "seed-latency=2.9s"),
            ("seed-429=0.5", "seed-429=0.5"),
            ("shoot-503=0.3", "shoot-503=0.3"),
            ("shoot-away=5s", "shoot-away=5s@T"),
            ("shoot-away=5s@20s", "shoot-away=5s@20s"),
            ("leader-kill@T-2s", "leader-kill@T-2s"),
            ("rotation+watch-drop", "rotation+watch-drop=60s@T-3s"),
            ("rotation+watch-drop=4s@T+1s", "rotation+watch-drop=4s@T+1s"),
            ("prober-kill", "prober-kill@0s"),
            ("seed-away", "seed-away=60s@0s"),
            ("shoot-stall=5s@T-1s", "shoot-stall=5s@T-1s"),
            ("shoot-restart", "shoot-restart@T"),
            ("credentials-refused", "credentials-refused"),
        ] {
            let fault: RaceFault = text.parse().unwrap();
            assert_eq!(fault.to_string(), printed, "{text}");
            assert_eq!(fault, printed.parse().unwrap(), "{text}");
        }
    }

    #[test]
    fn malformed_faults_are_rejected() {
        for text in [
            "fire",
            "seed-latency",
            "seed-latency=3",
            "seed-latency=-3s",
            "seed-latency=3s@T",
            "seed-429=1.5",
            "leader-kill=2@T",
            "prober-kill=2s",
            "credentials-refused@T",
            "leader-kill@",
            "leader-kill@T3s",
        ] {
            assert!(text.parse::<RaceFault>().is_err(), "{text}");
        }
    }
}
