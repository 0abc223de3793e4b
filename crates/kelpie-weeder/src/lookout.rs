//! The lookout: slices in, orders to namespaces out.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use kelpie_bell::Listener;
use kelpie_core::Time;
use kelpie_core::weeder::{Readiness, ServiceRef, Services, Swing};
use kelpie_health::{Pulse, ReadyHandle};
use kelpie_kube::leader::Leadership;
use kelpie_kube::seed::{Change, SliceFacts, WatchError};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::plot::{Common, Order, Plot};

/// The loop beats at least this often.
const BEAT: Duration = Duration::from_secs(5);
/// A task that ended by a defect is started again after this.
const RESTART: Duration = Duration::from_secs(10);
/// Windows of services that are ready when we begin are spread over this part of a window.
const SPREAD: f64 = 0.1;

/// Which services there are, and who works for them.
pub(crate) struct Lookout {
    common: Arc<Common>,
    /// `None`: all namespaces.
    namespace: Option<String>,
    services: Services,
    plots: BTreeMap<String, mpsc::UnboundedSender<Order>>,
    /// What the watch last complained about.
    complaint: Option<String>,
    /// Windows are open: this replica leads, or only says what it would do.
    is_at_work: bool,
    tracker: TaskTracker,
}

impl Lookout {
    /// Nothing is known yet; every task hangs on `tracker` and on the token in `common`.
    pub(crate) fn new(
        common: Arc<Common>,
        namespace: Option<String>,
        readiness: Readiness,
        tracker: TaskTracker,
    ) -> Self {
        Self {
            common,
            namespace,
            services: Services::new(readiness),
            plots: BTreeMap::new(),
            complaint: None,
            is_at_work: false,
            tracker,
        }
    }

    /// Follows the slices until cancelled.
    pub(crate) async fn run(mut self, pulse: Pulse, ready: ReadyHandle) {
        let names: Vec<&str> = self.common.selectors.keys().map(String::as_str).collect();
        let slices = self.common.seed.slices(&names, self.namespace.as_deref());
        let mut slices = pin!(slices);
        let mut leadership = self.common.leadership.clone();
        let cancelled = self.common.cancelled.clone();
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => break,
                () = leadership.heard() => {}
                Some(change) = slices.next() => {
                    let swings = self.take(change);
                    for swing in swings {
                        self.follow(swing);
                    }
                }
                _ = beat.tick() => {}
            }
            pulse.beat();
            self.follow_leadership(&mut leadership);
            self.show_readiness(&ready);
        }
    }

    fn take(&mut self, change: Change<SliceFacts>) -> Vec<Swing> {
        match change {
            Change::Restarted => self.services.begin_list(),
            Change::Applied(facts) => {
                let SliceFacts {
                    namespace,
                    name,
                    slice,
                } = facts;
                return self.services.put(&namespace, &name, slice);
            }
            Change::Deleted { namespace, name } => return self.services.remove(&namespace, &name),
            Change::Synced => {
                self.complaint = None;
                let swings = self.services.end_list();
                for (service, is_ready) in self.services.iter() {
                    self.common.audience.board.show(service, is_ready);
                }
                return swings;
            }
            Change::Failed(error) => self.complain(&error),
        }
        Vec::new()
    }

    fn complain(&mut self, error: &WatchError) {
        self.common.audience.metrics.watch_failures.inc();
        let text = error.to_string();
        if self.complaint.as_ref() != Some(&text) {
            warn!("the watch on EndpointSlices broke and is begun again: {text}");
            self.complaint = Some(text);
        }
    }

    fn follow(&mut self, swing: Swing) {
        let now = self.common.clock.now();
        let audience = &self.common.audience;
        match swing {
            // Its window opens when this replica begins to act.
            Swing::FoundReady(service) => audience.board.show(&service, true),
            Swing::Recovered(service) => {
                info!(%service, "the service is back");
                audience.metrics.recovered(&service.name);
                audience.board.show(&service, true);
                let note = |state: &mut crate::board::ServiceState| state.recovered = Some(now);
                audience.board.update(&service, note);
                if self.is_at_work {
                    self.open(&service, now, now);
                }
            }
            Swing::Lost(service) => {
                info!(%service, "the service is not ready");
                audience.board.show(&service, false);
            }
            Swing::Gone(service) => {
                info!(%service, "the service is gone");
                audience.board.wipe(&service);
                let order = Order::Close {
                    service: service.name.clone(),
                };
                self.send(&service.namespace, order);
                let mut all = self.services.iter();
                if !all.any(|(other, _)| other.namespace == service.namespace) {
                    // Its task ends when it has obeyed.
                    self.plots.remove(&service.namespace);
                }
            }
        }
    }

    /// A replica that begins to act opens a window for each ready service, as a new process does; one
    /// that stops closes all.
    fn follow_leadership(&mut self, leadership: &mut Listener<Leadership>) {
        let leads = leadership.value().may_act(Instant::now());
        let is_at_work = leads || self.common.rules.dry_run;
        if is_at_work == self.is_at_work || !self.services.is_known() {
            return;
        }
        self.is_at_work = is_at_work;
        if !is_at_work {
            for plot in self.plots.values() {
                // A task that has ended has no windows.
                let _ = plot.send(Order::CloseAll);
            }
            return;
        }
        let now = self.common.clock.now();
        let ready = self.services.iter().filter(|(_, is_ready)| *is_ready);
        let ready: Vec<ServiceRef> = ready.map(|(service, _)| service.clone()).collect();
        for service in ready {
            self.open(&service, now, self.later(now));
        }
    }

    /// Spread, so that a start does not list the pods of all namespaces at once.
    fn later(&self, now: Time) -> Time {
        let spread = self.common.rules.watch_duration.mul_f64(SPREAD);
        now.after(spread.mul_f64(fastrand::f64()))
    }

    fn open(&mut self, service: &ServiceRef, recovered: Time, from: Time) {
        let order = Order::Open {
            service: service.name.clone(),
            recovered,
            from,
        };
        self.send(&service.namespace, order);
    }

    fn send(&mut self, namespace: &str, order: Order) {
        if let Some(plot) = self.plots.get(namespace) {
            let _ = plot.send(order);
            return;
        }
        if matches!(order, Order::Close { .. }) {
            return;
        }
        let (plot, orders) = mpsc::unbounded_channel();
        let _ = plot.send(order);
        self.plots.insert(namespace.to_owned(), plot);
        let common = Arc::clone(&self.common);
        self.tracker
            .spawn(supervise(namespace.into(), common, orders));
    }

    fn show_readiness(&self, ready: &ReadyHandle) {
        let metrics = &self.common.audience.metrics;
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        metrics.services.set(count(self.services.iter().count()));
        let are_ready = self.services.iter().filter(|(_, is_ready)| *is_ready);
        metrics.ready_services.set(count(are_ready.count()));
        if self.services.is_known() {
            ready.ready();
            return;
        }
        match &self.complaint {
            Some(complaint) => ready.not_ready(format!("no EndpointSlices yet: {complaint}")),
            None => ready.not_ready("no EndpointSlices yet"),
        }
    }
}

/// Runs a namespace's task until nobody orders any more. A defect in one must not end the others.
async fn supervise(
    namespace: Arc<str>,
    common: Arc<Common>,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    loop {
        let plot = Plot::new(Arc::clone(&namespace), Arc::clone(&common));
        let run = AssertUnwindSafe(plot.run(&mut orders)).catch_unwind();
        if run.await.is_ok() {
            return;
        }
        common.audience.metrics.task_restarts.inc();
        error!(
            namespace = &*namespace,
            "its task ended by a defect, started again in {RESTART:?}"
        );
        if common
            .cancelled
            .run_until_cancelled(sleep(RESTART))
            .await
            .is_none()
        {
            return;
        }
    }
}
