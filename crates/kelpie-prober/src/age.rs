//! A gauge that shows how long ago something was, at the moment it is asked for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kelpie_core::Time;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::family::MetricConstructor;
use prometheus_client::metrics::{MetricType, TypedMetric};

use crate::clock::Clock;

/// Seconds since an instant; 0 if there is none. An instant itself would be one of our own timeline,
/// which a step of the host's clock takes away from everybody else's. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Age {
    clock: Clock,
    /// In microseconds.
    since: Arc<AtomicI64>,
}

const NEVER: i64 = i64::MAX;

impl Age {
    /// It counts from here on.
    pub(crate) fn set(&self, since: Option<Time>) {
        let since = since.map_or(NEVER, Time::as_micros);
        self.since.store(since, Ordering::Relaxed);
    }

    fn seconds(&self) -> f64 {
        // What lies ahead, as never does, was 0 s ago.
        let since = Time::from_micros(self.since.load(Ordering::Relaxed));
        self.clock.now().since(since).as_secs_f64()
    }
}

impl TypedMetric for Age {
    const TYPE: MetricType = MetricType::Gauge;
}

impl EncodeMetric for Age {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.encode_gauge(&self.seconds())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl MetricConstructor<Age> for Clock {
    fn new_metric(&self) -> Age {
        Age {
            clock: *self,
            since: Arc::new(AtomicI64::new(NEVER)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelpie_kube::WallClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_grows_by_itself_and_is_nothing_without_an_instant() {
        let clock = Clock::anchored(&WallClock::default());
        let age = clock.new_metric();
        let shows = |expected: f64| assert!((age.seconds() - expected).abs() < 1e-6);
        tokio::time::advance(Duration::from_secs(5)).await;
        shows(0.0);
        age.set(Some(clock.now()));
        shows(0.0);
        tokio::time::advance(Duration::from_millis(1_500)).await;
        shows(1.5);
        age.set(None);
        shows(0.0);
    }
}
