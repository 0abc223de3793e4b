//! A process that is stopped in the midst of a write.

use std::sync::Arc;

use tokio::sync::Notify;

use super::Link;
use crate::resource::{DEPLOYMENTS, PODS};
use crate::server::Call;

/// What others act on. A Lease that is renewed too late is nothing new, and Events move nobody.
const MOVING: [crate::Resource; 2] = [DEPLOYMENTS, PODS];

/// Waits for the next write of a process: from then on that one hears and says nothing, and the write is under
/// way until it goes on. So does a process fare that is stopped after it has looked whether it leads.
#[derive(Debug)]
pub(super) struct Snare {
    link: Link,
    goes_on: Arc<Notify>,
    is_sprung: bool,
}

impl Snare {
    pub(super) fn new(link: Link) -> Self {
        Self {
            link,
            goes_on: Arc::default(),
            is_sprung: false,
        }
    }

    /// What this request has to wait for, if it is the one.
    pub(super) fn spring(&mut self, call: &Call) -> Option<Arc<Notify>> {
        let is_write = !["get", "list", "watch"].contains(&call.verb);
        let moves = call
            .resource
            .as_ref()
            .is_some_and(|one| MOVING.contains(one));
        if self.is_sprung || !is_write || !moves {
            return None;
        }
        self.is_sprung = true;
        self.link.hold();
        Some(Arc::clone(&self.goes_on))
    }

    /// What was under way arrives.
    pub(super) fn open(self) {
        self.goes_on.notify_one();
    }
}
