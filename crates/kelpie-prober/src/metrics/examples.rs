//! Example series of all metrics, for the generated reference.

use kelpie_kube::client::ClientMetrics;
use kelpie_kube::events::DroppedEvents;
use kelpie_kube::{AnchoredClock, SystemClock};
use prometheus_client::registry::Registry;

use super::{ClusterMetrics, PREFIX, ProberMetrics};

/// The series of a cluster that does not exist. They are removed when this is dropped.
#[derive(Debug)]
pub struct ExampleSeries {
    _cluster: ClusterMetrics,
}

/// Registers all metrics of the prober, each with at least one series so that its labels are known.
#[must_use = "dropping it removes the example series"]
pub fn register_metrics(registry: &mut Registry) -> ExampleSeries {
    let metrics = ProberMetrics::new(registry, AnchoredClock::anchored(&SystemClock::default()));
    ClientMetrics::register(
        registry,
        PREFIX,
        || [(200, 1)].into(),
        DroppedEvents::default,
    );
    ExampleSeries {
        _cluster: metrics.of_cluster(&"shoot--dev--one".into()),
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn every_family_has_an_example() {
        let mut registry = Registry::default();
        let examples = register_metrics(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (line, next) in lines.iter().zip(&lines[1..]) {
            if line.starts_with("# TYPE ") {
                assert!(!next.starts_with('#'), "{line} has no series");
            }
        }
        drop(examples);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        assert!(!text.contains("shoot--dev--one"), "{text}");
    }
}
