//! What time it is in the landscape.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kelpie_core::Time;
use tokio::time::Instant;

/// The clock that stamps objects and answers. Clones are the same clock.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Time + Send + Sync>);

impl Clock {
    /// A clock that shows whatever `read` gives: a clock that runs fast, or wrong, for one.
    pub fn new(read: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Shows `start` now and goes on with the runtime's time: real, or virtual where that is paused.
    pub fn starting_at(start: Time) -> Self {
        let anchor = Instant::now();
        Self::new(move || start.after(anchor.elapsed()))
    }

    /// The present.
    pub fn now(&self) -> Time {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

/// An instant as metadata has it: in whole seconds.
pub(crate) fn seconds(at: Time) -> String {
    written(at, "%Y-%m-%dT%H:%M:%SZ")
}

/// An instant as the header `Date` has it.
pub(crate) fn http_date(at: Time) -> String {
    written(at, "%a, %d %b %Y %H:%M:%S GMT")
}

fn written(at: Time, format: &str) -> String {
    let stamp = Timestamp::from_microsecond(at.as_micros()).unwrap_or_default();
    stamp.strftime(format).to_string()
}

/// What Kubernetes reads as a time, with or without a fraction.
pub(crate) fn parse(text: &str) -> Option<Time> {
    let stamp: Timestamp = text.parse().ok()?;
    Some(Time::from_micros(stamp.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_with_the_runtime() {
        let clock = Clock::starting_at(Time::from_unix(1_700_000_000, 0));
        tokio::time::advance(Duration::from_millis(1_500)).await;
        assert_eq!(clock.now(), Time::from_unix(1_700_000_001, 500_000_000));
        assert_eq!(seconds(clock.now()), "2023-11-14T22:13:21Z");
        assert_eq!(http_date(clock.now()), "Tue, 14 Nov 2023 22:13:21 GMT");
    }

    #[test]
    fn times_are_read_with_or_without_a_fraction() {
        let time = Time::from_unix(1_700_000_000, 123_456_000);
        assert_eq!(parse("2023-11-14T22:13:20.123456Z"), Some(time));
        assert_eq!(
            parse("2023-11-14T22:13:20Z"),
            Some(Time::from_unix(1_700_000_000, 0))
        );
        assert_eq!(parse("yesterday"), None);
    }
}
