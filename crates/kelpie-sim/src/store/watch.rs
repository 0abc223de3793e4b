//! Being told of changes.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::Store;
use super::body::Key;
use super::read::Paging;
use super::shelf::Change;
use super::state::Kept;
use crate::kind::Kind;
use crate::refusal::Refusal;
use crate::selection::Selection;
use kelpie_bell::Listener;

/// A change, as a watch tells it.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It is there, or has come to be selected.
    Added(Value),
    /// It is not as it was.
    Modified(Value),
    /// It is gone, or not selected any more; this is what it was at the end.
    Deleted(Value),
    /// The history between the last event and now is forgotten: list again.
    Expired,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With the present objects.
    Present,
    /// With what happens after this version.
    After(u64),
}

/// What a watch tells, still as it is kept.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Added(Kept),
    Modified(Kept),
    Deleted(Kept),
    Expired(Refusal),
}

/// A watch of objects. It sees every change in order, however late it is asked.
#[derive(Debug)]
pub struct Watch {
    store: Store,
    kind: Arc<Kind>,
    selection: Selection,
    bell: Listener<u64>,
    /// Everything up to here has been told or waits below.
    seen: u64,
    waiting: VecDeque<Told>,
    /// The history it needs is gone; it is of no more use.
    over: Option<Refusal>,
}

impl Watch {
    pub(crate) fn new(store: Store, kind: Arc<Kind>, selection: Selection, start: Start) -> Self {
        let (bell, seen, waiting) = {
            let mut state = store.lock();
            let bell = state.shelf_of(&kind).listen();
            match start {
                Start::After(version) => (bell, version, VecDeque::new()),
                Start::Present => {
                    let page = state.list(&kind, &selection, &Paging::default());
                    let present = page.map(|page| page.objects).unwrap_or_default();
                    (
                        bell,
                        state.version,
                        present.into_iter().map(Told::Added).collect(),
                    )
                }
            }
        };
        Self {
            store,
            kind,
            selection,
            bell,
            seen,
            waiting,
            over: None,
        }
    }

    /// The next change, when it comes. After [`Event::Expired`] nothing else comes.
    pub async fn next(&mut self) -> Event {
        let told = self.told().await;
        self.event(told)
    }

    /// The next change, if there is one already.
    pub fn try_next(&mut self) -> Option<Event> {
        let told = self.try_told()?;
        Some(self.event(told))
    }

    /// Until there is a next change, for [`Watch::try_next`].
    pub async fn ready(&mut self) {
        let told = self.told().await;
        self.waiting.push_front(told);
    }

    pub(crate) async fn told(&mut self) -> Told {
        loop {
            // Before the look: a change after it is heard.
            self.bell.value();
            if let Some(told) = self.try_told() {
                return told;
            }
            self.bell.heard().await;
        }
    }

    pub(crate) fn try_told(&mut self) -> Option<Told> {
        if self.waiting.is_empty() {
            self.look();
        }
        self.waiting.pop_front()
    }

    /// Up to which version nothing is left to tell; nothing while something is.
    pub(crate) fn caught_up(&mut self) -> Option<u64> {
        let version = self.look();
        version.filter(|_| self.waiting.is_empty())
    }

    /// Takes in what happened up to the version it gives; nothing if the history it needs is gone.
    fn look(&mut self) -> Option<u64> {
        if let Some(refusal) = &self.over {
            self.waiting.push_back(Told::Expired(refusal.clone()));
            return None;
        }
        let state = self.store.lock();
        let shelf = state.shelf(&self.kind.shelf)?;
        let Some(changes) = shelf.since(self.seen) else {
            let (from, floor) = (self.seen, shelf.floor());
            let message = format!("too old resource version: {from} ({floor})");
            let refusal = Refusal::expired(message);
            self.waiting.push_back(Told::Expired(refusal.clone()));
            self.over = Some(refusal);
            return None;
        };
        for change in changes {
            self.waiting
                .extend(tell(&self.kind, &self.selection, change));
        }
        // A watch that begins in the future hears nothing before it.
        self.seen = self.seen.max(state.version);
        Some(state.version)
    }

    fn event(&self, told: Told) -> Event {
        match told {
            Told::Added(kept) => Event::Added(kept.value(&self.kind)),
            Told::Modified(kept) => Event::Modified(kept.value(&self.kind)),
            Told::Deleted(kept) => Event::Deleted(kept.value(&self.kind)),
            Told::Expired(_) => Event::Expired,
        }
    }
}

/// What a change is to who sees only what is selected.
fn tell(kind: &Kind, selection: &Selection, change: &Change) -> Option<Told> {
    let admits = |stored: &super::body::Stored| {
        selection.admits(&change.key, || stored.value(&change.key, kind))
    };
    let kept = |stored: &super::body::Stored| {
        let mut stored = stored.clone();
        // A deleted object has the version of its deletion.
        stored.version = change.version;
        Kept {
            key: Key::clone(&change.key),
            stored,
        }
    };
    let before = change.before.as_ref().filter(|stored| admits(stored));
    let after = change.after.as_ref().filter(|stored| admits(stored));
    match (before, after) {
        (None, Some(after)) => Some(Told::Added(kept(after))),
        (Some(_), Some(after)) => Some(Told::Modified(kept(after))),
        (Some(before), None) => Some(Told::Deleted(kept(before))),
        (None, None) => None,
    }
}
