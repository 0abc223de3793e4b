//! The enforced content of the policy, from the message of a denied request.

use kelpie_core::prober::guard::GuardMark;

use super::policy::read_seconds;

/// Reads the message of a denied request; `None` if the guard's policy did not deny it.
pub(super) fn read_mark(message: &str) -> Option<GuardMark> {
    let (_, rest) = message.split_once("until=")?;
    let (until, rest) = rest.split_once(" permits=")?;
    let hash = rest.get(..16)?;
    Some(GuardMark {
        until: read_seconds(until)?,
        permits_hash: u64::from_str_radix(hash, 16).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use kelpie_core::Time;

    use super::*;

    #[test]
    fn mark_of_a_denied_request() {
        let message = "leases.coordination.k8s.io \"kelpie-node-guard\" is forbidden: \
                       ValidatingAdmissionPolicy 'kelpie-node-guard' with binding \
                       'kelpie-node-guard' denied request: until=2023-11-14T22:13:20Z \
                       permits=00000000deadbeef";
        let mark = GuardMark {
            until: Time::from_unix(1_700_000_000, 0),
            permits_hash: 0xdead_beef,
        };
        assert_eq!(read_mark(message), Some(mark));
        for other in ["", "until=", "until=x permits=y", "until=2023-11-14T22:13:20Z permits=é"] {
            assert_eq!(read_mark(other), None, "{other}");
        }
    }
}
