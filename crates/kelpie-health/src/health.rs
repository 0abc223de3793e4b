//! The checks of a process, and how a probe asks them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use prometheus_client::registry::Registry;
use tokio::time::{Instant, timeout_at};

use crate::journal::{Journal, Line};
use crate::late::{self, Memory};
use crate::metrics::Series;
use crate::query::Query;
use crate::report::{Finding, Report};
use crate::shared::Panicked;
use crate::{Builder, CheckName, Group, Reason, Settings, Shared, Verdict};

/// The checks of a process. Cheap to clone; clones are the same checks.
#[derive(Clone)]
pub struct Health {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    entries: Vec<Entry>,
    journal: Mutex<Journal>,
}

/// A registered check.
pub(crate) struct Entry {
    pub(crate) name: CheckName,
    /// Its series in livez, if it is there.
    pub(crate) livez: Option<Series>,
    /// Its series in readyz, if it is there.
    pub(crate) readyz: Option<Series>,
    pub(crate) run: Shared<Verdict>,
    pub(crate) holds: Box<dyn Fn() -> bool + Send + Sync>,
    pub(crate) held: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
}

impl Entry {
    /// Ends when there is no use in waiting. livez repeats nothing, so it waits.
    async fn is_held(&self, group: Group) {
        let held = async {
            if group == Group::Readyz && self.run.last().is_some() {
                (self.held)().await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        // A check fails alone: one that panics here has its run to speak for it.
        if AssertUnwindSafe(held).catch_unwind().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn series(&self, group: Group) -> Option<&Series> {
        match group {
            Group::Livez => self.livez.as_ref(),
            Group::Readyz => self.readyz.as_ref(),
        }
    }
}

/// Which checks of a group a probe asks, by their places; in the order of registration.
pub(crate) struct Selection(Vec<usize>);

impl Health {
    /// Registers the families of metrics; checks are registered on what it returns.
    pub fn builder(settings: Settings, registry: &mut Registry) -> Builder {
        Builder::new(settings, registry)
    }

    pub(crate) fn new(settings: Settings, entries: Vec<Entry>) -> Self {
        let inner = Inner {
            settings,
            entries,
            journal: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// What was chosen at the start.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Asks every check of a group, as a GET of its endpoint does: within the group's deadline,
    /// counted and logged.
    pub async fn probe(&self, group: Group) -> Report {
        self.ask(group, &self.all(group)).await
    }

    /// The group without what the query excludes.
    pub(crate) fn select(&self, group: Group, query: Query<'_>) -> Selection {
        let mut selection = self.all(group);
        for name in query.excludes() {
            match self.place(group, &name) {
                Some(excluded) => selection.0.retain(|place| *place != excluded),
                None => self.unknown_exclude(group, &name),
            }
        }
        selection
    }

    /// That check alone; none if the group has no such check.
    pub(crate) fn only(&self, group: Group, name: &str) -> Option<Selection> {
        Some(Selection(vec![self.place(group, name)?]))
    }

    pub(crate) async fn ask(&self, group: Group, selection: &Selection) -> Report {
        let began = Instant::now();
        let entries = selection
            .0
            .iter()
            .map(|place| &self.inner.entries[*place])
            .collect::<Vec<_>>();
        let asking = entries
            .iter()
            .map(|entry| self.finding(group, entry, began));
        let findings = join_all(asking).await;

        // From here on nothing waits: a probe that is dropped before counts nowhere.
        let members = entries.iter().filter_map(|entry| entry.series(group));
        for (series, found) in members.zip(&findings) {
            series.record(found);
        }
        let report = Report { group, findings };
        let record = |journal: &mut Journal| journal.record(Instant::now(), &report);
        self.journal(record).iter().for_each(Line::log);
        report
    }

    async fn finding(&self, group: Group, entry: &Entry, began: Instant) -> Finding {
        let deadline = self.inner.settings.deadline(group);
        let waiting = async {
            tokio::select! {
                biased;
                ended = entry.run.get(deadline) => Some(ended),
                () = entry.is_held(group) => None,
            }
        };
        let (verdict, stale) = match timeout_at(began + deadline, waiting).await {
            Ok(Some(ended)) => (said(ended), None),
            Ok(None) | Err(_) => self.late(group, entry),
        };
        Finding {
            name: entry.name.clone(),
            verdict,
            stale,
            took: began.elapsed(),
        }
    }

    fn late(&self, group: Group, entry: &Entry) -> (Verdict, Option<Duration>) {
        let last = entry.run.last().map(|(ended, age)| (said(ended), age));
        let memory = Memory {
            last: last.as_ref().map(|(verdict, age)| (verdict, *age)),
            // A check fails alone, here too.
            holds: catch_unwind(AssertUnwindSafe(|| (entry.holds)())).unwrap_or(false),
            reuse: self.inner.settings.reuse,
        };
        late::verdict(group, memory)
    }

    fn all(&self, group: Group) -> Selection {
        let entries = self.inner.entries.iter().enumerate();
        let members = entries.filter(|(_, entry)| entry.series(group).is_some());
        Selection(members.map(|(place, _)| place).collect())
    }

    fn place(&self, group: Group, name: &str) -> Option<usize> {
        let named = |entry: &Entry| entry.name.as_str() == name && entry.series(group).is_some();
        self.inner.entries.iter().position(named)
    }

    fn unknown_exclude(&self, group: Group, name: &str) {
        let line = self.journal(|journal| journal.unknown_exclude(Instant::now(), group, name));
        line.iter().for_each(Line::log);
    }

    fn journal<T>(&self, note: impl FnOnce(&mut Journal) -> T) -> T {
        let journal = self.inner.journal.lock();
        note(&mut journal.unwrap_or_else(PoisonError::into_inner))
    }
}

fn said(ended: Result<Verdict, Panicked>) -> Verdict {
    ended.unwrap_or_else(|panicked| Err(Reason::of(panicked)))
}
