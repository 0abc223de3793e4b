//! The options of the checks.

use std::time::Duration;

use kelpie_health::{CheckGroup, HealthSettings};

use crate::performance::PerformanceLimits;

/// The prefix of all metrics of a member's checks.
pub const METRIC_PREFIX: &str = "kelpie_etcd_";

/// Deadlines, limits and the checks that are enabled.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Deadlines and HTTP settings.
    pub health: HealthSettings,
    /// Maximum time that a silent member counts as booting if neither its metrics nor its process
    /// confirm it.
    pub boot_grace: Duration,
    /// The value of etcd's own `--election-timeout`.
    pub election_timeout: Duration,
    /// Detects defragmentations. Disabled only to show what happens without it.
    pub defrag_detection: bool,
    /// The limits of the check `performance`.
    pub performance: PerformanceLimits,
    /// The checks that are registered.
    pub checks: EnabledChecks,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            health: HealthSettings {
                metric_prefix: METRIC_PREFIX.to_owned(),
                ..HealthSettings::default()
            },
            boot_grace: Duration::from_mins(10),
            election_timeout: Duration::from_secs(1),
            defrag_detection: true,
            performance: PerformanceLimits::default(),
            checks: EnabledChecks::default(),
        }
    }
}

/// The state of a check whose name is not on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByDefault {
    On,
    /// On in a cluster of one member. The check itself finds out.
    OnAlone,
    Off,
}

use ByDefault::{Off, On, OnAlone};

/// All checks in the order in which responses list them, with their groups.
const CHECKS: [(&str, CheckGroup, ByDefault); 12] = [
    ("serializable_read", CheckGroup::Livez, On),
    ("raft_loop", CheckGroup::Livez, OnAlone),
    ("serializable_read", CheckGroup::Readyz, On),
    ("data_corruption", CheckGroup::Readyz, On),
    ("read_index", CheckGroup::Readyz, On),
    ("defragmentation", CheckGroup::Readyz, On),
    ("non_learner", CheckGroup::Readyz, On),
    ("raft_loop", CheckGroup::Readyz, On),
    ("watch", CheckGroup::Readyz, On),
    ("linearizable_read", CheckGroup::Readyz, Off),
    ("raft_propose", CheckGroup::Readyz, Off),
    ("performance", CheckGroup::Readyz, Off),
];

/// The checks that are enabled in each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnabledChecks {
    enabled: Vec<(&'static str, CheckGroup)>,
    /// Those of `enabled` that were named.
    named: Vec<(&'static str, CheckGroup)>,
    /// The checks that were disabled, also for requests that name them.
    disabled: Vec<(&'static str, CheckGroup)>,
}

/// The name of a check that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown check `{name}`; the checks are {}", EnabledChecks::names())]
pub struct UnknownCheck {
    /// The name as it was given.
    pub name: String,
}

impl Default for EnabledChecks {
    fn default() -> Self {
        let on = CHECKS.iter().filter(|(_, _, default)| *default != Off);
        Self {
            enabled: on.map(|(name, group, _)| (*name, *group)).collect(),
            named: Vec::new(),
            disabled: Vec::new(),
        }
    }
}

impl EnabledChecks {
    /// Enables a check: `NAME` in its default groups, `GROUP/NAME` in one group.
    ///
    /// The bare name of a check that is enabled by default adds no group. livez must be named
    /// explicitly, because a failure there restarts etcd.
    pub fn enable(&mut self, wanted: &str) -> Result<(), UnknownCheck> {
        let known = matching(wanted)?;
        let has_group = wanted.contains('/');
        let bare_and_on = !has_group && known.iter().any(|(_, _, default)| *default == On);
        for (name, group, default) in known {
            if bare_and_on && default != On {
                continue;
            }
            if !self.has(name, group) {
                self.enabled.push((name, group));
            }
            if has_group {
                self.named.push((name, group));
            }
        }
        Ok(())
    }

    /// Disables a check: `NAME` in all groups, `GROUP/NAME` in one group.
    pub fn disable(&mut self, unwanted: &str) -> Result<(), UnknownCheck> {
        for (name, group, _) in matching(unwanted)? {
            self.enabled.retain(|kept| *kept != (name, group));
            self.disabled.push((name, group));
        }
        Ok(())
    }

    /// Returns true if the check is enabled in the group.
    pub fn has(&self, name: &str, group: CheckGroup) -> bool {
        self.enabled.contains(&(name, group))
    }

    /// Returns true if the check is enabled in the group because its name and group were given.
    pub fn was_named(&self, name: &str, group: CheckGroup) -> bool {
        self.has(name, group) && self.named.contains(&(name, group))
    }

    /// Returns true if the check was disabled by name.
    pub fn was_disabled(&self, name: &str, group: CheckGroup) -> bool {
        self.disabled.contains(&(name, group)) && !self.has(name, group)
    }

    /// Lists the names of all checks, for error messages.
    fn names() -> String {
        let names = CHECKS
            .iter()
            .map(|(name, group, _)| format!("{group}/{name}"));
        names.collect::<Vec<_>>().join(", ")
    }
}

fn matching(name: &str) -> Result<Vec<(&'static str, CheckGroup, ByDefault)>, UnknownCheck> {
    let matches = |(check, group, _): &&(&str, CheckGroup, ByDefault)| match name.split_once('/') {
        Some((wanted_group, wanted)) => group.as_str() == wanted_group && *check == wanted,
        None => *check == name,
    };
    let matching: Vec<_> = CHECKS.iter().filter(matches).copied().collect();
    if matching.is_empty() {
        return Err(UnknownCheck {
            name: name.to_owned(),
        });
    }
    Ok(matching)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_enabled_by_name() {
        let mut checks = EnabledChecks::default();
        assert!(checks.has("raft_loop", CheckGroup::Readyz));
        let was_named = |checks: &EnabledChecks| checks.was_named("raft_loop", CheckGroup::Livez);
        assert!(checks.has("raft_loop", CheckGroup::Livez) && !was_named(&checks));
        checks.enable("raft_loop").unwrap();
        assert!(!was_named(&checks), "livez must be named");
        checks.enable("livez/raft_loop").unwrap();
        assert!(was_named(&checks));
        checks.disable("livez/raft_loop").unwrap();
        assert!(!checks.has("raft_loop", CheckGroup::Livez) && !was_named(&checks));
        checks.enable("linearizable_read").unwrap();
        checks.enable("linearizable_read").unwrap();
        assert!(checks.has("linearizable_read", CheckGroup::Readyz));
        checks.disable("linearizable_read").unwrap();
        assert!(!checks.has("linearizable_read", CheckGroup::Readyz));
        assert!(checks.was_disabled("linearizable_read", CheckGroup::Readyz));
        checks.disable("readyz/serializable_read").unwrap();
        assert!(checks.has("serializable_read", CheckGroup::Livez));
        checks.disable("serializable_read").unwrap();
        assert!(!checks.has("serializable_read", CheckGroup::Livez));
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let mut checks = EnabledChecks::default();
        for name in [
            "readindex",
            "livez/read_index",
            "readyz/",
            "",
            "x/raft_loop",
        ] {
            let error = checks.enable(name).unwrap_err().to_string();
            assert!(error.contains("readyz/read_index"), "{error}");
            assert_eq!(checks.disable(name).unwrap_err().to_string(), error);
        }
    }
}
