//! Access to the targets in the seed: the queue, the time limits and the right to write.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use kelpie_core::Time;
use kelpie_core::prober::fence::{Call, KeptRecord, Purpose, Reply, Step};
use kelpie_core::prober::{ProbeSettings, Target};
use kelpie_kube::AnchoredClock;
use kelpie_kube::actuator::{ActuatorError, Actuators, BatchReader, TargetScope};
use kelpie_kube::client::ClusterClient;
use kelpie_kube::leader::Leadership;
use kelpie_kube::lease_records::{LeaseRecords, RecordError, RecordKey};
use kelpie_runtime::watch::Receiver;
use tokio::time::{Instant, interval_at, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::measurements::{PLACE_LIMIT, SeedMeasurements};
use super::watched_targets::WatchedTargets;
use crate::deadline_queue::{DeadlineQueue, Permit, Priority};

/// The number of fencing calls under way at once, until the seed shows what it can take.
const CALLS_AT_START: u32 = 64;
/// A call is tried a second time after this, or after three times the measured latency.
const FIRST_OVERTAKING: Duration = Duration::from_millis(500);

/// Access to the targets in the seed. Clones share the queue and the measurements.
#[derive(Clone)]
pub(crate) struct SeedAccess {
    /// For refreshes: together with those of other clusters, behind the limit on routine requests.
    batch_reader: BatchReader,
    /// For flows: nothing in front of it but the queue.
    actuators: Actuators,
    /// For second tries: over connections of their own.
    overtaking: Actuators,
    pub(super) queue: DeadlineQueue,
    pub(super) leadership: Receiver<Leadership>,
    pub(super) measurements: SeedMeasurements,
    pub(super) watched: WatchedTargets,
    /// The records on the leader Lease; `None` in tests.
    records: Option<LeaseRecords>,
    clock: AnchoredClock,
    /// The grace period of clusters that have none of their own.
    pub(super) grace: Duration,
    /// Targets are read, but never written.
    pub(super) dry_run: bool,
}

/// The right by which a write is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum WriteRight {
    /// This replica leads.
    Leader,
    /// This replica is a standby. Its decision counts until this instant.
    Standby { until: Instant },
}

/// The circumstances of a call.
#[derive(Clone, Debug)]
pub(super) struct CallContext {
    /// The deadline of the flow, which decides its place in the queue.
    pub(super) deadline: Time,
    pub(super) right: WriteRight,
    /// Cancelled when the verdict changes: a call that was not sent by then is dropped.
    pub(super) cancel: CancellationToken,
    /// No call of this cluster is unanswered, so one may be left to itself.
    pub(super) can_leave: bool,
}

/// The reason why a step was not carried out.
#[derive(Debug)]
pub(super) enum StepError {
    /// This replica may not write, or cannot be sure that it may.
    NotAllowed,
    /// The verdict changed before the call was sent.
    Superseded,
    /// The right to write ended while the call was under way. It may have happened.
    CutOff,
    /// The call is not answered as fast as the seed answers others. It goes on by itself: if the
    /// write happens, the next one conflicts with it.
    Unanswered(AbortOnDropHandle<()>),
    Refused(ActuatorError),
    /// The leader Lease was not changed.
    NotKept(RecordError),
}

impl SeedAccess {
    pub(crate) fn new(
        seed: &ClusterClient,
        batch_reader: BatchReader,
        leadership: Receiver<Leadership>,
        clock: AnchoredClock,
        settings: &ProbeSettings,
        dry_run: bool,
    ) -> Self {
        Self {
            batch_reader,
            actuators: seed.actuators().clone(),
            overtaking: seed.overtaking_actuators(),
            queue: DeadlineQueue::new(CALLS_AT_START),
            leadership,
            measurements: SeedMeasurements::default(),
            watched: WatchedTargets::default(),
            records: None,
            clock,
            grace: settings.grace,
            dry_run,
        }
    }

    /// Sets the place for records of targets that cannot be annotated. The second value is the
    /// future that passes them to the executors and their number to `count`; it has to be spawned
    /// once.
    pub(crate) fn with_records(
        mut self,
        records: LeaseRecords,
        targets: Arc<[Target]>,
        count: impl Fn(usize) + Send,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let watched = self.watched.clone();
        let following = watched.follow_records(targets, records.records(), count);
        self.records = Some(records);
        (self, following)
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Returns access with the right to write of one cluster.
    pub(crate) fn with_leadership(self, leadership: Receiver<Leadership>) -> Self {
        Self { leadership, ..self }
    }

    /// Returns whether the leader Lease has the record of a target in this namespace.
    pub(crate) fn has_record(&self, namespace: &str) -> bool {
        self.records.as_ref().is_some_and(|records| {
            let records = records.records();
            let records = records.borrow();
            records.keys().any(|key| key.namespace == namespace)
        })
    }

    pub(crate) fn leadership(&self) -> Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Returns the name of the Lease for records of targets that cannot be annotated.
    pub(super) fn record_lease(&self) -> String {
        let records = self.records.as_ref();
        records.map(|it| it.lease().to_string()).unwrap_or_default()
    }

    /// Returns the future that watches the targets. It has to be spawned once.
    pub(crate) fn watch(
        &self,
        targets: Arc<[Target]>,
        namespace: Option<String>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let actuators = self.actuators.clone();
        self.watched.clone().run(actuators, targets, namespace)
    }

    /// Takes in the latency of another request to the seed, such as a renewal of the leader Lease.
    /// A request without a response counts with the time that it was given.
    pub(crate) fn record_latency(&self, took: Duration) {
        self.measurements
            .record_plain_latency(self.clock.now(), took);
    }

    /// Carries a step out.
    pub(super) async fn perform(
        &self,
        scope: &TargetScope,
        target: &Target,
        step: &Step,
        context: &CallContext,
    ) -> Result<Reply, StepError> {
        let deadline = context.deadline;
        let (record, keeps) = match &step.call {
            Call::KeepRecord(keep) => (Some(keep.kept()), true),
            Call::DropRecord(drop) => (Some(drop.kept()), false),
            _ => (None, false),
        };
        if let Some(record) = record {
            return self
                .change_record(scope, target, record, keeps, context.right)
                .await;
        }
        let urgency = match step.purpose {
            Purpose::Refresh => {
                let read = self.batch_reader.read(scope, target).await;
                let observed = read.ok_or(StepError::Superseded)?;
                return observed.map(Reply::Read).map_err(StepError::Refused);
            }
            // A target that is fenced already must not delay one that is not.
            Purpose::Readiness | Purpose::Upkeep => Priority::Patient,
            Purpose::Flow | Purpose::Attempt if step.is_deadline_target => {
                Priority::Pressing(deadline)
            }
            Purpose::Flow | Purpose::Attempt => Priority::Deadline(deadline),
        };
        let cancel = &context.cancel;
        let turn = cancel.run_until_cancelled(self.queue.enter(urgency)).await;
        let Some(permit) = turn.filter(|_| !cancel.is_cancelled()) else {
            return Err(StepError::Superseded);
        };
        // Checked right before the write: a process that was paused in between finds out here.
        let is_write = step.call.is_write();
        if is_write && !self.may_write(context.right) {
            return Err(StepError::NotAllowed);
        }
        let limit = step.time_limit;
        let can_leave = context.can_leave && step.can_bypass_webhook() && self.records.is_some();
        let leave_at = can_leave.then(|| Instant::now() + self.bypass_delay());
        let (access, right, call) = (self.clone(), context.right, step.call.clone());
        let (scope, target) = (scope.clone(), target.clone());
        // Boxed after the wait: a call takes 7 KB while it is under way, and at the start every
        // cluster of a seed has several in the queue.
        let mut call = Box::pin(async move {
            let made = access.call(&scope, &target, &call, limit, permit, leave_at);
            tokio::select! {
                biased;
                reply = made => reply.map_err(StepError::Refused),
                () = access.right_ended(right), if is_write => Err(StepError::CutOff),
            }
        });
        let Some(leave_at) = leave_at else {
            return call.await;
        };
        if let Ok(reply) = timeout_at(leave_at, &mut call).await {
            return reply;
        }
        let call = tokio::spawn(async { drop(call.await) });
        Err(StepError::Unanswered(AbortOnDropHandle::new(call)))
    }

    /// Returns the time after which a write that a webhook may delay has taken too long: twice the
    /// time of the second try.
    fn bypass_delay(&self) -> Duration {
        let latency = self.measurements.plain_latency(self.clock.now());
        FIRST_OVERTAKING.max(latency * 3) * 2
    }

    /// Keeps the record of a target on the leader Lease, or drops it.
    async fn change_record(
        &self,
        scope: &TargetScope,
        target: &Target,
        record: &KeptRecord,
        keeps: bool,
        right: WriteRight,
    ) -> Result<Reply, StepError> {
        let (Some(records), Some(until)) = (&self.records, self.right_until(right)) else {
            return Err(StepError::NotAllowed);
        };
        let key = RecordKey {
            namespace: scope.namespace.to_string(),
            target: target.resource.clone(),
        };
        let changed = async {
            if keeps {
                records.keep(key, record.clone(), until).await
            } else {
                records.drop_record(key, record.clone(), until).await
            }
        };
        tokio::select! {
            biased;
            changed = changed => match changed {
                Ok(()) => Ok(Reply::LeaseWritten),
                Err(RecordError::Outdated { .. }) => Ok(Reply::Conflict),
                Err(error) => Err(StepError::NotKept(error)),
            },
            () = self.right_ended(right) => Err(StepError::CutOff),
        }
    }

    #[cfg(test)]
    pub(super) fn clock_now(&self) -> Time {
        self.clock.now()
    }

    fn may_write(&self, right: WriteRight) -> bool {
        let now = Instant::now();
        match right {
            WriteRight::Leader => self.leadership.borrow().may_act(now),
            WriteRight::Standby { until } => !self.dry_run && now < until,
        }
    }

    /// Returns the end of the right to write, which a renewal of the leadership moves forward;
    /// `None` if it has ended.
    fn right_until(&self, right: WriteRight) -> Option<Instant> {
        match (right, self.leadership.borrow()) {
            _ if !self.may_write(right) => None,
            (WriteRight::Standby { until }, _)
            | (WriteRight::Leader, Leadership::Leader { until }) => Some(until),
            (WriteRight::Leader, Leadership::Standby) => None,
        }
    }

    /// Waits for the end of the right to write.
    async fn right_ended(&self, right: WriteRight) {
        while let Some(until) = self.right_until(right) {
            sleep_until(until).await;
        }
    }

    /// Makes a call. A second try may overtake it: the connection may be half open. Both rest on
    /// the same version, so at most one write happens. A call that takes long gives its place in
    /// the queue back, but goes on.
    async fn call(
        &self,
        scope: &TargetScope,
        target: &Target,
        call: &Call,
        limit: Duration,
        permit: Permit,
        leave_at: Option<Instant>,
    ) -> Result<Reply, ActuatorError> {
        let start = Instant::now();
        let latency = self.measurements.latency(self.clock.now());
        let overtake_at = start + FIRST_OVERTAKING.max(latency * 3);
        let (first, second) = (
            self.actuators.with_limit(limit),
            self.overtaking.with_limit(limit),
        );
        let mut permit = Some(permit);
        let mut second = Some(&second);
        let mut tries = FuturesUnordered::new();
        tries.push(self.measure(scope, target, call, &first));
        let mut still_waiting = interval_at(start + PLACE_LIMIT, PLACE_LIMIT);
        loop {
            tokio::select! {
                biased;
                Some(result) = tries.next() => {
                    // A failed try says nothing about the other one. After a conflict the target is
                    // read again, which shows a write of the other try as well.
                    if result.is_ok() || tries.is_empty() {
                        return result;
                    }
                }
                () = sleep_until(overtake_at), if second.is_some() => {
                    if let Some(actuators) = second.take() {
                        tries.push(self.measure(scope, target, call, actuators));
                    }
                }
                _ = still_waiting.tick() => {
                    permit.take();
                    // A webhook that hangs says nothing about the seed.
                    if leave_at.is_none_or(|at| Instant::now() < at) {
                        self.measurements.record_latency(self.clock.now(), start.elapsed());
                    }
                }
            }
        }
    }

    /// Makes one try of a call and measures the seed by it.
    fn measure<'a>(
        &'a self,
        scope: &'a TargetScope,
        target: &'a Target,
        call: &'a Call,
        actuators: &'a Actuators,
    ) -> BoxFuture<'a, Result<Reply, ActuatorError>> {
        Box::pin(async move {
            let start = Instant::now();
            let result = actuators.perform(scope, target, call).await;
            let took = start.elapsed();
            let now = self.clock.now();
            match &result {
                Err(error) if error.is_webhook_failure() => {}
                _ => self.measurements.record_latency(now, took),
            }
            match &result {
                Ok(_) => self.queue.succeeded(),
                Err(error) if error.is_overload() => self.queue.overloaded(),
                Err(_) => {}
            }
            result
        })
    }
}
