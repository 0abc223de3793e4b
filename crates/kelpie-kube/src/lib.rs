//! What Kelpie says to Kubernetes API servers: tenants and seed.

pub mod leader;
pub mod seed;
