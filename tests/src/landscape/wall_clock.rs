//! The wall clock, which kubelets write into their leases.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// The current time of the wall clock.
pub fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "a kubelet writes the time of its own clock"
    )]
    Timestamp::now()
}

/// Formats a time as in leases, with six decimal places.
pub(crate) fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// The time `age` before now.
pub(crate) fn ago(age: Duration) -> Timestamp {
    let now = now();
    now.checked_sub(age).unwrap_or(now)
}
