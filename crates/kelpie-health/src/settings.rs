//! Deadlines and limits of the checks.

use std::time::Duration;

use crate::CheckGroup;

/// Deadlines and limits of the checks.
///
/// The defaults suit the usual probe periods: one second for readyz, five for livez.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// Maximum duration of a livez response.
    pub livez_deadline: Duration,
    /// Maximum duration of a readyz response.
    pub readyz_deadline: Duration,
    /// In readyz a late check reports its last result again while that is younger than this.
    pub max_reuse_age: Duration,
    /// A run of a check that takes longer is dropped.
    ///
    /// At least twice the longest deadline is used: a probe that joins a run must be able to wait
    /// for it.
    pub run_timeout: Duration,
    /// Answers HEAD like GET, for load balancers that send nothing else.
    pub allow_head: bool,
    /// The prefix of all metric names.
    pub metric_prefix: String,
}

impl HealthSettings {
    /// The longest deadline allowed. The server closes a request after 30 s.
    pub const MAX_DEADLINE: Duration = Duration::from_secs(20);

    /// Returns the deadline of a group.
    pub fn deadline(&self, group: CheckGroup) -> Duration {
        match group {
            CheckGroup::Livez => self.livez_deadline,
            CheckGroup::Readyz => self.readyz_deadline,
        }
    }

    pub(crate) fn effective_run_timeout(&self) -> Duration {
        let longest = self.livez_deadline.max(self.readyz_deadline);
        self.run_timeout.max(longest.saturating_mul(2))
    }
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            livez_deadline: Duration::from_secs(4),
            readyz_deadline: Duration::from_millis(900),
            max_reuse_age: Duration::from_secs(5),
            run_timeout: Duration::from_secs(30),
            allow_head: false,
            metric_prefix: "kelpie_".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_timeout_covers_two_deadlines() {
        let settings = HealthSettings {
            livez_deadline: Duration::from_secs(18),
            ..HealthSettings::default()
        };
        assert_eq!(settings.effective_run_timeout(), Duration::from_secs(36));
        assert_eq!(
            HealthSettings::default().effective_run_timeout(),
            Duration::from_secs(30)
        );
    }
}
