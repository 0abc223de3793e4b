//! The calls that an etcd member answers.

use futures_util::future::BoxFuture;

use crate::boot::{BootTracker, ProcessState};
use crate::{EtcdError, EtcdMetrics, EtcdVersion};

/// A call to the member. It has no deadline of its own; dropping it cancels it.
pub type MemberCall<T> = BoxFuture<'static, Result<T, EtcdError>>;

/// One etcd member. [`crate::RemoteMember`] is the real one; tests use a scripted one.
pub trait Member: Send + Sync + 'static {
    /// Reads one key from the member's own store.
    fn serializable_read(&self) -> MemberCall<()>;

    /// Reads one key after a read index. Fails at once if the member knows no leader.
    fn linearizable_read(&self) -> MemberCall<()>;

    /// Waits for a read index without touching the store. Needs etcd 3.5 or later.
    ///
    /// Fails at once if the member knows no leader.
    fn read_index(&self) -> MemberCall<()>;

    /// Returns the member's status. It hangs while the store is locked.
    fn status(&self) -> MemberCall<MemberStatus>;

    /// Returns the leader's commit index, from the leader itself.
    fn leader_commit(&self, leader: u64) -> MemberCall<u64>;

    /// Calls the gRPC health service, which answers from memory even during a defragmentation.
    fn ping(&self) -> MemberCall<ServingStatus>;

    /// Sends a proposal without effect through the raft log. It costs every voter a log entry.
    fn propose(&self) -> MemberCall<()>;

    /// Asks for the progress of a watch on a key that nothing writes. The answer takes the same way
    /// as events: through the member's watch loop.
    fn watch_progress(&self) -> MemberCall<()>;

    /// Returns the number of members, as this member knows it. It is answered from memory.
    fn member_count(&self) -> MemberCall<usize>;

    /// Reads the member's metrics page.
    fn metrics(&self) -> MemberCall<EtcdMetrics>;

    /// Returns true if the metrics have a separate listener, which serves before the member has
    /// joined its cluster.
    fn has_own_metrics_listener(&self) -> bool;

    /// Returns whether the member has answered since it was last gone.
    fn boot(&self) -> BootTracker;

    /// Returns the state of the member's process.
    fn process(&self) -> ProcessState;
}

/// The status that the gRPC health service reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingStatus {
    /// The member serves requests, or reports an unknown status.
    Serving,
    /// A defragmentation is running. Only reported if the server flag for it is set.
    NotServing,
}

/// The watches whose progress a release reports on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchProgress {
    /// All.
    Always,
    /// Only those that have had events: 3.4.25 to 3.4.30 and 3.5.8 to 3.5.12.
    NeedsEvents,
}

/// The response to a status call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The server version. `None` if it does not begin with `major.minor`.
    pub version: Option<EtcdVersion>,
    /// The watches whose progress the member reports.
    pub watch_progress: WatchProgress,
    /// The ID of this member.
    pub id: u64,
    /// The ID of the leader, or 0 if the member knows none.
    pub leader: u64,
    /// The commit index, as far as the member knows it.
    pub commit: u64,
    /// The index of the last log entry applied.
    pub applied: u64,
    /// The member is a learner and does not vote.
    pub is_learner: bool,
    /// A CORRUPT alarm of any member is active.
    pub is_corrupt: bool,
    /// A NOSPACE alarm of any member is active.
    pub is_out_of_space: bool,
}

/// Returns true if one of `Status.errors` is this alarm, such as `CORRUPT`.
///
/// Versions differ in the whitespace of the text, and an alarm without a member has no `memberID`.
pub(crate) fn has_alarm(errors: &[String], alarm: &str) -> bool {
    let mut words = errors.iter().flat_map(|error| error.split_whitespace());
    let mut after_key = false;
    words.any(|word| {
        let value = if std::mem::take(&mut after_key) {
            Some(word)
        } else {
            word.strip_prefix("alarm:")
        };
        after_key = value == Some("");
        value == Some(alarm)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_corrupt_alarms_count() {
        for (errors, expected) in [
            (&["memberID:7 alarm:CORRUPT "][..], true),
            (&["memberID:7 alarm:CORRUPT"], true),
            (&["memberID:7  alarm:CORRUPT"], true),
            (&["memberID:7 alarm: CORRUPT"], true),
            (&["alarm:CORRUPT"], true),
            (
                &["memberID:7 alarm:NOSPACE", "memberID:8 alarm:CORRUPT"],
                true,
            ),
            (&["memberID:7 alarm:NOSPACE "], false),
            (&["etcdserver: no leader"], false),
            (&["etcdserver: corrupt cluster"], false),
            (&["alarm:", "x CORRUPT"], false),
            (&["alarm:CORRUPTED"], false),
            (&[], false),
        ] {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(has_alarm(&errors, "CORRUPT"), expected, "{errors:?}");
        }
    }
}
