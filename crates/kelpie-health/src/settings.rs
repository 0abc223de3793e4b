//! What a process can choose.

use std::time::Duration;

use crate::Group;

/// Deadlines and limits. The defaults fit the periods a supervisor usually probes with: readyz
/// every second, livez every five.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A livez answer takes no longer than this.
    pub livez_deadline: Duration,
    /// A readyz answer takes no longer than this.
    pub readyz_deadline: Duration,
    /// In readyz a late check repeats its last result while that is younger than this.
    pub reuse: Duration,
    /// A run of a check that is out for longer is dropped. Twice the longest deadline at least:
    /// whoever joins a run must be able to wait for it.
    pub run_limit: Duration,
    /// Answer HEAD like GET, for load balancers that cannot do otherwise.
    pub allow_head: bool,
    /// How the names of the metrics begin.
    pub prefix: String,
}

impl Settings {
    /// Longest deadline; the server gives a whole request 30 s.
    pub const LONGEST_DEADLINE: Duration = Duration::from_secs(20);

    /// How long an answer of this group may take.
    pub fn deadline(&self, group: Group) -> Duration {
        match group {
            Group::Livez => self.livez_deadline,
            Group::Readyz => self.readyz_deadline,
        }
    }

    pub(crate) fn effective_run_limit(&self) -> Duration {
        let longest = self.livez_deadline.max(self.readyz_deadline);
        self.run_limit.max(longest.saturating_mul(2))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            livez_deadline: Duration::from_secs(4),
            readyz_deadline: Duration::from_millis(900),
            reuse: Duration::from_secs(5),
            run_limit: Duration::from_secs(30),
            allow_head: false,
            prefix: "kelpie_".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_joins_a_run_can_wait_for_it() {
        let settings = Settings {
            livez_deadline: Duration::from_secs(18),
            ..Settings::default()
        };
        assert_eq!(settings.effective_run_limit(), Duration::from_secs(36));
        assert_eq!(
            Settings::default().effective_run_limit(),
            Duration::from_secs(30)
        );
    }
}
