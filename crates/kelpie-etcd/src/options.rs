//! The options of the checks.

use std::time::Duration;

use kelpie_health::{CheckGroup, HealthSettings};

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
            checks: EnabledChecks::default(),
        }
    }
}

/// All checks in the order in which responses list them, with their groups. The flag is true for
/// those enabled by default.
const CHECKS: [(&str, CheckGroup, bool); 10] = [
    ("serializable_read", CheckGroup::Livez, true),
    ("raft_loop", CheckGroup::Livez, false),
    ("serializable_read", CheckGroup::Readyz, true),
    ("data_corruption", CheckGroup::Readyz, true),
    ("read_index", CheckGroup::Readyz, true),
    ("defragmentation", CheckGroup::Readyz, true),
    ("non_learner", CheckGroup::Readyz, true),
    ("raft_loop", CheckGroup::Readyz, true),
    ("linearizable_read", CheckGroup::Readyz, false),
    ("raft_propose", CheckGroup::Readyz, false),
];

/// The checks that are enabled in each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnabledChecks(Vec<(&'static str, CheckGroup)>);

/// The name of a check that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown check `{name}`; the checks are {}", EnabledChecks::names())]
pub struct UnknownCheck {
    /// The name as it was given.
    pub name: String,
}

impl Default for EnabledChecks {
    fn default() -> Self {
        let on = CHECKS.iter().filter(|(_, _, on)| *on);
        Self(on.map(|(name, group, _)| (*name, *group)).collect())
    }
}

impl EnabledChecks {
    /// Enables a check: `NAME` in its default groups, `GROUP/NAME` in one group.
    ///
    /// The bare name of a check that is enabled by default adds no group. livez must be named
    /// explicitly, because a failure there restarts etcd.
    pub fn enable(&mut self, wanted: &str) -> Result<(), UnknownCheck> {
        let known = matching(wanted)?;
        let bare_and_on = !wanted.contains('/') && known.iter().any(|(_, _, on)| *on);
        for (name, group, on) in known {
            if (!bare_and_on || on) && !self.has(name, group) {
                self.0.push((name, group));
            }
        }
        Ok(())
    }

    /// Disables a check: `NAME` in all groups, `GROUP/NAME` in one group.
    pub fn disable(&mut self, unwanted: &str) -> Result<(), UnknownCheck> {
        for (name, group, _) in matching(unwanted)? {
            self.0.retain(|kept| *kept != (name, group));
        }
        Ok(())
    }

    /// Returns true if the check is enabled in the group.
    pub fn has(&self, name: &str, group: CheckGroup) -> bool {
        self.0.contains(&(name, group))
    }

    /// Lists the names of all checks, for error messages.
    fn names() -> String {
        let names = CHECKS
            .iter()
            .map(|(name, group, _)| format!("{group}/{name}"));
        names.collect::<Vec<_>>().join(", ")
    }
}

fn matching(name: &str) -> Result<Vec<(&'static str, CheckGroup, bool)>, UnknownCheck> {
    let matches = |(check, group, _): &&(&str, CheckGroup, bool)| match name.split_once('/') {
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
        assert!(!checks.has("raft_loop", CheckGroup::Livez));
        checks.enable("raft_loop").unwrap();
        assert!(
            !checks.has("raft_loop", CheckGroup::Livez),
            "livez must be named"
        );
        checks.enable("livez/raft_loop").unwrap();
        assert!(checks.has("raft_loop", CheckGroup::Livez));
        checks.enable("linearizable_read").unwrap();
        checks.enable("linearizable_read").unwrap();
        assert!(checks.has("linearizable_read", CheckGroup::Readyz));
        checks.disable("linearizable_read").unwrap();
        assert!(!checks.has("linearizable_read", CheckGroup::Readyz));
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
