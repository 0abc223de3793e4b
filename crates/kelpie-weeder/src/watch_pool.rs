//! Limits on the watches on pods, over all namespaces.
//!
//! Each watch holds a connection, and begins with a list. After a failover or an outage of the
//! whole seed, windows open in all namespaces at once.

use std::future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kelpie_kube::watch::Priority;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The watches of windows that are due to a recovery, and as many of windows that are not. Twice as
/// many connections take some 100 MB.
const MAX_WATCHES: usize = 500;
/// The open files for everything but watches: listeners, scrapes, deletions, Events.
const OTHER_FILES: u64 = 100;
/// The first lists of recovered services that may be requested at once. They are not rate limited.
const RECOVERY_OPENINGS: usize = 50;
/// The first lists of other services that may be requested at once. They wait for the rate limit.
const START_OPENINGS: usize = 10;

/// The reason for watching the pods of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchReason {
    /// A service recovered. Its dependants are deleted within half a second.
    Recovery,
    /// Services were ready when this replica started to act. Whether their dependants wait is not
    /// known.
    Start,
}

impl WatchReason {
    /// Returns the priority of the watch's requests.
    pub(crate) fn priority(self) -> Priority {
        match self {
            Self::Recovery => Priority::Urgent,
            Self::Start => Priority::Routine,
        }
    }
}

/// The pools of both reasons. Neither can use up the other's.
#[derive(Debug)]
pub(crate) struct WatchPools {
    recoveries: WatchPool,
    starts: WatchPool,
}

impl WatchPools {
    /// Creates pools that need no more open files than `limit`.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        let files = limit.map(|limit| limit.saturating_sub(OTHER_FILES) / 2);
        let files = files.map_or(MAX_WATCHES, |files| {
            usize::try_from(files).unwrap_or(MAX_WATCHES)
        });
        let watches = files.clamp(1, MAX_WATCHES);
        Self {
            recoveries: WatchPool::new(watches, RECOVERY_OPENINGS),
            starts: WatchPool::new(watches, START_OPENINGS),
        }
    }

    pub(crate) fn get(&self, reason: WatchReason) -> &WatchPool {
        match reason {
            WatchReason::Recovery => &self.recoveries,
            WatchReason::Start => &self.starts,
        }
    }
}

/// A limit on the number of watches, and on those that have not listed yet. Both are handed out
/// first come, first served.
#[derive(Debug)]
pub(crate) struct WatchPool {
    places: Arc<Semaphore>,
    openings: Arc<Semaphore>,
    /// The number of callers that wait for a place.
    waiting: AtomicUsize,
}

/// The right to keep a watch open.
#[derive(Debug)]
pub(crate) struct WatchPlace {
    _permit: OwnedSemaphorePermit,
}

/// The right to open a watch.
#[derive(Debug)]
pub(crate) struct WatchPermit {
    pub(crate) place: WatchPlace,
    opening: Option<OwnedSemaphorePermit>,
}

impl WatchPool {
    fn new(places: usize, openings: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places)),
            openings: Arc::new(Semaphore::new(openings)),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits until a watch may be opened, in `place` if the caller has one.
    pub(crate) async fn admit(&self, place: Option<WatchPlace>) -> WatchPermit {
        let opening = acquire(&self.openings).await;
        let place = match place {
            Some(place) => place,
            None => WatchPlace {
                _permit: self.wait_for_place().await,
            },
        };
        WatchPermit {
            place,
            opening: Some(opening),
        }
    }

    /// Returns whether callers wait for a place.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    async fn wait_for_place(&self) -> OwnedSemaphorePermit {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return place;
        }
        let _waiting = Waiting::new(&self.waiting);
        acquire(&self.places).await
    }
}

impl WatchPermit {
    /// Lets the next watch open, because this one has listed its pods or has failed to.
    pub(crate) fn opened(&mut self) {
        self.opening = None;
    }

    /// Returns whether the watch has listed its pods, or has failed to.
    pub(crate) fn is_open(&self) -> bool {
        self.opening.is_none()
    }
}

/// Counts a caller that waits, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn acquire(semaphore: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    match Arc::clone(semaphore).acquire_owned().await {
        Ok(permit) => permit,
        // A semaphore that is closed. These never are.
        Err(_) => future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn full_pool_hands_places_on() {
        let pool = WatchPool::new(1, 2);
        let mut first = pool.admit(None).await;
        first.opened();
        assert!(!pool.is_full());
        let mut second = Box::pin(pool.admit(None));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(pool.is_full());
        drop(first);
        drop(second.await);
        assert!(!pool.is_full());
    }

    #[tokio::test]
    async fn given_up_wait_does_not_count() {
        let pool = WatchPool::new(1, 2);
        let _first = pool.admit(None).await;
        assert!(pool.admit(None).now_or_never().is_none());
        assert!(!pool.is_full());
    }

    #[tokio::test]
    async fn openings_are_limited() {
        let pool = WatchPool::new(9, 1);
        let mut first = pool.admit(None).await;
        assert!(pool.admit(None).now_or_never().is_none());
        assert!(!pool.is_full(), "there are places");
        first.opened();
        let second = pool.admit(Some(first.place)).now_or_never();
        assert!(second.is_some());
    }

    #[test]
    fn pools_fit_into_open_files() {
        let places = |limit| {
            let pools = WatchPools::new(limit);
            [&pools.recoveries, &pools.starts].map(|pool| pool.places.available_permits())
        };
        assert_eq!(places(None), [500, 500]);
        assert_eq!(places(Some(1_048_576)), [500, 500]);
        assert_eq!(places(Some(512)), [206, 206]);
        assert_eq!(places(Some(64)), [1, 1]);
    }
}
