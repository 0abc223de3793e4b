//! What a check says when its run is still out at the deadline.

use std::time::Duration;

use crate::{Group, Reason, Verdict};

/// What is known of a check beside the run that is out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory<'a> {
    /// The last result and its age; none if no run ever ended.
    pub(crate) last: Option<(&'a Verdict, Duration)>,
    /// The check says that its last result stays good.
    pub(crate) holds: bool,
    /// Results are repeated while younger than this.
    pub(crate) reuse: Duration,
}

/// What stands for a late check, and its age if it is the last result again. Slow is not unready:
/// readyz repeats what it knew a moment ago. livez wants evidence of now.
pub(crate) fn verdict(group: Group, memory: Memory<'_>) -> (Verdict, Option<Duration>) {
    match (group, memory.last) {
        (_, None) => (Err(Reason::from("not known yet")), None),
        (Group::Readyz, Some((last, age))) if memory.holds || age < memory.reuse => {
            (last.clone(), Some(age))
        }
        _ => (Err(Reason::from("timed out")), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_check_follows_the_table() {
        let ok = Ok(());
        let bad: Verdict = Err(Reason::from("no leader"));
        let timed_out = Err(Reason::from("timed out"));
        let unknown = Err(Reason::from("not known yet"));
        let young = Duration::from_millis(4_999);
        let old = Duration::from_secs(5);
        let (livez, readyz) = (Group::Livez, Group::Readyz);
        for (name, group, last, holds, expected) in [
            ("fresh ok", readyz, Some((&ok, young)), false, &ok),
            ("fresh failure", readyz, Some((&bad, young)), false, &bad),
            ("old ok", readyz, Some((&ok, old)), false, &timed_out),
            ("old, held", readyz, Some((&ok, old * 99)), true, &ok),
            ("failure, held", readyz, Some((&bad, old)), true, &bad),
            ("never, held", readyz, None, true, &unknown),
            ("never", readyz, None, false, &unknown),
            ("livez fresh", livez, Some((&ok, young)), false, &timed_out),
            ("livez held", livez, Some((&ok, young)), true, &timed_out),
            ("livez never", livez, None, false, &unknown),
        ] {
            let reuse = Duration::from_secs(5);
            let memory = Memory { last, holds, reuse };
            let (seen, stale) = verdict(group, memory);
            assert_eq!(&seen, expected, "{name}");
            let repeated = last.filter(|(last, _)| *last == expected);
            assert_eq!(stale, repeated.map(|(_, age)| age), "{name}");
        }
    }
}
