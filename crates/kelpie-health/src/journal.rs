//! What is worth a log line: changes, and now and then a summary. Never a line per probe.

use std::time::Duration;

use tokio::time::Instant;

use crate::report::Report;
use crate::{CheckName, Group, Reason, Verdict};

/// How often a group that keeps failing, or a wrong `exclude`, is mentioned.
const WINDOW: Duration = Duration::from_mins(1);

/// Changes of one check that are told within a window; a check that flaps is summed up.
const LINES: u32 = 6;

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Failed {
        group: Group,
        check: CheckName,
        reason: Reason,
    },
    Recovered {
        group: Group,
        check: CheckName,
        after: Duration,
    },
    Summary {
        group: Group,
        answers: u64,
        failed: u64,
        /// The checks that fail now, with their reasons.
        failing: String,
        /// Changes that were not told.
        untold: u64,
    },
    UnknownExclude {
        group: Group,
        name: Reason,
        /// Others since the last line of this kind.
        untold: u64,
    },
}

/// What was seen and told.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    livez: Pages,
    readyz: Pages,
    exclude: Option<Excludes>,
}

/// A group's part of the journal.
#[derive(Debug, Default)]
struct Pages {
    checks: Vec<Page>,
    window: Option<Window>,
}

/// A check's last answer.
#[derive(Debug)]
struct Page {
    name: CheckName,
    /// Since when it fails, and why; none if it is ok.
    failing: Option<(Instant, Reason)>,
    /// Lines told in this window.
    told: u32,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    answers: u64,
    failed: u64,
    untold: u64,
}

#[derive(Debug)]
struct Excludes {
    told: Instant,
    untold: u64,
}

impl Journal {
    /// Notes an answer; returns what to say about it.
    pub(crate) fn record(&mut self, now: Instant, report: &Report) -> Vec<Line> {
        let pages = match report.group {
            Group::Livez => &mut self.livez,
            Group::Readyz => &mut self.readyz,
        };
        pages.record(now, report)
    }

    /// Notes an exclude that names no check of the group.
    pub(crate) fn unknown_exclude(
        &mut self,
        now: Instant,
        group: Group,
        name: &str,
    ) -> Option<Line> {
        let told = self.exclude.as_mut();
        if let Some(told) = told.filter(|told| now.saturating_duration_since(told.told) < WINDOW) {
            told.untold += 1;
            return None;
        }
        let untold = self.exclude.as_ref().map_or(0, |told| told.untold);
        self.exclude = Some(Excludes {
            told: now,
            untold: 0,
        });
        let name = Reason::from(name);
        Some(Line::UnknownExclude {
            group,
            name,
            untold,
        })
    }
}

impl Pages {
    fn record(&mut self, now: Instant, report: &Report) -> Vec<Line> {
        let mut window = self.window.take().unwrap_or_else(|| Window::new(now));
        let mut lines = Vec::new();
        for found in &report.findings {
            let page = self.page(&found.name);
            if let Some(line) = page.turn(now, report.group, &found.verdict) {
                if page.told < LINES {
                    page.told += 1;
                    lines.push(line);
                } else {
                    window.untold += 1;
                }
            }
        }
        window.answers += 1;
        window.failed += u64::from(!report.is_ok());
        if now.saturating_duration_since(window.began) >= WINDOW {
            lines.extend(self.sum_up(report.group, &window));
            window = Window::new(now);
            self.checks.iter_mut().for_each(|page| page.told = 0);
        }
        self.window = Some(window);
        lines
    }

    fn page(&mut self, name: &CheckName) -> &mut Page {
        let known = self.checks.iter().position(|page| page.name == *name);
        let at = known.unwrap_or_else(|| {
            self.checks.push(Page {
                name: name.clone(),
                failing: None,
                told: 0,
            });
            self.checks.len() - 1
        });
        &mut self.checks[at]
    }

    /// Nothing if nothing failed and everything was told.
    fn sum_up(&self, group: Group, window: &Window) -> Option<Line> {
        let failing = self.checks.iter().filter_map(|page| {
            let (_, reason) = page.failing.as_ref()?;
            Some(format!("{}: {reason}", page.name))
        });
        let failing: Vec<String> = failing.collect();
        (window.failed > 0 || window.untold > 0).then(|| Line::Summary {
            group,
            answers: window.answers,
            failed: window.failed,
            failing: failing.join("; "),
            untold: window.untold,
        })
    }
}

impl Page {
    fn turn(&mut self, now: Instant, group: Group, verdict: &Verdict) -> Option<Line> {
        let check = self.name.clone();
        match (verdict, self.failing.take()) {
            (Ok(()), None) => None,
            (Ok(()), Some((since, _))) => Some(Line::Recovered {
                group,
                check,
                after: now.saturating_duration_since(since),
            }),
            (Err(reason), None) => {
                self.failing = Some((now, reason.clone()));
                Some(Line::Failed {
                    group,
                    check,
                    reason: reason.clone(),
                })
            }
            // Another reason for the same trouble is for the summary.
            (Err(reason), Some((since, _))) => {
                self.failing = Some((since, reason.clone()));
                None
            }
        }
    }
}

impl Window {
    fn new(began: Instant) -> Self {
        Self {
            began,
            answers: 0,
            failed: 0,
            untold: 0,
        }
    }
}

impl Line {
    /// Says it.
    pub(crate) fn log(&self) {
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
            } => tracing::info!(%group, %check, ?after, "health check is ok again"),
            Self::Summary {
                group,
                answers,
                failed,
                failing,
                untold,
            } => tracing::warn!(%group, answers, failed, failing, untold, "health checks failed"),
            Self::UnknownExclude {
                group,
                name,
                untold,
            } => tracing::warn!(%group, %name, untold, "a probe excludes a check that is unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Finding;

    fn answer(group: Group, checks: &[(&str, Result<(), &str>)]) -> Report {
        let findings = checks.iter().map(|(name, verdict)| Finding {
            name: CheckName::new(name).unwrap(),
            verdict: verdict.map_err(Reason::from),
            stale: None,
            took: Duration::ZERO,
        });
        Report {
            group,
            findings: findings.collect(),
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn changes_are_told_once() {
        let t0 = Instant::now();
        let mut journal = Journal::default();
        let mut tell = |at: u64, group, verdict: Result<(), &str>| {
            let report = answer(group, &[("a", Ok(())), ("b", verdict)]);
            journal.record(t0 + seconds(at), &report)
        };
        let check = CheckName::new("b").unwrap();
        let (livez, readyz) = (Group::Livez, Group::Readyz);
        assert_eq!(tell(0, readyz, Ok(())), [], "ok from the start");
        let failed = |group| Line::Failed {
            group,
            check: check.clone(),
            reason: Reason::from("no leader"),
        };
        assert_eq!(tell(1, readyz, Err("no leader")), [failed(readyz)]);
        assert_eq!(tell(2, readyz, Err("no leader")), []);
        assert_eq!(tell(3, readyz, Err("refused")), [], "another reason");
        assert_eq!(tell(4, livez, Err("no leader")), [failed(livez)]);
        let recovered = Line::Recovered {
            group: readyz,
            check: check.clone(),
            after: seconds(4),
        };
        assert_eq!(tell(5, readyz, Ok(())), [recovered]);
        assert_eq!(tell(6, readyz, Ok(())), []);
    }

    #[test]
    fn a_minute_of_failures_at_one_a_second_is_two_lines() {
        let t0 = Instant::now();
        let mut journal = Journal::default();
        let report = answer(Group::Readyz, &[("a", Err("no leader")), ("b", Ok(()))]);
        let lines: Vec<Line> = (0..=60)
            .flat_map(|at| journal.record(t0 + seconds(at), &report))
            .collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let summary = Line::Summary {
            group: Group::Readyz,
            answers: 61,
            failed: 61,
            failing: "a: no leader".to_owned(),
            untold: 0,
        };
        assert_eq!(lines[1], summary);
        assert!(matches!(lines[0], Line::Failed { .. }));
    }

    #[test]
    fn a_good_hour_says_nothing() {
        let t0 = Instant::now();
        let mut journal = Journal::default();
        let report = answer(Group::Livez, &[("a", Ok(()))]);
        for at in 0..3_600 {
            assert_eq!(journal.record(t0 + seconds(at), &report), []);
        }
    }

    #[test]
    fn a_flapping_check_is_summed_up() {
        let t0 = Instant::now();
        let mut journal = Journal::default();
        let mut lines = Vec::new();
        for at in 0..=120 {
            let verdict = if at % 2 == 0 { Err("x") } else { Ok(()) };
            let report = answer(Group::Readyz, &[("a", verdict)]);
            lines.extend(journal.record(t0 + seconds(at), &report));
        }
        assert_eq!(lines.len(), 14, "six changes and a summary a minute");
        assert!(matches!(
            lines[6],
            Line::Summary {
                untold: 55,
                failed: 31,
                ..
            }
        ));
    }

    #[test]
    fn an_unknown_exclude_is_told_once_a_minute() {
        let t0 = Instant::now();
        let mut journal = Journal::default();
        let mut tell = |at| journal.unknown_exclude(t0 + seconds(at), Group::Livez, "x\ny");
        let line = |untold| Line::UnknownExclude {
            group: Group::Livez,
            name: Reason::from("x y"),
            untold,
        };
        assert_eq!(tell(0), Some(line(0)));
        assert_eq!(tell(1), None);
        assert_eq!(tell(59), None);
        assert_eq!(tell(60), Some(line(2)));
    }
}
