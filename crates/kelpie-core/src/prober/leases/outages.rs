//! Outages of a cluster's API server. The silence of a node does not count while they last.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;

/// The number of outages that are remembered. Shorter ones in quick succession are merged.
const MOST_OUTAGES: usize = 8;

/// The outages that may overlap with the time since a renewal, oldest first.
///
/// Only certain outages count: connections were refused, so that no kubelet can have renewed. A
/// request that times out proves nothing about the kubelets.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Outages {
    ended: Vec<(Time, Time)>,
    /// The start of the first request that was refused since the last list.
    began: Option<Time>,
}

impl Outages {
    /// Takes in a request that was refused; `at` is its start.
    pub(crate) fn refused(&mut self, at: Time) {
        self.began.get_or_insert(at);
    }

    /// Takes in any other result of a request, which ends a certain outage. `at` is its start.
    pub(crate) fn answered(&mut self, at: Time, grace: Duration) {
        let Some(began) = self.began.take() else {
            return;
        };
        self.ended.retain(|(_, to)| at.since(*to) <= grace);
        if self.ended.len() == MOST_OUTAGES {
            self.ended.remove(0);
        }
        self.ended.push((began, at));
    }

    /// Returns the microseconds of outages since `instant`.
    pub(crate) fn since(&self, instant: Time) -> i64 {
        let micros = |(from, to): &(Time, Time)| {
            let from = (*from).max(instant);
            to.as_micros().saturating_sub(from.as_micros()).max(0)
        };
        self.ended.iter().map(micros).fold(0, i64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_unix(seconds, 0)
    }

    #[test]
    fn outage_lasts_from_refusal_to_answer() {
        let grace = Duration::from_secs(40);
        let mut outages = Outages::default();
        outages.answered(at(5), grace);
        assert_eq!(outages.since(at(0)), 0);
        outages.refused(at(10));
        outages.refused(at(12));
        outages.answered(at(16), grace);
        assert_eq!(outages.since(at(0)), 6_000_000);
        assert_eq!(outages.since(at(14)), 2_000_000);
        assert_eq!(outages.since(at(20)), 0);
    }

    #[test]
    fn old_outages_are_forgotten() {
        let grace = Duration::from_secs(40);
        let mut outages = Outages::default();
        for start in 0..20 {
            outages.refused(at(start * 30));
            outages.answered(at(start * 30 + 1), grace);
        }
        assert_eq!(outages.ended.len(), 2);
    }
}
