//! The weeder's metrics on show, for the reference and the tests of what is built on them.

use kelpie_kube::seed::{LostEvents, SeedNumbers};
use prometheus_client::registry::Registry;

use crate::metrics::{Metrics, PREFIX};

/// Families that nobody counts in.
#[derive(Debug)]
pub struct Exhibit {
    _families: Metrics,
}

impl Exhibit {
    /// Registers all families, with at least one series in each, so that their labels show.
    pub fn new(registry: &mut Registry) -> Self {
        let families = Metrics::new(registry, ["etcd-main-client"].into_iter());
        SeedNumbers::register(registry, PREFIX, || [(200, 1)].into(), LostEvents::default);
        Self {
            _families: families,
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
        let _exhibit = Exhibit::new(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (line, next) in lines.iter().zip(&lines[1..]) {
            if line.starts_with("# TYPE ") {
                assert!(!next.starts_with('#'), "{line} has no series");
            }
        }
    }
}
