//! The checks, one small type or function each. Pure functions judge; the types around them make
//! the calls.

pub(crate) mod defragmentation;
pub(crate) mod from_status;
pub(crate) mod linearizable_read;
pub(crate) mod performance;
pub(crate) mod raft_loop;
pub(crate) mod raft_propose;
pub(crate) mod serializable_read;
pub(crate) mod watch;
