//! Tests of the checks against a scripted member, in paused time.

// Helpers of tests may panic as well.
#![allow(clippy::unwrap_used)]

mod boot;
mod call_errors;
mod defragmentation;
mod fixture;
mod healthy_member;
mod raft_progress;
mod remote_member;
