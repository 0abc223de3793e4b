//! Decides the result of a check that is still running at the deadline.

use std::time::Duration;

use crate::{CheckGroup, CheckResult, FailureReason};

/// Returns the result to report for a late check, and its age if it is the last result again.
///
/// Slow is not unready, so readyz reuses a recent result. livez needs current evidence and never
/// reuses one.
///
/// `last` is the last result with its age; `None` if no run has ever ended. It is reused while it
/// is younger than `max_age`, or at any age if the check says so by `may_reuse`.
pub(crate) fn late_result(
    group: CheckGroup,
    last: Option<(CheckResult, Duration)>,
    may_reuse: bool,
    max_age: Duration,
) -> (CheckResult, Option<Duration>) {
    match (group, last) {
        (_, None) => (Err(FailureReason::from("not known yet")), None),
        (CheckGroup::Readyz, Some((result, age))) if may_reuse || age < max_age => {
            (result, Some(age))
        }
        _ => (Err(FailureReason::from("timed out")), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_results_follow_the_table() {
        let ok = Ok(());
        let bad: CheckResult = Err(FailureReason::from("no leader"));
        let timed_out = Err(FailureReason::from("timed out"));
        let unknown = Err(FailureReason::from("not known yet"));
        let young = Duration::from_millis(4_999);
        let old = Duration::from_secs(5);
        let (livez, readyz) = (CheckGroup::Livez, CheckGroup::Readyz);
        for (name, group, result, may_reuse, expected) in [
            ("fresh ok", readyz, Some((&ok, young)), false, &ok),
            ("fresh failure", readyz, Some((&bad, young)), false, &bad),
            ("old ok", readyz, Some((&ok, old)), false, &timed_out),
            ("old, reusable", readyz, Some((&ok, old * 99)), true, &ok),
            ("failure, reusable", readyz, Some((&bad, old)), true, &bad),
            ("never, reusable", readyz, None, true, &unknown),
            ("never", readyz, None, false, &unknown),
            ("livez fresh", livez, Some((&ok, young)), false, &timed_out),
            (
                "livez reusable",
                livez,
                Some((&ok, young)),
                true,
                &timed_out,
            ),
            ("livez never", livez, None, false, &unknown),
        ] {
            let last = result.map(|(result, age): (&CheckResult, _)| (result.clone(), age));
            let (late, reused_age) = late_result(group, last, may_reuse, Duration::from_secs(5));
            assert_eq!(&late, expected, "{name}");
            let reused = result.filter(|(result, _)| *result == expected);
            assert_eq!(reused_age, reused.map(|(_, age)| age), "{name}");
        }
    }
}
