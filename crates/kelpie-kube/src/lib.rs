//! What Kelpie says to Kubernetes API servers: tenants and seed.
//!
//! Tenants, the way of a lease: a [`kubeconfig`] that nobody trusts gives an `Access`; a [`tenant`]
//! asks over few connections, with a deadline and without retries; [`wire`] decodes what comes.

pub mod kubeconfig;
pub mod leader;
pub mod seed;
pub mod tenant;
mod wall;
pub mod wire;

pub use wall::WallClock;
