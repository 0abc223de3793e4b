//! Pausing a process in the middle of a write.

use std::sync::Arc;

use tokio::sync::Notify;

use super::ProcessLink;
use crate::resource::{DEPLOYMENTS, PODS};
use crate::server::RequestInfo;

/// The resources whose writes trigger the pause. A late renewal of a Lease has no effect, and no
/// controller acts on Events.
const TRIGGERS: [crate::GroupResource; 2] = [DEPLOYMENTS, PODS];

/// Pauses a process at its next write and keeps that write in flight until the process resumes. The
/// process is thereby stopped between its leadership check and the write's arrival.
#[derive(Debug)]
pub(super) struct PauseOnWrite {
    link: ProcessLink,
    resumed: Arc<Notify>,
    has_triggered: bool,
}

impl PauseOnWrite {
    pub(super) fn new(link: ProcessLink) -> Self {
        Self {
            link,
            resumed: Arc::default(),
            has_triggered: false,
        }
    }

    /// Pauses the process if this request is the trigger. Returns the signal that the request has
    /// to wait for.
    pub(super) fn intercept(&mut self, request: &RequestInfo) -> Option<Arc<Notify>> {
        let is_write = !["get", "list", "watch"].contains(&request.verb);
        let is_trigger = request
            .resource
            .as_ref()
            .is_some_and(|resource| TRIGGERS.contains(resource));
        if self.has_triggered || !is_write || !is_trigger {
            return None;
        }
        self.has_triggered = true;
        self.link.pause();
        Some(Arc::clone(&self.resumed))
    }

    /// Lets the write in flight arrive.
    pub(super) fn release(self) {
        self.resumed.notify_one();
    }
}
