//! Expiry of single leases, whatever the clocks.

use std::time::Duration;

use kelpie_core::{Lease, LeaseBook, LeaseView, Listing, Time};
use proptest::prelude::*;

use crate::stage::{SECOND, Stage, at, name, settings};

const G: Duration = Duration::from_secs(40);

/// A list: how long after the last one it starts, how long it takes, and when within that the server
/// read the leases.
#[derive(Clone, Debug)]
struct ListPlan {
    pause: i64,
    takes: i64,
    read_at: f64,
}

fn list_plans(pause: i64, takes: i64) -> impl Strategy<Value = Vec<ListPlan>> {
    let plan =
        (0..=pause * SECOND, 0..=takes * SECOND, 0.0..=1.0).prop_map(|(pause, takes, read_at)| {
            ListPlan {
                pause,
                takes,
                read_at,
            }
        });
    prop::collection::vec(plan, 1..60)
}

/// One lease, listed as planned. `value_at` is what the server holds at an instant.
fn watch(
    plans: &[ListPlan],
    grace: Duration,
    mut value_at: impl FnMut(i64) -> Time,
    mut check: impl FnMut(Listing, i64, LeaseView<'_>) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut book = LeaseBook::default();
    let mut now = 1_000 * SECOND;
    for plan in plans {
        let start = now + plan.pause;
        let end = start + plan.takes;
        let read_at = start + (plan.takes as f64 * plan.read_at) as i64;
        let value = value_at(read_at);
        let lease = Lease {
            name: "node",
            renew_time: Some(value),
            duration_seconds: Some(40),
        };
        let listing = Listing {
            start: Time::from_micros(start),
            end: Time::from_micros(end),
        };
        book.read(listing, grace, [lease]);
        check(listing, read_at, book.leases(grace).next().unwrap())?;
        now = end;
    }
    Ok(())
}

/// A kubelet that renews every 10 s, a little late each time: when each renewal was really written.
fn renewal_before(instant: i64, phase: i64, period: i64) -> i64 {
    (instant - phase).div_euclid(period) * period + phase
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_lease_that_keeps_changing_every_period_is_never_expired_whatever_the_clocks(
        plans in list_plans(60, 40),
        phase in 0..10 * SECOND,
        period in 10 * SECOND..=12 * SECOND,
        grace in 20_u64..60,
        // Any value at all for each renewal: offsets, steps, drift and nonsense alike.
        clock in prop::collection::vec(prop_oneof![
            -3_600 * SECOND..3_600 * SECOND, any::<i64>(), Just(0), -20 * SECOND..20 * SECOND,
        ], 1..50),
    ) {
        let grace = Duration::from_secs(grace);
        let value_at = |instant| {
            let written = renewal_before(instant, phase, period);
            let index = written.div_euclid(period);
            let offset = clock[index.rem_euclid(clock.len() as i64) as usize];
            // Two renewals in a row never write the same value.
            Time::from_micros(written.saturating_add(offset) / 2 * 2 + index.rem_euclid(2))
        };
        watch(&plans, grace, value_at, |listing, _, lease| {
            prop_assert!(lease.expires_at > listing.start, "expired: {lease:?} at {listing:?}");
            prop_assert!(lease.silent_at > listing.start, "silent: {lease:?} at {listing:?}");
            Ok(())
        })?;
    }

    #[test]
    fn with_a_correct_clock_expiry_is_exactly_three_quarters_of_the_grace_period_after_renewal(
        plans in list_plans(12, 2),
        phase in 0..10 * SECOND,
        silent_after in 0..600_i64,
        grace in prop_oneof![Just(40_u64), Just(50)],
    ) {
        let grace = Duration::from_secs(grace);
        let silent_after = (1_030 + silent_after) * SECOND;
        let value_at = |instant: i64| {
            Time::from_micros(renewal_before(instant.min(silent_after), phase, 10 * SECOND))
        };
        let mut first = None;
        watch(&plans, grace, value_at, |_, read_at, lease| {
            let written = value_at(read_at);
            prop_assert_eq!(lease.renewal, Some(written));
            // What stood when we first looked has to stand for a while before it proves anything.
            if *first.get_or_insert(written) != written {
                prop_assert_eq!(lease.expires_at, written.after(grace * 3 / 4));
            }
            Ok(())
        })?;
    }

    #[test]
    fn with_a_wrong_clock_expiry_is_never_later_than_the_truth(
        plans in list_plans(12, 2),
        phase in 0..10 * SECOND,
        offset in prop_oneof![-3_600 * SECOND..3_600 * SECOND, -15 * SECOND..15 * SECOND],
        drift in -100..100_i64, // parts per million
    ) {
        let clock = |written: i64| {
            Time::from_micros(written + offset + (written - 1_000 * SECOND) * drift / 1_000_000)
        };
        let written_before = |instant| renewal_before(instant, phase, 10 * SECOND);
        // A clock ahead of ours by less than a window looks right until a value is younger than the
        // list that shows it, by more than clocks may differ. From then on the truth is the bound;
        // before, that list is.
        let mut excess: Vec<(Time, i64)> = Vec::new();
        let mut last = None;
        watch(&plans, G, |instant| clock(written_before(instant)), |listing, read_at, lease| {
            let written = written_before(read_at);
            if last != Some(written) {
                excess.push((listing.end, clock(written).as_micros() - listing.end.as_micros()));
                let is_shown = excess.iter().any(|(at, excess)| {
                    let forgotten = listing.end.since(*at).as_micros() as i64 / 4_000;
                    *excess - forgotten > SECOND / 10
                });
                let is_behind = clock(written) <= Time::from_micros(written);
                let is_first = last.is_none();
                let bound = if (is_shown && !is_first) || is_behind {
                    Time::from_micros(written)
                } else {
                    listing.end
                };
                prop_assert!(lease.renewal <= Some(bound), "{lease:?} after {bound}");
                let settled = listing.end.after(Duration::from_secs(15));
                prop_assert!(lease.expires_at <= bound.after(G * 3 / 4).max(settled));
            }
            last = Some(written);
            Ok(())
        })?;
    }

    #[test]
    fn one_long_dead_node_changes_nothing_about_the_others(
        nodes in 3_usize..30,
        phases in prop::collection::vec(0..10 * SECOND, 30),
        silent_after in prop_oneof![Just(i64::MAX), (60..120_i64).prop_map(|s| s * SECOND)],
        interval in 5_i64..12,
    ) {
        let (mut with, mut without) = (Stage::new(settings(), at(0.0)), Stage::new(settings(), at(0.0)));
        let dead = ("node-dead".to_string(), Time::from_micros(-3_600 * SECOND));
        for round in 0..30 {
            let now = Time::from_micros(round * interval * SECOND + SECOND);
            let mut leases: Vec<_> = (0..nodes)
                .map(|index| {
                    let instant = now.as_micros().min(silent_after);
                    (name(index), Time::from_micros(renewal_before(instant, phases[index], 10 * SECOND)))
                })
                .collect();
            let plain = without.round(now, &leases);
            leases.push(dead.clone());
            let decision = with.round(now, &leases);
            prop_assert_eq!(plain.deadline, decision.deadline);
            for (index, _) in leases[..nodes].iter().enumerate() {
                prop_assert_eq!(without.view(G, &name(index)), with.view(G, &name(index)));
            }
            // In the first seconds, one more lease that proves nothing yet may tip the scales.
            if (30 * SECOND..silent_after).contains(&now.as_micros()) {
                prop_assert_eq!(plain.verdict, decision.verdict);
            }
        }
    }
}

#[test]
fn standing_counts_from_the_end_of_a_list_that_stalled() {
    // The request went out at 10 s and hung until 32 s; the value in it was written at 31 s by a
    // clock an hour behind. At 33 s the lease is two seconds old, whatever the list's start says.
    let mut book = LeaseBook::default();
    let hour_behind = |seconds: f64| at(seconds - 3_600.0);
    let lease = |renewed| Lease {
        name: "node",
        renew_time: Some(renewed),
        duration_seconds: Some(40),
    };
    let listing = |start, end| Listing {
        start: at(start),
        end: at(end),
    };
    book.read(listing(0.0, 0.1), G, [lease(hour_behind(-5.0))]);
    book.read(listing(10.0, 32.0), G, [lease(hour_behind(31.0))]);
    book.read(listing(33.0, 33.1), G, [lease(hour_behind(31.0))]);
    let view = book.leases(G).next().unwrap();
    assert!(view.expires_at > at(33.0), "{view:?}");
}

#[test]
fn a_list_that_stalled_through_an_outage_gives_kubelets_their_time() {
    // Everybody's requests hung from 10 s to 40 s. The list that hung too shows old values; the next
    // one must not find them expired before the kubelets had 1.5 periods to renew.
    let mut book = LeaseBook::default();
    let lease = || Lease {
        name: "node",
        renew_time: Some(at(5.0)),
        duration_seconds: Some(40),
    };
    let listing = |start, end| Listing {
        start: at(start),
        end: at(end),
    };
    book.read(listing(0.0, 6.0), G, [lease()]);
    book.read(listing(10.0, 40.0), G, [lease()]);
    let view = book.leases(G).next().unwrap();
    assert_eq!(view.expires_at, at(55.0));
}

#[test]
fn a_slow_request_of_a_right_clock_is_dated_to_its_window() {
    // Renewals at 5, 15, 25; the one at 35 took 8 s, so that it appears two lists later.
    let mut stage = Stage::new(settings(), at(0.0));
    for (now, renewed) in [
        (0.0, -5.0),
        (10.0, 5.0),
        (20.0, 15.0),
        (30.0, 25.0),
        (40.0, 25.0),
    ] {
        stage.list(at(now), &[(name(0), at(renewed))]);
    }
    stage.list(at(44.0), &[(name(0), at(35.0))]);
    assert_eq!(
        stage.view(G, &name(0)).renewal,
        Some(at(40.0)),
        "not before the last list without it"
    );
    stage.list(at(50.0), &[(name(0), at(45.0))]);
    assert_eq!(
        stage.view(G, &name(0)).renewal,
        Some(at(45.0)),
        "one slow request is not held against it"
    );
}

#[test]
fn slow_requests_in_a_row_are_not_taken_for_a_clock_that_was_set_back() {
    let mut stage = Stage::new(settings(), at(0.0));
    for (now, renewed) in [(0.0, -5.0), (10.0, 5.0), (20.0, 15.0), (30.0, 25.0)] {
        stage.list(at(now), &[(name(0), at(renewed))]);
    }
    // Written at 35, 40 and 45 s, each 6 s and more before the last list without it.
    for (now, renewed) in [
        (41.0, 25.0),
        (44.0, 35.0),
        (46.0, 35.0),
        (52.0, 40.0),
        (54.0, 45.0),
    ] {
        stage.list(at(now), &[(name(0), at(renewed))]);
    }
    stage.list(at(64.0), &[(name(0), at(55.5))]);
    assert_eq!(stage.view(G, &name(0)).renewal, Some(at(55.5)));
}

#[test]
fn a_wrong_clock_that_drifts_is_followed_and_never_dates_too_late() {
    let mut stage = Stage::new(settings(), at(0.0));
    for round in 0..360 {
        let now = f64::from(round) * 10.0;
        // All phases, over and over.
        let renewed = now - f64::from(round * 7 % 10) - 0.999;
        let clock = renewed + 60.0 + renewed * 200e-6;
        stage.list(at(now), &[(name(0), at(clock))]);
        if round > 20 {
            let dated = stage.view(G, &name(0)).renewal.unwrap();
            assert!(dated <= at(renewed), "round {round}: {dated} is late");
            assert!(
                dated >= at(renewed - 0.2),
                "round {round}: {dated} is early"
            );
        }
    }
}

#[test]
fn the_renew_period_is_a_quarter_of_the_lease_within_a_second_and_half_the_grace_period() {
    let rows = [
        ("absent", None, 10.0),
        ("the usual", Some(40), 10.0),
        ("short", Some(8), 2.0),
        ("zero", Some(0), 1.0),
        ("negative", Some(-400), 1.0),
        ("long", Some(400), 20.0),
    ];
    for (what, duration_seconds, period) in rows {
        let view = |renewed: f64| {
            let mut book = LeaseBook::default();
            let lease = Lease {
                name: "node",
                renew_time: Some(at(renewed)),
                duration_seconds,
            };
            book.read(
                Listing {
                    start: at(0.0),
                    end: at(0.0),
                },
                G,
                [lease],
            );
            let view = book.leases(G).next().unwrap();
            (view.expires_at, view.silent_at)
        };
        let settled = at(1.5 * period);
        assert_eq!(
            view(-3_600.0),
            (settled, settled),
            "{what}: what we find has to stand 1.5 P"
        );
        let silent = at(f64::max(20.0, 2.0 * period));
        assert_eq!(
            view(0.0),
            (at(30.0), silent),
            "{what}: silence is 0.5 G and 2 P"
        );
    }
}

#[test]
fn a_value_that_appeared_while_we_watched_has_to_stand_one_and_a_quarter_periods() {
    let mut stage = Stage::new(settings(), at(0.0));
    // A clock an hour behind, so that the window's start is all we know.
    stage.list(at(0.0), &[(name(0), at(-3_605.0))]);
    stage.list(at(19.9), &[(name(0), at(-3_585.0))]);
    assert_eq!(stage.view(G, &name(0)).expires_at, at(19.9 + 12.5));
}

#[test]
fn a_clock_that_was_set_is_learnt_anew() {
    let mut stage = Stage::new(settings(), at(0.0));
    let mut offset = 0.0;
    for round in 0..40 {
        let now = f64::from(round) * 10.0;
        if round == 20 {
            offset = 300.0;
        }
        if round == 30 {
            offset = -300.0;
        }
        let renewed = now - 2.0;
        stage.list(at(now), &[(name(0), at(renewed + offset))]);
        let dated = stage.view(G, &name(0)).renewal.unwrap();
        assert!(
            dated <= at(renewed),
            "round {round}: {dated} is later than the truth"
        );
        assert!(
            dated >= at(now - 10.0),
            "round {round}: {dated} is before its window"
        );
    }
}

#[test]
fn a_lease_without_a_renew_time_counts_once_its_node_is_older_than_the_grace_period() {
    use crate::stage::{nodes, roster, seen};
    use kelpie_core::{Exclusion, Lists};
    let mut stage = Stage::new(settings(), at(0.0));
    let mut node = nodes([name(0)]);
    node[0].created = at(0.0);
    let mut decide = |now: f64| {
        let lease = Lease {
            name: "node-000",
            renew_time: None,
            duration_seconds: None,
        };
        let listed = stage.judge.read(
            Listing {
                start: at(now),
                end: at(now),
            },
            [lease],
        );
        stage.judge.learn(roster(&node), at(now));
        stage
            .judge
            .decide(&seen(at(now), Lists::Read(listed)))
            .reasons
            .leases
            .unwrap()
    };
    for now in [1.0, 11.0, 21.0, 31.0, 40.0] {
        let census = decide(now);
        assert_eq!(
            (
                census.candidates,
                census.excluded.of(Exclusion::NeverRenewed)
            ),
            (0, 1),
            "{now}"
        );
    }
    let census = decide(41.0);
    assert_eq!((census.candidates, census.expired), (1, 1));
}

#[test]
fn a_hostile_list_with_a_name_twice_reads_the_same_in_any_order() {
    let read = |values: [f64; 2], first: bool| {
        let mut book = LeaseBook::default();
        let lease = |renewed| Lease {
            name: "node",
            renew_time: Some(at(renewed)),
            duration_seconds: Some(40),
        };
        let listing = |now| Listing {
            start: at(now),
            end: at(now),
        };
        if !first {
            book.read(listing(0.0), G, [lease(-1.0)]);
        }
        book.read(listing(10.0), G, values.map(lease));
        format!("{:?}", book.leases(G).collect::<Vec<_>>())
    };
    for first in [true, false] {
        assert_eq!(read([3.0, 8.0], first), read([8.0, 3.0], first));
    }
}

#[test]
fn leases_that_go_leave_the_book() {
    let mut stage = Stage::new(settings(), at(0.0));
    stage.list(at(1.0), &[(name(0), at(0.0)), (name(1), at(0.0))]);
    assert_eq!(stage.judge.book().len(), 2);
    stage.list(at(2.0), &[(name(1), at(0.0))]);
    assert_eq!(stage.judge.book().len(), 1);
    stage.list(at(3.0), &[]);
    assert!(stage.judge.book().is_empty());
}
