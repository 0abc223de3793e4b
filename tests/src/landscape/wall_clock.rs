//! The clock that kubelets write their leases by.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// Now, as the API server keeps it.
pub(crate) fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "a kubelet writes the time of its own clock"
    )]
    Timestamp::now()
}

/// As leases have it: six digits of a second.
pub(crate) fn micro(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Some time ago.
pub(crate) fn ago(age: Duration) -> Timestamp {
    let now = now();
    now.checked_sub(age).unwrap_or(now)
}
