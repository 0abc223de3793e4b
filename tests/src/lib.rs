//! A harness for tests on real servers: etcd and kube-apiserver on loopback, with their own keys, and
//! the product itself.
//!
//! Read in this order: [`ControlPlane`] is what most tests start; it is an [`Etcd`] and an
//! [`ApiServer`] on it; a [`ControllerManager`] acts on its objects. [`Credentials`] say who a client
//! is. An etcd [`Cluster`] has several members that can be paused, killed and replaced. [`Simulated`]
//! is an API server of the simulator. A [`landscape`] is a seed with shoots; in a [`race`]
//! kube-controller-managers run there as well, in an [`outage`] all shoots go at once, in a [`soak`]
//! everything goes wrong for a while. A [`MetricsServer`] is a Prometheus or a `VictoriaMetrics`.
//! [`Kelpie`] is the built binary, a [`Pod`] starts it as a Deployment would. Under them, [`process`] runs a server and ends it with its test,
//! [`pki`] makes keys and certificates, [`poll`] waits for an event with a deadline. [`kubectl`] and
//! [`python`] are clients of others.
//!
//! Every test starts its own servers: that costs two seconds and makes tests independent of each
//! other. `KELPIE_KEEP=1` keeps the folders with logs and keys.

mod api_server;
mod control_plane;
mod controller_manager;
mod credentials;
pub mod disk;
mod etcd;
mod folder;
pub mod kelpie;
pub mod kubectl;
pub mod landscape;
mod metrics_server;
pub mod outage;
pub mod pki;
mod pod;
pub mod poll;
mod port;
pub mod process;
pub mod python;
pub mod race;
mod seconds;
mod simulated;
pub mod soak;
pub mod wire;

pub use api_server::{Answer, ApiServer, get};
pub use control_plane::ControlPlane;
pub use controller_manager::ControllerManager;
pub use credentials::Credentials;
pub use etcd::{Cluster, Etcd, Keys, LINES, Setup};
pub use kelpie::Kelpie;
pub use metrics_server::{ITSELF, Labels, MetricsServer, Samples};
pub use pod::Pod;
pub use simulated::Simulated;
