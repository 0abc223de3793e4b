//! A test harness for real servers: etcd and kube-apiserver on loopback, each with its own keys,
//! and the `kelpie` binary itself.
//!
//! Read in this order:
//!
//! - [`ControlPlane`] is what most tests start: an [`EtcdMember`] and a [`KubeApiServer`] on top of
//!   it. A [`KubeControllerManager`] acts on its objects. [`Credentials`] identify a client.
//! - [`SimApiServer`] is an API server of the simulator.
//! - [`landscape`] sets up a seed cluster with shoot clusters. [`race`] adds real
//!   kube-controller-managers, [`outage`] cuts all clusters off at once, and [`soak`] injects
//!   random faults for a while.
//! - [`MetricsServer`] is a Prometheus or a `VictoriaMetrics`.
//! - [`Kelpie`] runs the built binary. [`LocalPod`] starts it as a Deployment would, and
//!   [`ImageRoot`] is the container image.
//! - [`process`] runs a server and ends it with its test, [`pki`] issues keys and certificates, and
//!   [`poll`] waits for a condition with a timeout. [`open_files`] raises the limit of open files.
//!   [`kubectl`] and [`python`] run other clients.
//!
//! Each test starts its own servers. That costs two seconds and keeps tests independent of each
//! other. `KELPIE_KEEP=1` keeps the folders with logs and keys.

mod api_server;
mod control_plane;
mod controller_manager;
mod credentials;
pub mod disk;
mod etcd;
mod folder;
mod image_root;
pub mod kelpie;
pub mod kubectl;
pub mod landscape;
mod local_pod;
mod metrics_server;
pub mod open_files;
pub mod outage;
mod percentiles;
pub mod pki;
pub mod plain_http;
pub mod poll;
mod port;
pub mod process;
pub mod python;
pub mod race;
mod sim_api_server;
pub mod soak;

pub use api_server::{ApiResponse, KubeApiServer, get_raw};
pub use control_plane::ControlPlane;
pub use controller_manager::KubeControllerManager;
pub use credentials::Credentials;
pub use etcd::{CertificateFiles, ETCD_RELEASES, EtcdCluster, EtcdMember, EtcdSetup};
pub use image_root::ImageRoot;
pub use kelpie::Kelpie;
pub use local_pod::LocalPod;
pub use metrics_server::{MetricsServer, OWN_ADDRESS, PromLabels, PromSamples};
pub use sim_api_server::SimApiServer;
