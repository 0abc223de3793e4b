//! A gauge that is computed when it is scraped: the time since an instant.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kelpie_core::Time;
use kelpie_kube::AnchoredClock;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::family::MetricConstructor;
use prometheus_client::metrics::{MetricType, TypedMetric};

/// The seconds since an instant, or 0 if none is set.
///
/// A timestamp would be on this process' own timeline, which a step of the host's clock moves away
/// from that of other hosts. An age does not have this problem. Clones share the value.
#[derive(Clone, Debug)]
pub(crate) struct AgeGauge {
    clock: AnchoredClock,
    /// The instant in microseconds, or [`NEVER`].
    since: Arc<AtomicI64>,
}

const NEVER: i64 = i64::MAX;

impl AgeGauge {
    /// Sets the instant from which the age counts. `None` resets the gauge to 0.
    pub(crate) fn set(&self, since: Option<Time>) {
        let since = since.map_or(NEVER, Time::as_micros);
        self.since.store(since, Ordering::Relaxed);
    }

    fn seconds(&self) -> f64 {
        // The age of a future instant, such as `NEVER`, is 0.
        let since = Time::from_micros(self.since.load(Ordering::Relaxed));
        self.clock.now().since(since).as_secs_f64()
    }
}

impl TypedMetric for AgeGauge {
    const TYPE: MetricType = MetricType::Gauge;
}

impl EncodeMetric for AgeGauge {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.encode_gauge(&self.seconds())
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl MetricConstructor<AgeGauge> for AnchoredClock {
    fn new_metric(&self) -> AgeGauge {
        AgeGauge {
            clock: *self,
            since: Arc::new(AtomicI64::new(NEVER)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelpie_kube::SystemClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn age_grows_from_its_instant() {
        let clock = AnchoredClock::anchored(&SystemClock::default());
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
