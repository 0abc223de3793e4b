//! Windows, and who is deleted in them.

use std::time::Duration;

use kelpie_core::weeder::{Cause, Deletion, Outcome, Pod, Rules, WindowChange, Windows};

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

/// Windows with one open since second 0.
fn open(rules: Rules) -> Windows {
    let mut windows = Windows::new(rules);
    windows.plan(SERVICE, 2, at(0), at(0));
    assert_eq!(windows.advance(at(0)), [opened(SERVICE, false)]);
    windows
}

fn delete(windows: &mut Windows, second: i64) -> Option<Deletion> {
    let deletion = windows.next(at(second))?;
    windows.settle(&deletion, Outcome::Deleted, at(second));
    Some(deletion)
}

/// The names of all that is deleted at once.
fn deleted(windows: &mut Windows, second: i64) -> Vec<String> {
    let mut uids = Vec::new();
    while let Some(deletion) = delete(windows, second) {
        uids.push(deletion.uid);
    }
    uids
}

#[test]
fn a_pod_that_crash_loops_is_deleted_whether_it_did_so_before_or_later() {
    let mut windows = open(RULES);
    let well = |pod: Pod| Pod { crash: None, ..pod };
    windows.put(SERVICE, 0, crashing("a", 1));
    windows.put(SERVICE, 0, well(crashing("b", 1)));
    assert_eq!(deleted(&mut windows, 1), ["a-1"]);
    windows.put(SERVICE, 0, crashing("b", 1));
    let deletion = delete(&mut windows, 299).unwrap();
    assert_eq!(deletion.pod, "b");
    assert_eq!(deletion.recovered, at(0));
    assert_eq!(deletion.owner, owner("b"));
    assert_eq!(deletion.crash.exit_code, Some(1));
}

#[test]
fn nothing_is_deleted_twice_while_the_watch_lags_behind() {
    let mut windows = open(RULES);
    windows.put(SERVICE, 0, crashing("a", 1));
    let deletion = windows.next(at(1)).unwrap();
    assert_eq!(windows.next(at(1)), None, "the call is under way");
    windows.settle(&deletion, Outcome::Deleted, at(1));
    windows.put(SERVICE, 0, crashing("a", 1));
    assert_eq!(windows.next(at(2)), None, "it is gone");
    let leaving = Pod {
        is_leaving: true,
        ..crashing("a", 1)
    };
    windows.put(SERVICE, 0, leaving);
    assert_eq!(windows.skips(at(2)), [], "by our own doing");
}

#[test]
fn a_window_opens_when_planned_and_closes_when_it_is_over() {
    let mut windows = Windows::new(RULES);
    windows.plan(SERVICE, 1, at(0), at(10));
    assert_eq!(windows.advance(at(9)), []);
    assert_eq!(windows.next_wake(at(9)), Some(at(10)));
    windows.put(SERVICE, 0, crashing("a", 1));
    assert_eq!(windows.next(at(9)), None, "it is not open");
    assert_eq!(windows.advance(at(10)), [opened(SERVICE, false)]);
    assert_eq!(windows.next_wake(at(10)), Some(at(310)));
    assert_eq!(windows.advance(at(309)), []);
    windows.put(SERVICE, 0, crashing("a", 1));
    assert_eq!(windows.next(at(310)), None, "it is over");
    assert_eq!(windows.advance(at(310)), [closed()]);
    assert_eq!(windows.next_wake(at(310)), None);
}

#[test]
fn a_new_recovery_restarts_the_window_and_its_caps() {
    let mut windows = open(RULES);
    for number in 1..=4 {
        windows.put(SERVICE, 0, crashing("a", number));
        assert_eq!(delete(&mut windows, 1).is_some(), number <= 3, "{number}");
    }
    windows.plan(SERVICE, 2, at(200), at(200));
    assert_eq!(windows.advance(at(200)), [opened(SERVICE, true)]);
    assert_eq!(deleted(&mut windows, 200), ["a-4"]);
    assert_eq!(windows.advance(at(300)), [], "the old end does not count");
    assert_eq!(windows.advance(at(500)), [closed()]);
}

#[test]
fn a_service_that_is_gone_ends_its_window() {
    let mut windows = open(RULES);
    windows.put(SERVICE, 0, crashing("a", 1));
    assert!(windows.close(SERVICE));
    assert_eq!(windows.next(at(1)), None);
    assert_eq!(windows.advance(at(1)), []);
    windows.plan(SERVICE, 1, at(2), at(10));
    assert!(!windows.close(SERVICE), "it was only planned");
    assert_eq!(windows.advance(at(10)), []);
}

#[test]
fn who_is_passed_over_is_told_once_with_the_cause() {
    let mut windows = open(RULES);
    let ownerless = Pod {
        owner: None,
        ..crashing("lonely", 1)
    };
    let leaving = Pod {
        is_leaving: true,
        ..crashing("going", 1)
    };
    windows.put(SERVICE, 0, ownerless.clone());
    windows.put(SERVICE, 0, leaving);
    assert_eq!(windows.next(at(1)), None);
    let mut skips = windows.skips(at(1));
    skips.sort_by_key(|skip| skip.cause);
    let causes: Vec<_> = skips
        .iter()
        .map(|skip| (skip.pod.name.as_str(), skip.cause))
        .collect();
    assert_eq!(
        causes,
        [("going", Cause::Leaving), ("lonely", Cause::Ownerless)]
    );
    windows.put(SERVICE, 0, ownerless);
    assert_eq!(windows.skips(at(2)), [], "told already");
}

#[test]
fn the_cap_counts_the_pods_that_are_there_at_once_and_is_told_once() {
    let mut windows = open(RULES);
    let of_one_owner = |pod: &str, number| Pod {
        owner: Some(owner("both")),
        ..crashing(pod, number)
    };
    let mut deletions = 0;
    for number in 1..=5 {
        for pod in ["a", "b"] {
            windows.put(SERVICE, 0, of_one_owner(pod, number));
        }
        deletions += deleted(&mut windows, i64::from(number)).len();
    }
    assert_eq!(deletions, 6, "two pods, three times each");
    let skips = windows.skips(at(6));
    assert_eq!(skips.len(), 1, "one owner: {skips:?}");
    assert_eq!((skips[0].cause, skips[0].deletions), (Cause::Capped, 6));
    windows.put(SERVICE, 0, of_one_owner("a", 6));
    assert_eq!(windows.skips(at(7)), []);
    windows.put(SERVICE, 0, crashing("c", 1));
    assert_eq!(deleted(&mut windows, 8), ["c-1"], "others have their own");
}

#[test]
fn a_pod_that_has_changed_is_judged_again_when_it_is_seen() {
    let mut windows = open(RULES);
    windows.put(SERVICE, 0, crashing("a", 1));
    for _ in 0..9 {
        let deletion = windows.next(at(1)).unwrap();
        windows.settle(&deletion, Outcome::Changed, at(1));
        assert_eq!(windows.next(at(1)), None, "nothing new was seen");
        let newer = Pod {
            version: format!("{}0", deletion.version),
            ..crashing("a", 1)
        };
        windows.put(SERVICE, 0, newer);
    }
    assert_eq!(deleted(&mut windows, 2), ["a-1"], "conflicts cost no cap");
}

#[test]
fn what_fails_is_tried_again_ever_more_slowly_and_counts_once() {
    let mut windows = open(RULES);
    windows.put(SERVICE, 0, crashing("a", 1));
    let mut now = 0;
    for pause in [1, 2, 4, 8, 16, 30, 30] {
        let deletion = windows.next(at(now)).unwrap();
        windows.settle(&deletion, Outcome::Unknown, at(now));
        assert_eq!(windows.next(at(now + pause - 1)), None);
        let wake = windows.next_wake(at(now));
        assert_eq!(wake, Some(at(now + pause)));
        now += pause;
    }
    assert_eq!(deleted(&mut windows, now), ["a-1"]);
    for number in 2..=4 {
        windows.put(SERVICE, 0, crashing("a", number));
        assert_eq!(deleted(&mut windows, now).len(), usize::from(number <= 3));
    }
}

#[test]
fn a_pod_that_two_selectors_show_is_one_pod_and_goes_with_the_last() {
    let mut windows = open(RULES);
    windows.put(SERVICE, 0, crashing("a", 1));
    windows.put(SERVICE, 1, crashing("a", 1));
    windows.remove(SERVICE, 0, "a");
    assert!(windows.has_work(at(1)), "the other selector shows it");
    windows.remove(SERVICE, 1, "a");
    assert!(!windows.has_work(at(1)));
}

#[test]
fn a_pod_that_two_windows_show_is_deleted_once() {
    let mut windows = open(RULES);
    windows.plan("api", 1, at(1), at(1));
    assert_eq!(windows.advance(at(1)), [opened("api", false)]);
    windows.put(SERVICE, 0, crashing("a", 1));
    windows.put("api", 0, crashing("a", 1));
    let deletion = windows.next(at(1)).unwrap();
    assert_eq!(deletion.service, SERVICE, "it came back first");
    assert_eq!(windows.next(at(1)), None);
}

#[test]
fn what_a_complete_list_does_not_show_is_gone() {
    let mut windows = open(RULES);
    windows.put(SERVICE, 0, crashing("a", 1));
    windows.begin_list(SERVICE, 0);
    windows.put(SERVICE, 0, crashing("b", 1));
    windows.end_list(SERVICE, 0);
    assert_eq!(deleted(&mut windows, 1), ["b-1"]);
}

#[test]
fn a_pod_recreated_under_the_same_name_is_another_one() {
    let mut windows = open(RULES);
    windows.put(SERVICE, 0, crashing("a", 1));
    let well = Pod {
        crash: None,
        ..crashing("a", 2)
    };
    windows.put(SERVICE, 0, well);
    assert_eq!(windows.next(at(1)), None);
    let (_, sum) = windows.services().next().unwrap();
    assert_eq!((sum.pods, sum.crashing), (1, 0));
}

#[test]
fn a_dry_run_deletes_nothing_and_says_what_it_would() {
    let mut windows = open(Rules {
        dry_run: true,
        ..RULES
    });
    windows.put(SERVICE, 0, crashing("a", 1));
    assert_eq!(windows.next(at(1)), None);
    let skips = windows.skips(at(1));
    assert_eq!(skips[0].cause, Cause::DryRun);
    assert_eq!(windows.skips(at(1)), []);
}

#[test]
fn a_window_as_long_as_time_itself_has_no_end() {
    let mut windows = open(Rules {
        watch_duration: Duration::MAX,
        ..RULES
    });
    assert_eq!(windows.advance(at(1_000_000_000)), []);
}
