//! Decides what is logged: changes of a check, and a summary once a minute while checks fail.
//! There is never a line per probe.

use std::time::Duration;

use tokio::time::Instant;

use crate::report::HealthReport;
use crate::{CheckGroup, CheckName, CheckResult, FailureReason};

/// Interval of the summaries, and of the warnings about unknown names in `exclude`.
const WINDOW: Duration = Duration::from_mins(1);

/// Maximum number of changes of one check that are logged within a window. The summary counts the
/// others, so that a flapping check does not flood the log.
const MAX_LINES_PER_CHECK: u32 = 6;

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckLogEntry {
    Failed {
        group: CheckGroup,
        check: CheckName,
        reason: FailureReason,
    },
    Recovered {
        group: CheckGroup,
        check: CheckName,
        after: Duration,
    },
    Summary {
        group: CheckGroup,
        probes: u64,
        failed: u64,
        /// The checks that fail now, with their reasons.
        failing: String,
        /// Changes that were not logged.
        suppressed: u64,
    },
    UnknownExclude {
        group: CheckGroup,
        name: FailureReason,
        /// Unknown names that were not logged since the last entry of this kind.
        suppressed: u64,
    },
}

/// The state that decides what is logged next.
#[derive(Debug, Default)]
pub(crate) struct CheckLog {
    groups: [GroupLog; CheckGroup::ALL.len()],
    /// The last entry about an unknown name in `exclude`, and the names not logged since.
    unknown_excludes: Option<(Instant, u64)>,
}

/// The checks of one group and their current window.
#[derive(Debug, Default)]
struct GroupLog {
    checks: Vec<CheckHistory>,
    window: Option<SummaryWindow>,
}

/// The last result of a check.
#[derive(Debug)]
struct CheckHistory {
    name: CheckName,
    /// The start and the reason of the current failure. `None` if the check is ok.
    failing: Option<(Instant, FailureReason)>,
    /// Lines logged in this window.
    logged: u32,
}

#[derive(Debug)]
struct SummaryWindow {
    started: Instant,
    probes: u64,
    failed: u64,
    suppressed: u64,
}

impl CheckLog {
    /// Records the results of a probe and returns what to log about them.
    pub(crate) fn record(&mut self, now: Instant, report: &HealthReport) -> Vec<CheckLogEntry> {
        self.groups[report.group as usize].record(now, report)
    }

    /// Records an `exclude` that names no check of the group.
    pub(crate) fn unknown_exclude(
        &mut self,
        now: Instant,
        group: CheckGroup,
        name: &str,
    ) -> Option<CheckLogEntry> {
        if let Some((logged_at, suppressed)) = &mut self.unknown_excludes
            && now.saturating_duration_since(*logged_at) < WINDOW
        {
            *suppressed += 1;
            return None;
        }
        let last = self.unknown_excludes.replace((now, 0));
        Some(CheckLogEntry::UnknownExclude {
            group,
            name: FailureReason::from(name),
            suppressed: last.map_or(0, |(_, suppressed)| suppressed),
        })
    }
}

impl GroupLog {
    fn record(&mut self, now: Instant, report: &HealthReport) -> Vec<CheckLogEntry> {
        let mut window = self
            .window
            .take()
            .unwrap_or_else(|| SummaryWindow::new(now));
        let mut entries = Vec::new();
        for check in &report.checks {
            let history = self.history(&check.name);
            if let Some(entry) = history.update(now, report.group, &check.result) {
                if history.logged < MAX_LINES_PER_CHECK {
                    history.logged += 1;
                    entries.push(entry);
                } else {
                    window.suppressed += 1;
                }
            }
        }
        window.probes += 1;
        window.failed += u64::from(!report.is_ok());
        if now.saturating_duration_since(window.started) >= WINDOW {
            entries.extend(self.summary(report.group, &window));
            window = SummaryWindow::new(now);
            self.checks.iter_mut().for_each(|check| check.logged = 0);
        }
        self.window = Some(window);
        entries
    }

    fn history(&mut self, name: &CheckName) -> &mut CheckHistory {
        let known = self.checks.iter().position(|check| check.name == *name);
        let index = known.unwrap_or_else(|| {
            self.checks.push(CheckHistory {
                name: name.clone(),
                failing: None,
                logged: 0,
            });
            self.checks.len() - 1
        });
        &mut self.checks[index]
    }

    /// Returns `None` if no probe failed and every change was logged.
    fn summary(&self, group: CheckGroup, window: &SummaryWindow) -> Option<CheckLogEntry> {
        let failing = self.checks.iter().filter_map(|check| {
            let (_, reason) = check.failing.as_ref()?;
            Some(format!("{}: {reason}", check.name))
        });
        let failing: Vec<String> = failing.collect();
        (window.failed > 0 || window.suppressed > 0).then(|| CheckLogEntry::Summary {
            group,
            probes: window.probes,
            failed: window.failed,
            failing: failing.join("; "),
            suppressed: window.suppressed,
        })
    }
}

impl CheckHistory {
    fn update(
        &mut self,
        now: Instant,
        group: CheckGroup,
        result: &CheckResult,
    ) -> Option<CheckLogEntry> {
        let check = self.name.clone();
        match (result, self.failing.take()) {
            (Ok(()), None) => None,
            (Ok(()), Some((since, _))) => Some(CheckLogEntry::Recovered {
                group,
                check,
                after: now.saturating_duration_since(since),
            }),
            (Err(reason), None) => {
                self.failing = Some((now, reason.clone()));
                Some(CheckLogEntry::Failed {
                    group,
                    check,
                    reason: reason.clone(),
                })
            }
            // A new reason for the same failure is left to the summary.
            (Err(reason), Some((since, _))) => {
                self.failing = Some((since, reason.clone()));
                None
            }
        }
    }
}

impl SummaryWindow {
    fn new(started: Instant) -> Self {
        Self {
            started,
            probes: 0,
            failed: 0,
            suppressed: 0,
        }
    }
}

impl CheckLogEntry {
    /// Writes the entry to the log.
    pub(crate) fn emit(&self) {
        match self {
            Self::Failed {
                group,
                check,
                reason,
            } => tracing::warn!(%group, %check, %reason, "health check failed"),
            Self::Recovered {
                group,
                check,
                after,
            } => tracing::info!(%group, %check, ?after, "health check recovered"),
            Self::Summary {
                group,
                probes,
                failed,
                failing,
                suppressed,
            } => tracing::warn!(
                %group, probes, failed, failing, suppressed,
                "health checks failed in the last minute"
            ),
            Self::UnknownExclude {
                group,
                name,
                suppressed,
            } => tracing::warn!(
                %group, %name, suppressed,
                "probe excludes an unknown check; fix the name in ?exclude="
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::CheckReport;

    fn report(group: CheckGroup, checks: &[(&str, Result<(), &str>)]) -> HealthReport {
        let checks = checks.iter().map(|(name, result)| CheckReport {
            name: CheckName::new(name).unwrap(),
            result: result.map_err(FailureReason::from),
            reused_age: None,
            took: Duration::ZERO,
        });
        HealthReport {
            group,
            checks: checks.collect(),
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn changes_are_logged_once() {
        let t0 = Instant::now();
        let mut log = CheckLog::default();
        let mut record = |at: u64, group, result: Result<(), &str>| {
            let report = report(group, &[("a", Ok(())), ("b", result)]);
            log.record(t0 + seconds(at), &report)
        };
        let check = CheckName::new("b").unwrap();
        let (livez, readyz) = (CheckGroup::Livez, CheckGroup::Readyz);
        assert_eq!(record(0, readyz, Ok(())), [], "ok from the start");
        let failed = |group| CheckLogEntry::Failed {
            group,
            check: check.clone(),
            reason: FailureReason::from("no leader"),
        };
        assert_eq!(record(1, readyz, Err("no leader")), [failed(readyz)]);
        assert_eq!(record(2, readyz, Err("no leader")), []);
        assert_eq!(record(3, readyz, Err("refused")), [], "another reason");
        assert_eq!(record(4, livez, Err("no leader")), [failed(livez)]);
        let recovered = CheckLogEntry::Recovered {
            group: readyz,
            check: check.clone(),
            after: seconds(4),
        };
        assert_eq!(record(5, readyz, Ok(())), [recovered]);
        assert_eq!(record(6, readyz, Ok(())), []);
    }

    #[test]
    fn failing_minute_gives_two_lines() {
        let t0 = Instant::now();
        let mut log = CheckLog::default();
        let report = report(
            CheckGroup::Readyz,
            &[("a", Err("no leader")), ("b", Ok(()))],
        );
        let entries: Vec<CheckLogEntry> = (0..=60)
            .flat_map(|at| log.record(t0 + seconds(at), &report))
            .collect();
        assert_eq!(entries.len(), 2, "{entries:?}");
        let summary = CheckLogEntry::Summary {
            group: CheckGroup::Readyz,
            probes: 61,
            failed: 61,
            failing: "a: no leader".to_owned(),
            suppressed: 0,
        };
        assert_eq!(entries[1], summary);
        assert!(matches!(entries[0], CheckLogEntry::Failed { .. }));
    }

    #[test]
    fn healthy_hour_is_silent() {
        let t0 = Instant::now();
        let mut log = CheckLog::default();
        let report = report(CheckGroup::Livez, &[("a", Ok(()))]);
        for at in 0..3_600 {
            assert_eq!(log.record(t0 + seconds(at), &report), []);
        }
    }

    #[test]
    fn flapping_check_is_summarized() {
        let t0 = Instant::now();
        let mut log = CheckLog::default();
        let mut entries = Vec::new();
        for at in 0..=120 {
            let result = if at % 2 == 0 { Err("x") } else { Ok(()) };
            let report = report(CheckGroup::Readyz, &[("a", result)]);
            entries.extend(log.record(t0 + seconds(at), &report));
        }
        assert_eq!(entries.len(), 14, "six changes and a summary per minute");
        assert!(matches!(
            entries[6],
            CheckLogEntry::Summary {
                suppressed: 55,
                failed: 31,
                ..
            }
        ));
    }

    #[test]
    fn unknown_exclude_is_logged_once_a_minute() {
        let t0 = Instant::now();
        let mut log = CheckLog::default();
        let mut exclude = |at| log.unknown_exclude(t0 + seconds(at), CheckGroup::Livez, "x\ny");
        let entry = |suppressed| CheckLogEntry::UnknownExclude {
            group: CheckGroup::Livez,
            name: FailureReason::from("x y"),
            suppressed,
        };
        assert_eq!(exclude(0), Some(entry(0)));
        assert_eq!(exclude(1), None);
        assert_eq!(exclude(59), None);
        assert_eq!(exclude(60), Some(entry(2)));
    }
}
