//! A namespace: its windows, and the pods seen through them. One task owns all of it.

use std::collections::BTreeMap;
use std::future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, FuturesUnordered, SelectAll};
use futures_util::{FutureExt, StreamExt};
use kelpie_bell::Listener;
use kelpie_core::Time;
use kelpie_core::weeder::{Deletion, Outcome, Rules, WindowChange, Windows};
use kelpie_kube::Clock;
use kelpie_kube::leader::Leadership;
use kelpie_kube::seed::{Change, DeleteError, PodFacts, Seed};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::pacer::Pacer;
use crate::scribe::{Audience, Scribe, outcome};

/// Calls that are under way at the end get this long.
const DRAIN: Duration = Duration::from_secs(2);

/// What is to be done in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// A service came back at `recovered`; its window opens at `from`.
    Open {
        service: String,
        recovered: Time,
        from: Time,
    },
    /// It is gone.
    Close { service: String },
    /// This replica acts no longer.
    CloseAll,
}

/// What all namespaces share.
pub(crate) struct Common {
    pub(crate) clock: Clock,
    pub(crate) seed: Seed,
    pub(crate) rules: Rules,
    /// By service: label selectors as the API takes them.
    pub(crate) selectors: BTreeMap<String, Vec<String>>,
    pub(crate) pacer: Pacer,
    pub(crate) leadership: Listener<Leadership>,
    pub(crate) audience: Audience,
    pub(crate) cancelled: CancellationToken,
}

/// A change of the pods that one selector of a service shows.
struct Sight {
    service: Arc<str>,
    selector: usize,
    change: Change<PodFacts>,
}

/// A deletion and its answer; `None`: it was not tried.
struct Done {
    deletion: Deletion,
    result: Option<Result<(), DeleteError>>,
}

/// A namespace's windows and the calls under way.
pub(crate) struct Plot {
    namespace: Arc<str>,
    common: Arc<Common>,
    windows: Windows,
    /// Watches of the dependants; each ends with its service's token.
    sights: SelectAll<BoxStream<'static, Sight>>,
    /// By service with an open window.
    watched: BTreeMap<String, CancellationToken>,
    /// A turn to delete a pod, asked for while there is one to delete.
    turn: Option<BoxFuture<'static, ()>>,
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    scribe: Scribe,
}

impl Plot {
    pub(crate) fn new(namespace: Arc<str>, common: Arc<Common>) -> Self {
        Self {
            windows: Windows::new(common.rules),
            sights: SelectAll::new(),
            watched: BTreeMap::new(),
            turn: None,
            under_way: FuturesUnordered::new(),
            scribe: Scribe::new(Arc::clone(&namespace), common.audience.clone()),
            namespace,
            common,
        }
    }

    /// Works until there are no more orders to come, or until cancelled.
    pub(crate) async fn run(mut self, orders: &mut mpsc::UnboundedReceiver<Order>) {
        let cancelled = self.common.cancelled.clone();
        loop {
            self.follow_windows();
            let wake = self.windows.next_wake(self.common.clock.now());
            let wake = self.common.clock.instant(wake.unwrap_or(Time::MAX));
            tokio::select! {
                biased;
                () = cancelled.cancelled() => break,
                order = orders.recv() => match order {
                    Some(order) => self.obey(order),
                    None => break,
                },
                // Before the pods, however many: who has a turn and does not take it holds up all.
                () = granted(&mut self.turn) => self.delete_one(),
                Some(done) = self.under_way.next() => self.finish(done),
                Some(sight) = self.sights.next() => self.see(sight),
                () = sleep_until(wake) => {}
            }
        }
        self.rest().await;
    }

    /// Opens and closes what is due, tells who is passed over, asks for a turn if there is work.
    fn follow_windows(&mut self) {
        let now = self.common.clock.now();
        for change in self.windows.advance(now) {
            match change {
                WindowChange::Opened { service, again } => {
                    self.scribe.opened(&service, again);
                    self.watch(&service);
                }
                WindowChange::Closed { service } => self.unwatch(&service),
            }
        }
        for skip in self.windows.skips(now) {
            self.scribe.skipped(&skip, now);
        }
        self.scribe.show(&self.windows);
        if self.turn.is_none() && self.windows.has_work(now) {
            let common = Arc::clone(&self.common);
            self.turn = Some(async move { common.pacer.turn().await }.boxed());
        }
    }

    /// From a list on that is newer than the recovery: a watch that was there may lag behind, or wait
    /// for its next attempt.
    fn watch(&mut self, service: &str) {
        let over = CancellationToken::new();
        let name: Arc<str> = service.into();
        let selectors = self.common.selectors.get(service);
        for (selector, labels) in selectors.into_iter().flatten().enumerate() {
            let service = Arc::clone(&name);
            let sight = move |change| Sight {
                service: Arc::clone(&service),
                selector,
                change,
            };
            let pods = self.common.seed.pods(&self.namespace, labels);
            let pods = pods.map(sight).take_until(over.clone().cancelled_owned());
            self.sights.push(pods.boxed());
        }
        if let Some(before) = self.watched.insert(service.to_owned(), over) {
            before.cancel();
        }
    }

    fn unwatch(&mut self, service: &str) {
        if let Some(over) = self.watched.remove(service) {
            over.cancel();
            self.scribe.closed(service);
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Open {
                service,
                recovered,
                from,
            } => {
                let selectors = self.common.selectors.get(&service).map_or(0, Vec::len);
                self.windows.plan(&service, selectors, recovered, from);
            }
            Order::Close { service } => {
                self.windows.close(&service);
                self.unwatch(&service);
            }
            Order::CloseAll => {
                self.windows = Windows::new(self.common.rules);
                while let Some((service, _)) = self.watched.first_key_value() {
                    self.unwatch(&service.clone());
                }
            }
        }
    }

    fn see(&mut self, sight: Sight) {
        let (service, selector) = (&*sight.service, sight.selector);
        if !self.watched.contains_key(service) {
            // The last words of a watch that is over.
            return;
        }
        match sight.change {
            Change::Restarted => self.windows.begin_list(service, selector),
            Change::Applied(facts) => self.windows.put(service, selector, facts.pod),
            Change::Deleted { name, .. } => self.windows.remove(service, selector, &name),
            Change::Synced => {
                self.scribe.watch_restored(service);
                self.windows.end_list(service, selector);
            }
            Change::Failed(error) => self.scribe.watch_failed(service, &error),
        }
    }

    /// It is our turn. What was to be deleted when we asked for it may have recovered meanwhile.
    fn delete_one(&mut self) {
        self.turn = None;
        let now = self.common.clock.now();
        let Some(deletion) = self.windows.next(now) else {
            return;
        };
        let evidence = self.scribe.deleting(&deletion);
        let (common, namespace) = (Arc::clone(&self.common), Arc::clone(&self.namespace));
        self.under_way.push(
            async move {
                evidence.await;
                let result = common.delete(&namespace, &deletion).await;
                Done { deletion, result }
            }
            .boxed(),
        );
    }

    fn finish(&mut self, Done { deletion, result }: Done) {
        let now = self.common.clock.now();
        let outcome = match &result {
            Some(result) => {
                self.scribe.settled(&deletion, result, now);
                outcome(result)
            }
            None => Outcome::Refused,
        };
        self.windows.settle(&deletion, outcome, now);
    }

    /// What is under way may end; nothing new begins.
    async fn rest(mut self) {
        // A turn that was asked for and that nobody waits for any more holds up all who come after it.
        self.turn = None;
        let all = async {
            while let Some(done) = self.under_way.next().await {
                self.finish(done);
            }
        };
        // What is not answered by then is found out by the next replica.
        let _ = timeout(DRAIN, all).await;
        while let Some((service, _)) = self.watched.first_key_value() {
            self.unwatch(&service.clone());
        }
    }
}

impl Common {
    /// `None`: this replica acts no longer. Asked right before the call: a process that was stopped in
    /// between must find out here.
    async fn delete(
        &self,
        namespace: &str,
        deletion: &Deletion,
    ) -> Option<Result<(), DeleteError>> {
        if !self.leadership.peek().may_act(Instant::now()) {
            return None;
        }
        let Deletion {
            pod, uid, version, ..
        } = deletion;
        Some(self.seed.delete_pod(namespace, pod, uid, version).await)
    }
}

/// The turn that was asked for; never, if none was.
async fn granted(turn: &mut Option<BoxFuture<'static, ()>>) {
    match turn {
        Some(turn) => turn.await,
        None => future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use kelpie_kube::WallClock;
    use kelpie_kube::leader::Part;
    use kelpie_sim::{Landscape, Plan};
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::board::Board;
    use crate::metrics::Metrics;

    fn common() -> Arc<Common> {
        let clock = kelpie_sim::Clock::starting_at(Time::from_unix(1_700_000_000, 0));
        let landscape = Landscape::inside(&Plan::of(1, 1), &clock).unwrap();
        let wall = WallClock::new(landscape.watchdog_clock());
        let network = landscape.link("weeder").network();
        let seed = Seed::inside(&network, wall, &landscape.seed_url(), "weeder").unwrap();
        Arc::new(Common {
            clock: Clock::anchored(seed.wall_clock()),
            rules: Rules {
                watch_duration: Duration::from_mins(5),
                max_deletions_per_pod: 3,
                dry_run: false,
            },
            selectors: BTreeMap::new(),
            pacer: Pacer::default(),
            leadership: Part::new(None, false).play(&seed).leadership(),
            audience: Audience {
                metrics: Metrics::new(&mut Registry::default(), std::iter::empty()),
                board: Board::default(),
                events: None,
            },
            cancelled: CancellationToken::new(),
            seed,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_whose_last_calls_hang_keeps_no_turn_from_the_others() {
        let common = common();
        let mut plot = Plot::new("shoot".into(), Arc::clone(&common));
        common.pacer.turn().await;
        let asking = Arc::clone(&common);
        plot.turn = Some(async move { asking.pacer.turn().await }.boxed());
        assert!(granted(&mut plot.turn).now_or_never().is_none(), "not yet");
        plot.under_way.push(future::pending().boxed());
        let other = async {
            common.pacer.turn().await;
            Instant::now()
        };
        let rest = async {
            plot.rest().await;
            Instant::now()
        };
        let (served, rested) = tokio::join!(other, rest);
        assert!(served < rested);
    }
}
