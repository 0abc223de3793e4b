//! Windows, and the pods that are deleted in them.

use std::time::Duration;

use kelpie_core::weeder::{
    Deletion, DeletionResult, Pod, SkipReason, WindowChange, WindowRules, Windows,
};

use super::{RULES, at, crashing, owner};

const SERVICE: &str = "etcd";

fn opened(service: &str, again: bool) -> WindowChange {
    let service = service.to_owned();
    WindowChange::Opened { service, again }
}

fn closed() -> WindowChange {
    WindowChange::Closed {
        service: SERVICE.to_owned(),
    }
}

/// Returns windows of which one is open since second 0.
fn open(rules: WindowRules) -> Windows {
    let mut windows = Windows::new(rules);
    windows.plan(SERVICE, Some(at(0)), at(0));
    assert_eq!(windows.advance(at(0)), [opened(SERVICE, false)]);
    windows
}

fn delete(windows: &mut Windows, second: i64) -> Option<Deletion> {
    let deletion = windows.next(at(second))?;
    windows.record_result(&deletion, DeletionResult::Deleted, at(second));
    Some(deletion)
}

/// Deletes all pods that may be deleted now, and returns their uids.
fn delete_all(windows: &mut Windows, second: i64) -> Vec<String> {
    let mut uids = Vec::new();
    while let Some(deletion) = delete(windows, second) {
        uids.push(deletion.uid);
    }
    uids
}

#[test]
fn crash_looping_pods_are_deleted() {
    let mut windows = open(RULES);
    let healthy = |pod: Pod| Pod { crash: None, ..pod };
    windows.put(SERVICE, crashing("a", 1));
    windows.put(SERVICE, healthy(crashing("b", 1)));
    assert_eq!(delete_all(&mut windows, 1), ["a-1"]);
    windows.put(SERVICE, crashing("b", 1));
    let deletion = delete(&mut windows, 299).unwrap();
    assert_eq!(deletion.pod, "b");
    assert_eq!(deletion.recovered, Some(at(0)));
    assert_eq!(deletion.owner, owner("b"));
    assert_eq!(deletion.crash.exit_code, Some(1));
}

#[test]
fn lagging_watch_causes_no_second_deletion() {
    let mut windows = open(RULES);
    windows.put(SERVICE, crashing("a", 1));
    let deletion = windows.next(at(1)).unwrap();
    assert_eq!(windows.next(at(1)), None, "the call is in flight");
    windows.record_result(&deletion, DeletionResult::Deleted, at(1));
    windows.put(SERVICE, crashing("a", 1));
    assert_eq!(windows.next(at(2)), None, "the pod is gone");
    let terminating = Pod {
        is_terminating: true,
        ..crashing("a", 1)
    };
    windows.put(SERVICE, terminating);
    assert_eq!(
        windows.skips(at(2)),
        [],
        "the weeder deleted the pod itself"
    );
}

#[test]
fn window_opens_and_closes_on_time() {
    let mut windows = Windows::new(RULES);
    windows.plan(SERVICE, Some(at(0)), at(10));
    assert_eq!(windows.advance(at(9)), []);
    assert_eq!(windows.next_wake(at(9)), Some(at(10)));
    windows.put(SERVICE, crashing("a", 1));
    assert_eq!(windows.next(at(9)), None, "the window is not open");
    assert_eq!(windows.advance(at(10)), [opened(SERVICE, false)]);
    assert_eq!(windows.next_wake(at(10)), Some(at(310)));
    assert_eq!(windows.advance(at(309)), []);
    windows.put(SERVICE, crashing("a", 1));
    assert_eq!(windows.next(at(310)), None, "the window is over");
    assert_eq!(windows.advance(at(310)), [closed()]);
    assert_eq!(windows.next_wake(at(310)), None);
}

#[test]
fn new_recovery_restarts_window_and_caps() {
    let mut windows = open(RULES);
    for number in 1..=4 {
        windows.put(SERVICE, crashing("a", number));
        assert_eq!(delete(&mut windows, 1).is_some(), number <= 3, "{number}");
    }
    windows.plan(SERVICE, Some(at(200)), at(200));
    assert_eq!(windows.advance(at(200)), [opened(SERVICE, true)]);
    assert_eq!(delete_all(&mut windows, 200), ["a-4"]);
    assert_eq!(windows.advance(at(300)), [], "the window has a new end");
    assert_eq!(windows.advance(at(500)), [closed()]);
}

#[test]
fn removed_service_closes_its_window() {
    let mut windows = open(RULES);
    windows.put(SERVICE, crashing("a", 1));
    assert!(windows.close(SERVICE));
    assert_eq!(windows.next(at(1)), None);
    assert_eq!(windows.advance(at(1)), []);
    windows.plan(SERVICE, Some(at(2)), at(10));
    assert!(!windows.close(SERVICE), "the window was only planned");
    assert_eq!(windows.advance(at(10)), []);
}

#[test]
fn skipped_pod_is_reported_once() {
    let mut windows = open(RULES);
    let ownerless = Pod {
        owner: None,
        ..crashing("lonely", 1)
    };
    let terminating = Pod {
        is_terminating: true,
        ..crashing("going", 1)
    };
    windows.put(SERVICE, ownerless.clone());
    windows.put(SERVICE, terminating);
    assert_eq!(windows.next(at(1)), None);
    let mut skips = windows.skips(at(1));
    skips.sort_by_key(|skip| skip.cause);
    let causes: Vec<_> = skips
        .iter()
        .map(|skip| (skip.pod.name.as_str(), skip.cause))
        .collect();
    assert_eq!(
        causes,
        [
            ("going", SkipReason::Terminating),
            ("lonely", SkipReason::Ownerless)
        ]
    );
    windows.put(SERVICE, ownerless);
    assert_eq!(windows.skips(at(2)), [], "the skip was already reported");
}

#[test]
fn cap_counts_simultaneous_pods() {
    let mut windows = open(RULES);
    let with_shared_owner = |pod: &str, number| Pod {
        owner: Some(owner("both")),
        ..crashing(pod, number)
    };
    let mut deletions = 0;
    for number in 1..=5 {
        for pod in ["a", "b"] {
            windows.put(SERVICE, with_shared_owner(pod, number));
        }
        deletions += delete_all(&mut windows, i64::from(number)).len();
    }
    assert_eq!(deletions, 6, "two pods, three times each");
    let skips = windows.skips(at(6));
    assert_eq!(skips.len(), 1, "reported once per owner: {skips:?}");
    assert_eq!(
        (skips[0].cause, skips[0].deletions),
        (SkipReason::Capped, 6)
    );
    windows.put(SERVICE, with_shared_owner("a", 6));
    assert_eq!(windows.skips(at(7)), []);
    windows.put(SERVICE, crashing("c", 1));
    assert_eq!(
        delete_all(&mut windows, 8),
        ["c-1"],
        "other owners have their own cap"
    );
}

#[test]
fn changed_pod_is_judged_again() {
    let mut windows = open(RULES);
    windows.put(SERVICE, crashing("a", 1));
    for _ in 0..9 {
        let deletion = windows.next(at(1)).unwrap();
        windows.record_result(&deletion, DeletionResult::Changed, at(1));
        assert_eq!(windows.next(at(1)), None, "the watch shows no new version");
        let newer = Pod {
            version: format!("{}0", deletion.version),
            ..crashing("a", 1)
        };
        windows.put(SERVICE, newer);
    }
    assert_eq!(
        delete_all(&mut windows, 2),
        ["a-1"],
        "conflicts do not count towards the cap"
    );
}

#[test]
fn failed_deletion_backs_off_and_counts_once() {
    let mut windows = open(RULES);
    windows.put(SERVICE, crashing("a", 1));
    let mut now = 0;
    for pause in [1, 2, 4, 8, 16, 30, 30] {
        let deletion = windows.next(at(now)).unwrap();
        windows.record_result(&deletion, DeletionResult::Unknown, at(now));
        assert_eq!(windows.next(at(now + pause - 1)), None);
        let wake = windows.next_wake(at(now));
        assert_eq!(wake, Some(at(now + pause)));
        now += pause;
    }
    assert_eq!(delete_all(&mut windows, now), ["a-1"]);
    for number in 2..=4 {
        windows.put(SERVICE, crashing("a", number));
        assert_eq!(
            delete_all(&mut windows, now).len(),
            usize::from(number <= 3)
        );
    }
}

#[test]
fn removed_pod_is_not_deleted() {
    let mut windows = open(RULES);
    windows.put(SERVICE, crashing("a", 1));
    windows.remove(SERVICE, "a");
    assert!(!windows.has_work(at(1)));
}

#[test]
fn pod_of_two_windows_is_deleted_once() {
    let mut windows = open(RULES);
    windows.plan("api", Some(at(1)), at(1));
    assert_eq!(windows.advance(at(1)), [opened("api", false)]);
    windows.put(SERVICE, crashing("a", 1));
    windows.put("api", crashing("a", 1));
    let deletion = windows.next(at(1)).unwrap();
    assert_eq!(deletion.service, SERVICE, "it recovered first");
    assert_eq!(windows.next(at(1)), None);
}

#[test]
fn complete_list_removes_unlisted_pods() {
    let mut windows = open(RULES);
    windows.put(SERVICE, crashing("a", 1));
    windows.begin_list(SERVICE);
    windows.put(SERVICE, crashing("b", 1));
    windows.end_list(SERVICE);
    assert_eq!(delete_all(&mut windows, 1), ["b-1"]);
}

#[test]
fn recreated_pod_is_another_pod() {
    let mut windows = open(RULES);
    windows.put(SERVICE, crashing("a", 1));
    let healthy = Pod {
        crash: None,
        ..crashing("a", 2)
    };
    windows.put(SERVICE, healthy);
    assert_eq!(windows.next(at(1)), None);
    let (_, summary) = windows.services().next().unwrap();
    assert_eq!((summary.pods, summary.crashing), (1, 0));
}

#[test]
fn dry_run_reports_instead_of_deleting() {
    let mut windows = open(WindowRules {
        dry_run: true,
        ..RULES
    });
    windows.put(SERVICE, crashing("a", 1));
    assert_eq!(windows.next(at(1)), None);
    let skips = windows.skips(at(1));
    assert_eq!(skips[0].cause, SkipReason::DryRun);
    assert_eq!(windows.skips(at(1)), []);
}

#[test]
fn endless_window_never_closes() {
    let mut windows = open(WindowRules {
        watch_duration: Duration::MAX,
        ..RULES
    });
    assert_eq!(windows.advance(at(1_000_000_000)), []);
}

/// Deletes replacements of a pod until the cap is reached, and returns how many it were.
fn deletions_until_cap(windows: &mut Windows, numbers: std::ops::Range<u32>) -> usize {
    let mut deletions = 0;
    for number in numbers {
        windows.put(SERVICE, crashing("a", number));
        deletions += delete_all(windows, 100).len();
    }
    deletions
}

#[test]
fn timed_out_deletion_that_landed_stays_charged() {
    for later in [
        DeletionResult::Gone,
        DeletionResult::Changed,
        DeletionResult::Refused,
    ] {
        let mut windows = open(RULES);
        windows.put(SERVICE, crashing("a", 1));
        let deletion = windows.next(at(1)).unwrap();
        windows.record_result(&deletion, DeletionResult::Unknown, at(1));
        let retry = windows.next(at(10)).unwrap();
        windows.record_result(&retry, later, at(10));
        let deletions = deletions_until_cap(&mut windows, 2..9);
        assert_eq!(deletions, 2, "{later:?}");
    }
}

#[test]
fn deletion_by_another_client_is_not_charged() {
    let mut windows = open(RULES);
    windows.put(SERVICE, crashing("a", 1));
    let deletion = windows.next(at(1)).unwrap();
    windows.record_result(&deletion, DeletionResult::Gone, at(1));
    assert_eq!(deletions_until_cap(&mut windows, 2..9), 3);
}

#[test]
fn window_without_recovery_waits_for_its_turn() {
    let mut windows = Windows::new(RULES);
    windows.plan(SERVICE, None, at(10));
    assert!(!windows.has_due_starts(at(9)));
    assert_eq!(windows.open_starts(at(9)), []);
    assert_eq!(windows.next_wake(at(9)), Some(at(10)));
    assert!(windows.has_due_starts(at(10)));
    assert_eq!(windows.advance(at(10)), []);
    assert_eq!(windows.next_wake(at(10)), None, "the caller decides");
    assert_eq!(windows.open_starts(at(40)), [opened(SERVICE, false)]);
    windows.put(SERVICE, crashing("a", 1));
    assert_eq!(delete(&mut windows, 339).unwrap().recovered, None);
    assert_eq!(windows.advance(at(340)), [closed()]);
}

#[test]
fn recovered_service_goes_before_start() {
    let mut windows = Windows::new(RULES);
    windows.plan("api", None, at(0));
    assert_eq!(windows.open_starts(at(0)), [opened("api", false)]);
    windows.plan(SERVICE, Some(at(1)), at(1));
    assert_eq!(windows.advance(at(1)), [opened(SERVICE, false)]);
    windows.put("api", crashing("a", 1));
    windows.put(SERVICE, crashing("b", 1));
    assert_eq!(delete_all(&mut windows, 2), ["b-1", "a-1"]);
}

#[test]
fn suspended_window_keeps_its_end_and_caps() {
    let mut windows = open(RULES);
    assert_eq!(deletions_until_cap(&mut windows, 1..3), 2);
    windows.plan("api", None, at(150));
    windows.suspend();
    assert!(!windows.has_work(at(110)), "its pods are forgotten");
    assert!(!windows.has_due_starts(at(200)), "the plan is dropped");
    assert_eq!(deletions_until_cap(&mut windows, 3..9), 1);
    assert_eq!(windows.advance(at(300)), [closed()]);
}
