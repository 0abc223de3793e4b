//! What Kelpie says to Kubernetes API servers: tenants and seed.
//!
//! [`seed`] is the cluster that we act on; [`objects`] are any of its objects, as they are.
//! Tenants, the way of a lease: a [`kubeconfig`] that nobody trusts gives an `Access`; a [`tenant`]
//! asks over few connections, with a deadline and without retries; [`wire`] decodes what comes.

mod clock;
pub mod kubeconfig;
pub mod leader;
pub mod objects;
pub mod seed;
pub mod tenant;
mod wall;
pub mod wire;

pub use clock::Clock;
pub use wall::WallClock;
