//! The guard of a cluster as it is found there.

use std::fmt;

use kelpie_core::Time;
use kelpie_core::prober::guard::{GuardContent, GuardMark, StoredPolicy};

/// The guard of a cluster as it is found there, whichever watchdog keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardView {
    /// The policy; `None` if there is none.
    pub policy: Option<StoredPolicy>,
    /// The binding is there, and ours.
    pub is_bound: bool,
    /// The enforced content, as far as it is known.
    pub enforced: Option<GuardMark>,
    /// The API server's clock.
    pub server_time: Option<Time>,
}

impl GuardView {
    /// Returns the content of the policy, if its fixed text is ours.
    pub fn content(&self) -> Option<&GuardContent> {
        self.policy.as_ref()?.content.as_ref()
    }

    /// Returns whether nodes are held back now.
    pub fn is_armed(&self) -> bool {
        let has_run_out = |content: &GuardContent| {
            self.server_time
                .is_some_and(|server_time| content.until <= server_time)
        };
        self.content().is_some_and(|content| {
            let enforced = self.enforced.map(|mark| mark.permits_hash);
            self.is_bound && !has_run_out(content) && enforced == Some(content.permits_hash())
        })
    }
}

impl fmt::Display for GuardView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(policy) = &self.policy else {
            return f.write_str("none");
        };
        let Some(content) = self.content() else {
            return f.write_str("its policy was changed by another client");
        };
        let until = content.until;
        if self.is_armed() {
            write!(f, "armed until {until}")?;
        } else if self.server_time.is_some_and(|now| until <= now) {
            return write!(f, "ran out at {until}");
        } else if !self.is_bound {
            return f.write_str("its binding is missing or was changed by another client");
        } else {
            write!(f, "written until {until}, not seen to be enforced")?;
        }
        match content.permits.names().map(<[_]>::len) {
            None => f.write_str(", all nodes permitted")?,
            Some(0) => {}
            Some(1) => f.write_str(", 1 node permitted")?,
            Some(count) => write!(f, ", {count} nodes permitted")?,
        }
        write!(f, ", kept by {}", policy.owner)
    }
}
