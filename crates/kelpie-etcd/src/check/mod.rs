//! The checks: one small type or function each. Judgement is over values; asking is around it.

pub(crate) mod defragmentation;
pub(crate) mod from_status;
pub(crate) mod linearizable_read;
pub(crate) mod raft_loop;
pub(crate) mod raft_propose;
pub(crate) mod serializable_read;
