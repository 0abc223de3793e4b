//! The rules of a shared run, without a runtime: callers join a recent run or start a new one.

use std::time::Duration;

use tokio::time::Instant;

/// Maximum number of concurrent runs of one call.
///
/// The second run provides fresh evidence while an old one hangs. A third would only queue up
/// behind the same problem.
const MAX_RUNNING: usize = 2;

/// Identifies a run. Later runs have greater IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunId(u64);

/// The result of a run that has ended.
#[derive(Clone, Debug)]
pub(crate) struct FinishedRun<T> {
    run: RunId,
    /// The instant at which the run ended.
    pub(crate) at: Instant,
    pub(crate) value: T,
}

/// The answer to a caller that wants a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Wait for this run, which is recent enough.
    Join(RunId),
    /// Start this run now and wait for it.
    Start(RunId),
    /// All permitted runs are in progress and too old. Ask again when one ends.
    Full,
}

/// The runs of one call that are in progress, and the result of the latest that ended.
#[derive(Debug)]
pub(crate) struct SingleFlight<T> {
    /// The runs in progress with their starts, oldest first.
    running: Vec<(RunId, Instant)>,
    last: Option<FinishedRun<T>>,
    next_id: u64,
}

impl<T> SingleFlight<T> {
    pub(crate) fn new() -> Self {
        Self {
            running: Vec::with_capacity(MAX_RUNNING),
            last: None,
            next_id: 0,
        }
    }

    /// Joins a run that started at most `max_age` ago, or starts a new one.
    ///
    /// Of two such runs the older is joined: its waiters also get the result of the newer one if
    /// that ends first.
    pub(crate) fn join_or_start(&mut self, now: Instant, max_age: Duration) -> Admission {
        let is_recent = |started: &Instant| now.saturating_duration_since(*started) <= max_age;
        let recent = self.running.iter().find(|(_, started)| is_recent(started));
        if let Some((run, _)) = recent {
            return Admission::Join(*run);
        }
        if self.running.len() >= MAX_RUNNING {
            return Admission::Full;
        }
        let run = RunId(self.next_id);
        self.next_id += 1;
        self.running.push((run, now));
        Admission::Start(run)
    }

    /// Ends a run with a result. The result is kept unless a later run has already ended.
    pub(crate) fn finish(&mut self, run: RunId, at: Instant, value: T) {
        self.abandon(run);
        if self.last.as_ref().is_none_or(|last| last.run < run) {
            self.last = Some(FinishedRun { run, at, value });
        }
    }

    /// Ends a run without a result.
    pub(crate) fn abandon(&mut self, run: RunId) {
        self.running.retain(|(running, _)| *running != run);
    }

    pub(crate) fn is_running(&self, run: RunId) -> bool {
        self.running.iter().any(|(running, _)| *running == run)
    }

    /// Returns the result for the waiters of `run`: its own, or that of a later run.
    pub(crate) fn result_for(&self, run: RunId) -> Option<&FinishedRun<T>> {
        self.last.as_ref().filter(|last| last.run >= run)
    }

    /// Returns the latest result of any run.
    pub(crate) fn last(&self) -> Option<&FinishedRun<T>> {
        self.last.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn start(flight: &mut SingleFlight<u32>, now: Instant) -> RunId {
        match flight.join_or_start(now, Duration::ZERO) {
            Admission::Start(run) => run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn run_is_joined_up_to_max_age() {
        let t0 = Instant::now();
        let mut flight = SingleFlight::<u32>::new();
        let run = start(&mut flight, t0);
        let joined = flight.join_or_start(t0 + seconds(4), seconds(4));
        assert_eq!(joined, Admission::Join(run));
        let late = flight.join_or_start(t0 + seconds(4) + Duration::from_nanos(1), seconds(4));
        assert!(matches!(late, Admission::Start(_)), "{late:?}");
    }

    #[test]
    fn third_run_never_starts() {
        let t0 = Instant::now();
        let mut flight = SingleFlight::<u32>::new();
        let first = start(&mut flight, t0);
        let second = start(&mut flight, t0 + seconds(1));
        let full = flight.join_or_start(t0 + seconds(9), seconds(1));
        assert_eq!(full, Admission::Full);
        flight.abandon(first);
        assert!(!flight.is_running(first) && flight.is_running(second));
        let third = flight.join_or_start(t0 + seconds(9), seconds(1));
        assert!(matches!(third, Admission::Start(_)), "{third:?}");
    }

    #[test]
    fn older_run_is_joined_and_either_answers() {
        let t0 = Instant::now();
        let mut flight = SingleFlight::<u32>::new();
        let first = start(&mut flight, t0);
        let second = start(&mut flight, t0 + seconds(1));
        let joined = flight.join_or_start(t0 + seconds(2), seconds(4));
        assert_eq!(joined, Admission::Join(first));
        flight.finish(second, t0 + seconds(2), 2);
        assert_eq!(flight.result_for(first).unwrap().value, 2);
    }

    #[test]
    fn old_run_never_overwrites_a_newer_result() {
        let t0 = Instant::now();
        let mut flight = SingleFlight::<u32>::new();
        let first = start(&mut flight, t0);
        let second = start(&mut flight, t0 + seconds(1));
        flight.finish(second, t0 + seconds(2), 2);
        flight.finish(first, t0 + seconds(3), 1);
        let last = flight.last().unwrap();
        assert_eq!((last.value, last.at), (2, t0 + seconds(2)));
    }

    #[test]
    fn old_result_answers_no_later_run() {
        let t0 = Instant::now();
        let mut flight = SingleFlight::<u32>::new();
        let first = start(&mut flight, t0);
        flight.finish(first, t0, 1);
        let second = start(&mut flight, t0);
        assert!(flight.result_for(second).is_none());
        assert!(flight.last().is_some());
    }

    proptest! {
        /// In any order of events at most two runs are in progress, no run is joined that is too
        /// old, and results never go back to an earlier run.
        #[test]
        fn rules_hold_in_any_order(
            steps in prop::collection::vec((0_u64..3_000, 0_u64..5_000, 0_u8..4), 0..80),
        ) {
            let mut now = Instant::now();
            let mut flight = SingleFlight::<u32>::new();
            let mut newest = None;
            for (elapsed, max_age, step) in steps {
                now += Duration::from_millis(elapsed);
                let max_age = Duration::from_millis(max_age);
                let (oldest, latest) = (flight.running.first(), flight.running.last());
                match (step, oldest.copied(), latest.copied()) {
                    (2, Some((run, _)), _) => flight.abandon(run),
                    (3, _, Some((run, _))) => flight.finish(run, now, 0),
                    _ => match flight.join_or_start(now, max_age) {
                        Admission::Join(run) => {
                            let joined = flight.running.iter().find(|(id, _)| *id == run);
                            let (_, started) = joined.unwrap();
                            prop_assert!(now.duration_since(*started) <= max_age);
                        }
                        Admission::Start(run) => prop_assert!(flight.is_running(run)),
                        Admission::Full => {
                            let old = |(_, started): &(RunId, Instant)| now - *started > max_age;
                            prop_assert_eq!(flight.running.len(), MAX_RUNNING);
                            prop_assert!(flight.running.iter().all(old));
                        }
                    },
                }
                prop_assert!(flight.running.len() <= MAX_RUNNING);
                let last = flight.last().map(|last| last.run);
                prop_assert!(last >= newest);
                newest = last;
            }
        }
    }
}
