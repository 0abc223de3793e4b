//! Is a silent member booting or hung?
//!
//! A member that waits for its peers accepts connections and answers nothing, which is also what a
//! stopped process does. What tells them apart: a booting member has not answered yet since it
//! was started, and is not expected to for a while.

use std::time::Duration;

use tokio::time::Instant;

/// What the connection has seen of the member's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot {
    /// When it may have been started: our own start, or the last sign that it was not there.
    since: Instant,
    /// It has answered something since.
    answered: bool,
}

impl Boot {
    /// We start now; the member may start at the same moment.
    pub fn new(now: Instant) -> Self {
        Self {
            since: now,
            answered: false,
        }
    }

    /// It answered a call, whatever it said: it has booted.
    pub fn answered(&mut self) {
        self.answered = true;
    }

    /// It was not there: refused, or the connection was closed by its side.
    pub fn gone(&mut self, now: Instant) {
        self.since = now;
        self.answered = false;
    }

    /// True if it has answered since it was last gone.
    pub fn has_answered(&self) -> bool {
        self.answered
    }

    fn in_grace(&self, now: Instant, grace: Duration) -> bool {
        !self.answered && now.saturating_duration_since(self.since) < grace
    }
}

/// What the process table says of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// No pid was given, or it cannot be looked up.
    Unknown,
    /// It runs or sleeps.
    Alive,
    /// It is stopped by a signal.
    Stopped,
    /// There is no such process.
    Gone,
}

/// What is known of a member that answers nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quiet {
    /// Its life so far.
    pub(crate) boot: Boot,
    /// How long a boot may take where nothing else tells.
    pub(crate) grace: Duration,
    /// A metrics listener of its own says whether the member has a leader; none if there is no
    /// such listener or it does not answer.
    pub(crate) has_leader: Option<bool>,
    /// By pid.
    pub(crate) process: ProcessState,
}

/// Why a silent member is taken for hung; none if it is booting.
pub(crate) fn hung(quiet: Quiet, now: Instant) -> Option<&'static str> {
    let Quiet { boot, grace, .. } = quiet;
    if quiet.process == ProcessState::Stopped {
        return Some("the process is stopped");
    }
    // It waits for peers, and its own listener for metrics says so.
    if quiet.has_leader == Some(false) {
        return None;
    }
    if boot.has_answered() {
        return Some("no answer");
    }
    if quiet.process == ProcessState::Alive || boot.in_grace(now, grace) {
        return None;
    }
    Some("no answer since the boot grace ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_mins(10);

    #[test]
    fn silence_follows_the_table() {
        use ProcessState::{Alive, Gone, Stopped, Unknown};
        let start = Instant::now();
        let (young, old) = (GRACE / 2, GRACE);
        let stopped = Some("the process is stopped");
        let silent = Some("no answer");
        let over = Some("no answer since the boot grace ended");
        for (name, answered, age, has_leader, process, expected) in [
            ("booting", false, young, None, Unknown, None),
            ("grace is over", false, old, None, Unknown, over),
            ("answered before", true, young, None, Unknown, silent),
            ("answered, old", true, old, None, Unknown, silent),
            ("waits for peers", false, old, Some(false), Unknown, None),
            ("waits again", true, old, Some(false), Unknown, None),
            ("catches up", false, young, Some(true), Unknown, None),
            ("too long", false, old, Some(true), Unknown, over),
            ("port is dead", true, young, Some(true), Unknown, silent),
            ("alive by pid", false, old, None, Alive, None),
            ("alive, hung", true, old, None, Alive, silent),
            ("stopped", false, young, None, Stopped, stopped),
            ("stopped later", true, young, Some(false), Stopped, stopped),
            ("wrong pid", false, young, None, Gone, None),
            ("wrong pid, old", false, old, None, Gone, over),
        ] {
            let mut boot = Boot::new(start);
            if answered {
                boot.answered();
            }
            let quiet = Quiet {
                boot,
                grace: GRACE,
                has_leader,
                process,
            };
            assert_eq!(hung(quiet, start + age), expected, "{name}");
        }
    }

    #[test]
    fn a_restarted_member_gets_its_grace_again() {
        let start = Instant::now();
        let mut boot = Boot::new(start);
        boot.answered();
        assert!(!boot.in_grace(start, GRACE));
        boot.gone(start + GRACE);
        assert!(boot.in_grace(start + GRACE + GRACE / 2, GRACE));
        assert!(!boot.in_grace(start + GRACE * 2, GRACE));
    }
}
