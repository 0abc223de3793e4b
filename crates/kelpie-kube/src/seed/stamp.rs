//! The wall clock, for stamps that people and other programs read.

use jiff::Timestamp;

/// What the clock on the wall says. No decision of ours may rest on it.
#[expect(
    clippy::disallowed_methods,
    reason = "Events and Leases carry wall-clock stamps for their readers; nothing is decided by them"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
