//! What Kelpie says to Kubernetes API servers: tenants and seed.

pub mod kubeconfig;
pub mod leader;
pub mod seed;
pub mod tenant;
pub mod wire;
