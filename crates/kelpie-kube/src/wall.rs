//! The clock on the wall.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kelpie_core::Time;

/// What people and other programs call the time: for stamps that they read. No decision may rest on
/// it but on where a timeline begins. Clones are the same clock.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Time + Send + Sync>);

impl WallClock {
    /// A clock of another world.
    pub fn new(now: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// What it says.
    pub fn now(&self) -> Time {
        (self.0)()
    }

    pub(crate) fn stamp(&self) -> Timestamp {
        Timestamp::from_microsecond(self.now().as_micros()).unwrap_or(Timestamp::MAX)
    }
}

/// The host's.
impl Default for WallClock {
    fn default() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that reads the host's clock"
        )]
        Self::new(|| Time::from_micros(Timestamp::now().as_microsecond()))
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WallClock").finish_non_exhaustive()
    }
}
