//! Watching a resource whose kind may not exist.

use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use tokio::time::Instant;

use super::WatchEvent;
use crate::client::ApiError;

/// A kind that existed counts as absent only after it was not found for this long. An API server
/// that starts, or reloads its definitions, denies kinds that it has.
const ABSENCE_PROOF: Duration = Duration::from_mins(1);

/// An event of a watch on a resource whose kind may not exist.
#[derive(Debug, Clone)]
pub enum OptionalEvent<T> {
    /// The API server does not know the kind, and has not for a minute if it once did. Sent once;
    /// the watch goes on trying.
    KindAbsent,
    /// The API server knows the kind. A list follows.
    KindPresent,
    /// An event of the watch itself.
    Watch(WatchEvent<T>),
}

/// Adds to a watch whether its kind exists. An absent kind is not an error.
pub(crate) fn optional<T: Send + 'static>(
    events: impl Stream<Item = WatchEvent<T>> + Send + 'static,
) -> impl Stream<Item = OptionalEvent<T>> + Send {
    let mut kind = KindPresence::Unknown;
    events.flat_map(move |event| stream::iter(kind.track(event, Instant::now())))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KindPresence {
    Unknown,
    Absent,
    Present {
        /// The first of the current run of "not found" responses.
        denied: Option<Instant>,
    },
}

impl KindPresence {
    fn track<T>(
        &mut self,
        event: WatchEvent<T>,
        now: Instant,
    ) -> impl Iterator<Item = OptionalEvent<T>> + use<T> {
        let before = *self;
        let is_denied =
            matches!(&event, WatchEvent::Error(error) if error.cause == ApiError::NotFound);
        *self = match (&event, before) {
            (_, Self::Present { denied }) if is_denied => match denied.unwrap_or(now) {
                since if now >= since + ABSENCE_PROOF => Self::Absent,
                since => Self::Present {
                    denied: Some(since),
                },
            },
            _ if is_denied => Self::Absent,
            // Another error does not tell whether the kind exists.
            (WatchEvent::Error(_), _) => before,
            _ => Self::Present { denied: None },
        };
        let turned = match (before, *self) {
            (Self::Unknown | Self::Present { .. }, Self::Absent) => Some(OptionalEvent::KindAbsent),
            (Self::Unknown | Self::Absent, Self::Present { .. }) => {
                Some(OptionalEvent::KindPresent)
            }
            _ => None,
        };
        let is_forwarded = !is_denied || *self != Self::Absent;
        let forwarded = is_forwarded.then_some(OptionalEvent::Watch(event));
        turned.into_iter().chain(forwarded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::WatchError;

    fn failed(cause: ApiError) -> WatchEvent<()> {
        let what = "machines".into();
        WatchEvent::Error(WatchError {
            what,
            server: None,
            cause,
        })
    }

    fn absent() -> WatchEvent<()> {
        failed(ApiError::NotFound)
    }

    fn broken() -> WatchEvent<()> {
        failed(ApiError::Expired)
    }

    /// The events that come out if these go in at these seconds.
    fn tracked(events: impl IntoIterator<Item = (u64, WatchEvent<()>)>) -> Vec<&'static str> {
        let (mut kind, start) = (KindPresence::Unknown, Instant::now());
        let name = |event: OptionalEvent<()>| match event {
            OptionalEvent::KindAbsent => "absent",
            OptionalEvent::KindPresent => "present",
            OptionalEvent::Watch(WatchEvent::Error(_)) => "error",
            OptionalEvent::Watch(_) => "listed",
        };
        let mut track = |(at, event)| kind.track(event, start + Duration::from_secs(at));
        let tracked = events.into_iter().flat_map(&mut track);
        tracked.map(name).collect()
    }

    #[test]
    fn presence_is_sent_once_per_turn() {
        let events = [
            (0, absent()),
            (1, absent()),
            (2, broken()),
            (3, WatchEvent::Init),
            (4, WatchEvent::InitDone),
            (5, broken()),
            (6, absent()),
            (66, absent()),
            (67, absent()),
        ];
        let expected = [
            "absent", "error", "present", "listed", "listed", "error", "error", "absent",
        ];
        assert_eq!(tracked(events), expected);
    }

    #[test]
    fn absence_takes_a_minute() {
        let events = [
            (0, WatchEvent::Init),
            (1, absent()),
            (50, absent()),
            (55, WatchEvent::Init),
            (60, absent()),
            (70, broken()),
            (119, absent()),
        ];
        let expected = [
            "present", "listed", "error", "error", "listed", "error", "error", "error",
        ];
        assert_eq!(tracked(events), expected);
    }
}
