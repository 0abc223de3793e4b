//! The guard: a policy in the watched cluster without whose permit kube-controller-manager cannot
//! turn a node Unknown.
//!
//! [`PermitJudge`] finds out which nodes may turn Unknown, by the same evidence as a fence.
//! [`NodeGuard`] keeps the policy of a cluster: it hands out [`GuardCall`]s and takes their
//! [`GuardReply`]s. The policy runs out by itself, so that a watchdog that is gone or blind cannot
//! hold nodes back for long.

mod call;
mod content;
mod group_hold;
mod node_guard;
mod permits;
mod policy;
mod retry;
mod settings;
mod state;

pub use call::{GuardCall, GuardReply, StoredBinding, StoredPolicy};
pub use content::{GuardContent, GuardMark};
pub use group_hold::{GroupHold, GroupKind, HeldGroup};
pub use node_guard::{GuardRole, NodeGuard};
pub use permits::{Judgement, MAX_PERMIT_BYTES, MAX_PERMITS, PermitJudge, Permits};
pub use policy::{
    GUARD_NAME, GuardBindingSpec, GuardPolicySpec, OWNER_ANNOTATION, mark_message, read_mark,
};
pub use settings::GuardSettings;
pub use state::GuardState;
