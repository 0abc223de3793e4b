//! What can be asked of a member.

use futures_util::future::BoxFuture;

use crate::boot::{Boot, ProcessState};
use crate::{Fault, Sample, Version};

/// A call to the member. It ends with whoever waits for it; it has no deadline of its own.
pub type Call<T> = BoxFuture<'static, Result<T, Fault>>;

/// One etcd member. The real one is [`crate::Remote`]; tests have one that follows a script.
pub trait Member: Send + Sync + 'static {
    /// Reads one key from the member's own store.
    fn serializable_read(&self) -> Call<()>;

    /// Reads one key after a read index. Fails at once where no leader is known.
    fn linearizable_read(&self) -> Call<()>;

    /// Waits for a read index and touches no store; 3.5 and later. Fails at once where no leader
    /// is known.
    fn read_index(&self) -> Call<()>;

    /// What the member says of itself. It hangs while the store is locked.
    fn status(&self) -> Call<Status>;

    /// The commit index of the leader, asked of the leader itself.
    fn leader_commit(&self, leader: u64) -> Call<u64>;

    /// The gRPC health service: answered from memory, even during a defragmentation.
    fn ping(&self) -> Call<Serving>;

    /// Sends something without effect through the raft log. It costs every voter a log entry.
    fn propose(&self) -> Call<()>;

    /// The member's metrics page.
    fn metrics(&self) -> Call<Sample>;

    /// True if the metrics come from a listener of their own, which serves before the member has
    /// joined its cluster.
    fn has_own_metrics_listener(&self) -> bool;

    /// What the connection has seen of the member's life.
    fn boot(&self) -> Boot;

    /// What the process table says.
    fn process(&self) -> ProcessState;
}

/// What the gRPC health service says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// All is well.
    Serving,
    /// Said during a defragmentation, where the server's flag for it is set.
    NotServing,
}

/// What a member says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// None if it is not `major.minor…`.
    pub version: Option<Version>,
    /// Its own id.
    pub id: u64,
    /// The leader's id; 0 if it knows none.
    pub leader: u64,
    /// How far it knows the log to be committed.
    pub commit: u64,
    /// How far it has applied the log.
    pub applied: u64,
    /// It is a learner.
    pub is_learner: bool,
    /// A CORRUPT alarm is active, of whichever member.
    pub is_corrupt: bool,
}

/// True if one of `Status.errors` is a CORRUPT alarm. Versions differ in the blanks of the text,
/// and an alarm without a member has no `memberID`.
pub(crate) fn tells_corruption(errors: &[String]) -> bool {
    let mut words = errors.iter().flat_map(|error| error.split_whitespace());
    let mut after_key = false;
    words.any(|word| {
        let value = if std::mem::take(&mut after_key) {
            Some(word)
        } else {
            word.strip_prefix("alarm:")
        };
        after_key = value == Some("");
        value == Some("CORRUPT")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corruption_is_found_exactly_where_it_is_told() {
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
            assert_eq!(tells_corruption(&errors), expected, "{errors:?}");
        }
    }
}
