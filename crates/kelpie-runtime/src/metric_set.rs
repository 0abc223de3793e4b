//! Registration of a component's metrics.

use prometheus_client::registry::{Metric, Registry};

/// The metrics of one component, whose names have a common prefix. They are rendered in the order
/// in which they were added.
#[derive(Debug)]
pub struct MetricSet<'r>(&'r mut Registry);

impl<'r> MetricSet<'r> {
    /// Creates a set in `registry` for names with this prefix.
    pub fn new(registry: &'r mut Registry, prefix: &str) -> Self {
        Self(registry.sub_registry_with_prefix(prefix))
    }

    /// Registers a new metric and returns it.
    pub fn add<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.register(name, help, M::default())
    }

    /// Registers a metric that exists already, and returns it.
    pub fn register<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }
}
