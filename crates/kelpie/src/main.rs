//! The watchdog for Kubernetes control planes.
fn main() {}
