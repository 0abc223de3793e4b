//! Registration of checks, one line each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use prometheus_client::registry::Registry;

use crate::health::{Entry, Health};
use crate::metrics::Metrics;
use crate::{Check, CheckName, Group, Settings, Shared};

/// What is wrong with a registration. It is a mistake of the program or of its flags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// It would need an escape in a path.
    #[error("check name {0:?} is not usable: write 1 to 63 lowercase letters, digits, `_` and `-`")]
    BadName(String),
    /// Two checks of one group, or a check and a shared call, have one name.
    #[error("check name {0} is registered twice: give each check a name of its own")]
    Duplicate(CheckName),
    /// Zero, or longer than the server gives a request.
    #[error("the {group} deadline is {given:?}: choose one above 0s and up to {longest:?}")]
    BadDeadline {
        /// Of which group.
        group: Group,
        /// What was given.
        given: Duration,
        /// What is possible.
        longest: Duration,
    },
}

/// Collects checks; the order of registration is the order in answers.
pub struct Builder {
    settings: Settings,
    metrics: Metrics,
    /// Who has which name: the groups of its checks, all of them for a shared call.
    names: BTreeMap<CheckName, Vec<Group>>,
    entries: Vec<Entry>,
    /// The first mistake, told by `build`, so that registrations stay lines.
    mistake: Option<BuildError>,
}

impl Builder {
    pub(crate) fn new(settings: Settings, registry: &mut Registry) -> Self {
        Self {
            metrics: Metrics::new(&settings.prefix, registry),
            mistake: bad_deadline(&settings),
            settings,
            names: BTreeMap::new(),
            entries: Vec::new(),
        }
    }

    /// A check of livez alone. readyz may have another of the same name: the same question asked
    /// for another purpose.
    pub fn livez(&mut self, name: &str, check: impl Check) -> &mut Self {
        self.register(name, &[Group::Livez], check)
    }

    /// A check of readyz alone.
    pub fn readyz(&mut self, name: &str, check: impl Check) -> &mut Self {
        self.register(name, &[Group::Readyz], check)
    }

    /// A check of both groups; probes of either share its runs.
    pub fn both(&mut self, name: &str, check: impl Check) -> &mut Self {
        self.register(name, &Group::ALL, check)
    }

    /// A call that several checks need. Its runs are counted under this name.
    pub fn shared<T, F, Calling>(&mut self, name: &str, call: F) -> Shared<T>
    where
        T: Clone + Send + Sync + 'static,
        F: Fn() -> Calling + Send + Sync + 'static,
        Calling: Future<Output = T> + Send + 'static,
    {
        let run_limit = self.settings.effective_run_limit();
        match self.name(name, &Group::ALL) {
            Some(name) => Shared::counted(run_limit, self.metrics.runs(&name), call),
            None => Shared::new(run_limit, call),
        }
    }

    /// All checks are registered.
    pub fn build(self) -> Result<Health, BuildError> {
        match self.mistake {
            Some(mistake) => Err(mistake),
            None => Ok(Health::new(self.settings, self.entries)),
        }
    }

    fn register(&mut self, name: &str, groups: &[Group], check: impl Check) -> &mut Self {
        let Some(name) = self.name(name, groups) else {
            return self;
        };
        let series = |group| {
            let member = groups.contains(&group);
            member.then(|| self.metrics.series(group, &name))
        };
        let check = Arc::new(check);
        let run_limit = self.settings.effective_run_limit();
        let runs = self.metrics.runs(&name);
        let running = Arc::clone(&check);
        let holding = Arc::clone(&check);
        self.entries.push(Entry {
            livez: series(Group::Livez),
            readyz: series(Group::Readyz),
            run: Shared::counted(run_limit, runs, move || {
                let check = Arc::clone(&running);
                async move { check.run().await }
            }),
            holds: Box::new(move || check.holds()),
            held: Box::new(move || {
                let check = Arc::clone(&holding);
                async move { check.held().await }.boxed()
            }),
            name,
        });
        self
    }

    fn name(&mut self, name: &str, groups: &[Group]) -> Option<CheckName> {
        let Some(checked) = CheckName::new(name) else {
            let bad = BuildError::BadName(name.to_owned());
            self.mistake.get_or_insert(bad);
            return None;
        };
        let taken = self.names.entry(checked.clone()).or_default();
        if groups.iter().any(|group| taken.contains(group)) {
            self.mistake.get_or_insert(BuildError::Duplicate(checked));
            return None;
        }
        taken.extend_from_slice(groups);
        Some(checked)
    }
}

fn bad_deadline(settings: &Settings) -> Option<BuildError> {
    let longest = Settings::LONGEST_DEADLINE;
    let good = |given: Duration| !given.is_zero() && given <= longest;
    let bad = Group::ALL
        .into_iter()
        .find(|group| !good(settings.deadline(*group)));
    bad.map(|group| BuildError::BadDeadline {
        group,
        given: settings.deadline(group),
        longest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(settings: Settings, names: &[&str]) -> String {
        let mut builder = Builder::new(settings, &mut Registry::default());
        for name in names {
            builder.readyz(name, async || Ok(()));
        }
        let shared = builder.shared("status", async || 1);
        drop(shared);
        builder
            .build()
            .map_or_else(|error| error.to_string(), |_| "none".to_owned())
    }

    #[test]
    fn each_group_may_ask_the_same_question_in_its_own_way() {
        let mut builder = Builder::new(Settings::default(), &mut Registry::default());
        builder.livez("read", async || Ok(()));
        builder.readyz("read", async || Ok(()));
        builder.readyz("other", async || Ok(()));
        assert!(builder.mistake.is_none());
        builder.both("other", async || Ok(()));
        let twice = builder.build().err().map(|error| error.to_string());
        assert!(
            twice
                .unwrap()
                .starts_with("check name other is registered twice")
        );
    }

    #[test]
    fn mistakes_say_what_to_do() {
        let deadline = |seconds| Settings {
            livez_deadline: Duration::from_secs(seconds),
            ..Settings::default()
        };
        for (settings, names, text) in [
            (Settings::default(), &["a", "b"][..], "none"),
            (
                Settings::default(),
                &["a", "a", "/"],
                "check name a is registered twice: give each check a name of its own",
            ),
            (
                Settings::default(),
                &["status"],
                "check name status is registered twice: give each check a name of its own",
            ),
            (
                Settings::default(),
                &["A/b"],
                "check name \"A/b\" is not usable: write 1 to 63 lowercase letters, digits, `_` \
                 and `-`",
            ),
            (
                deadline(0),
                &[],
                "the livez deadline is 0ns: choose one above 0s and up to 20s",
            ),
            (
                deadline(21),
                &["a", "a"],
                "the livez deadline is 21s: choose one above 0s and up to 20s",
            ),
        ] {
            assert_eq!(mistake(settings, names), text);
        }
    }
}
