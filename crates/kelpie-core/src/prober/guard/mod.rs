//! The guard: a policy in the watched cluster without whose permit kube-controller-manager cannot
//! turn a node Unknown.
//!
//! [`PermitJudge`] finds out which nodes may turn Unknown, by the same evidence as a fence.
//! [`NodeGuard`] keeps the policy of a cluster: it hands out [`GuardCall`]s and takes their
//! [`GuardReply`]s. The policy runs out by itself, so that a watchdog that is gone or blind cannot
//! hold nodes back for long.

mod call;
mod content;
mod node_guard;
mod permits;
mod policy;
mod settings;

pub use call::{GuardCall, GuardReply, StoredBinding, StoredPolicy};
pub use content::{GuardContent, GuardMark};
pub use node_guard::{GuardRole, GuardState, NodeGuard};
pub use permits::{MAX_PERMITS, PermitJudge, Permits};
pub use policy::{
    GUARD_NAME, OWNER_ANNOTATION, binding_object, mark_message, policy_object, read_binding,
    read_content, read_mark, read_policy,
};
pub use settings::GuardSettings;
