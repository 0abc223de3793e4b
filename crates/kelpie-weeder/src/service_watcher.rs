//! The service watcher: follows EndpointSlices, and tells namespace workers about recoveries.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kelpie_core::Time;
use kelpie_core::weeder::{ReadinessRule, ServiceEvent, ServiceRef, Services};
use kelpie_health::{LoopHeartbeat, ReadyHandle};
use kelpie_kube::leader::Leadership;
use kelpie_kube::resources::SliceFacts;
use kelpie_kube::watch::WatchEvent;
use kelpie_runtime::supervise;
use kelpie_runtime::watch::Receiver;
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::namespace_worker::{NamespaceWorker, WeederContext, WorkerMessage};

/// The longest time between two heartbeats of the loop.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// The windows of services that are ready at the start are spread over this fraction of a window.
const SPREAD_FRACTION: f64 = 0.1;
/// The reason why the weeder is not ready before the first list.
const WAITING: &str = "waiting for the first list of EndpointSlices";

/// Tracks the services, and runs a worker for each namespace with windows.
pub(crate) struct ServiceWatcher {
    context: Arc<WeederContext>,
    /// `None` for all namespaces.
    namespace: Option<String>,
    services: Services,
    workers: BTreeMap<String, mpsc::UnboundedSender<WorkerMessage>>,
    /// The last error of the watch, until it recovers. An error is logged once.
    watch_error: Option<String>,
    /// True if this replica opens windows: it leads, or it is a dry run.
    opens_windows: bool,
    /// This replica has opened windows before.
    has_acted: bool,
    /// The recoveries that were seen while this replica opened no windows.
    missed: BTreeMap<ServiceRef, Time>,
    tracker: TaskTracker,
}

impl ServiceWatcher {
    /// Creates a watcher without services. `tracker` tracks all workers, and the token in `context`
    /// stops them.
    pub(crate) fn new(
        context: Arc<WeederContext>,
        namespace: Option<String>,
        readiness: ReadinessRule,
        tracker: TaskTracker,
    ) -> Self {
        Self {
            context,
            namespace,
            services: Services::new(readiness),
            workers: BTreeMap::new(),
            watch_error: None,
            opens_windows: false,
            has_acted: false,
            missed: BTreeMap::new(),
            tracker,
        }
    }

    /// Follows the EndpointSlices until cancelled.
    pub(crate) async fn run(mut self, heartbeat: LoopHeartbeat, ready: ReadyHandle) {
        let names: Vec<&str> = self.context.selectors.keys().map(String::as_str).collect();
        let slices = self
            .context
            .seed
            .endpoint_slices(&names, self.namespace.as_deref());
        let mut slices = pin!(slices);
        let mut leadership = self.context.leadership.clone();
        let cancelled = self.context.cancelled.clone();
        let mut beat = interval(HEARTBEAT_INTERVAL);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => break,
                () = leadership.changed() => {}
                Some(event) = slices.next() => {
                    let service_events = self.process(event);
                    for service_event in service_events {
                        self.handle(service_event);
                    }
                }
                _ = beat.tick() => {}
            }
            heartbeat.beat();
            self.follow_leadership(&mut leadership);
            self.update_readiness(&ready);
        }
    }

    /// Processes an event of the watch. Returns the changes of services that result from it.
    fn process(&mut self, event: WatchEvent<SliceFacts>) -> Vec<ServiceEvent> {
        match event {
            WatchEvent::Init => self.services.begin_list(),
            WatchEvent::Apply(facts) => {
                let SliceFacts { slice, .. } = facts;
                return self.services.put(&facts.namespace, &facts.name, slice);
            }
            WatchEvent::Delete { namespace, name } => {
                return self.services.remove(&namespace, &name);
            }
            WatchEvent::InitDone => {
                self.watch_error = None;
                let events = self.services.end_list();
                for (service, is_ready) in self.services.iter() {
                    self.context.telemetry.state_page.show(service, is_ready);
                }
                return events;
            }
            WatchEvent::Error(error) => {
                self.context.telemetry.metrics.watch_failures.inc();
                let text = error.to_string();
                if self.watch_error.as_ref() != Some(&text) {
                    warn!("watch on EndpointSlices failed; retrying: {text}");
                    self.watch_error = Some(text);
                }
            }
        }
        Vec::new()
    }

    fn handle(&mut self, event: ServiceEvent) {
        let now = self.context.clock.now();
        let telemetry = &self.context.telemetry;
        match event {
            // Its window opens when this replica starts to act.
            ServiceEvent::FoundReady(service) => telemetry.state_page.show(&service, true),
            ServiceEvent::Recovered(service) => {
                info!(%service, "service recovered");
                telemetry.metrics.recovered(&service.name);
                telemetry.state_page.show(&service, true);
                telemetry
                    .state_page
                    .update(&service, |state| state.recovered = Some(now));
                if self.opens_windows {
                    self.open(&service, Some(now), now);
                } else {
                    self.missed.insert(service, now);
                }
            }
            ServiceEvent::Lost(service) => {
                info!(%service, "service is not ready");
                telemetry.state_page.show(&service, false);
            }
            ServiceEvent::Gone(service) => {
                info!(%service, "service is gone");
                telemetry.state_page.remove(&service);
                self.missed.remove(&service);
                let message = WorkerMessage::Close {
                    service: service.name.clone(),
                };
                self.send(&service.namespace, message);
                let mut all = self.services.iter();
                if !all.any(|(other, _)| other.namespace == service.namespace) {
                    // The worker ends once it has processed its messages.
                    self.workers.remove(&service.namespace);
                }
            }
        }
    }

    /// Opens windows when this replica starts to act: those of the recoveries that it has seen as a
    /// standby, and the first time one for every other ready service, whose recovery it may not
    /// have seen. Interrupts all windows when it stops.
    fn follow_leadership(&mut self, leadership: &mut Receiver<Leadership>) {
        let leads = leadership.borrow_and_update().may_act(Instant::now());
        let opens_windows = leads || self.context.rules.dry_run;
        if opens_windows == self.opens_windows || !self.services.has_synced() {
            return;
        }
        self.opens_windows = opens_windows;
        let message = if opens_windows {
            WorkerMessage::Resume
        } else {
            WorkerMessage::Suspend
        };
        for worker in self.workers.values() {
            // An error means that the worker has ended; then it has no windows.
            let _ = worker.send(message.clone());
        }
        if !opens_windows {
            return;
        }
        let (now, watch_duration) = (self.context.clock.now(), self.context.rules.watch_duration);
        let mut missed = std::mem::take(&mut self.missed);
        missed.retain(|_, recovered| now.since(*recovered) < watch_duration);
        for (service, recovered) in &missed {
            self.open(service, Some(*recovered), now);
        }
        if std::mem::replace(&mut self.has_acted, true) {
            return;
        }
        let ready = self.services.iter();
        let ready = ready.filter(|(service, is_ready)| *is_ready && !missed.contains_key(service));
        let ready: Vec<ServiceRef> = ready.map(|(service, _)| service.clone()).collect();
        let spread = watch_duration.mul_f64(SPREAD_FRACTION);
        for service in ready {
            // At a random time soon, so that the pods of all namespaces are not listed at once.
            let from = now.after(spread.mul_f64(fastrand::f64()));
            self.open(&service, None, from);
        }
    }

    fn open(&mut self, service: &ServiceRef, recovered: Option<Time>, from: Time) {
        let message = WorkerMessage::Open {
            service: service.name.clone(),
            recovered,
            from,
        };
        self.send(&service.namespace, message);
    }

    /// Sends a message to the worker of a namespace, and starts the worker if there is none.
    fn send(&mut self, namespace: &str, message: WorkerMessage) {
        if let Some(worker) = self.workers.get(namespace) {
            let _ = worker.send(message);
            return;
        }
        if matches!(message, WorkerMessage::Close { .. }) {
            return;
        }
        let (worker, messages) = mpsc::unbounded_channel();
        let _ = worker.send(message);
        self.workers.insert(namespace.to_owned(), worker);
        let context = Arc::clone(&self.context);
        self.tracker
            .spawn(run_worker(namespace.into(), context, messages));
    }

    fn update_readiness(&self, ready: &ReadyHandle) {
        let metrics = &self.context.telemetry.metrics;
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        metrics.services.set(count(self.services.iter().count()));
        let are_ready = self.services.iter().filter(|(_, is_ready)| *is_ready);
        metrics.ready_services.set(count(are_ready.count()));
        if self.services.has_synced() {
            ready.ready();
            return;
        }
        match &self.watch_error {
            Some(error) => ready.not_ready(format!("{WAITING}: {error}")),
            None => ready.not_ready(WAITING),
        }
    }
}

/// Runs the worker of a namespace until its sender is dropped. A worker that panics is restarted
/// and does not affect the others.
async fn run_worker(
    namespace: Arc<str>,
    context: Arc<WeederContext>,
    messages: mpsc::UnboundedReceiver<WorkerMessage>,
) {
    // Each worker gets the messages that its predecessor left.
    let messages = Mutex::new(messages);
    let start = || async {
        let worker = NamespaceWorker::new(Arc::clone(&namespace), Arc::clone(&context));
        worker.run(&mut *messages.lock().await).await;
    };
    let on_panic = |delay| {
        context.telemetry.metrics.task_restarts.inc();
        let namespace = &*namespace;
        error!(
            namespace,
            "namespace worker panicked; restarting in {delay:?}"
        );
    };
    supervise(start, &context.cancelled, on_panic).await;
}
