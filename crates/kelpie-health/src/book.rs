//! Who runs, who joins whom, and what came of it: the rules of a shared run, without a runtime.

use std::time::Duration;

use tokio::time::Instant;

/// Runs of one call that may be out at once. The second exists so that fresh evidence can be had
/// while an old run hangs; a third would only pile up behind the same trouble.
const MOST_OUT: usize = 2;

/// A run, in the order of starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunId(u64);

/// A result, and the run it came from.
#[derive(Clone, Debug)]
pub(crate) struct Landed<T> {
    run: RunId,
    /// When it ended.
    pub(crate) at: Instant,
    pub(crate) value: T,
}

/// Where somebody who wants a result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A run is out that is young enough.
    Join(RunId),
    /// A new run, which the caller has to start now.
    Start(RunId),
    /// All runs that may be out are out, and too old. Enter again when one ends.
    Full,
}

/// The runs of one call that are out, and the result of the youngest that ended.
#[derive(Debug)]
pub(crate) struct Book<T> {
    /// Oldest first.
    out: Vec<(RunId, Instant)>,
    last: Option<Landed<T>>,
    next: u64,
}

impl<T> Book<T> {
    pub(crate) fn new() -> Self {
        Self {
            out: Vec::with_capacity(MOST_OUT),
            last: None,
            next: 0,
        }
    }

    /// Joins a run that is no older than `fresh`. Of two, the older: whatever ends first, it or the
    /// younger one, will do.
    pub(crate) fn enter(&mut self, now: Instant, fresh: Duration) -> Entry {
        let young = |started: &Instant| now.saturating_duration_since(*started) <= fresh;
        if let Some((run, _)) = self.out.iter().find(|(_, started)| young(started)) {
            return Entry::Join(*run);
        }
        if self.is_full() {
            return Entry::Full;
        }
        let run = RunId(self.next);
        self.next += 1;
        self.out.push((run, now));
        Entry::Start(run)
    }

    /// A run ended with a result. It is kept unless a younger run already told its own.
    pub(crate) fn land(&mut self, run: RunId, at: Instant, value: T) {
        self.give_up(run);
        if self.last.as_ref().is_none_or(|last| last.run < run) {
            self.last = Some(Landed { run, at, value });
        }
    }

    /// A run ended without a result.
    pub(crate) fn give_up(&mut self, run: RunId) {
        self.out.retain(|(out, _)| *out != run);
    }

    pub(crate) fn is_out(&self, run: RunId) -> bool {
        self.out.iter().any(|(out, _)| *out == run)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.out.len() >= MOST_OUT
    }

    /// What those who wait for this run are told: its result, or that of a younger one.
    pub(crate) fn answer(&self, run: RunId) -> Option<&Landed<T>> {
        self.last.as_ref().filter(|last| last.run >= run)
    }

    /// The last result, from whichever run.
    pub(crate) fn last(&self) -> Option<&Landed<T>> {
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

    fn start(book: &mut Book<u32>, now: Instant) -> RunId {
        match book.enter(now, Duration::ZERO) {
            Entry::Start(run) => run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_run_is_joined_up_to_the_waiters_own_deadline() {
        let t0 = Instant::now();
        let mut book = Book::<u32>::new();
        let run = start(&mut book, t0);
        assert_eq!(book.enter(t0 + seconds(4), seconds(4)), Entry::Join(run));
        let late = book.enter(t0 + seconds(4) + Duration::from_nanos(1), seconds(4));
        assert!(matches!(late, Entry::Start(_)), "{late:?}");
    }

    #[test]
    fn a_third_run_is_never_started() {
        let t0 = Instant::now();
        let mut book = Book::<u32>::new();
        let first = start(&mut book, t0);
        let second = start(&mut book, t0 + seconds(1));
        assert_eq!(book.enter(t0 + seconds(9), seconds(1)), Entry::Full);
        book.give_up(first);
        assert!(!book.is_out(first) && book.is_out(second));
        let third = book.enter(t0 + seconds(9), seconds(1));
        assert!(matches!(third, Entry::Start(_)), "{third:?}");
    }

    #[test]
    fn of_two_runs_the_older_is_joined_and_either_answers() {
        let t0 = Instant::now();
        let mut book = Book::<u32>::new();
        let first = start(&mut book, t0);
        let second = start(&mut book, t0 + seconds(1));
        assert_eq!(book.enter(t0 + seconds(2), seconds(4)), Entry::Join(first));
        book.land(second, t0 + seconds(2), 2);
        assert_eq!(book.answer(first).unwrap().value, 2);
    }

    #[test]
    fn an_old_run_does_not_overwrite_what_a_younger_one_told() {
        let t0 = Instant::now();
        let mut book = Book::<u32>::new();
        let first = start(&mut book, t0);
        let second = start(&mut book, t0 + seconds(1));
        book.land(second, t0 + seconds(2), 2);
        book.land(first, t0 + seconds(3), 1);
        let last = book.last().unwrap();
        assert_eq!((last.value, last.at), (2, t0 + seconds(2)));
    }

    #[test]
    fn an_old_result_answers_no_later_run() {
        let t0 = Instant::now();
        let mut book = Book::<u32>::new();
        let first = start(&mut book, t0);
        book.land(first, t0, 1);
        let second = start(&mut book, t0);
        assert!(book.answer(second).is_none());
        assert!(book.last().is_some());
    }

    proptest! {
        /// Whatever happens in whatever order: two runs at most, none joined that is too old, no
        /// result older than the one before it.
        #[test]
        fn the_rules_hold_in_any_order(
            steps in prop::collection::vec((0_u64..3_000, 0_u64..5_000, 0_u8..4), 0..80),
        ) {
            let mut now = Instant::now();
            let mut book = Book::<u32>::new();
            let mut newest = None;
            for (passes, fresh, what) in steps {
                now += Duration::from_millis(passes);
                let fresh = Duration::from_millis(fresh);
                match (what, book.out.first().copied(), book.out.last().copied()) {
                    (2, Some((run, _)), _) => book.give_up(run),
                    (3, _, Some((run, _))) => book.land(run, now, 0),
                    _ => match book.enter(now, fresh) {
                        Entry::Join(run) => {
                            let joined = book.out.iter().find(|(out, _)| *out == run);
                            let (_, started) = joined.unwrap();
                            prop_assert!(now.duration_since(*started) <= fresh);
                        }
                        Entry::Start(run) => prop_assert!(book.is_out(run)),
                        Entry::Full => {
                            let old = |(_, started): &(RunId, Instant)| now - *started > fresh;
                            prop_assert!(book.is_full() && book.out.iter().all(old));
                        }
                    },
                }
                prop_assert!(book.out.len() <= MOST_OUT);
                let last = book.last().map(|last| last.run);
                prop_assert!(last >= newest);
                newest = last;
            }
        }
    }
}
