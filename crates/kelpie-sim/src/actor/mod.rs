//! The actors of a landscape besides its API servers.
//!
//! A `SimNode` has a kubelet that renews its lease. `NodeLifecycleController` is the part of
//! kube-controller-manager that marks silent nodes as Unknown and evicts their pods.
//! `MachineController` replaces the machines of lost nodes unless it is stopped or paused, `DeploymentController` starts and stops
//! pods, `ApiServerPod` crashes while etcd is down, and an API server renews its `ServerLease`.
//! Each actor is called at an instant and changes a store. None of them waits, so one schedule
//! drives them all.

mod api_server_pod;
mod deployment_controller;
mod machine_objects;
mod machines;
mod node;
mod node_lifecycle;
mod server_lease;

pub(crate) use api_server_pod::ApiServerPod;
pub use api_server_pod::PodTransition;
pub(crate) use deployment_controller::{DeploymentController, DeploymentKey, POD_START};
pub(crate) use machine_objects::{CAPI_MACHINES, CLUSTER_LABEL, MACHINES, MachineObjects};
pub(crate) use machines::{MachineAction, MachineController, node_name};
pub(crate) use node::{NodeReadiness, SimNode};
pub(crate) use node_lifecycle::{MONITOR_PERIOD, NodeLifecycleController};
pub use server_lease::ServerLease;
