//! What Kelpie says to Kubernetes API servers: tenants and seed.
