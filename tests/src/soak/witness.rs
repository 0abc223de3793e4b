//! How the nodes really were.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::landscape::{Kubelets, Pace};

/// f, as it is by default.
const FAILURE: f64 = 0.6;

/// A decision that was right so long ago may still be carried out on a loaded machine.
const SLACK: SignedDuration = SignedDuration::from_secs(15);

/// Knows when a fence was justified.
#[derive(Debug, Default)]
pub(super) struct Witness {
    silent: BTreeMap<String, Vec<Timestamp>>,
    /// What the last look saw: a silence that nobody looked at shows in the gap.
    renewals: BTreeMap<String, Vec<Instant>>,
}

impl Witness {
    /// Looks at the nodes of a cluster. Kubelets whose API server was away until `back` get their time
    /// to renew.
    pub(super) async fn look(
        &mut self,
        shoot: &str,
        kubelets: &Kubelets,
        pace: Pace,
        back: Instant,
        now: (Instant, Timestamp),
    ) {
        let renewals = kubelets.renewals().await;
        let seen = self.renewals.insert(shoot.to_owned(), renewals.clone());
        let before = seen.unwrap_or_else(|| renewals.clone());
        let is_silent = |from: Instant, until: Instant| {
            let since = |start: Instant| until.saturating_duration_since(start);
            since(from) >= pace.grace / 2 && since(back) >= patience(pace)
        };
        let silent = before.iter().zip(&renewals).filter(|(before, renewed)| {
            is_silent(**renewed, now.0) || is_silent(**before, **renewed)
        });
        #[expect(clippy::cast_precision_loss, reason = "a few nodes")]
        let share = silent.count() as f64 / renewals.len().max(1) as f64;
        if share >= FAILURE {
            self.saw_silent(shoot, now.1);
        }
    }

    pub(super) fn saw_silent(&mut self, shoot: &str, at: Timestamp) {
        self.silent.entry(shoot.to_owned()).or_default().push(at);
    }

    /// Whether a fence of that cluster may be carried out at that time.
    pub(super) fn was_silent(&self, shoot: &str, at: Timestamp) -> bool {
        let times = self.silent.get(shoot);
        let is_near = |time: &Timestamp| {
            let since = at.duration_since(*time);
            since <= SLACK && since >= -SignedDuration::from_secs(1)
        };
        times.is_some_and(|times| times.iter().any(is_near))
    }
}

/// What kubelets get after an outage of their API server, less what a look may be late.
fn patience(pace: Pace) -> Duration {
    pace.renewal
}
