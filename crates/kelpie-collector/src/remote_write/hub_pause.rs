//! The pause before the next request to a hub.

use parking_lot::Mutex;
use tokio::time::Instant;

/// The pause before the next request. All requests to a hub share it, and it outlives a tick.
#[derive(Debug, Default)]
pub(super) struct HubPause(Mutex<Option<Pause>>);

/// A pause that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    pub(super) until: Instant,
    /// The failure that caused it, for people.
    pub(super) message: String,
}

impl HubPause {
    /// Extends the pause. A shorter one than the current has no effect.
    pub(super) fn extend(&self, until: Instant, message: &str) {
        let mut pause = self.0.lock();
        if pause.as_ref().is_none_or(|pause| pause.until < until) {
            let message = message.to_owned();
            *pause = Some(Pause { until, message });
        }
    }

    /// Returns the pause if it has not ended.
    pub(super) fn pending(&self) -> Option<Pause> {
        let mut pause = self.0.lock();
        pause.take_if(|pause| pause.until <= Instant::now());
        pause.clone()
    }
}
