//! One call, many who wait for it.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::book::{Book, Entry, Landed, RunId};
use crate::check::Judged;
use crate::{Reason, Verdict};

/// A run panicked instead of answering.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("panicked: {0}")]
pub struct Panicked(Reason);

/// A call whose runs are shared: fifty who ask at once cost one call.
///
/// Every check is one. Use another below the checks where several of them need the same answer, a
/// server's status for one. A run goes on when those who wait for it leave; it ends with the last
/// handle to the call, or at the run limit.
pub struct Shared<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    /// The rules are in the book; the channel wakes those who wait when a page is turned.
    book: watch::Sender<Book<Result<T, Panicked>>>,
    call: Arc<dyn Fn() -> BoxFuture<'static, T> + Send + Sync>,
    /// A run that is out for longer is dropped, so that two that hang do not block the call
    /// forever.
    run_limit: Duration,
    /// Runs started.
    runs: Counter,
    /// Every run hangs on it.
    end: CancellationToken,
    /// Ends the runs when nobody can ask for them any more.
    _guard: DropGuard,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        let inner = Arc::clone(&self.inner);
        Self { inner }
    }
}

impl<T: Clone + Send + Sync + 'static> Shared<T> {
    /// A call that is not counted in any metric; see [`crate::Builder::shared`] for one that is.
    pub fn new<F, Calling>(run_limit: Duration, call: F) -> Self
    where
        F: Fn() -> Calling + Send + Sync + 'static,
        Calling: Future<Output = T> + Send + 'static,
    {
        Self::counted(run_limit, Counter::default(), call)
    }

    pub(crate) fn counted<F, Calling>(run_limit: Duration, runs: Counter, call: F) -> Self
    where
        F: Fn() -> Calling + Send + Sync + 'static,
        Calling: Future<Output = T> + Send + 'static,
    {
        let end = CancellationToken::new();
        let inner = Inner {
            book: watch::Sender::new(Book::new()),
            call: Arc::new(move || call().boxed()),
            run_limit,
            runs,
            _guard: end.clone().drop_guard(),
            end,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The result of a run that is no older than `fresh` when this is called, or of a new one.
    ///
    /// It waits for as long as that takes; put a `timeout` around it to leave earlier. At most two
    /// runs are out at once, so while two hang that are too old it waits for one of them to end.
    pub async fn get(&self, fresh: Duration) -> Result<T, Panicked> {
        let mut book = self.inner.book.subscribe();
        loop {
            // What ends between here and `changed` is noticed there.
            book.mark_unchanged();
            let run = match self.enter(fresh) {
                Entry::Join(run) => run,
                Entry::Start(run) => {
                    self.start(run);
                    run
                }
                Entry::Full => {
                    // Whoever else waits may take the place first; then there is a young run to
                    // join. The channel cannot close: we hold its other end.
                    let _ = book.changed().await;
                    continue;
                }
            };
            let over = |book: &Book<_>| book.answer(run).is_some() || !book.is_out(run);
            if let Ok(book) = book.wait_for(over).await
                && let Some(landed) = book.answer(run)
            {
                return landed.value.clone();
            }
        }
    }

    /// The last result and its age, from whichever run; it starts none.
    pub fn last(&self) -> Option<(Result<T, Panicked>, Duration)> {
        let last: Option<Landed<_>> = self.inner.book.borrow().last().cloned();
        last.map(|last| (last.value, last.at.elapsed()))
    }

    /// A check that judges this call's result. The readyz deadline is a good `fresh`: then a probe
    /// that gets a run of its own gets a call of its own, too.
    pub fn check<J>(&self, fresh: Duration, judge: J) -> Judged<T, J>
    where
        J: Fn(&T) -> Verdict + Send + Sync + 'static,
    {
        let call = self.clone();
        Judged { call, fresh, judge }
    }

    fn enter(&self, fresh: Duration) -> Entry {
        let mut entry = Entry::Full;
        self.inner.book.send_if_modified(|book| {
            entry = book.enter(Instant::now(), fresh);
            // Nobody waits for a run to start.
            false
        });
        entry
    }

    fn start(&self, run: RunId) {
        self.inner.runs.inc();
        let slot = Slot {
            run,
            inner: Arc::downgrade(&self.inner),
        };
        let call = Arc::clone(&self.inner.call);
        let run_limit = self.inner.run_limit;
        let end = self.inner.end.clone();
        tokio::spawn(async move {
            // The call begins inside, so that a panic before its first await is caught too.
            let calling = AssertUnwindSafe(async move { call().await }).catch_unwind();
            let ended = end.run_until_cancelled(timeout(run_limit, calling)).await;
            if let Some(Ok(result)) = ended {
                slot.land(result.map_err(|payload| Panicked::new(payload.as_ref())));
            }
        });
    }
}

/// A run's place in the book. It is given up on drop, however the run ended.
struct Slot<T> {
    run: RunId,
    /// Weak, so that a run does not keep alive what should end it.
    inner: Weak<Inner<T>>,
}

impl<T> Slot<T> {
    fn land(&self, result: Result<T, Panicked>) {
        if let Some(inner) = self.inner.upgrade() {
            let land = |book: &mut Book<_>| book.land(self.run, Instant::now(), result);
            inner.book.send_modify(land);
        }
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.book.send_if_modified(|book| {
                let was_out = book.is_out(self.run);
                book.give_up(self.run);
                was_out
            });
        }
    }
}

impl Panicked {
    fn new(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self(Reason::from(text.unwrap_or_default()))
    }
}
