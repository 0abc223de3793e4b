//! Distinguishes a booting member from a hung one.
//!
//! A member that waits for its peers accepts connections and answers nothing, and so does a
//! stopped process. The difference: a booting member has not answered since it was started, and
//! may take a while until it does.

use std::time::Duration;

use tokio::time::Instant;

/// Tracks whether the member has answered since it may have been started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootTracker {
    /// The latest possible start of the member: the start of the probe, or the last sign that the
    /// member was gone.
    since: Instant,
    /// The member has answered a call since.
    answered: bool,
}

impl BootTracker {
    /// Starts to track a member that may be starting at the same moment.
    pub fn new(now: Instant) -> Self {
        Self {
            since: now,
            answered: false,
        }
    }

    /// Records an answer. Any answer, even an error, proves that the member has booted.
    pub fn record_answer(&mut self) {
        self.answered = true;
    }

    /// Records that the member was gone: it refused or closed the connection.
    pub fn record_gone(&mut self, now: Instant) {
        self.since = now;
        self.answered = false;
    }

    /// Returns true if the member has answered since it was last gone.
    pub fn has_answered(&self) -> bool {
        self.answered
    }

    fn in_grace(&self, now: Instant, grace: Duration) -> bool {
        !self.answered && now.saturating_duration_since(self.since) < grace
    }
}

/// The state of the member's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// No PID was given, or it cannot be looked up.
    Unknown,
    /// The process runs or sleeps.
    Alive,
    /// A signal has stopped the process.
    Stopped,
    /// There is no such process.
    Gone,
}

/// The known facts about a member that answers nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SilentMember {
    pub(crate) boot: BootTracker,
    /// Maximum duration of a boot that neither the metrics nor the process confirm.
    pub(crate) grace: Duration,
    /// `etcd_server_has_leader`, from a separate metrics listener. `None` if there is no such
    /// listener or it does not answer.
    pub(crate) has_leader: Option<bool>,
    pub(crate) process: ProcessState,
}

/// Returns the reason why a silent member counts as hung, or `None` if it is booting.
pub(crate) fn hang_reason(member: SilentMember, now: Instant) -> Option<&'static str> {
    let SilentMember { boot, grace, .. } = member;
    if member.process == ProcessState::Stopped {
        return Some("the process is stopped");
    }
    // Its separate metrics listener shows that it waits for peers.
    if member.has_leader == Some(false) {
        return None;
    }
    if boot.has_answered() {
        return Some("no answer");
    }
    if member.process == ProcessState::Alive || boot.in_grace(now, grace) {
        return None;
    }
    Some("no answer since the boot grace ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_mins(10);

    #[test]
    fn hang_reasons_follow_the_table() {
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
            ("alive by PID", false, old, None, Alive, None),
            ("alive, hung", true, old, None, Alive, silent),
            ("stopped", false, young, None, Stopped, stopped),
            ("stopped later", true, young, Some(false), Stopped, stopped),
            ("wrong PID", false, young, None, Gone, None),
            ("wrong PID, old", false, old, None, Gone, over),
        ] {
            let mut boot = BootTracker::new(start);
            if answered {
                boot.record_answer();
            }
            let member = SilentMember {
                boot,
                grace: GRACE,
                has_leader,
                process,
            };
            assert_eq!(hang_reason(member, start + age), expected, "{name}");
        }
    }

    #[test]
    fn restarted_member_gets_a_new_grace() {
        let start = Instant::now();
        let mut boot = BootTracker::new(start);
        boot.record_answer();
        assert!(!boot.in_grace(start, GRACE));
        boot.record_gone(start + GRACE);
        assert!(boot.in_grace(start + GRACE + GRACE / 2, GRACE));
        assert!(!boot.in_grace(start + GRACE * 2, GRACE));
    }
}
