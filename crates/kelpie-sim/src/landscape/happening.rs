//! What happens in a landscape, for traces and for who keeps an eye on it.

use std::fmt;
use std::sync::Arc;

use kelpie_core::Time;

use crate::actor::Turn;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Happening {
    /// When.
    pub at: Time,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are named after what they are")]
pub enum What {
    /// A request was answered, with status 0 if the answer was lost.
    Call {
        /// The cluster, or `seed`.
        server: Arc<str>,
        /// When it arrived; it was answered when this happened.
        came: Time,
        /// Who sent it was stopped meanwhile: it may have given up before it was answered.
        was_held: bool,
        user: String,
        verb: &'static str,
        path: String,
        status: u16,
    },
    /// A fault began.
    FaultBegan { fault: String },
    /// A fault is over.
    FaultEnded { fault: String },
    /// kube-controller-manager has given a node up.
    NodeUnknown { cluster: Arc<str>, node: Arc<str> },
    /// A node that was given up is back.
    NodeReady { cluster: Arc<str>, node: Arc<str> },
    /// Pods had to leave a node.
    PodsEvicted {
        cluster: Arc<str>,
        node: Arc<str>,
        count: u64,
    },
    /// The machine of a node is given up and a new one made.
    MachineReplaced { cluster: Arc<str>, node: Arc<str> },
    /// A new machine has become a node.
    NodeJoined { cluster: Arc<str>, node: Arc<str> },
    /// A controller has so many pods now.
    Pods {
        cluster: Arc<str>,
        controller: Arc<str>,
        count: u32,
    },
    /// What depends on etcd crashed, or runs again.
    Dependant { cluster: Arc<str>, turn: Turn },
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.what)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call {
                server,
                user,
                verb,
                path,
                status,
                ..
            } => write!(f, "{server}: {user} {verb} {path} -> {status}"),
            Self::FaultBegan { fault } => write!(f, "begins: {fault}"),
            Self::FaultEnded { fault } => write!(f, "ends: {fault}"),
            Self::NodeUnknown { cluster, node } => write!(f, "{cluster}: {node} turned Unknown"),
            Self::NodeReady { cluster, node } => write!(f, "{cluster}: {node} is Ready again"),
            Self::PodsEvicted {
                cluster,
                node,
                count,
            } => write!(f, "{cluster}: {count} pods evicted from {node}"),
            Self::MachineReplaced { cluster, node } => {
                write!(f, "{cluster}: the machine of {node} is replaced")
            }
            Self::NodeJoined { cluster, node } => write!(f, "{cluster}: {node} joined"),
            Self::Pods {
                cluster,
                controller,
                count,
            } => write!(f, "{cluster}: {controller} has {count} pods"),
            Self::Dependant { cluster, turn } => write!(f, "{cluster}: kube-apiserver {turn}"),
        }
    }
}
