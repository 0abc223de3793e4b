//! Watches: answers that go on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use kelpie_net::BrokenOff;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::answer::Answer;
use super::format::Format;
use super::route::Place;
use super::{Asked, Call, Server, lists, objects, table};
use crate::clock::Clock;
use crate::kind::Kind;
use crate::refusal::{Reason, Refusal};
use crate::store::{Kept, Start, Told, Watch};
use kelpie_bell::{Bell, Listener};

/// A watch whose client says nothing else is ended after so long.
const ROUND: Duration = Duration::from_mins(30);

/// How often a client that wants them gets bookmarks, and how long before the end of its watch.
const BOOKMARKS: Duration = Duration::from_mins(1);
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// Says that all that was there has been told.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// The watches that are open. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    open: Arc<Mutex<Open>>,
    held: Bell<bool>,
}

#[derive(Debug, Default)]
struct Open {
    by_number: BTreeMap<u64, (Call, oneshot::Sender<()>)>,
    next: u64,
}

impl Watches {
    /// Ends those that `which` picks.
    pub(super) fn cut(&self, which: &dyn Fn(&Call) -> bool) {
        let mut open = self.lock();
        open.by_number
            .retain(|_, (call, end)| !end.is_closed() && !which(call));
    }

    pub(super) fn hold(&self, held: bool) {
        self.held.ring(held);
    }

    /// Takes a watch in; what comes back is done when it is cut.
    fn admit(&self, call: Call) -> oneshot::Receiver<()> {
        let (end, ended) = oneshot::channel();
        let mut open = self.lock();
        open.by_number.retain(|_, (_, end)| !end.is_closed());
        let number = open.next;
        open.next += 1;
        open.by_number.insert(number, (call, end));
        ended
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of the answer.
enum Piece {
    Line(Bytes),
    LastLine(Bytes),
    /// The connection breaks off.
    Cut,
}

/// What made a watch go on.
enum Turn {
    Cut,
    Again,
    Told(Told),
    Wake,
}

/// A watch on its way to a client.
struct Telling {
    watch: Watch,
    kind: Arc<Kind>,
    format: Format,
    clock: Clock,
    /// The client wants to know that all that was there has been told.
    tells_start: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
    cut: oneshot::Receiver<()>,
    held: Listener<bool>,
    /// Who may cut and hold it lives as long.
    _watches: Watches,
    is_first: bool,
}

impl Server {
    pub(super) fn watch(&self, asked: &Asked<'_>, place: &Place) -> Result<Answer, Refusal> {
        let kind = Arc::clone(&place.kind);
        let format = match Format::wanted(&asked.head.headers, &kind)? {
            Format::Protobuf => Format::Json,
            other => other,
        };
        let selection = lists::selection(asked, place)?;
        let version = lists::version(asked)?;
        let tells_start = starts_with_list(asked)?;
        let start = match version {
            Some(version) if version > 0 && !tells_start => Start::After(version),
            _ => Start::Present,
        };
        let now = Instant::now();
        let asked_for = asked.query.seconds("timeoutSeconds");
        let round = asked_for.unwrap_or(ROUND).min(ROUND);
        let ends = now + asked.fate.watch_for.unwrap_or(round).min(round);
        let bookmarks = asked.query.is_true("allowWatchBookmarks");
        let telling = Telling {
            watch: Watch::new(self.store.clone(), Arc::clone(&kind), selection, start),
            kind,
            format,
            clock: self.store.clock(),
            tells_start,
            bookmarks,
            next_bookmark: next_bookmark(now, ends),
            ends,
            cut: self.watches.admit(asked.call.clone()),
            held: self.watches.held.listen(),
            _watches: self.watches.clone(),
            is_first: true,
        };
        let pieces = stream::unfold(Some(telling), |telling| async {
            let mut telling = telling?;
            Some(match telling.next().await? {
                Piece::Line(line) => (Ok(line), Some(telling)),
                Piece::LastLine(line) => (Ok(line), None),
                Piece::Cut => (Err(BrokenOff), None),
            })
        });
        Ok(Answer::stream(format.content_type(), pieces))
    }
}

/// Whether the watch is to tell what is there first, and say when it has.
fn starts_with_list(asked: &Asked<'_>) -> Result<bool, Refusal> {
    if !asked.query.is_true("sendInitialEvents") {
        return Ok(false);
    }
    if asked.query.text("resourceVersionMatch") != "NotOlderThan" {
        let message = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
                       sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        return Err(Refusal::new(Reason::Invalid, message));
    }
    Ok(true)
}

impl Telling {
    /// The next piece of the answer; nothing at its end.
    async fn next(&mut self) -> Option<Piece> {
        loop {
            let is_held = self.held.value();
            if self.tells_start && !is_held && self.watch.caught_up().is_some() {
                return Some(Piece::Line(self.start()));
            }
            let wake = self.next_bookmark.min(self.ends);
            let turn = tokio::select! {
                biased;
                _ = &mut self.cut => Turn::Cut,
                () = self.held.heard() => Turn::Again,
                // Nothing is lost when this is given up: a change is taken when it is told.
                told = self.watch.told(), if !is_held => Turn::Told(told),
                () = sleep_until(wake), if !is_held => Turn::Wake,
            };
            match turn {
                Turn::Again => {}
                Turn::Told(told) => return Some(self.told(told)),
                Turn::Cut => return Some(Piece::Cut),
                Turn::Wake if wake == self.ends => return None,
                Turn::Wake => {
                    self.next_bookmark = next_bookmark(wake, self.ends);
                    if let Some(line) = self.bookmark() {
                        return Some(Piece::Line(line));
                    }
                }
            }
        }
    }

    fn start(&mut self) -> Bytes {
        self.tells_start = false;
        let version = self.watch.caught_up().unwrap_or_default();
        self.bookmark_line(version, &json!({ INITIAL_END: "true" }))
    }

    fn bookmark(&mut self) -> Option<Bytes> {
        let version = self.watch.caught_up().filter(|_| self.bookmarks)?;
        Some(self.bookmark_line(version, &Value::Null))
    }

    fn bookmark_line(&self, version: u64, annotations: &Value) -> Bytes {
        let mut metadata = json!({ "resourceVersion": version.to_string() });
        if !annotations.is_null() {
            metadata["annotations"] = annotations.clone();
        }
        let object = json!({
            "kind": self.kind.name,
            "apiVersion": self.kind.api_version(),
            "metadata": metadata,
        });
        line("BOOKMARK", &object.to_string())
    }

    fn told(&mut self, told: Told) -> Piece {
        Piece::Line(match told {
            Told::Added(kept) => line("ADDED", &self.object(&kept)),
            Told::Modified(kept) => line("MODIFIED", &self.object(&kept)),
            Told::Deleted(kept) => line("DELETED", &self.object(&kept)),
            Told::Expired(refusal) => {
                return Piece::LastLine(line("ERROR", &refusal.status().to_string()));
            }
        })
    }

    fn object(&mut self, kept: &Kept) -> String {
        match self.format {
            Format::Json | Format::Protobuf => objects::text(&self.kind, kept),
            Format::Metadata => objects::metadata_alone(&kept.value(&self.kind)).to_string(),
            Format::Table => {
                let metadata = json!({ "resourceVersion": kept.stored.version.to_string() });
                let objects = [kept.value(&self.kind)];
                let mut table = table::table(&self.kind, &objects, &metadata, self.clock.now());
                // The columns are told once.
                if !self.is_first {
                    table["columnDefinitions"] = Value::Null;
                }
                self.is_first = false;
                table.to_string()
            }
        }
    }
}

fn next_bookmark(after: Instant, ends: Instant) -> Instant {
    let last = ends.checked_sub(LAST_BOOKMARK).unwrap_or(ends);
    match after + BOOKMARKS {
        regular if regular < last => regular,
        _ if last > after => last,
        _ => ends,
    }
}

fn line(kind: &str, object: &str) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}
