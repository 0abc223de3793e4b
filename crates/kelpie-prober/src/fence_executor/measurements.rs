//! Measured delays of the seed, and the clusters that have to be fenced soon.

use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::RecentWorst;
use parking_lot::Mutex;

/// The weight of a new sample in the mean latency.
const NEW_SAMPLE: u32 = 8;
/// The fences per second that a small API server bears, beside the writes that follow from each:
/// of the Deployment controller, for example. The latency of single calls says nothing about many
/// at once, and once they are under way it is too late to start earlier. On a faster API server
/// fences come a little earlier, if hundreds of clusters are silent.
const ASSUMED_PACE: f64 = 100.0;
/// A call that takes longer gives its place in the queue back.
pub(super) const PLACE_LIMIT: Duration = Duration::from_secs(1);

/// The delays of calls to the seed, measured over all clusters. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct SeedMeasurements(Arc<Mutex<Measured>>);

#[derive(Debug, Default)]
struct Measured {
    latency: RecentWorst,
    /// The latency of requests that no admission webhook delays.
    plain_latency: RecentWorst,
    mean_latency: Duration,
    pod_stop: RecentWorst,
    /// The deadlines of clusters that still have to be fenced, in ascending order.
    pressed: Vec<(Time, Arc<str>)>,
}

impl SeedMeasurements {
    /// Takes in the time that a call took, or has taken so far.
    pub(super) fn record_latency(&self, now: Time, took: Duration) {
        let mut measured = self.0.lock();
        measured.latency.record(now, took);
        let mean = measured.mean_latency * (NEW_SAMPLE - 1) + took;
        measured.mean_latency = mean / NEW_SAMPLE;
    }

    /// Takes in the time that a request took which no admission webhook delays.
    pub(super) fn record_plain_latency(&self, now: Time, took: Duration) {
        self.0.lock().plain_latency.record(now, took);
        self.record_latency(now, took);
    }

    /// Takes in the time from an acknowledged fence to the end of its pods.
    pub(super) fn record_pod_stop(&self, now: Time, took: Duration) {
        self.0.lock().pod_stop.record(now, took);
    }

    pub(super) fn latency(&self, now: Time) -> Duration {
        self.0.lock().latency.at(now)
    }

    pub(super) fn plain_latency(&self, now: Time) -> Duration {
        self.0.lock().plain_latency.at(now)
    }

    pub(super) fn pod_stop(&self, now: Time) -> Duration {
        self.0.lock().pod_stop.at(now)
    }

    /// Returns the time that the calls of other clusters take whose deadlines are not later, if
    /// `limit` calls are under way at a time.
    pub(super) fn queue_delay(&self, deadline: Time, limit: f64) -> Duration {
        let measured = self.0.lock();
        let not_later = measured.pressed.partition_point(|(at, _)| *at <= deadline);
        let others = u32::try_from(not_later.saturating_sub(1)).unwrap_or(u32::MAX);
        let one = measured.mean_latency.min(PLACE_LIMIT);
        let by_latency = one.mul_f64(f64::from(others) / limit.max(1.0));
        by_latency.max(Duration::from_secs_f64(f64::from(others) / ASSUMED_PACE))
    }

    fn insert(&self, entry: (Time, Arc<str>)) {
        let pressed = &mut self.0.lock().pressed;
        if let Err(place) = pressed.binary_search(&entry) {
            pressed.insert(place, entry);
        }
    }

    fn remove(&self, entry: &(Time, Arc<str>)) {
        let pressed = &mut self.0.lock().pressed;
        if let Ok(place) = pressed.binary_search(entry) {
            pressed.remove(place);
        }
    }
}

/// The entry of a cluster among those that have to be fenced soon. Dropping it removes the entry.
#[derive(Debug)]
pub(super) struct PressedEntry {
    measurements: SeedMeasurements,
    cluster: Arc<str>,
    entered: Option<(Time, Arc<str>)>,
}

impl PressedEntry {
    pub(super) fn new(measurements: SeedMeasurements, cluster: Arc<str>) -> Self {
        Self {
            measurements,
            cluster,
            entered: None,
        }
    }

    /// Sets the deadline of the cluster; `None` if it has nothing to fence.
    pub(super) fn set(&mut self, deadline: Option<Time>) {
        if self.entered.as_ref().map(|(at, _)| *at) == deadline {
            return;
        }
        if let Some(entered) = self.entered.take() {
            self.measurements.remove(&entered);
        }
        if let Some(deadline) = deadline {
            let entry = (deadline, Arc::clone(&self.cluster));
            self.measurements.insert(entry.clone());
            self.entered = Some(entry);
        }
    }
}

impl Drop for PressedEntry {
    fn drop(&mut self) {
        self.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn place_in_queue_follows_earlier_deadlines() {
        let measurements = SeedMeasurements::default();
        for _ in 0..100 {
            measurements.record_latency(at(0), Duration::from_millis(80));
        }
        let mut entries: Vec<_> = (0..40_u8)
            .map(|number| {
                let cluster = number.to_string().into();
                let mut entry = PressedEntry::new(measurements.clone(), cluster);
                entry.set(Some(at(number.into())));
                entry
            })
            .collect();
        let delay = |deadline| measurements.queue_delay(at(deadline), 4.0).as_millis();
        assert_eq!(delay(0), 0);
        assert!((390..=400).contains(&delay(20)), "{}", delay(20));
        assert!((770..=780).contains(&delay(99)), "{}", delay(99));
        entries[3].set(Some(at(50)));
        entries[4].set(None);
        assert!((350..=361).contains(&delay(20)), "{}", delay(20));
        drop(entries);
        assert_eq!(delay(99), 0);
    }

    #[test]
    fn many_clusters_count_on_no_fast_seed() {
        let measurements = SeedMeasurements::default();
        measurements.record_latency(at(0), Duration::from_millis(1));
        let entries: Vec<_> = (0..1_000_u32)
            .map(|number| {
                let cluster = number.to_string().into();
                let mut entry = PressedEntry::new(measurements.clone(), cluster);
                entry.set(Some(at(7)));
                entry
            })
            .collect();
        assert_eq!(measurements.queue_delay(at(7), 64.0).as_millis(), 9_990);
        assert_eq!(measurements.queue_delay(at(6), 64.0), Duration::ZERO);
        drop(entries);
    }
}
