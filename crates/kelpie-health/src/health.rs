//! The checks of a process, and the probes that run them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, timeout_at};

use crate::check_log::{CheckLog, CheckLogEntry};
use crate::metrics::CheckSeries;
use crate::query::ProbeQuery;
use crate::report::{CheckReport, HealthReport};
use crate::shared_call::CallPanicked;
use crate::stale;
use crate::{
    CheckGroup, CheckName, CheckResult, FailureReason, HealthBuilder, HealthSettings, SharedCall,
};

/// The checks of a process. Cloning is cheap, and clones share the same checks.
#[derive(Clone)]
pub struct Health {
    inner: Arc<HealthInner>,
}

struct HealthInner {
    settings: HealthSettings,
    checks: Vec<RegisteredCheck>,
    log: Mutex<CheckLog>,
}

/// A check with its name, its groups and its metrics.
pub(crate) struct RegisteredCheck {
    pub(crate) name: CheckName,
    /// Its series in each group. `None` if it is not in that group.
    pub(crate) series: [Option<CheckSeries>; CheckGroup::ALL.len()],
    /// Runs only when a request names it. Probes of the whole group skip it.
    pub(crate) by_name_only: bool,
    pub(crate) run: SharedCall<CheckResult>,
    pub(crate) may_reuse_last: Box<dyn Fn() -> bool + Send + Sync>,
    pub(crate) wait_until_reusable: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
}

impl RegisteredCheck {
    /// Completes once waiting for the run is pointless because the last result can be reused.
    ///
    /// It never completes for livez, which reuses no result.
    async fn wait_until_reusable(&self, group: CheckGroup) {
        let reusable = async {
            if group == CheckGroup::Readyz && self.run.last().is_some() {
                (self.wait_until_reusable)().await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        // A panic here must not fail the probe: the result of the run still counts.
        if AssertUnwindSafe(reusable).catch_unwind().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn series(&self, group: CheckGroup) -> Option<&CheckSeries> {
        self.series[group as usize].as_ref()
    }
}

/// The checks that a probe runs, as indices in the order of registration.
pub(crate) struct CheckSelection(Vec<usize>);

impl Health {
    /// Registers the metric families and returns a builder to register checks on.
    pub fn builder(settings: HealthSettings, registry: &mut Registry) -> HealthBuilder {
        HealthBuilder::new(settings, registry)
    }

    pub(crate) fn new(settings: HealthSettings, checks: Vec<RegisteredCheck>) -> Self {
        let inner = HealthInner {
            settings,
            checks,
            log: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Returns the settings passed to [`Health::builder`].
    pub fn settings(&self) -> &HealthSettings {
        &self.inner.settings
    }

    /// Runs every check of a group, as a GET of its endpoint does.
    ///
    /// It returns within the group's deadline. The results are counted and logged.
    pub async fn probe(&self, group: CheckGroup) -> HealthReport {
        self.probe_selected(group, &self.select_all(group)).await
    }

    /// Selects the checks of a group, without those that the query excludes.
    pub(crate) fn select(&self, group: CheckGroup, query: ProbeQuery<'_>) -> CheckSelection {
        let mut selection = self.select_all(group);
        for name in query.excludes() {
            if let Some(excluded) = self.position(group, &name) {
                selection.0.retain(|index| *index != excluded);
            } else {
                let mut log = self.inner.log.lock();
                let entry = log.unknown_exclude(Instant::now(), group, &name);
                drop(log);
                entry.iter().for_each(CheckLogEntry::emit);
            }
        }
        selection
    }

    /// Selects a single check. Returns `None` if the group has no check of that name.
    pub(crate) fn select_one(&self, group: CheckGroup, name: &str) -> Option<CheckSelection> {
        Some(CheckSelection(vec![self.position(group, name)?]))
    }

    pub(crate) async fn probe_selected(
        &self,
        group: CheckGroup,
        selection: &CheckSelection,
    ) -> HealthReport {
        let started = Instant::now();
        let selected = selection
            .0
            .iter()
            .map(|index| &self.inner.checks[*index])
            .collect::<Vec<_>>();
        let running = selected
            .iter()
            .map(|check| self.run_check(group, check, started));
        let checks = join_all(running).await;

        // There is no await below, so a probe is counted and logged completely or not at all.
        let series = selected.iter().filter_map(|check| check.series(group));
        for (series, check) in series.zip(&checks) {
            series.record(check);
        }
        let report = HealthReport { group, checks };
        let entries = self.inner.log.lock().record(Instant::now(), &report);
        entries.iter().for_each(CheckLogEntry::emit);
        report
    }

    async fn run_check(
        &self,
        group: CheckGroup,
        check: &RegisteredCheck,
        started: Instant,
    ) -> CheckReport {
        let deadline = self.inner.settings.deadline(group);
        let waiting = async {
            tokio::select! {
                biased;
                ended = check.run.get(deadline) => Some(ended),
                () = check.wait_until_reusable(group) => None,
            }
        };
        let (result, reused_age) = match timeout_at(started + deadline, waiting).await {
            Ok(Some(ended)) => (flatten(ended), None),
            Ok(None) | Err(_) => self.late_result(group, check),
        };
        CheckReport {
            name: check.name.clone(),
            result,
            reused_age,
            took: started.elapsed(),
        }
    }

    fn late_result(
        &self,
        group: CheckGroup,
        check: &RegisteredCheck,
    ) -> (CheckResult, Option<Duration>) {
        let last = check.run.last().map(|(ended, age)| (flatten(ended), age));
        // A panic here must not fail the probe either.
        let may_reuse =
            catch_unwind(AssertUnwindSafe(|| (check.may_reuse_last)())).unwrap_or(false);
        stale::late_result(group, last, may_reuse, self.inner.settings.max_reuse_age)
    }

    fn select_all(&self, group: CheckGroup) -> CheckSelection {
        let checks = self.inner.checks.iter().enumerate();
        let members =
            checks.filter(|(_, check)| check.series(group).is_some() && !check.by_name_only);
        CheckSelection(members.map(|(index, _)| index).collect())
    }

    fn position(&self, group: CheckGroup, name: &str) -> Option<usize> {
        let matches =
            |check: &RegisteredCheck| check.name.as_str() == name && check.series(group).is_some();
        self.inner.checks.iter().position(matches)
    }
}

fn flatten(ended: Result<CheckResult, CallPanicked>) -> CheckResult {
    ended.unwrap_or_else(|panicked| Err(FailureReason::of(panicked)))
}
