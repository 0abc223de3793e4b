//! The prober's metrics on show, for the reference and the tests of what is built on them.

use kelpie_kube::seed::{LostEvents, SeedNumbers};
use kelpie_kube::{Clock, WallClock};
use prometheus_client::registry::Registry;

use crate::metrics::{ClusterMetrics, Metrics, PREFIX};

/// Series of a cluster that does not exist. They go when this is dropped.
#[derive(Debug)]
pub struct Exhibit {
    _series: ClusterMetrics,
}

impl Exhibit {
    /// Registers all families, with at least one series in each, so that their labels show.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Metrics::new(registry, Clock::anchored(&WallClock::default()));
        SeedNumbers::register(registry, PREFIX, || [(200, 1)].into(), LostEvents::default);
        Self {
            _series: metrics.of_cluster(&"shoot--dev--one".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn every_family_shows_a_series() {
        let mut registry = Registry::default();
        let exhibit = Exhibit::new(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (line, next) in lines.iter().zip(&lines[1..]) {
            if line.starts_with("# TYPE ") {
                assert!(!next.starts_with('#'), "{line} has no series");
            }
        }
        drop(exhibit);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        assert!(!text.contains("shoot--dev--one"), "{text}");
    }
}
