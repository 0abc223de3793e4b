//! The expiry of single leases under right and wrong clocks.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::{Lease, LeaseStatus, LeaseTracker, ListSpan};
use proptest::prelude::*;

use crate::evaluator_fixture::{EvaluatorFixture, SECOND, at, name, settings};

const G: Duration = Duration::from_secs(40);

/// A list of leases. `pause` is the time since the end of the last list, and `read_at` the share of
/// `duration` after which the API server reads the leases.
#[derive(Clone, Debug)]
struct ListPlan {
    pause: i64,
    duration: i64,
    read_at: f64,
}

fn list_plans(pause: i64, duration: i64) -> impl Strategy<Value = Vec<ListPlan>> {
    let plan = (0..=pause * SECOND, 0..=duration * SECOND, 0.0..=1.0).prop_map(
        |(pause, duration, read_at)| ListPlan {
            pause,
            duration,
            read_at,
        },
    );
    prop::collection::vec(plan, 1..60)
}

/// Lists one lease as planned. `value_at` returns the value on the API server at an instant.
fn list_as_planned(
    plans: &[ListPlan],
    grace: Duration,
    mut value_at: impl FnMut(i64) -> Time,
    mut check: impl FnMut(ListSpan, i64, LeaseStatus<'_>) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut tracker = LeaseTracker::default();
    let mut now = 1_000 * SECOND;
    for plan in plans {
        let start = now + plan.pause;
        let end = start + plan.duration;
        let read_at = start + (plan.duration as f64 * plan.read_at) as i64;
        let value = value_at(read_at);
        let lease = Lease {
            name: "node",
            renew_time: Some(value),
            duration_seconds: Some(40),
        };
        let span = ListSpan {
            start: Time::from_micros(start),
            end: Time::from_micros(end),
        };
        tracker.observe_leases(span, None, grace, [lease]);
        check(span, read_at, tracker.leases(grace).next().unwrap())?;
        now = end;
    }
    Ok(())
}

/// Returns the last true renewal before `instant` of a kubelet that renews every `period`.
fn renewal_before(instant: i64, phase: i64, period: i64) -> i64 {
    (instant - phase).div_euclid(period) * period + phase
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn changing_lease_never_expires(
        plans in list_plans(60, 40),
        phase in 0..10 * SECOND,
        period in 10 * SECOND..=12 * SECOND,
        grace in 20_u64..60,
        // Any value for each renewal: offsets, steps, drift and nonsense.
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
        list_as_planned(&plans, grace, value_at, |span, _, lease| {
            prop_assert!(lease.expires_at > span.start, "expired: {lease:?} at {span:?}");
            prop_assert!(lease.silent_at > span.start, "silent: {lease:?} at {span:?}");
            Ok(())
        })?;
    }

    #[test]
    fn correct_clock_expires_at_three_quarters_grace(
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
        list_as_planned(&plans, grace, value_at, |_, read_at, lease| {
            let written = value_at(read_at);
            prop_assert_eq!(lease.renewal, Some(written));
            // The value in the first list has to be unchanged for a while before it proves
            // anything.
            if *first.get_or_insert(written) != written {
                prop_assert_eq!(lease.expires_at, written.after(grace * 3 / 4));
            }
            Ok(())
        })?;
    }

    #[test]
    fn wrong_clock_never_delays_expiry(
        plans in list_plans(12, 2),
        phase in 0..10 * SECOND,
        offset in prop_oneof![-3_600 * SECOND..3_600 * SECOND, -15 * SECOND..15 * SECOND],
        drift in -100..100_i64, // parts per million
    ) {
        let clock = |written: i64| {
            Time::from_micros(written + offset + (written - 1_000 * SECOND) * drift / 1_000_000)
        };
        let written_before = |instant| renewal_before(instant, phase, 10 * SECOND);
        // A clock that is ahead by less than a window looks right until a value is younger than the
        // list that shows it, by more than clocks may differ. From then on the true renewal is the
        // bound. Before, the end of the list is.
        let mut excess: Vec<(Time, i64)> = Vec::new();
        let mut last = None;
        let value_at = |instant| clock(written_before(instant));
        list_as_planned(&plans, G, value_at, |span, read_at, lease| {
            let written = written_before(read_at);
            if last != Some(written) {
                excess.push((span.end, clock(written).as_micros() - span.end.as_micros()));
                let is_exposed = excess.iter().any(|(at, excess)| {
                    let forgotten = span.end.since(*at).as_micros() as i64 / 4_000;
                    *excess - forgotten > SECOND / 10
                });
                let is_behind = clock(written) <= Time::from_micros(written);
                let is_first = last.is_none();
                let bound = if (is_exposed && !is_first) || is_behind {
                    Time::from_micros(written)
                } else {
                    span.end
                };
                prop_assert!(lease.renewal <= Some(bound), "{lease:?} after {bound}");
                let conclusive_at = span.end.after(Duration::from_secs(15));
                prop_assert!(lease.expires_at <= bound.after(G * 3 / 4).max(conclusive_at));
            }
            last = Some(written);
            Ok(())
        })?;
    }

    #[test]
    fn dead_node_does_not_affect_others(
        nodes in 3_usize..30,
        phases in prop::collection::vec(0..10 * SECOND, 30),
        silent_after in prop_oneof![Just(i64::MAX), (60..120_i64).prop_map(|s| s * SECOND)],
        interval in 5_i64..12,
    ) {
        let mut with = EvaluatorFixture::new(settings(), at(0.0));
        let mut without = EvaluatorFixture::new(settings(), at(0.0));
        let dead = ("node-dead".to_string(), Time::from_micros(-3_600 * SECOND));
        for round in 0..30 {
            let now = Time::from_micros(round * interval * SECOND + SECOND);
            let mut leases: Vec<_> = (0..nodes)
                .map(|index| {
                    let instant = now.as_micros().min(silent_after);
                    let renewed = renewal_before(instant, phases[index], 10 * SECOND);
                    (name(index), Time::from_micros(renewed))
                })
                .collect();
            let expected = without.round(now, &leases);
            leases.push(dead.clone());
            let decision = with.round(now, &leases);
            prop_assert_eq!(expected.deadline, decision.deadline);
            for (index, _) in leases[..nodes].iter().enumerate() {
                let name = name(index);
                prop_assert_eq!(without.lease_status(G, &name), with.lease_status(G, &name));
            }
            // In the first seconds, one more unproven lease may change the verdict.
            if (30 * SECOND..silent_after).contains(&now.as_micros()) {
                prop_assert_eq!(expected.verdict, decision.verdict);
            }
        }
    }
}

#[test]
fn unchanged_time_starts_at_list_end() {
    // The request was sent at 10 s and hung until 32 s. The value in the response was written at
    // 31 s by a clock that is an hour behind. At 33 s the lease is two seconds old, although the
    // list started long before.
    let mut tracker = LeaseTracker::default();
    let one_hour_behind = |seconds: f64| at(seconds - 3_600.0);
    let lease = |renewed| Lease {
        name: "node",
        renew_time: Some(renewed),
        duration_seconds: Some(40),
    };
    let span = |start, end| ListSpan {
        start: at(start),
        end: at(end),
    };
    tracker.observe_leases(span(0.0, 0.1), None, G, [lease(one_hour_behind(-5.0))]);
    tracker.observe_leases(span(10.0, 32.0), None, G, [lease(one_hour_behind(31.0))]);
    tracker.observe_leases(span(33.0, 33.1), None, G, [lease(one_hour_behind(31.0))]);
    let lease_status = tracker.leases(G).next().unwrap();
    assert!(lease_status.expires_at > at(33.0), "{lease_status:?}");
}

#[test]
fn stalled_list_leaves_kubelets_time_to_renew() {
    // All requests hung from 10 s to 40 s, those of the kubelets and the list. The list shows old
    // values, which must not expire before the kubelets had 1.5 periods to renew.
    let mut tracker = LeaseTracker::default();
    let lease = || Lease {
        name: "node",
        renew_time: Some(at(5.0)),
        duration_seconds: Some(40),
    };
    let span = |start, end| ListSpan {
        start: at(start),
        end: at(end),
    };
    tracker.observe_leases(span(0.0, 6.0), None, G, [lease()]);
    tracker.observe_leases(span(10.0, 40.0), None, G, [lease()]);
    let lease_status = tracker.leases(G).next().unwrap();
    assert_eq!(lease_status.expires_at, at(55.0));
}

#[test]
fn slow_renewal_is_dated_to_its_window() {
    // Renewals at 5, 15 and 25 s. The one at 35 s took 8 s, so it appears two lists later.
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    for (now, renewed) in [
        (0.0, -5.0),
        (10.0, 5.0),
        (20.0, 15.0),
        (30.0, 25.0),
        (40.0, 25.0),
    ] {
        fixture.list(at(now), &[(name(0), at(renewed))]);
    }
    fixture.list(at(44.0), &[(name(0), at(35.0))]);
    assert_eq!(
        fixture.lease_status(G, &name(0)).renewal,
        Some(at(40.0)),
        "not before the last list without it"
    );
    fixture.list(at(50.0), &[(name(0), at(45.0))]);
    assert_eq!(
        fixture.lease_status(G, &name(0)).renewal,
        Some(at(45.0)),
        "one slow request does not make the clock wrong"
    );
}

#[test]
fn slow_renewals_are_no_clock_step() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    for (now, renewed) in [(0.0, -5.0), (10.0, 5.0), (20.0, 15.0), (30.0, 25.0)] {
        fixture.list(at(now), &[(name(0), at(renewed))]);
    }
    // Written at 35, 40 and 45 s, each at least 6 s before the last list without it.
    for (now, renewed) in [
        (41.0, 25.0),
        (44.0, 35.0),
        (46.0, 35.0),
        (52.0, 40.0),
        (54.0, 45.0),
    ] {
        fixture.list(at(now), &[(name(0), at(renewed))]);
    }
    fixture.list(at(64.0), &[(name(0), at(55.5))]);
    assert_eq!(fixture.lease_status(G, &name(0)).renewal, Some(at(55.5)));
}

#[test]
fn drifting_clock_never_dates_late() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    for round in 0..360 {
        let now = f64::from(round) * 10.0;
        // The renewals go through all phases of the period.
        let renewed = now - f64::from(round * 7 % 10) - 0.999;
        let clock = renewed + 60.0 + renewed * 200e-6;
        fixture.list(at(now), &[(name(0), at(clock))]);
        if round > 20 {
            let dated = fixture.lease_status(G, &name(0)).renewal.unwrap();
            assert!(dated <= at(renewed), "round {round}: {dated} is too late");
            assert!(
                dated >= at(renewed - 0.2),
                "round {round}: {dated} is too early"
            );
        }
    }
}

#[test]
fn renew_period_is_clamped() {
    let rows = [
        ("absent", None, 10.0),
        ("the usual", Some(40), 10.0),
        ("short", Some(8), 2.0),
        ("zero", Some(0), 1.0),
        ("negative", Some(-400), 1.0),
        ("long", Some(400), 20.0),
    ];
    for (case, duration_seconds, period) in rows {
        let lease_status = |renewed: f64| {
            let mut tracker = LeaseTracker::default();
            let lease = Lease {
                name: "node",
                renew_time: Some(at(renewed)),
                duration_seconds,
            };
            tracker.observe_leases(
                ListSpan {
                    start: at(0.0),
                    end: at(0.0),
                },
                None,
                G,
                [lease],
            );
            let lease_status = tracker.leases(G).next().unwrap();
            (lease_status.expires_at, lease_status.silent_at)
        };
        let conclusive_at = at(1.5 * period);
        assert_eq!(
            lease_status(-3_600.0),
            (conclusive_at, conclusive_at),
            "{case}: a value in the first list proves something after 1.5 P"
        );
        let silent = at(f64::max(20.0, 2.0 * period));
        assert_eq!(
            lease_status(0.0),
            (at(30.0), silent),
            "{case}: a node is silent after 0.5 G and 2 P"
        );
    }
}

#[test]
fn watched_value_proves_after_five_quarter_periods() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    // The clock is an hour behind, so the renewal is dated to the start of its window.
    fixture.list(at(0.0), &[(name(0), at(-3_605.0))]);
    fixture.list(at(19.9), &[(name(0), at(-3_585.0))]);
    assert_eq!(
        fixture.lease_status(G, &name(0)).expires_at,
        at(19.9 + 12.5)
    );
}

#[test]
fn stepped_clock_is_learnt_again() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
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
        fixture.list(at(now), &[(name(0), at(renewed + offset))]);
        let dated = fixture.lease_status(G, &name(0)).renewal.unwrap();
        assert!(
            dated <= at(renewed),
            "round {round}: {dated} is after the renewal"
        );
        assert!(
            dated >= at(now - 10.0),
            "round {round}: {dated} is before its window"
        );
    }
}

#[test]
fn never_renewed_lease_counts_after_grace() {
    use crate::evaluator_fixture::{node_set, nodes, observation};
    use kelpie_core::prober::{Exclusion, ListResult};
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    let mut node = nodes([name(0)]);
    node[0].created = at(0.0);
    let mut decide = |now: f64| {
        let lease = Lease {
            name: "node-000",
            renew_time: None,
            duration_seconds: None,
        };
        let listed = fixture.evaluator.observe_leases(
            ListSpan {
                start: at(now),
                end: at(now),
            },
            None,
            [lease],
        );
        fixture.evaluator.observe_nodes(node_set(&node), at(now));
        fixture
            .evaluator
            .decide(&observation(at(now), ListResult::Read(listed)))
            .reasons
            .leases
            .unwrap()
    };
    for now in [1.0, 11.0, 21.0, 31.0, 40.0] {
        let counts = decide(now);
        assert_eq!(
            (
                counts.candidates,
                counts.excluded.of(Exclusion::NeverRenewed)
            ),
            (0, 1),
            "{now}"
        );
    }
    let counts = decide(41.0);
    assert_eq!((counts.candidates, counts.expired), (1, 1));
}

#[test]
fn duplicate_names_are_order_independent() {
    let read = |values: [f64; 2], first: bool| {
        let mut tracker = LeaseTracker::default();
        let lease = |renewed| Lease {
            name: "node",
            renew_time: Some(at(renewed)),
            duration_seconds: Some(40),
        };
        let span = |now| ListSpan {
            start: at(now),
            end: at(now),
        };
        if !first {
            tracker.observe_leases(span(0.0), None, G, [lease(-1.0)]);
        }
        tracker.observe_leases(span(10.0), None, G, values.map(lease));
        format!("{:?}", tracker.leases(G).collect::<Vec<_>>())
    };
    for first in [true, false] {
        assert_eq!(read([3.0, 8.0], first), read([8.0, 3.0], first));
    }
}

#[test]
fn removed_leases_are_dropped() {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    fixture.list(at(1.0), &[(name(0), at(0.0)), (name(1), at(0.0))]);
    assert_eq!(fixture.evaluator.leases().len(), 2);
    fixture.list(at(2.0), &[(name(1), at(0.0))]);
    assert_eq!(fixture.evaluator.leases().len(), 1);
    fixture.list(at(3.0), &[]);
    assert!(fixture.evaluator.leases().is_empty());
}
