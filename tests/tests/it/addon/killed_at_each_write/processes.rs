//! The operator and the status controller, one of which is killed and restarted.

use std::fmt;
use std::time::Duration;

use kelpie_e2e::landscape::{InterceptAction, InterceptedRequest, Interceptor};
use kelpie_e2e::{Kelpie, poll};
use tokio::time::Instant;

use super::Outcome;
use super::fixture::AddonNamespace;
use crate::addon::fixture::{TIMEOUT, true_conditions};

/// Time without a change after which a phase counts as complete.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// One of the addon's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddonProcess {
    Operator,
    Status,
}

/// The message that never arrives because the process is killed.
#[derive(Clone, Copy, Debug)]
pub(super) enum LostMessage {
    Request,
    Response,
}

/// A crash of one process at one of its writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    pub(super) process: AddonProcess,
    /// Number of the write, starting at 1.
    pub(super) at: usize,
    pub(super) lost: LostMessage,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, at, lost } = self;
        write!(f, "{process:?} at write {at}, {lost:?} lost")
    }
}

/// The running processes and the crash that is still to come.
pub(super) struct Processes<'a> {
    namespace: &'a AddonNamespace<'a>,
    operator: Option<Kelpie>,
    status: Option<Kelpie>,
    crash: Option<(Crash, Interceptor)>,
    pub(super) crashed: bool,
}

impl<'a> Processes<'a> {
    pub(super) async fn new(namespace: &'a AddonNamespace<'a>, crash: Option<Crash>) -> Self {
        let crash = match crash {
            None => None,
            Some(crash) => {
                let interceptor = Interceptor::start(&namespace.spoke.api).await.unwrap();
                let mut writes = 0;
                interceptor.set_rule(move |request| {
                    writes += usize::from(is_write(request));
                    match crash.lost {
                        _ if writes != crash.at || !is_write(request) => InterceptAction::Pass,
                        LostMessage::Request => InterceptAction::Hold,
                        LostMessage::Response => InterceptAction::HoldResponse,
                    }
                });
                Some((crash, interceptor))
            }
        };
        let interceptor = |process| {
            let crash = crash.as_ref().filter(|(crash, _)| crash.process == process);
            crash.map(|(_, interceptor)| interceptor)
        };
        let status = interceptor(AddonProcess::Status);
        let status = namespace.start_process(AddonProcess::Status, status).await;
        let operator = interceptor(AddonProcess::Operator);
        let operator = namespace
            .start_process(AddonProcess::Operator, operator)
            .await;
        Self {
            status: Some(status),
            operator: Some(operator),
            namespace,
            crash,
            crashed: false,
        }
    }

    /// Kills the process once its write is held, and starts it again.
    async fn crash_if_due(&mut self) {
        let is_due = |(_, interceptor): &mut (Crash, Interceptor)| !interceptor.held().is_empty();
        let Some((crash, interceptor)) = self.crash.take_if(is_due) else {
            return;
        };
        let process = match crash.process {
            AddonProcess::Operator => &mut self.operator,
            AddonProcess::Status => &mut self.status,
        };
        process.take().unwrap().kill();
        // The held message is lost with the interceptor.
        drop(interceptor);
        *process = Some(self.namespace.start_process(crash.process, None).await);
        self.crashed = true;
    }

    /// Waits until the predicate is true, and kills and restarts the process meanwhile if it is
    /// due.
    pub(super) async fn until(&mut self, what: &str, mut predicate: impl AsyncFnMut() -> bool) {
        let found = poll::until(what, TIMEOUT, async || {
            self.crash_if_due().await;
            Ok(predicate().await.then_some(()))
        });
        if let Err(error) = found.await {
            panic!(
                "{error:#}; the last snapshot was {:#}",
                self.namespace.snapshot().await
            );
        }
    }

    /// Waits until this condition is True, and then for the end of the phase: for the snapshot of
    /// the reference run, or, in the reference run itself, until nothing changes any more.
    pub(super) async fn run_phase(
        &mut self,
        outcome: &mut Outcome,
        reference: Option<&Outcome>,
        condition: &str,
    ) {
        let namespace = self.namespace;
        self.until(condition, async || {
            true_conditions(&namespace.addon().await) == [condition]
        })
        .await;
        let mut snapshot = namespace.snapshot().await;
        if let Some(reference) = reference {
            let expected = &reference.snapshots[outcome.snapshots.len()];
            self.until("the same snapshot", async || {
                snapshot = namespace.snapshot().await;
                snapshot == *expected
            })
            .await;
        } else {
            let mut since = Instant::now();
            self.until("no more changes", async || {
                let now = namespace.snapshot().await;
                if now != snapshot {
                    (snapshot, since) = (now, Instant::now());
                }
                since.elapsed() >= SETTLE_TIME
            })
            .await;
        }
        outcome.snapshots.push(snapshot);
    }
}

fn is_write(request: &InterceptedRequest) -> bool {
    request.method != "GET" && !request.path.contains("/events")
}
