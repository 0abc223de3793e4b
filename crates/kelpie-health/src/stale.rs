//! Decides the result of a check that is still running at the deadline.

use std::time::Duration;

use crate::{CheckGroup, CheckResult, FailureReason};

/// The last known result of a check whose current run is late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastKnown<'a> {
    /// The last result and its age. `None` if no run has ever ended.
    pub(crate) result: Option<(&'a CheckResult, Duration)>,
    /// The check reports that its last result stays valid at any age.
    pub(crate) may_reuse: bool,
    /// Results younger than this are reused in any case.
    pub(crate) max_age: Duration,
}

/// Returns the result to report for a late check, and its age if it is the last result again.
///
/// Slow is not unready, so readyz reuses a recent result. livez needs current evidence and never
/// reuses one.
pub(crate) fn late_result(
    group: CheckGroup,
    last: LastKnown<'_>,
) -> (CheckResult, Option<Duration>) {
    match (group, last.result) {
        (_, None) => (Err(FailureReason::from("not known yet")), None),
        (CheckGroup::Readyz, Some((result, age))) if last.may_reuse || age < last.max_age => {
            (result.clone(), Some(age))
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
            let last = LastKnown {
                result,
                may_reuse,
                max_age: Duration::from_secs(5),
            };
            let (late, reused_age) = late_result(group, last);
            assert_eq!(&late, expected, "{name}");
            let reused = result.filter(|(result, _)| *result == expected);
            assert_eq!(reused_age, reused.map(|(_, age)| age), "{name}");
        }
    }
}
