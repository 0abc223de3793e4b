//! Reads from the member's own store. This is the only check of livez by default, and so the one
//! that restarts etcd.

use std::sync::Arc;
use std::time::Duration;

use kelpie_health::{CheckResult, FailureReason, HealthCheck};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::EtcdError;
use crate::boot::{SilentMember, hang_reason};
use crate::defrag::DefragState;
use crate::shared_calls::SharedCalls;

/// The check of livez. It fails only on evidence about etcd itself.
pub(crate) struct LivezRead {
    pub(crate) calls: Arc<SharedCalls>,
    /// After this time, shortly before the response is due, the read counts as hanging.
    pub(crate) timeout: Duration,
    pub(crate) boot_grace: Duration,
}

/// The check of readyz. It fails on anything that prevents the read, except a defragmentation.
pub(crate) struct ReadyzRead(pub(crate) Arc<SharedCalls>);

/// The outcome of the read, as far as it matters to livez.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ReadOutcome {
    Answered,
    Failed(EtcdError),
    Hangs,
}

/// The outcome of a call to the gRPC health service during the read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PingOutcome {
    /// etcd responded, even if with an error.
    Answered,
    NoResponse,
    /// No process listens at the endpoint any more.
    Refused,
    /// A problem of the probe itself prevented the call.
    Unknown,
}

impl PingOutcome {
    fn of<T>(ping: Option<Result<T, EtcdError>>) -> Self {
        match ping {
            None | Some(Err(EtcdError::NoResponse)) => Self::NoResponse,
            Some(Ok(_)) => Self::Answered,
            Some(Err(EtcdError::ConnectionRefused)) => Self::Refused,
            Some(Err(error)) if error.is_response() => Self::Answered,
            Some(Err(_)) => Self::Unknown,
        }
    }
}

/// Decides the result of livez. `silent` has the other facts about a member that answers nothing.
fn judge_livez(
    read: &ReadOutcome,
    defrag: DefragState,
    ping: &PingOutcome,
    silent: SilentMember,
    now: Instant,
) -> CheckResult {
    let evidence = |reason: &str| Err(FailureReason::from(reason));
    let no_token = match read {
        ReadOutcome::Answered => return Ok(()),
        ReadOutcome::Failed(EtcdError::ConnectionRefused) => return evidence("connection refused"),
        _ if defrag == DefragState::Running => return Ok(()),
        // The CORRUPT alarm reports this too, and a restart does not repair data.
        ReadOutcome::Failed(EtcdError::ServerError(message))
            if message.contains("corrupt cluster") =>
        {
            return Ok(());
        }
        ReadOutcome::Failed(
            EtcdError::ServerError(message) | EtcdError::ServerTimeout(message),
        ) => return evidence(message),
        ReadOutcome::Failed(EtcdError::NoToken) => true,
        ReadOutcome::Hangs | ReadOutcome::Failed(EtcdError::NoResponse) => false,
        ReadOutcome::Failed(
            EtcdError::Misconfigured(_)
            | EtcdError::NotEtcd(_)
            | EtcdError::ConnectionLost(_)
            | EtcdError::AccessDenied(_)
            | EtcdError::NoLeader
            | EtcdError::NotCapable
            | EtcdError::Learner
            | EtcdError::LeaderChanged,
        ) => return Ok(()),
    };
    match ping {
        PingOutcome::Refused => evidence("connection refused"),
        PingOutcome::Unknown => Ok(()),
        // The read was never sent.
        PingOutcome::Answered if no_token => Ok(()),
        // A defragmentation cannot be ruled out.
        PingOutcome::Answered if defrag == DefragState::Unknown => Ok(()),
        PingOutcome::Answered => evidence("the read hangs, and no defragmentation is running"),
        PingOutcome::NoResponse => hang_reason(silent, now).map_or(Ok(()), evidence),
    }
}

impl HealthCheck for LivezRead {
    async fn run(&self) -> CheckResult {
        let calls = &self.calls;
        let end = Instant::now() + self.timeout;
        let mut watch = calls.watch_defrag();
        let mut ping = None;
        let mut investigate = async |watch: &mut _| {
            // Once the read is slow, a ping distinguishes a hanging store from a silent member.
            let pinging = async {
                sleep(calls.slow_after).await;
                let answer = calls.ping.get(Duration::ZERO).await;
                ping = answer.ok();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = calls.wait_for_defrag(watch) => {}
                () = pinging => {}
            }
        };
        let read = tokio::select! {
            biased;
            read = calls.read.get(calls.max_age) => match read.map_err(FailureReason::of)? {
                Ok(()) => ReadOutcome::Answered,
                Err(error) => ReadOutcome::Failed(error),
            },
            investigated = timeout_at(end, investigate(&mut watch)) => match investigated {
                // A defragmentation is running.
                Ok(()) => return Ok(()),
                Err(_) => ReadOutcome::Hangs,
            },
        };
        // The remaining time is used to find the cause.
        match &read {
            ReadOutcome::Failed(EtcdError::ServerError(_) | EtcdError::ServerTimeout(_)) => {
                let _ = timeout_at(end, calls.observe_defrag(&mut watch)).await;
            }
            ReadOutcome::Failed(EtcdError::NoToken | EtcdError::NoResponse) => {
                let answer = timeout_at(end, calls.ping.get(Duration::ZERO)).await;
                ping = answer.ok().and_then(Result::ok);
            }
            ReadOutcome::Answered | ReadOutcome::Failed(_) | ReadOutcome::Hangs => {}
        }
        let silent = SilentMember {
            boot: calls.member.boot(),
            grace: self.boot_grace,
            has_leader: self.has_leader_by_own_listener(),
            process: calls.member.process(),
        };
        let ping = PingOutcome::of(ping);
        judge_livez(&read, watch.state(), &ping, silent, Instant::now())
    }
}

impl LivezRead {
    /// Returns `etcd_server_has_leader` from the metrics read during this run.
    ///
    /// Only a separate metrics listener answers while the member waits for peers.
    fn has_leader_by_own_listener(&self) -> Option<bool> {
        let calls = &self.calls;
        if !calls.member.has_own_metrics_listener() {
            return None;
        }
        let (metrics, age) = calls.metrics.last()?;
        let has_leader = metrics.ok()?.ok()?.has_leader;
        has_leader.filter(|_| age <= self.timeout)
    }
}

impl HealthCheck for ReadyzRead {
    async fn run(&self) -> CheckResult {
        let calls = &self.0;
        let reading = calls.read.get(calls.max_age);
        let Some(read) = calls.unless_defrag(reading).await else {
            return Ok(());
        };
        let error = match read.map_err(FailureReason::of)? {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if matches!(
            error,
            EtcdError::ServerError(_) | EtcdError::ServerTimeout(_)
        ) {
            let mut watch = calls.watch_defrag();
            let state = timeout(calls.max_age / 2, calls.observe_defrag(&mut watch)).await;
            if state == Ok(DefragState::Running) {
                return Ok(());
            }
        }
        Err(FailureReason::of(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::{BootTracker, ProcessState};

    fn silent(answered: bool, now: Instant) -> SilentMember {
        let mut boot = BootTracker::new(now);
        if answered {
            boot.record_answer();
        }
        SilentMember {
            boot,
            grace: Duration::from_mins(10),
            has_leader: None,
            process: ProcessState::Unknown,
        }
    }

    /// The result of livez for a member that answered before, as text.
    fn livez(read: &ReadOutcome, defrag: DefragState, ping: &PingOutcome) -> String {
        livez_of(read, defrag, ping, true)
    }

    fn livez_of(
        read: &ReadOutcome,
        defrag: DefragState,
        ping: &PingOutcome,
        answered: bool,
    ) -> String {
        let now = Instant::now();
        let result = judge_livez(read, defrag, ping, silent(answered, now), now);
        result.map_or_else(|reason| reason.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn only_errors_of_etcd_are_evidence() {
        let text = || "etcdserver: boom".to_owned();
        let corrupt = "etcdserver: corrupt cluster".to_owned();
        for (error, expected) in [
            (EtcdError::ConnectionRefused, "connection refused"),
            (EtcdError::ServerError(text()), "etcdserver: boom"),
            (EtcdError::ServerTimeout(text()), "etcdserver: boom"),
            (EtcdError::ServerError(corrupt), "ok"),
            (EtcdError::NoLeader, "ok"),
            (EtcdError::NotCapable, "ok"),
            (EtcdError::LeaderChanged, "ok"),
            (EtcdError::Learner, "ok"),
            (EtcdError::AccessDenied(text()), "ok"),
            (EtcdError::Misconfigured(text()), "ok"),
            (EtcdError::NotEtcd(text()), "ok"),
            (EtcdError::ConnectionLost(text()), "ok"),
        ] {
            let read = ReadOutcome::Failed(error);
            let ping = PingOutcome::NoResponse;
            for defrag in [DefragState::Idle, DefragState::Unknown] {
                assert_eq!(livez(&read, defrag, &ping), expected, "{read:?}");
            }
            // A refused connection fails during a defragmentation too.
            let refused = read == ReadOutcome::Failed(EtcdError::ConnectionRefused);
            let expected = if refused { expected } else { "ok" };
            let during = livez(&read, DefragState::Running, &ping);
            assert_eq!(during, expected, "{read:?}");
        }
    }

    #[test]
    fn hanging_read_follows_the_table() {
        use DefragState::{Idle, Running, Unknown};
        use PingOutcome::{Answered, NoResponse, Refused};
        let hangs = "the read hangs, and no defragmentation is running";
        for (name, defrag, ping, expected) in [
            ("hangs", Idle, Answered, hangs),
            ("hangs in a defrag", Running, Answered, "ok"),
            ("defrag unknown", Unknown, Answered, "ok"),
            ("frozen", Unknown, NoResponse, "no answer"),
            ("frozen, late metrics", Idle, NoResponse, "no answer"),
            ("died", Unknown, Refused, "connection refused"),
            ("ping unknown", Idle, PingOutcome::Unknown, "ok"),
        ] {
            for read in [
                ReadOutcome::Hangs,
                ReadOutcome::Failed(EtcdError::NoResponse),
            ] {
                assert_eq!(livez(&read, defrag, &ping), expected, "{name}");
            }
        }
        let booting = livez_of(&ReadOutcome::Hangs, Unknown, &NoResponse, false);
        assert_eq!(booting, "ok");
    }

    #[test]
    fn unsent_read_proves_nothing() {
        let no_token = ReadOutcome::Failed(EtcdError::NoToken);
        let livez = |ping| livez(&no_token, DefragState::Idle, &ping);
        assert_eq!(livez(PingOutcome::Answered), "ok");
        assert_eq!(livez(PingOutcome::NoResponse), "no answer");
        assert_eq!(livez(PingOutcome::Refused), "connection refused");
    }

    #[test]
    fn answered_read_is_live() {
        let (read, ping) = (ReadOutcome::Answered, PingOutcome::NoResponse);
        assert_eq!(livez(&read, DefragState::Idle, &ping), "ok");
    }

    #[test]
    fn any_response_answers_the_ping() {
        let ping = |error| PingOutcome::of::<()>(Some(Err(error)));
        assert_eq!(ping(EtcdError::Learner), PingOutcome::Answered);
        assert_eq!(
            ping(EtcdError::AccessDenied(String::new())),
            PingOutcome::Answered
        );
        assert_eq!(ping(EtcdError::ConnectionRefused), PingOutcome::Refused);
        assert_eq!(
            ping(EtcdError::Misconfigured(String::new())),
            PingOutcome::Unknown
        );
        assert_eq!(ping(EtcdError::NoResponse), PingOutcome::NoResponse);
        assert_eq!(PingOutcome::of::<()>(None), PingOutcome::NoResponse);
        assert_eq!(PingOutcome::of(Some(Ok(()))), PingOutcome::Answered);
    }
}
