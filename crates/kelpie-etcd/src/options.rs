//! What can be chosen.

use std::time::Duration;

use kelpie_health::{Group, Settings};

/// How metrics of a member's checks begin.
pub const PREFIX: &str = "kelpie_etcd_";

/// Deadlines, limits, and which checks there are.
#[derive(Clone, Debug)]
pub struct Options {
    /// Deadlines and HTTP.
    pub health: Settings,
    /// How long a silent member may be booting where nothing else tells.
    pub boot_grace: Duration,
    /// As etcd was given it.
    pub election_timeout: Duration,
    /// Off only to show what happens without it.
    pub defrag_detection: bool,
    /// Which checks there are.
    pub checks: Selection,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            health: Settings {
                prefix: PREFIX.to_owned(),
                ..Settings::default()
            },
            boot_grace: Duration::from_mins(10),
            election_timeout: Duration::from_secs(1),
            defrag_detection: true,
            checks: Selection::default(),
        }
    }
}

/// The checks, in the order of answers, with their groups and whether they are on by default.
const CHECKS: [(&str, Group, bool); 10] = [
    ("serializable_read", Group::Livez, true),
    ("raft_loop", Group::Livez, false),
    ("serializable_read", Group::Readyz, true),
    ("data_corruption", Group::Readyz, true),
    ("read_index", Group::Readyz, true),
    ("defragmentation", Group::Readyz, true),
    ("non_learner", Group::Readyz, true),
    ("raft_loop", Group::Readyz, true),
    ("linearizable_read", Group::Readyz, false),
    ("raft_propose", Group::Readyz, false),
];

/// Which checks there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(Vec<(&'static str, Group)>);

/// A name that no check has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no check `{name}`; the checks are {}", Selection::names())]
pub struct UnknownCheck {
    /// What was written.
    pub name: String,
}

impl Default for Selection {
    fn default() -> Self {
        let on = CHECKS.iter().filter(|(_, _, on)| *on);
        Self(on.map(|(name, group, _)| (*name, *group)).collect())
    }
}

impl Selection {
    /// With this check too: `NAME` for the groups it usually is in, `GROUP/NAME` for one.
    ///
    /// A bare name of a check that is on in one group adds nothing: livez is asked for by name,
    /// since it restarts etcd.
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

    /// Without this check: `NAME` or `GROUP/NAME`.
    pub fn disable(&mut self, unwanted: &str) -> Result<(), UnknownCheck> {
        for (name, group, _) in matching(unwanted)? {
            self.0.retain(|kept| *kept != (name, group));
        }
        Ok(())
    }

    pub(crate) fn has(&self, name: &str, group: Group) -> bool {
        self.0.contains(&(name, group))
    }

    /// What can be written, for messages.
    fn names() -> String {
        let names = CHECKS
            .iter()
            .map(|(name, group, _)| format!("{group}/{name}"));
        names.collect::<Vec<_>>().join(", ")
    }
}

fn matching(written: &str) -> Result<Vec<(&'static str, Group, bool)>, UnknownCheck> {
    let fits = |(name, group, _): &&(&str, Group, bool)| match written.split_once('/') {
        Some((wanted_group, wanted)) => group.as_str() == wanted_group && *name == wanted,
        None => *name == written,
    };
    let found: Vec<_> = CHECKS.iter().filter(fits).copied().collect();
    if found.is_empty() {
        return Err(UnknownCheck {
            name: written.to_owned(),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_chosen_by_name() {
        let mut checks = Selection::default();
        assert!(checks.has("raft_loop", Group::Readyz));
        assert!(!checks.has("raft_loop", Group::Livez));
        checks.enable("raft_loop").unwrap();
        assert!(!checks.has("raft_loop", Group::Livez), "livez is named");
        checks.enable("livez/raft_loop").unwrap();
        assert!(checks.has("raft_loop", Group::Livez));
        checks.enable("linearizable_read").unwrap();
        checks.enable("linearizable_read").unwrap();
        assert!(checks.has("linearizable_read", Group::Readyz));
        checks.disable("linearizable_read").unwrap();
        assert!(!checks.has("linearizable_read", Group::Readyz));
        checks.disable("readyz/serializable_read").unwrap();
        assert!(checks.has("serializable_read", Group::Livez));
        checks.disable("serializable_read").unwrap();
        assert!(!checks.has("serializable_read", Group::Livez));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let mut checks = Selection::default();
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
