//! The worker of a namespace: a task that owns the windows of the namespace and deletes its pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::stream::{BoxStream, FuturesUnordered};
use futures_util::{FutureExt, StreamExt};
use kelpie_config::LabelSelector;
use kelpie_core::Time;
use kelpie_core::weeder::{Deletion, DeletionResult, WindowChange, WindowRules, Windows};
use kelpie_kube::AnchoredClock;
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::Leadership;
use kelpie_kube::replica::PauseReader;
use kelpie_kube::resources::{DeleteError, PodFacts};
use kelpie_kube::watch::WatchEvent;
use kelpie_runtime::watch::Receiver;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::deletion_limiter::DeletionLimiter;
use crate::reporter::{WeederReporter, WeederTelemetry, outcome};
use crate::watch_pool::{WatchPermit, WatchPools, WatchReason};

/// The time that deletions in flight get when the worker ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// The time that a watch goes on while other namespaces wait for its place. The windows stay open,
/// and wait in turn.
const WATCH_TURN: Duration = Duration::from_secs(10);

/// A message to the worker of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerMessage {
    /// Open a window at `from` for a service that recovered at `recovered`, or that was ready when
    /// this replica started to act.
    Open {
        service: String,
        recovered: Option<Time>,
        from: Time,
    },
    /// Close the window of a service that is gone.
    Close { service: String },
    /// Interrupt all windows, because this replica no longer acts.
    Suspend,
    /// Go on with the windows that are still open.
    Resume,
}

/// The configuration and the clients that all namespaces share.
pub(crate) struct WeederContext {
    pub(crate) clock: AnchoredClock,
    pub(crate) seed: ClusterClient,
    pub(crate) rules: WindowRules,
    /// The label selectors of each service's dependants.
    pub(crate) selectors: BTreeMap<String, Vec<LabelSelector>>,
    pub(crate) watch_pools: WatchPools,
    pub(crate) limiter: DeletionLimiter,
    pub(crate) leadership: Receiver<Leadership>,
    /// The pause switch; `None` in tests.
    pub(crate) pause: Option<PauseReader>,
    pub(crate) telemetry: WeederTelemetry,
    pub(crate) cancelled: CancellationToken,
}

impl WeederContext {
    /// Returns whether an operator has paused deletions.
    fn is_paused(&self) -> bool {
        self.pause.as_ref().is_some_and(PauseReader::is_paused)
    }
}

/// The watch on the dependants of all services with an open window.
struct PodWatch {
    events: BoxStream<'static, WatchEvent<PodFacts>>,
    permit: WatchPermit,
    reason: WatchReason,
    /// The instant from which on the place goes to a namespace that waits.
    turn_ends: Instant,
}

/// A deletion and its result; `None` if no request was sent.
type CompletedDeletion = (Deletion, Option<Result<(), DeleteError>>);

/// The windows of a namespace and the deletions in flight.
pub(crate) struct NamespaceWorker {
    namespace: Arc<str>,
    context: Arc<WeederContext>,
    windows: Windows,
    /// `None` while no window is open, and while the watch waits for its admission.
    watch: Option<PodWatch>,
    admission: Option<(WatchReason, BoxFuture<'static, WatchPermit>)>,
    /// This replica does not act.
    is_suspended: bool,
    /// The wait for a turn to delete a pod, while there is one to delete.
    turn: Option<BoxFuture<'static, ()>>,
    in_flight: FuturesUnordered<BoxFuture<'static, CompletedDeletion>>,
    reporter: WeederReporter,
}

impl NamespaceWorker {
    pub(crate) fn new(namespace: Arc<str>, context: Arc<WeederContext>) -> Self {
        Self {
            windows: Windows::new(context.rules),
            watch: None,
            admission: None,
            is_suspended: false,
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
            let turn_ends = self.watch.as_ref().map(|watch| watch.turn_ends);
            let wake = turn_ends.map_or(wake, |turn_ends| wake.min(turn_ends));
            let admission = self.admission.as_mut().map(|(_, permit)| permit);
            let pod_event = self.watch.as_mut().map(|watch| watch.events.next());
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
                Some(permit) = OptionFuture::from(admission) => self.start_watch(permit),
                Some(Some(event)) = OptionFuture::from(pod_event) => self.process(event),
                () = sleep_until(wake) => {}
            }
        }
        self.drain().await;
    }

    /// Opens and closes the windows that are due, reports the pods that are skipped, and waits for
    /// a turn if there is a pod to delete.
    fn advance_windows(&mut self) {
        let now = self.context.clock.now();
        let changes = self.windows.advance(now);
        let has_opened = self.report(changes);
        self.update_watch(has_opened, now);
        for skip in self.windows.skips(now) {
            self.reporter.skipped(&skip, now);
        }
        if !self.is_suspended {
            self.reporter.show(&self.windows);
        }
        if self.turn.is_none() && self.windows.has_work(now) {
            let context = Arc::clone(&self.context);
            self.turn = Some(async move { context.limiter.wait_for_turn().await }.boxed());
        }
    }

    /// Reports windows that opened or closed. Returns whether one has opened.
    fn report(&mut self, changes: Vec<WindowChange>) -> bool {
        let mut has_opened = false;
        for change in changes {
            match change {
                WindowChange::Opened { service, again } => {
                    has_opened = true;
                    self.reporter.opened(&service, again);
                }
                WindowChange::Closed { service } => self.reporter.closed(&service),
            }
        }
        has_opened
    }

    /// Ends the watch that is not needed, and requests the one that is. After a window has opened,
    /// that is a new one: its first list is newer than the recovery, while an existing watch may
    /// lag behind or wait for its next attempt.
    fn update_watch(&mut self, has_opened: bool, now: Time) {
        let has_windows = self.windows.open_services().next().is_some();
        let has_starts = self.windows.has_due_starts(now);
        if self.is_suspended || !(has_windows || has_starts) {
            self.end_watch();
            return;
        }
        self.end_turn(now);
        let reason = if self.windows.has_recovery() {
            WatchReason::Recovery
        } else {
            WatchReason::Start
        };
        let requested = self.admission.as_ref().map(|(reason, _)| *reason);
        let is_needed = has_opened || has_starts || self.watch.is_none();
        if is_needed && requested != Some(reason) && requested != Some(WatchReason::Recovery) {
            self.request_watch(reason);
        }
    }

    /// Gives the place of the watch to a namespace that waits, if it had its turn and has nothing
    /// to delete.
    fn end_turn(&mut self, now: Time) {
        let Some(watch) = &mut self.watch else { return };
        if Instant::now() < watch.turn_ends {
            return;
        }
        let has_work = !self.in_flight.is_empty() || self.windows.has_work(now);
        let is_idle = watch.permit.is_open() && !has_work;
        if is_idle && self.context.watch_pools.get(watch.reason).is_full() {
            self.watch = None;
        } else {
            watch.turn_ends = Instant::now() + WATCH_TURN;
        }
    }

    /// Requests the admission of a new watch, in the place of the present one if they have the same
    /// reason.
    fn request_watch(&mut self, reason: WatchReason) {
        let previous = self.watch.take_if(|watch| watch.reason == reason);
        let place = previous.map(|watch| watch.permit.place);
        let context = Arc::clone(&self.context);
        let admission = async move { context.watch_pools.get(reason).admit(place).await };
        self.admission = Some((reason, admission.boxed()));
    }

    /// Starts the watch that was admitted. The API server evaluates what the selectors of all
    /// services with an open window have in common, and this process the rest.
    fn start_watch(&mut self, permit: WatchPermit) {
        let Some((reason, _)) = self.admission.take() else {
            return;
        };
        let changes = self.windows.open_starts(self.context.clock.now());
        self.report(changes);
        let selectors = self.windows.open_services();
        let selectors = selectors.filter_map(|service| self.context.selectors.get(service));
        let labels = LabelSelector::shared(selectors.flatten());
        let labels = labels.map(|labels| labels.to_string());
        let (seed, priority) = (&self.context.seed, reason.priority());
        let events = seed.pods(&self.namespace, labels.as_deref(), priority);
        self.watch = Some(PodWatch {
            events: events.boxed(),
            permit,
            reason,
            turn_ends: Instant::now() + WATCH_TURN,
        });
    }

    fn end_watch(&mut self) {
        (self.watch, self.admission) = (None, None);
    }

    fn handle(&mut self, message: WorkerMessage) {
        match message {
            WorkerMessage::Open {
                service,
                recovered,
                from,
            } => self.windows.plan(&service, recovered, from),
            WorkerMessage::Close { service } => {
                self.windows.close(&service);
                self.reporter.closed(&service);
            }
            WorkerMessage::Suspend => {
                self.is_suspended = true;
                self.windows.suspend();
                self.close_all();
            }
            WorkerMessage::Resume => {
                self.is_suspended = false;
                for service in self.windows.open_services() {
                    self.reporter.opened(service, true);
                }
            }
        }
    }

    /// Reports all windows as closed.
    fn close_all(&mut self) {
        for service in self.windows.open_services() {
            self.reporter.closed(service);
        }
    }

    fn process(&mut self, event: WatchEvent<PodFacts>) {
        let services: Vec<String> = self.windows.open_services().map(str::to_owned).collect();
        match event {
            WatchEvent::Init => {
                for service in &services {
                    self.windows.begin_list(service);
                }
            }
            WatchEvent::Apply(facts) => {
                for service in &services {
                    if self.is_dependant(service, &facts) {
                        self.windows.put(service, facts.pod.clone());
                    } else {
                        self.windows.remove(service, &facts.pod.name);
                    }
                }
            }
            WatchEvent::Delete { name, .. } => {
                for service in &services {
                    self.windows.remove(service, &name);
                }
            }
            WatchEvent::InitDone => {
                self.reporter.watch_restored();
                for service in &services {
                    self.windows.end_list(service);
                }
                self.let_next_open();
            }
            WatchEvent::Error(error) => {
                self.reporter.watch_failed(&error);
                self.let_next_open();
            }
        }
    }

    /// Returns whether one of the service's selectors matches the pod.
    fn is_dependant(&self, service: &str, facts: &PodFacts) -> bool {
        let selectors = self.context.selectors.get(service);
        let mut selectors = selectors.into_iter().flatten();
        selectors.any(|selector| selector.matches(&facts.labels))
    }

    fn let_next_open(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.permit.opened();
        }
    }

    /// Uses the turn to delete a pod. There may be none: it may have recovered during the wait.
    fn delete_one(&mut self) {
        self.turn = None;
        let now = self.context.clock.now();
        let Some(deletion) = self.windows.next(now) else {
            return;
        };
        if self.context.is_paused() {
            // It is repeated, ever more slowly, until the pause or the window ends.
            self.windows
                .record_result(&deletion, DeletionResult::Refused, now);
            return;
        }
        let evidence = self.reporter.deleting(&deletion);
        let (context, namespace) = (Arc::clone(&self.context), Arc::clone(&self.namespace));
        let request = async move {
            evidence.await;
            // Right before the request: a process that was suspended in between must notice here
            // that it no longer leads.
            if !context.leadership.borrow().may_act(Instant::now()) {
                return (deletion, None);
            }
            if context.is_paused() {
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
        self.close_all();
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
            watch_pools: WatchPools::new(None),
            limiter: DeletionLimiter::default(),
            leadership: ReplicaRole::new(None, false).election(&seed).leadership(),
            pause: None,
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
