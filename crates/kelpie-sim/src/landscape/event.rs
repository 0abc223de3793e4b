//! The events of a landscape, for traces and observers.

use std::fmt;
use std::sync::Arc;

use kelpie_core::Time;

use crate::actor::PodTransition;

/// An event in a landscape.
#[derive(Clone, Debug, PartialEq)]
pub struct SimEvent {
    /// The landscape's time of the event.
    pub at: Time,
    /// The kind of event, with its details.
    pub kind: SimEventKind,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are named after what they are")]
pub enum SimEventKind {
    /// A request was answered. The status is 0 if the response was lost.
    Request {
        /// The cluster's name, or `seed`.
        server: Arc<str>,
        /// The arrival time. The event's own time is that of the response.
        received_at: Time,
        /// True if the sender was paused while the request was in flight. It may have given up
        /// before the response.
        was_held: bool,
        user: String,
        verb: &'static str,
        path: String,
        status: u16,
    },
    /// A fault of the scenario began.
    FaultBegan { fault: String },
    /// A fault of the scenario ended.
    FaultEnded { fault: String },
    /// kube-controller-manager marked a node as Unknown.
    NodeUnknown { cluster: Arc<str>, node: Arc<str> },
    /// A node that was Unknown is Ready again.
    NodeReady { cluster: Arc<str>, node: Arc<str> },
    /// Pods were evicted from a node.
    PodsEvicted {
        cluster: Arc<str>,
        node: Arc<str>,
        count: u64,
    },
    /// The machine of a node was deleted and a new one requested.
    MachineReplaced { cluster: Arc<str>, node: Arc<str> },
    /// A new machine joined as a node.
    NodeJoined { cluster: Arc<str>, node: Arc<str> },
    /// The number of a controller's pods changed to `count`.
    ControllerScaled {
        cluster: Arc<str>,
        controller: Arc<str>,
        count: u32,
    },
    /// The pod of kube-apiserver crashed for want of etcd, was deleted, or started.
    ApiServerPod {
        cluster: Arc<str>,
        transition: PodTransition,
    },
}

impl fmt::Display for SimEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.kind)
    }
}

impl fmt::Display for SimEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request {
                server,
                user,
                verb,
                path,
                status,
                ..
            } => write!(f, "{server}: {user} {verb} {path} -> {status}"),
            Self::FaultBegan { fault } => write!(f, "fault begins: {fault}"),
            Self::FaultEnded { fault } => write!(f, "fault ends: {fault}"),
            Self::NodeUnknown { cluster, node } => write!(f, "{cluster}: {node} turned Unknown"),
            Self::NodeReady { cluster, node } => write!(f, "{cluster}: {node} is Ready again"),
            Self::PodsEvicted {
                cluster,
                node,
                count,
            } => write!(f, "{cluster}: {count} pods evicted from {node}"),
            Self::MachineReplaced { cluster, node } => {
                write!(f, "{cluster}: machine of {node} is replaced")
            }
            Self::NodeJoined { cluster, node } => write!(f, "{cluster}: {node} joined"),
            Self::ControllerScaled {
                cluster,
                controller,
                count,
            } => write!(f, "{cluster}: {controller} has {count} pods"),
            Self::ApiServerPod {
                cluster,
                transition,
            } => write!(f, "{cluster}: kube-apiserver {transition}"),
        }
    }
}
