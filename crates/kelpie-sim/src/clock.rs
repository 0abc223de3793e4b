//! The landscape's clock, and the time formats of the API.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kelpie_core::Time;
use tokio::time::Instant;

/// The clock that stamps objects and responses. Clones share the clock.
#[derive(Clone)]
pub struct SimClock(Arc<dyn Fn() -> Time + Send + Sync>);

impl SimClock {
    /// Creates a clock that shows the result of `read`, which may run fast or be wrong.
    pub fn new(read: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Creates a clock that shows `start` now and advances with the runtime's time: real time, or
    /// virtual time while the runtime is paused.
    pub fn starting_at(start: Time) -> Self {
        let anchor = Instant::now();
        Self::new(move || start.after(anchor.elapsed()))
    }

    /// Returns the clock's current time.
    pub fn now(&self) -> Time {
        (self.0)()
    }
}

impl fmt::Debug for SimClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

/// Formats a time as object metadata has it: RFC 3339 in whole seconds.
pub(crate) fn rfc3339(at: Time) -> String {
    format_time(at, "%Y-%m-%dT%H:%M:%SZ")
}

/// Formats a time as the HTTP header `Date` has it.
pub(crate) fn http_date(at: Time) -> String {
    format_time(at, "%a, %d %b %Y %H:%M:%S GMT")
}

fn format_time(at: Time, format: &str) -> String {
    let stamp = Timestamp::from_microsecond(at.as_micros()).unwrap_or_default();
    stamp.strftime(format).to_string()
}

/// Parses a time as Kubernetes writes it, with or without a fraction of a second.
pub(crate) fn parse(text: &str) -> Option<Time> {
    let stamp: Timestamp = text.parse().ok()?;
    Some(Time::from_micros(stamp.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn advances_with_runtime_time() {
        let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
        tokio::time::advance(Duration::from_millis(1_500)).await;
        assert_eq!(clock.now(), Time::from_unix(1_700_000_001, 500_000_000));
        assert_eq!(rfc3339(clock.now()), "2023-11-14T22:13:21Z");
        assert_eq!(http_date(clock.now()), "Tue, 14 Nov 2023 22:13:21 GMT");
    }

    #[test]
    fn parses_times_with_optional_fraction() {
        let time = Time::from_unix(1_700_000_000, 123_456_000);
        assert_eq!(parse("2023-11-14T22:13:20.123456Z"), Some(time));
        assert_eq!(
            parse("2023-11-14T22:13:20Z"),
            Some(Time::from_unix(1_700_000_000, 0))
        );
        assert_eq!(parse("yesterday"), None);
    }
}
