//! Can the member read its own store? The one check of livez, and so the one that restarts etcd.

use std::sync::Arc;
use std::time::Duration;

use kelpie_health::{Check, Reason, Verdict};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::Fault;
use crate::boot::{Quiet, hung};
use crate::calls::Calls;
use crate::defrag::Defrag;

/// livez: fails only on evidence about etcd itself.
pub(crate) struct Alive {
    pub(crate) calls: Arc<Calls>,
    /// When the read counts as hanging: shortly before the answer is due.
    pub(crate) patience: Duration,
    pub(crate) boot_grace: Duration,
}

/// readyz: fails on whatever keeps the probe from reading, but for a defragmentation.
pub(crate) struct Readable(pub(crate) Arc<Calls>);

/// How a read went, as far as livez is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Read {
    Answered,
    Failed(Fault),
    Hangs,
}

/// What the gRPC health service did meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ping {
    /// Any answer of etcd, be it a refusal.
    Answers,
    Silent,
    /// Nobody listens any more.
    Refused,
    /// Our own trouble keeps us from knowing.
    Unknown,
}

impl Ping {
    fn of<T>(asked: Option<Result<T, Fault>>) -> Self {
        match asked {
            None | Some(Err(Fault::Silent)) => Self::Silent,
            Some(Ok(_)) => Self::Answers,
            Some(Err(Fault::Refused)) => Self::Refused,
            Some(Err(fault)) if fault.is_answer() => Self::Answers,
            Some(Err(_)) => Self::Unknown,
        }
    }
}

/// The verdict of livez. `quiet` is what else is known of a member that answers nothing.
fn alive(read: &Read, defrag: Defrag, ping: &Ping, quiet: Quiet, now: Instant) -> Verdict {
    let evidence = |reason: &str| Err(Reason::from(reason));
    let no_token = match read {
        Read::Answered => return Ok(()),
        Read::Failed(Fault::Refused) => return evidence("connection refused"),
        _ if defrag == Defrag::Running => return Ok(()),
        // It says so by its alarm, and a restart mends no data.
        Read::Failed(Fault::Server(said)) if said.contains("corrupt cluster") => return Ok(()),
        Read::Failed(Fault::Server(said) | Fault::TimedOut(said)) => return evidence(said),
        Read::Failed(Fault::NoToken) => true,
        Read::Hangs | Read::Failed(Fault::Silent) => false,
        Read::Failed(
            Fault::Own(_)
            | Fault::Foreign(_)
            | Fault::Broken(_)
            | Fault::Denied(_)
            | Fault::NoLeader
            | Fault::NotCapable
            | Fault::Learner
            | Fault::LeaderChanged,
        ) => return Ok(()),
    };
    match ping {
        Ping::Refused => evidence("connection refused"),
        Ping::Unknown => Ok(()),
        // The read was never sent.
        Ping::Answers if no_token => Ok(()),
        // It cannot be known that it is not a defragmentation.
        Ping::Answers if defrag == Defrag::Unknown => Ok(()),
        Ping::Answers => evidence("the read hangs, and no defragmentation is running"),
        Ping::Silent => hung(quiet, now).map_or(Ok(()), evidence),
    }
}

impl Check for Alive {
    async fn run(&self) -> Verdict {
        let calls = &self.calls;
        let end = Instant::now() + self.patience;
        let mut watch = calls.watch();
        let mut pinged = None;
        let mut looking_around = async |watch: &mut _| {
            // Asked once the read takes long: it tells a hanging store from a silent member.
            let pinging = async {
                sleep(calls.glance).await;
                let asked = calls.ping.get(Duration::ZERO).await;
                pinged = asked.ok();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = calls.look_until_defrag(watch) => {}
                () = pinging => {}
            }
        };
        let read = tokio::select! {
            biased;
            read = calls.read.get(calls.fresh) => match read.map_err(Reason::of)? {
                Ok(()) => Read::Answered,
                Err(fault) => Read::Failed(fault),
            },
            seen = timeout_at(end, looking_around(&mut watch)) => match seen {
                // A defragmentation is running.
                Ok(()) => return Ok(()),
                Err(_) => Read::Hangs,
            },
        };
        // The rest of the time is for finding out why.
        match &read {
            Read::Failed(Fault::Server(_) | Fault::TimedOut(_)) => {
                let _ = timeout_at(end, calls.look(&mut watch)).await;
            }
            Read::Failed(Fault::NoToken | Fault::Silent) => {
                let asked = timeout_at(end, calls.ping.get(Duration::ZERO)).await;
                pinged = asked.ok().and_then(Result::ok);
            }
            Read::Answered | Read::Failed(_) | Read::Hangs => {}
        }
        let quiet = Quiet {
            boot: calls.member.boot(),
            grace: self.boot_grace,
            has_leader: self.has_leader_by_own_listener(),
            process: calls.member.process(),
        };
        let ping = Ping::of(pinged);
        alive(&read, watch.verdict(), &ping, quiet, Instant::now())
    }
}

impl Alive {
    /// From the page that was looked at during the run; only a listener of its own answers while
    /// the member waits for peers.
    fn has_leader_by_own_listener(&self) -> Option<bool> {
        let calls = &self.calls;
        if !calls.member.has_own_metrics_listener() {
            return None;
        }
        let (page, age) = calls.metrics.last()?;
        page.ok()?.ok()?.has_leader.filter(|_| age <= self.patience)
    }
}

impl Check for Readable {
    async fn run(&self) -> Verdict {
        let calls = &self.0;
        let reading = calls.read.get(calls.fresh);
        let Some(read) = calls.unless_defrag(reading).await else {
            return Ok(());
        };
        let fault = match read.map_err(Reason::of)? {
            Ok(()) => return Ok(()),
            Err(fault) => fault,
        };
        if matches!(fault, Fault::Server(_) | Fault::TimedOut(_)) {
            let mut watch = calls.watch();
            let looked = timeout(calls.fresh / 2, calls.look(&mut watch)).await;
            if looked == Ok(Defrag::Running) {
                return Ok(());
            }
        }
        Err(Reason::of(fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::{Boot, ProcessState};

    fn quiet(answered: bool, now: Instant) -> Quiet {
        let mut boot = Boot::new(now);
        if answered {
            boot.answered();
        }
        Quiet {
            boot,
            grace: Duration::from_mins(10),
            has_leader: None,
            process: ProcessState::Unknown,
        }
    }

    /// What livez says of a member that answered before.
    fn words(read: &Read, defrag: Defrag, ping: &Ping) -> String {
        say(read, defrag, ping, true)
    }

    fn say(read: &Read, defrag: Defrag, ping: &Ping, answered: bool) -> String {
        let now = Instant::now();
        let verdict = alive(read, defrag, ping, quiet(answered, now), now);
        verdict.map_or_else(|reason| reason.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn only_errors_of_etcd_itself_are_evidence() {
        let text = || "etcdserver: boom".to_owned();
        let corrupt = "etcdserver: corrupt cluster".to_owned();
        for (fault, expected) in [
            (Fault::Refused, "connection refused"),
            (Fault::Server(text()), "etcdserver: boom"),
            (Fault::TimedOut(text()), "etcdserver: boom"),
            (Fault::Server(corrupt), "ok"),
            (Fault::NoLeader, "ok"),
            (Fault::NotCapable, "ok"),
            (Fault::LeaderChanged, "ok"),
            (Fault::Learner, "ok"),
            (Fault::Denied(text()), "ok"),
            (Fault::Own(text()), "ok"),
            (Fault::Foreign(text()), "ok"),
            (Fault::Broken(text()), "ok"),
        ] {
            let read = Read::Failed(fault);
            for defrag in [Defrag::Idle, Defrag::Unknown] {
                assert_eq!(words(&read, defrag, &Ping::Silent), expected, "{read:?}");
            }
            // Who refuses does nothing else.
            let refused = read == Read::Failed(Fault::Refused);
            let expected = if refused { expected } else { "ok" };
            let during = words(&read, Defrag::Running, &Ping::Silent);
            assert_eq!(during, expected, "{read:?}");
        }
    }

    #[test]
    fn a_hanging_read_follows_the_table() {
        use Defrag::{Idle, Running, Unknown};
        let hangs = "the read hangs, and no defragmentation is running";
        for (name, defrag, ping, expected) in [
            ("hangs", Idle, Ping::Answers, hangs),
            ("hangs in a defrag", Running, Ping::Answers, "ok"),
            ("defrag unknown", Unknown, Ping::Answers, "ok"),
            ("frozen", Unknown, Ping::Silent, "no answer"),
            ("frozen, late page", Idle, Ping::Silent, "no answer"),
            ("died", Unknown, Ping::Refused, "connection refused"),
            ("no way to know", Idle, Ping::Unknown, "ok"),
        ] {
            for read in [Read::Hangs, Read::Failed(Fault::Silent)] {
                assert_eq!(words(&read, defrag, &ping), expected, "{name}");
            }
        }
        let booting = say(&Read::Hangs, Unknown, &Ping::Silent, false);
        assert_eq!(booting, "ok");
    }

    #[test]
    fn a_read_that_was_never_sent_proves_nothing() {
        let no_token = Read::Failed(Fault::NoToken);
        let words = |ping| words(&no_token, Defrag::Idle, &ping);
        assert_eq!(words(Ping::Answers), "ok");
        assert_eq!(words(Ping::Silent), "no answer");
        assert_eq!(words(Ping::Refused), "connection refused");
    }

    #[test]
    fn an_answer_is_life() {
        assert_eq!(words(&Read::Answered, Defrag::Idle, &Ping::Silent), "ok");
    }

    #[test]
    fn any_word_of_etcd_is_a_sign_of_life() {
        let ping = |fault| Ping::of::<()>(Some(Err(fault)));
        assert_eq!(ping(Fault::Learner), Ping::Answers);
        assert_eq!(ping(Fault::Denied(String::new())), Ping::Answers);
        assert_eq!(ping(Fault::Refused), Ping::Refused);
        assert_eq!(ping(Fault::Own(String::new())), Ping::Unknown);
        assert_eq!(ping(Fault::Silent), Ping::Silent);
        assert_eq!(Ping::of::<()>(None), Ping::Silent);
        assert_eq!(Ping::of(Some(Ok(()))), Ping::Answers);
    }
}
