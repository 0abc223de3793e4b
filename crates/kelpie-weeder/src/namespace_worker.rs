//! The worker of a namespace: a task that owns the windows of the namespace and deletes its pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::stream::{BoxStream, FuturesUnordered, SelectAll};
use futures_util::{FutureExt, StreamExt};
use kelpie_core::Time;
use kelpie_core::weeder::{Deletion, DeletionResult, WindowChange, WindowRules, Windows};
use kelpie_kube::AnchoredClock;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::Leadership;
use kelpie_kube::resources::{DeleteError, PodFacts};
use kelpie_kube::watch::WatchEvent;
use kelpie_runtime::watch::Receiver;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::deletion_limiter::DeletionLimiter;
use crate::reporter::{WeederReporter, WeederTelemetry, outcome};

/// The time that deletions in flight get when the worker ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// A message to the worker of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerMessage {
    /// Open a window at `from` for a service that recovered at `recovered`.
    Open {
        service: String,
        recovered: Time,
        from: Time,
    },
    /// Close the window of a service that is gone.
    Close { service: String },
    /// Close all windows, because this replica no longer acts.
    CloseAll,
}

/// The configuration and the clients that all namespaces share.
pub(crate) struct WeederContext {
    pub(crate) clock: AnchoredClock,
    pub(crate) seed: ClusterClient,
    pub(crate) rules: WindowRules,
    /// The label selectors of each service's dependants, in the syntax of the API.
    pub(crate) selectors: BTreeMap<String, Vec<String>>,
    pub(crate) limiter: DeletionLimiter,
    pub(crate) leadership: Receiver<Leadership>,
    pub(crate) telemetry: WeederTelemetry,
    pub(crate) cancelled: CancellationToken,
}

/// An event of the watch on the pods that one selector of a service matches.
struct PodEvent {
    service: Arc<str>,
    /// The index of the selector.
    selector: usize,
    event: WatchEvent<PodFacts>,
}

/// A deletion and its result; `None` if no request was sent.
type CompletedDeletion = (Deletion, Option<Result<(), DeleteError>>);

/// The windows of a namespace and the deletions in flight.
pub(crate) struct NamespaceWorker {
    namespace: Arc<str>,
    context: Arc<WeederContext>,
    windows: Windows,
    /// The watches on the dependants. Each ends with the token of its service.
    pod_events: SelectAll<BoxStream<'static, PodEvent>>,
    /// The tokens of the services with an open window.
    watched: BTreeMap<String, CancellationToken>,
    /// The wait for a turn to delete a pod, while there is one to delete.
    turn: Option<BoxFuture<'static, ()>>,
    in_flight: FuturesUnordered<BoxFuture<'static, CompletedDeletion>>,
    reporter: WeederReporter,
}

impl NamespaceWorker {
    pub(crate) fn new(namespace: Arc<str>, context: Arc<WeederContext>) -> Self {
        Self {
            windows: Windows::new(context.rules),
            pod_events: SelectAll::new(),
            watched: BTreeMap::new(),
            turn: None,
            in_flight: FuturesUnordered::new(),
            reporter: WeederReporter::new(Arc::clone(&namespace), context.telemetry.clone()),
            namespace,
            context,
        }
    }

    /// Processes messages and pod events until the sender is dropped or the worker is cancelled.
    pub(crate) async fn run(mut self, messages: &mut mpsc::UnboundedReceiver<WorkerMessage>) {
        let cancelled = self.context.cancelled.clone();
        loop {
            self.advance_windows();
            let wake = self.windows.next_wake(self.context.clock.now());
            let wake = self.context.clock.instant(wake.unwrap_or(Time::MAX));
            tokio::select! {
                biased;
                () = cancelled.cancelled() => break,
                message = messages.recv() => match message {
                    Some(message) => self.handle(message),
                    None => break,
                },
                // Before the pod events, however many: a turn that is not used delays all
                // namespaces.
                Some(()) = OptionFuture::from(self.turn.as_mut()) => self.delete_one(),
                Some(done) = self.in_flight.next() => self.finish(done),
                Some(pod_event) = self.pod_events.next() => self.process(pod_event),
                () = sleep_until(wake) => {}
            }
        }
        self.drain().await;
    }

    /// Opens and closes the windows that are due, reports the pods that are skipped, and waits for
    /// a turn if there is a pod to delete.
    fn advance_windows(&mut self) {
        let now = self.context.clock.now();
        for change in self.windows.advance(now) {
            match change {
                WindowChange::Opened { service, again } => {
                    self.reporter.opened(&service, again);
                    self.watch(&service);
                }
                WindowChange::Closed { service } => self.unwatch(&service),
            }
        }
        for skip in self.windows.skips(now) {
            self.reporter.skipped(&skip, now);
        }
        self.reporter.show(&self.windows);
        if self.turn.is_none() && self.windows.has_work(now) {
            let context = Arc::clone(&self.context);
            self.turn = Some(async move { context.limiter.wait_for_turn().await }.boxed());
        }
    }

    /// Starts new watches on the dependants of a service. Their first list is newer than the
    /// recovery; an existing watch may lag behind, or wait for its next attempt.
    fn watch(&mut self, service: &str) {
        let token = CancellationToken::new();
        let name: Arc<str> = service.into();
        let selectors = self.context.selectors.get(service);
        for (selector, labels) in selectors.into_iter().flatten().enumerate() {
            let service = Arc::clone(&name);
            let pod_event = move |event| PodEvent {
                service: Arc::clone(&service),
                selector,
                event,
            };
            let pods = self.context.seed.pods(&self.namespace, labels);
            let pods = pods
                .map(pod_event)
                .take_until(token.clone().cancelled_owned());
            self.pod_events.push(pods.boxed());
        }
        if let Some(previous) = self.watched.insert(service.to_owned(), token) {
            previous.cancel();
        }
    }

    fn unwatch(&mut self, service: &str) {
        if let Some(token) = self.watched.remove(service) {
            token.cancel();
            self.reporter.closed(service);
        }
    }

    fn unwatch_all(&mut self) {
        while let Some((service, _)) = self.watched.first_key_value() {
            self.unwatch(&service.clone());
        }
    }

    fn handle(&mut self, message: WorkerMessage) {
        match message {
            WorkerMessage::Open {
                service,
                recovered,
                from,
            } => {
                let selectors = self.context.selectors.get(&service).map_or(0, Vec::len);
                self.windows.plan(&service, selectors, recovered, from);
            }
            WorkerMessage::Close { service } => {
                self.windows.close(&service);
                self.unwatch(&service);
            }
            WorkerMessage::CloseAll => {
                self.windows = Windows::new(self.context.rules);
                self.unwatch_all();
            }
        }
    }

    fn process(&mut self, pod_event: PodEvent) {
        let (service, selector) = (&*pod_event.service, pod_event.selector);
        if !self.watched.contains_key(service) {
            // A late event of a watch that was cancelled.
            return;
        }
        match pod_event.event {
            WatchEvent::Init => self.windows.begin_list(service, selector),
            WatchEvent::Apply(facts) => self.windows.put(service, selector, facts.pod),
            WatchEvent::Delete { name, .. } => self.windows.remove(service, selector, &name),
            WatchEvent::InitDone => {
                self.reporter.watch_restored(service);
                self.windows.end_list(service, selector);
            }
            WatchEvent::Error(error) => self.reporter.watch_failed(service, &error),
        }
    }

    /// Uses the turn to delete a pod. There may be none: it may have recovered during the wait.
    fn delete_one(&mut self) {
        self.turn = None;
        let now = self.context.clock.now();
        let Some(deletion) = self.windows.next(now) else {
            return;
        };
        let evidence = self.reporter.deleting(&deletion);
        let (context, namespace) = (Arc::clone(&self.context), Arc::clone(&self.namespace));
        let request = async move {
            evidence.await;
            // Right before the request: a process that was suspended in between must notice here
            // that it no longer leads.
            if !context.leadership.borrow().may_act(Instant::now()) {
                return (deletion, None);
            }
            let (pod, uid, version) = (&deletion.pod, &deletion.uid, &deletion.version);
            let result = context.seed.delete_pod(&namespace, pod, uid, version);
            let result = result.await;
            (deletion, Some(result))
        };
        self.in_flight.push(request.boxed());
    }

    fn finish(&mut self, (deletion, result): CompletedDeletion) {
        let now = self.context.clock.now();
        let outcome = match &result {
            Some(result) => {
                self.reporter.completed(&deletion, result, now);
                outcome(result)
            }
            None => DeletionResult::Refused,
        };
        self.windows.record_result(&deletion, outcome, now);
    }

    /// Waits for the deletions in flight. No new one starts.
    async fn drain(mut self) {
        // A pending turn that is no longer polled would block every namespace behind it.
        self.turn = None;
        let all = async {
            while let Some(done) = self.in_flight.next().await {
                self.finish(done);
            }
        };
        // The next leader finds out about deletions without a response by then.
        let _ = timeout(DRAIN_TIMEOUT, all).await;
        self.unwatch_all();
    }
}

#[cfg(test)]
mod tests {
    use kelpie_kube::SystemClock;
    use kelpie_kube::leader::ReplicaRole;
    use kelpie_sim::{Landscape, LandscapePlan};
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::metrics::WeederMetrics;
    use crate::state_page::ServiceStatePage;

    fn context() -> Arc<WeederContext> {
        let clock = kelpie_sim::SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
        let landscape = Landscape::in_process(&LandscapePlan::with_size(1, 1), &clock).unwrap();
        let system_clock = SystemClock::new(landscape.watchdog_clock());
        let network = landscape.link("weeder").network();
        let seed =
            ClusterClient::in_process(&network, system_clock, &landscape.seed_url(), "weeder")
                .unwrap();
        Arc::new(WeederContext {
            clock: AnchoredClock::anchored(seed.system_clock()),
            rules: WindowRules {
                watch_duration: Duration::from_mins(5),
                max_deletions_per_pod: 3,
                dry_run: false,
            },
            selectors: BTreeMap::new(),
            limiter: DeletionLimiter::default(),
            leadership: ReplicaRole::new(None, false).election(&seed).leadership(),
            telemetry: WeederTelemetry {
                metrics: WeederMetrics::new(&mut Registry::default(), std::iter::empty()),
                state_page: ServiceStatePage::default(),
                events: None,
            },
            cancelled: CancellationToken::new(),
            seed,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn draining_worker_releases_its_turn() {
        let context = context();
        let mut worker = NamespaceWorker::new("shoot".into(), Arc::clone(&context));
        context.limiter.wait_for_turn().await;
        let waiting = Arc::clone(&context);
        worker.turn = Some(async move { waiting.limiter.wait_for_turn().await }.boxed());
        let turn = worker.turn.as_mut().unwrap();
        assert!(turn.now_or_never().is_none(), "not yet");
        worker.in_flight.push(std::future::pending().boxed());
        let other = async {
            context.limiter.wait_for_turn().await;
            Instant::now()
        };
        let drain = async {
            worker.drain().await;
            Instant::now()
        };
        let (served, drained) = tokio::join!(other, drain);
        assert!(served < drained);
    }
}
