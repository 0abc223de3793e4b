//! Who acts in a landscape beside its API servers.
//!
//! A `Node` has a kubelet that renews its lease; `Lifecycle` is the controller of kube-controller-manager
//! that turns silent nodes Unknown and evicts their pods; `MachineController` replaces their machines;
//! `Deployments` makes pods follow replicas; `Dependants` crash while what they need is gone. Each is asked
//! to act at an instant and changes a store; none waits for anything by itself, so that one schedule
//! drives them all.

mod dependants;
mod deployments;
mod lifecycle;
mod machines;
mod node;

pub(crate) use dependants::Dependants;
pub use dependants::Turn;
pub(crate) use deployments::{Deployments, Key};
pub(crate) use lifecycle::{Lifecycle, TICK};
pub(crate) use machines::{Deed, MACHINES, MachineController, create as create_machine, node_name};
pub(crate) use node::{Health, Node, Pace};
