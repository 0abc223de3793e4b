//! How the nodes really were.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::landscape::{Pace, Renewed};

/// f, as it is by default.
const FAILURE: f64 = 0.6;

/// A decision that was right so long ago may still be carried out on a loaded machine.
const SLACK: Duration = Duration::from_secs(15);

/// How closely the time before a fence is looked at.
const GRAIN: Duration = Duration::from_millis(100);

/// Knows when a fence was justified.
#[derive(Debug)]
pub(super) struct Witness {
    pub(super) pace: Pace,
    /// The same moment on both clocks.
    pub(super) anchor: (Timestamp, Instant),
    pub(super) clusters: BTreeMap<String, Silence>,
}

/// What is known of a cluster.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// How each node renewed, in order.
    pub(super) renewals: Vec<Vec<Renewed>>,
    /// When its API server went away and was started again, in order.
    pub(super) outages: Vec<(Instant, Instant)>,
}

impl Witness {
    /// Whether a fence of that cluster may be carried out at that time.
    pub(super) fn was_silent(&self, shoot: &str, at: Timestamp) -> bool {
        let Some(silence) = self.clusters.get(shoot) else {
            return false;
        };
        let end = self.instant(at);
        let mut times = (0..=SLACK.as_millis() / GRAIN.as_millis())
            .filter_map(|steps| end.checked_sub(GRAIN * u32::try_from(steps).ok()?));
        times.any(|time| silence.covers(time, self.pace))
    }

    fn instant(&self, at: Timestamp) -> Instant {
        let (wall, instant) = self.anchor;
        let since = at.duration_since(wall);
        let distance = since.unsigned_abs();
        if since < SignedDuration::ZERO {
            instant.checked_sub(distance).unwrap_or(instant)
        } else {
            instant + distance
        }
    }
}

impl Silence {
    /// Whether enough nodes had not renewed for long while their API server was there: for half the grace
    /// period, or where their clocks are wrong, one and a half renewals, which is all that a prober knows
    /// that has just started.
    /// That kubelets get their time after an outage of it is the simulator's to prove: here nobody knows
    /// when exactly a server that comes back begins to serve.
    fn covers(&self, time: Instant, pace: Pace) -> bool {
        let mut outages = self.outages.iter();
        let has_server = outages.all(|(away, back)| time < *away || time >= *back);
        let silent = self.renewals.iter().filter(|renewals| {
            let last = renewals.iter().rev().find(|renewed| renewed.at <= time);
            last.is_some_and(|last| {
                let patience = if last.is_dated_well {
                    pace.grace / 2
                } else {
                    pace.renewal * 3 / 2
                };
                time - last.at >= patience
            })
        });
        #[expect(clippy::cast_precision_loss, reason = "a few nodes")]
        let share = silent.count() as f64 / self.renewals.len().max(1) as f64;
        has_server && share >= FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_unless_the_server_was_away() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let pace = Pace::QUICK;
        let renewed = |second| Renewed {
            at: at(second),
            is_dated_well: true,
        };
        let mut silence = Silence {
            renewals: vec![
                vec![renewed(0), renewed(30)],
                vec![renewed(1)],
                vec![renewed(9), renewed(10)],
            ],
            outages: Vec::new(),
        };
        let covers = |silence: &Silence, seconds| silence.covers(at(seconds), pace);
        let seen = [4, 6, 12, 31].map(|seconds| covers(&silence, seconds));
        assert_eq!(
            seen,
            [false, true, true, true],
            "two of three, then all but one"
        );
        silence.outages = vec![(at(5), at(12))];
        let seen = [6, 11, 12].map(|seconds| covers(&silence, seconds));
        assert_eq!(seen, [false, false, true]);
        let witness = Witness {
            pace,
            anchor: (Timestamp::UNIX_EPOCH, start),
            clusters: [("a".to_owned(), silence)].into(),
        };
        let second = |second| Timestamp::from_second(second).unwrap();
        assert!(witness.was_silent("a", second(20)));
        assert!(!witness.was_silent("a", second(4)));
        assert!(!witness.was_silent("b", second(20)));
    }

    #[test]
    fn where_clocks_are_wrong_one_and_a_half_missed_renewals_are_enough() {
        let start = Instant::now();
        let silence = |is_dated_well| Silence {
            renewals: vec![vec![Renewed {
                at: start,
                is_dated_well,
            }]],
            outages: Vec::new(),
        };
        for (tenths, of_wrong, of_right) in
            [(14, false, false), (15, true, false), (40, true, true)]
        {
            let time = start + Duration::from_millis(100) * tenths;
            let covers = |is_dated_well| silence(is_dated_well).covers(time, Pace::QUICK);
            assert_eq!(
                (covers(false), covers(true)),
                (of_wrong, of_right),
                "{tenths}"
            );
        }
    }
}
