//! The resource versions of successive lists, by which a stale list is recognized.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lease::ListSpan;
use crate::Time;

/// An API server renews a Lease of its own every 10 s. A version that stands still for one and a
/// half of these periods comes from a cache that stands still. After a gap between lists, leases
/// prove something from this instant on, and the version has to be judged first.
const MOST_STANDSTILL: Duration = Duration::from_secs(15);

/// An etcd that was restored from a backup goes back for good. Older versions are believed once
/// they have come for this long without a newer one in between.
const RESTORE_PATIENCE: Duration = Duration::from_mins(2);

/// The newest version that a cluster's lists have shown.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct ListVersions {
    newest: Option<u64>,
    /// The first list with the newest version.
    first: ListSpan,
    /// The start of the first of the older lists that came last, without a newer one since.
    older_since: Option<Time>,
}

/// The freshness of a list by its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// The list is at least as new as those before it, or its version says nothing.
    Current,
    /// The list proves neither a renewal nor an expiry.
    Stale,
    /// The list is stale, and so may be those before it, back to the first one with its version.
    StandingStill(ListSpan),
    /// The versions went back for good, so that nothing known from before counts.
    Restored,
}

impl ListVersions {
    /// Takes in the version of a list; `None` if it is not a number.
    pub(crate) fn observe(&mut self, version: Option<u64>, span: ListSpan) -> Freshness {
        let Some(version) = version else {
            return Freshness::Current;
        };
        match self.newest {
            Some(newest) if version == newest => {
                self.older_since = None;
                if span.start.since(self.first.end) >= MOST_STANDSTILL {
                    return Freshness::StandingStill(self.first);
                }
                return Freshness::Current;
            }
            Some(newest) if version < newest => {
                let since = *self.older_since.get_or_insert(span.start);
                if span.start.since(since) < RESTORE_PATIENCE {
                    return Freshness::Stale;
                }
                self.advance(version, span);
                return Freshness::Restored;
            }
            _ => {}
        }
        self.advance(version, span);
        Freshness::Current
    }

    fn advance(&mut self, version: u64, span: ListSpan) {
        *self = Self {
            newest: Some(version),
            first: span,
            older_since: None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(versions: &mut ListVersions, seconds: i64, version: u64) -> Freshness {
        let at = Time::from_unix(seconds, 0);
        versions.observe(Some(version), ListSpan { start: at, end: at })
    }

    #[test]
    fn older_list_is_stale_until_etcd_was_restored() {
        let mut versions = ListVersions::default();
        assert_eq!(observe(&mut versions, 0, 10), Freshness::Current);
        assert_eq!(observe(&mut versions, 10, 9), Freshness::Stale);
        assert_eq!(observe(&mut versions, 20, 12), Freshness::Current);
        for at in [30, 60, 149] {
            assert_eq!(observe(&mut versions, at, 11), Freshness::Stale, "{at}");
        }
        assert_eq!(observe(&mut versions, 150, 11), Freshness::Restored);
        assert_eq!(observe(&mut versions, 160, 12), Freshness::Current);
    }

    #[test]
    fn version_that_stands_still_is_stale() {
        let mut versions = ListVersions::default();
        assert_eq!(observe(&mut versions, 0, 10), Freshness::Current);
        assert_eq!(observe(&mut versions, 14, 10), Freshness::Current);
        let first = ListSpan::default();
        assert_eq!(
            observe(&mut versions, 15, 10),
            Freshness::StandingStill(first)
        );
        assert_eq!(observe(&mut versions, 17, 11), Freshness::Current);
    }

    #[test]
    fn list_without_version_is_current() {
        let mut versions = ListVersions::default();
        observe(&mut versions, 0, 10);
        let at = Time::from_unix(60, 0);
        let span = ListSpan { start: at, end: at };
        assert_eq!(versions.observe(None, span), Freshness::Current);
    }
}
