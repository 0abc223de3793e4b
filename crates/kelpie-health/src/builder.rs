//! Registers the checks, one line each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use prometheus_client::registry::Registry;

use crate::health::{Health, RegisteredCheck};
use crate::metrics::HealthMetrics;
use crate::{CheckGroup, CheckName, HealthCheck, HealthSettings, SharedCall};

/// An invalid registration: a mistake in the program or in its flags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The name would need escaping in a path, or is empty or too long.
    #[error("invalid check name {0:?}: use 1 to 63 lowercase letters, digits, `_` and `-`")]
    BadName(String),
    /// Two checks of one group, or a check and a shared call, have the same name.
    #[error("check name {0} is registered twice: give each check its own name")]
    Duplicate(CheckName),
    /// The deadline is zero, or longer than the server allows for a request.
    #[error("the {group} deadline is {given:?}: choose one above 0s and up to {max:?}")]
    #[expect(missing_docs, reason = "the message explains the fields")]
    BadDeadline {
        group: CheckGroup,
        given: Duration,
        max: Duration,
    },
}

/// Collects the checks of a process. Responses list them in the order of registration.
pub struct HealthBuilder {
    settings: HealthSettings,
    metrics: HealthMetrics,
    /// The names in use, with their groups. A shared call takes its name in all groups.
    names: BTreeMap<CheckName, Vec<CheckGroup>>,
    checks: Vec<RegisteredCheck>,
    /// The first error. `build` returns it, so that a registration stays one line.
    error: Option<BuildError>,
}

impl HealthBuilder {
    pub(crate) fn new(settings: HealthSettings, registry: &mut Registry) -> Self {
        Self {
            metrics: HealthMetrics::new(&settings.metric_prefix, registry),
            error: bad_deadline(&settings),
            settings,
            names: BTreeMap::new(),
            checks: Vec::new(),
        }
    }

    /// Registers a check in livez alone.
    ///
    /// readyz may have another check of the same name, for the same question with other rules.
    pub fn livez(&mut self, name: &str, check: impl HealthCheck) -> &mut Self {
        self.register(name, &[CheckGroup::Livez], false, check)
    }

    /// Registers a check in readyz alone.
    pub fn readyz(&mut self, name: &str, check: impl HealthCheck) -> &mut Self {
        self.register(name, &[CheckGroup::Readyz], false, check)
    }

    /// Registers a check that runs only for GET `/readyz/NAME`. Probes of the group skip it.
    pub fn readyz_by_name(&mut self, name: &str, check: impl HealthCheck) -> &mut Self {
        self.register(name, &[CheckGroup::Readyz], true, check)
    }

    /// Registers a check in both groups. Probes of either group share its runs.
    pub fn both(&mut self, name: &str, check: impl HealthCheck) -> &mut Self {
        self.register(name, &CheckGroup::ALL, false, check)
    }

    /// Creates a call that several checks need. Its runs are counted under this name.
    pub fn shared_call<T, F, Fut>(&mut self, name: &str, call: F) -> SharedCall<T>
    where
        T: Clone + Send + Sync + 'static,
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let run_timeout = self.settings.effective_run_timeout();
        match self.claim_name(name, &CheckGroup::ALL) {
            Some(name) => SharedCall::counted(run_timeout, self.metrics.runs(&name), call),
            None => SharedCall::new(run_timeout, call),
        }
    }

    /// Completes the registration. Returns the first error of any registration.
    pub fn build(self) -> Result<Health, BuildError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(Health::new(self.settings, self.checks)),
        }
    }

    fn register(
        &mut self,
        name: &str,
        groups: &[CheckGroup],
        by_name_only: bool,
        check: impl HealthCheck,
    ) -> &mut Self {
        let Some(name) = self.claim_name(name, groups) else {
            return self;
        };
        let series = |group| {
            let member = groups.contains(&group);
            member.then(|| self.metrics.series(group, &name))
        };
        let check = Arc::new(check);
        let run_timeout = self.settings.effective_run_timeout();
        let runs = self.metrics.runs(&name);
        let running = Arc::clone(&check);
        let waiting = Arc::clone(&check);
        self.checks.push(RegisteredCheck {
            series: CheckGroup::ALL.map(series),
            by_name_only,
            run: SharedCall::counted(run_timeout, runs, move || {
                let check = Arc::clone(&running);
                async move { check.run().await }
            }),
            may_reuse_last: Box::new(move || check.may_reuse_last()),
            wait_until_reusable: Box::new(move || {
                let check = Arc::clone(&waiting);
                async move { check.wait_until_reusable().await }.boxed()
            }),
            name,
        });
        self
    }

    /// Reserves a name in these groups. Returns `None` and keeps the error if it is not available.
    fn claim_name(&mut self, name: &str, groups: &[CheckGroup]) -> Option<CheckName> {
        let Some(valid) = CheckName::new(name) else {
            let bad = BuildError::BadName(name.to_owned());
            self.error.get_or_insert(bad);
            return None;
        };
        let taken = self.names.entry(valid.clone()).or_default();
        if groups.iter().any(|group| taken.contains(group)) {
            self.error.get_or_insert(BuildError::Duplicate(valid));
            return None;
        }
        taken.extend_from_slice(groups);
        Some(valid)
    }
}

fn bad_deadline(settings: &HealthSettings) -> Option<BuildError> {
    let max = HealthSettings::MAX_DEADLINE;
    let is_valid = |given: Duration| !given.is_zero() && given <= max;
    let bad = CheckGroup::ALL
        .into_iter()
        .find(|group| !is_valid(settings.deadline(*group)));
    bad.map(|group| BuildError::BadDeadline {
        group,
        given: settings.deadline(group),
        max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_error(settings: HealthSettings, names: &[&str]) -> String {
        let mut builder = HealthBuilder::new(settings, &mut Registry::default());
        for name in names {
            builder.readyz(name, async || Ok(()));
        }
        let shared = builder.shared_call("status", async || 1);
        drop(shared);
        builder
            .build()
            .map_or_else(|error| error.to_string(), |_| "none".to_owned())
    }

    #[test]
    fn groups_may_share_a_check_name() {
        let mut builder = HealthBuilder::new(HealthSettings::default(), &mut Registry::default());
        builder.livez("read", async || Ok(()));
        builder.readyz("read", async || Ok(()));
        builder.readyz("other", async || Ok(()));
        assert!(builder.error.is_none());
        builder.both("other", async || Ok(()));
        let twice = builder.build().err().map(|error| error.to_string());
        assert!(
            twice
                .unwrap()
                .starts_with("check name other is registered twice")
        );
    }

    #[test]
    fn errors_say_what_to_do() {
        let deadline = |seconds| HealthSettings {
            livez_deadline: Duration::from_secs(seconds),
            ..HealthSettings::default()
        };
        for (settings, names, text) in [
            (HealthSettings::default(), &["a", "b"][..], "none"),
            (
                HealthSettings::default(),
                &["a", "a", "/"],
                "check name a is registered twice: give each check its own name",
            ),
            (
                HealthSettings::default(),
                &["status"],
                "check name status is registered twice: give each check its own name",
            ),
            (
                HealthSettings::default(),
                &["A/b"],
                "invalid check name \"A/b\": use 1 to 63 lowercase letters, digits, `_` and `-`",
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
            assert_eq!(build_error(settings, names), text);
        }
    }
}
