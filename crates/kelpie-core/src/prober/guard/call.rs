//! The calls of a guard, and the replies to them.

use super::content::{GuardContent, GuardMark};
use crate::prober::fence::ResourceVersion;

/// A call to the watched cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardCall {
    /// Reads the policy.
    ReadPolicy,
    /// Reads the binding.
    ReadBinding,
    /// Writes the policy.
    WritePolicy {
        /// The content to write.
        content: GuardContent,
        /// The version that is replaced; `None` creates the policy.
        replaces: Option<ResourceVersion>,
    },
    /// Writes the binding.
    WriteBinding {
        /// The version that is replaced; `None` creates the binding.
        replaces: Option<ResourceVersion>,
    },
    /// Asks which content is enforced, by a request that the policy denies.
    AskEnforced,
    /// Deletes the binding and the policy.
    Remove,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardReply {
    /// The policy as it was read; `None` if it does not exist.
    Policy(Option<StoredPolicy>),
    /// The binding as it was read; `None` if it does not exist.
    Binding(Option<StoredBinding>),
    /// A write succeeded and made this version.
    Written(ResourceVersion),
    /// The enforced content; `None` if no policy denied the request.
    Enforced(Option<GuardMark>),
    /// Both objects are gone.
    Removed,
    /// A write rested on an old version, or the object to create exists.
    Conflict,
    /// The API server does not know policies.
    Unsupported,
    /// The credentials do not allow the call.
    Refused,
    /// The call failed in another way. A write may have happened.
    Failed,
}

/// A policy in the watched cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPolicy {
    /// Its version.
    pub version: ResourceVersion,
    /// The watchdog that wrote it.
    pub owner: String,
    /// Its content; `None` if its fixed text is not ours.
    pub content: Option<GuardContent>,
}

/// A binding in the watched cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBinding {
    /// Its version.
    pub version: ResourceVersion,
    /// Its text is ours.
    pub is_intact: bool,
}
