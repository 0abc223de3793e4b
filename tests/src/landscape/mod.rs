//! A landscape: a seed with the control planes of its shoots, kubelets that renew leases, pods that
//! follow their Deployments, and ways to break all of it.
//!
//! Read in this order: a [`Seed`] is an API server with Gardener's kinds. [`Kubelets`] renew the leases
//! of the nodes of some API server until they are cut off. A [`Shoot`] is a control namespace in the
//! seed: the Cluster, the kubeconfig Secret, the Machines and the controllers. [`Pods`] make replicas
//! ready, a [`Timeline`] keeps every change of the controllers. A [`Proxy`] stands in the way of
//! somebody's connections, a [`Doorman`] sees and judges every request, an [`Impostor`] answers as no API
//! server would, a [`Canary`] tells how slow the machine is. A [`Prober`] is the product, run on a
//! [`ProberConfig`]; its times follow from one [`Pace`]. A [`Contender`] is any prober, to be measured, a
//! [`Predecessor`] writes what dependency-watchdog writes. [`Dependants`] are services and the pods that
//! crash without them, for the [`Weeder`].

mod canary;
mod command_line;
mod config;
mod contender;
pub mod dependants;
pub(crate) mod deployments;
mod doorman;
mod impostor;
mod kubelets;
mod pace;
mod pods;
mod predecessor;
mod prober;
mod proxy;
mod rbac;
pub mod rest;
mod seed;
mod shoot;
mod timeline;
pub(crate) mod wall_clock;
mod weeder;

pub use canary::Canary;
pub use config::{ProberConfig, ScaleRule, Target};
pub use contender::{Contender, gardeners_words};
pub use dependants::{Dependants, PodSpec};
pub use doorman::{Asked, Doorman, Ruling};
pub use impostor::{Impostor, Play};
pub use kubelets::{Kubelets, Renewed};
pub use pace::Pace;
pub use pods::Pods;
pub use predecessor::Predecessor;
pub use prober::Prober;
pub use proxy::{Fault, Proxy};
pub use rbac::{grant_gardeners_rights, grant_gardeners_weeder_rights, tenant};
pub use seed::Seed;
pub use shoot::{Controller, MARKER, RECORD, Shoot};
pub use timeline::{Entry, Timeline};
pub use weeder::Weeder;
