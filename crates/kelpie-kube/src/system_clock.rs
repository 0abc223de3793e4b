//! The system clock, for timestamps.

use std::sync::Arc;

use jiff::Timestamp;
use kelpie_core::Time;

/// The wall-clock time, for timestamps that people and other programs read. No decision may depend
/// on it: decisions use an [`AnchoredClock`](crate::AnchoredClock), which reads this clock once.
/// Clones share one clock.
#[derive(Clone)]
pub struct SystemClock(Arc<dyn Fn() -> Time + Send + Sync>);

impl SystemClock {
    /// Creates a clock that reads `now`, such as that of a simulation.
    pub fn new(now: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        (self.0)()
    }

    pub(crate) fn stamp(&self) -> Timestamp {
        Timestamp::from_microsecond(self.now().as_micros()).unwrap_or(Timestamp::MAX)
    }
}

/// The clock of the host.
impl Default for SystemClock {
    fn default() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that reads the host's clock"
        )]
        Self::new(|| Time::from_micros(Timestamp::now().as_microsecond()))
    }
}
