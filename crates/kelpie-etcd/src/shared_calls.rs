//! The calls behind the checks. Concurrent checks share each call.

use std::sync::Arc;
use std::time::Duration;

use kelpie_health::{HealthBuilder, SharedCall};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::{Instant, sleep, timeout};

use crate::defrag::{DefragState, DefragWatch};
use crate::probe_problems::ProbeProblems;
use crate::raft_progress::RaftProgress;
use crate::read_index::{ReadIndexCall, ReadIndexOutcome};
use crate::{EtcdError, EtcdMetrics, EtcdOptions, Member, MemberStatus, ServingStatus};

/// Upper bound of [`SharedCalls::slow_after`].
const SLOW_AFTER: Duration = Duration::from_millis(100);

/// Interval between two reads of the metrics while a call is in flight.
const METRICS_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum age of the metrics that count as current.
const CURRENT: Duration = Duration::from_millis(100);

/// Maximum age of the metrics that [`SharedCalls::was_defragmenting`] considers.
const RECENT: Duration = Duration::from_secs(2);

type EtcdCall<T> = SharedCall<Result<T, EtcdError>>;

/// The shared calls to one member, and what their results show over time.
pub(crate) struct SharedCalls {
    pub(crate) member: Arc<dyn Member>,
    pub(crate) read: EtcdCall<()>,
    pub(crate) status: EtcdCall<MemberStatus>,
    pub(crate) ping: EtcdCall<ServingStatus>,
    pub(crate) metrics: EtcdCall<EtcdMetrics>,
    pub(crate) read_index: SharedCall<ReadIndexOutcome>,
    pub(crate) raft_progress: Arc<Mutex<RaftProgress>>,
    /// Maximum age of a run that is joined. It is the readyz deadline, so that a probe that starts
    /// a new run of a check also starts new calls.
    pub(crate) max_age: Duration,
    /// Nearly every call ends within this time. Only slower calls are investigated.
    pub(crate) slow_after: Duration,
    detects_defrag: bool,
    problems: ProbeProblems,
}

impl SharedCalls {
    pub(crate) fn new(
        member: &Arc<dyn Member>,
        options: &EtcdOptions,
        problems: &ProbeProblems,
        corrupt_alarm: &Gauge,
        builder: &mut HealthBuilder,
    ) -> Arc<Self> {
        let raft_progress: Arc<Mutex<RaftProgress>> = Arc::default();
        let deadlines = &options.health;
        let (readyz, livez) = (deadlines.readyz_deadline, deadlines.livez_deadline);

        let callee = Arc::clone(member);
        let recorder = problems.clone();
        let read = builder.shared_call("call-range", move || {
            let (reading, recorder) = (callee.serializable_read(), recorder.clone());
            async move {
                let read = reading.await;
                recorder.record("range", &read);
                read
            }
        });

        let callee = Arc::clone(member);
        let (recorder, progress) = (problems.clone(), Arc::clone(&raft_progress));
        let alarm = corrupt_alarm.clone();
        let status = builder.shared_call("call-status", move || {
            let calling = callee.status();
            let (recorder, progress) = (recorder.clone(), Arc::clone(&progress));
            let alarm = alarm.clone();
            async move {
                let status = calling.await;
                recorder.record("status", &status);
                match &status {
                    Ok(status) => {
                        alarm.set(i64::from(status.is_corrupt));
                        progress.lock().record_status(Instant::now(), status);
                    }
                    Err(EtcdError::ConnectionRefused | EtcdError::ConnectionLost(_)) => {
                        progress.lock().reset();
                    }
                    Err(_) => {}
                }
                status
            }
        });

        let callee = Arc::clone(member);
        let ping = builder.shared_call("call-health", move || callee.ping());

        let callee = Arc::clone(member);
        let recorder = problems.clone();
        // The metrics must arrive early enough for a readyz response.
        let limit = readyz.min(livez) * 2 / 3;
        let metrics = builder.shared_call("call-metrics", move || {
            let (calling, recorder) = (callee.metrics(), recorder.clone());
            async move {
                let metrics = timeout(limit, calling).await;
                let metrics = metrics.unwrap_or(Err(EtcdError::NoResponse));
                recorder.record("metrics", &metrics);
                if metrics.is_ok() {
                    recorder.listener_answered();
                }
                metrics
            }
        });

        let call = ReadIndexCall {
            member: Arc::clone(member),
            status: status.clone(),
            metrics: metrics.clone(),
            raft_progress: Arc::clone(&raft_progress),
            history: Arc::default(),
            max_age: readyz,
            detects_defrag: options.defrag_detection,
        };
        let read_index = builder.shared_call("call-read-index", move || call.clone().run());

        Arc::new(Self {
            member: Arc::clone(member),
            read,
            status,
            ping,
            metrics,
            read_index,
            raft_progress,
            max_age: readyz,
            // A short deadline leaves less time to investigate.
            slow_after: SLOW_AFTER.min(readyz.min(livez) / 5),
            detects_defrag: options.defrag_detection,
            problems: problems.clone(),
        })
    }

    /// Returns the result of a call, or `None` once a defragmentation is seen during the call.
    pub(crate) async fn unless_defrag<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        let mut watch = self.watch_defrag();
        tokio::select! {
            biased;
            result = call => Some(result),
            () = self.wait_for_defrag(&mut watch) => None,
        }
    }

    /// Completes once a defragmentation is seen.
    ///
    /// The metrics are first read after `slow_after`, because nearly every call ends before.
    pub(crate) async fn wait_for_defrag(&self, watch: &mut DefragWatch) {
        sleep(self.slow_after).await;
        while self.observe_defrag(watch).await != DefragState::Running {
            sleep(METRICS_POLL_INTERVAL).await;
        }
    }

    /// Records the current defragmentation state, and returns the state since the watch began.
    pub(crate) async fn observe_defrag(&self, watch: &mut DefragWatch) -> DefragState {
        if !self.detects_defrag {
            let idle = EtcdMetrics {
                defrag_inflight: Some(false),
                ..EtcdMetrics::default()
            };
            watch.observe(Some(&idle), None);
            return DefragState::Idle;
        }
        let metrics = self.metrics_within(CURRENT).await;
        let inflight = metrics.as_ref().and_then(|metrics| metrics.defrag_inflight);
        // The health service is needed only if the metrics lack the series.
        let ping = match inflight {
            Some(_) => None,
            None => self.ping.get(CURRENT).await.ok(),
        };
        self.check_metrics_listener(ping.as_ref());
        watch.observe(metrics.as_ref(), ping.as_ref());
        watch.state()
    }

    /// Records a problem if only the metrics listener named by `--metrics-url` does not answer.
    ///
    /// The caller has just read the metrics. `ping` is the result of the health service, which is
    /// called only if the metrics lack the defragmentation series.
    pub(crate) fn check_metrics_listener(&self, ping: Option<&Result<ServingStatus, EtcdError>>) {
        let answers = |ping: &Result<_, EtcdError>| {
            ping.as_ref().map_or_else(EtcdError::is_response, |_| true)
        };
        if self.member.has_own_metrics_listener()
            && let Some((Ok(metrics), _)) = self.metrics.last()
        {
            self.problems
                .record_listener(&metrics, ping.is_some_and(answers));
        }
    }

    /// Returns the member's metrics, at most `max_age` old. `None` if they are not available.
    pub(crate) async fn metrics_within(&self, max_age: Duration) -> Option<EtcdMetrics> {
        self.metrics.get(max_age).await.ok()?.ok()
    }

    pub(crate) fn watch_defrag(&self) -> DefragWatch {
        let last = self
            .metrics
            .last()
            .and_then(|(metrics, _)| metrics.ok()?.ok());
        DefragWatch::new(last.as_ref())
    }

    /// Returns true if the last results show a defragmentation. It makes no call.
    pub(crate) fn was_defragmenting(&self) -> bool {
        let recent = |age: Duration| age < RECENT;
        let metrics = self.metrics.last().filter(|(_, age)| recent(*age));
        let metrics = metrics.and_then(|(metrics, _)| metrics.ok()?.ok());
        let ping = self.ping.last().filter(|(_, age)| recent(*age));
        let ping = ping.and_then(|(ping, _)| ping.ok());
        let state = DefragState::from_signals(metrics.as_ref(), ping.as_ref());
        self.detects_defrag && state == DefragState::Running
    }

    pub(crate) fn stalled_for(&self, now: Instant) -> Option<Duration> {
        self.raft_progress.lock().stalled_for(now)
    }
}
