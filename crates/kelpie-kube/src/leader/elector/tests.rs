//! Each rule, and all rules together against a store with lost responses, late writes and pauses.

use proptest::prelude::*;

use super::*;

fn settings(identity: &str) -> ElectionSettings {
    ElectionSettings {
        namespace: "garden".into(),
        name: "lease".into(),
        identity: identity.into(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

fn stamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A lease of another holder, renewed at this time of the holder's clock.
fn held(holder: &str, renewed: i64) -> SeenLease {
    SeenLease {
        record: LeaseRecord {
            holder: holder.into(),
            duration: Duration::from_secs(15),
            transitions: 3,
            acquired: Some(stamp(1)),
            renewed: Some(stamp(renewed)),
        },
        version: format!("v{renewed}"),
    }
}

/// An elector that has held the lease since `now`.
fn leader(now: Instant) -> Elector {
    let mut elector = Elector::new(settings("me"), now);
    elector.observe(None, now, 0.0);
    let ElectionAction::Create(record) = elector.next(now, stamp(100)) else {
        panic!("it creates a missing lease");
    };
    let version = "v100".into();
    elector.wrote(SeenLease { record, version }, now, now);
    elector
}

#[test]
fn missing_lease_is_created() {
    let now = Instant::now();
    let mut elector = Elector::new(settings("me"), now);
    assert_eq!(elector.next(now, stamp(7)), ElectionAction::Read);
    elector.observe(None, now, 1.0);
    let expected = LeaseRecord {
        holder: "me".into(),
        duration: Duration::from_secs(15),
        transitions: 0,
        acquired: Some(stamp(7)),
        renewed: Some(stamp(7)),
    };
    assert_eq!(
        elector.next(now, stamp(7)),
        ElectionAction::Create(expected)
    );
    assert_eq!(elector.leadership(now), Leadership::Standby);
}

#[test]
fn leadership_lasts_until_the_renew_deadline() {
    let start = Instant::now();
    let mut elector = leader(start);
    let until = start + Duration::from_secs(10);
    assert_eq!(elector.leadership(start), Leadership::Leader { until });
    assert_eq!(
        elector.leadership(until - ms(1)),
        Leadership::Leader { until }
    );
    assert_eq!(elector.leadership(until), Leadership::Standby);

    let renewal = start + Duration::from_secs(2);
    assert_eq!(
        elector.next(renewal - ms(1), stamp(102)),
        ElectionAction::Wait(renewal)
    );
    let ElectionAction::Update(seen) = elector.next(renewal, stamp(102)) else {
        panic!("it renews");
    };
    assert_eq!(seen.version, "v100");
    assert_eq!(seen.record.transitions, 0);
    assert_eq!(seen.record.acquired, Some(stamp(100)));
    assert_eq!(seen.record.renewed, Some(stamp(102)));
    // The answer came late: what counts is when the renewal began.
    elector.wrote(seen, renewal, renewal + Duration::from_secs(3));
    let until = renewal + Duration::from_secs(10);
    assert_eq!(elector.leadership(renewal), Leadership::Leader { until });
}

#[test]
fn expiry_ignores_wall_clocks() {
    // The holder's clock is a year behind, or ahead: the same.
    for renewed in [0, 4_000_000_000] {
        let begin = Instant::now();
        let mut elector = Elector::new(settings("me"), begin);
        // It was renewed once while we looked.
        elector.observe(Some(held("other", renewed + 9)), begin - ms(1), 0.0);
        elector.observe(Some(held("other", renewed)), begin, 0.0);
        let mut now = begin;
        let mut looks = 0;
        while now < begin + Duration::from_secs(15) {
            match elector.next(now, stamp(50)) {
                ElectionAction::Read => {
                    elector.observe(Some(held("other", renewed)), now, 1.0);
                    looks += 1;
                }
                ElectionAction::Wait(at) => now = at,
                act => panic!("{act:?} after {:?}", now - begin),
            }
        }
        assert!(
            looks > 15,
            "a released lease is noticed within a second: {looks}"
        );
        let ElectionAction::Update(seen) = elector.next(now, stamp(50)) else {
            panic!("it has run out");
        };
        assert_eq!(seen.record.holder, "me");
        assert_eq!(seen.record.transitions, 4);
        assert_eq!(seen.record.acquired, Some(stamp(50)));
        assert!(now < begin + Duration::from_secs(16));
    }
}

#[test]
fn renewed_lease_never_expires() {
    let begin = Instant::now();
    let mut elector = Elector::new(settings("me"), begin);
    for second in 0..100 {
        let now = begin + Duration::from_secs(second);
        let renewed = i64::try_from(second / 14).unwrap();
        elector.observe(Some(held("other", renewed)), now, 0.0);
        let is_taken = matches!(
            elector.next(now + ms(999), stamp(0)),
            ElectionAction::Update(_)
        );
        assert!(!is_taken, "after {second} s");
    }
}

#[test]
fn metadata_changes_are_not_renewals() {
    let begin = Instant::now();
    let mut elector = Elector::new(settings("me"), begin);
    for second in 0..=15 {
        let seen = SeenLease {
            version: format!("touched-{second}"),
            ..held("other", 0)
        };
        elector.observe(Some(seen), begin + Duration::from_secs(second), 0.0);
    }
    let ElectionAction::Update(seen) = elector.next(begin + Duration::from_secs(16), stamp(0))
    else {
        panic!("it has run out");
    };
    assert_eq!(seen.version, "touched-15");
}

#[test]
fn released_lease_is_taken_at_once() {
    let now = Instant::now();
    let mut elector = Elector::new(settings("me"), now);
    elector.observe(Some(held("", 5)), now, 1.0);
    let ElectionAction::Update(seen) = elector.next(now, stamp(9)) else {
        panic!("it is free");
    };
    assert_eq!(
        (seen.record.holder.as_str(), seen.record.transitions),
        ("me", 4)
    );
}

#[test]
fn missing_duration_gets_the_default() {
    let begin = Instant::now();
    let mut elector = Elector::new(settings("me"), begin);
    let mut seen = held("other", 5);
    seen.record.duration = Duration::ZERO;
    elector.observe(Some(seen), begin, 0.0);
    let after = |seconds| begin + Duration::from_secs(seconds);
    assert_eq!(elector.next(after(14), stamp(0)), ElectionAction::Read);
    assert!(matches!(
        elector.next(after(15), stamp(0)),
        ElectionAction::Update(_)
    ));
}

#[test]
fn other_holder_ends_leadership() {
    let now = Instant::now();
    let mut elector = leader(now);
    elector.conflicted(now + ms(1));
    // What happened is not known yet; we may still act.
    assert!(elector.leadership(now + ms(1)).may_act(now + ms(1)));
    assert_eq!(elector.next(now + ms(1), stamp(0)), ElectionAction::Read);
    elector.observe(Some(held("other", 5)), now + ms(2), 0.0);
    assert_eq!(elector.leadership(now + ms(2)), Leadership::Standby);
    elector.observe(None, now + ms(2), 0.0);
    assert_eq!(elector.leadership(now + ms(2)), Leadership::Standby);
}

#[test]
fn repeated_conflicts_do_not_busy_loop() {
    let now = Instant::now();
    let mut elector = leader(now);
    elector.conflicted(now);
    assert_eq!(elector.next(now, stamp(0)), ElectionAction::Read);
    elector.observe(Some(held("me", 1)), now, 0.0);
    assert!(matches!(
        elector.next(now, stamp(0)),
        ElectionAction::Update(_)
    ));
    elector.conflicted(now);
    assert!(matches!(elector.next(now, stamp(0)), ElectionAction::Wait(at) if at > now));
}

#[test]
fn lost_response_is_found_by_reading() {
    let now = Instant::now();
    let mut elector = leader(now);
    let later = now + Duration::from_secs(4);
    elector.failed(later, 0.0);
    let ElectionAction::Wait(at) = elector.next(later, stamp(0)) else {
        panic!("it pauses");
    };
    assert_eq!(elector.next(at, stamp(0)), ElectionAction::Read);
    elector.observe(Some(held("me", 103)), at, 0.0);
    // Reading that it is ours renews nothing.
    let until = now + Duration::from_secs(10);
    assert_eq!(elector.leadership(at), Leadership::Leader { until });
    let ElectionAction::Update(seen) = elector.next(at, stamp(105)) else {
        panic!("it renews");
    };
    assert_eq!(seen.version, "v103");
    assert_eq!(seen.record.transitions, 3);
}

#[test]
fn call_timeout_ends_with_leadership() {
    let now = Instant::now();
    let elector = leader(now);
    assert_eq!(elector.call_timeout(now), Duration::from_secs(5));
    let late = now + Duration::from_secs(9);
    assert_eq!(elector.call_timeout(late), Duration::from_secs(1));
    let over = now + Duration::from_secs(10);
    assert_eq!(elector.call_timeout(over), Duration::from_secs(5));
}

#[test]
fn release_leaves_an_empty_lease() {
    let now = Instant::now();
    let mut elector = leader(now);
    let released = elector.release(stamp(200)).unwrap();
    assert_eq!(elector.leadership(now), Leadership::Standby);
    let expected = LeaseRecord {
        holder: String::new(),
        duration: Duration::from_secs(1),
        transitions: 0,
        acquired: Some(stamp(200)),
        renewed: Some(stamp(200)),
    };
    assert_eq!(released.record, expected);
    assert_eq!(released.version, "v100");
}

#[test]
fn foreign_lease_is_not_released() {
    let now = Instant::now();
    let mut elector = Elector::new(settings("me"), now);
    assert_eq!(elector.release(stamp(0)), None);
    elector.observe(Some(held("other", 5)), now, 0.0);
    assert_eq!(elector.release(stamp(0)), None);
}

/// The API server: one lease with a version, replaced only with the right version.
#[derive(Default)]
struct Store {
    lease: Option<LeaseRecord>,
    version: u64,
}

impl Store {
    fn seen(&self) -> Option<SeenLease> {
        self.lease.clone().map(|record| SeenLease {
            record,
            version: self.version.to_string(),
        })
    }

    /// Makes a call; an error is a conflict.
    fn make(&mut self, act: &ElectionAction) -> Result<Option<SeenLease>, ()> {
        let record = match act {
            ElectionAction::Wait(_) | ElectionAction::Read => return Ok(self.seen()),
            ElectionAction::Create(record) if self.lease.is_none() => record,
            ElectionAction::Update(seen)
                if self.lease.is_some() && seen.version == self.version.to_string() =>
            {
                &seen.record
            }
            ElectionAction::Create(_) | ElectionAction::Update(_) => return Err(()),
        };
        self.lease = Some(record.clone());
        self.version += 1;
        Ok(self.seen())
    }
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy)]
struct Fate {
    /// Until it has its effect, which may be long after its sender gave up.
    way_there: u64,
    /// Until the answer is back.
    way_back: u64,
    /// The answer never comes.
    is_lost: bool,
    /// The whole process stands still for so long after the call.
    pause: u64,
}

fn fate() -> impl Strategy<Value = Fate> {
    let way = prop_oneof![6 => 0..50_u64, 2 => 0..4_000_u64, 1 => 0..30_000_u64];
    let pause = prop_oneof![12 => Just(0), 1 => 0..40_000_u64];
    (way.clone(), way, prop::bool::weighted(0.1), pause).prop_map(
        |(way_there, way_back, is_lost, pause)| Fate {
            way_there,
            way_back,
            is_lost,
            pause,
        },
    )
}

/// Something that happens to an elector.
#[derive(Debug)]
enum Event {
    /// It asks what to do.
    Wake,
    /// Its call has its effect on the store.
    Effect {
        act: ElectionAction,
        start: Instant,
        call: usize,
        fate: Fate,
    },
    /// Its call is answered.
    Answer {
        act: ElectionAction,
        start: Instant,
        call: usize,
        answer: Result<Option<SeenLease>, ()>,
    },
    /// Its patience with the call is over.
    GiveUp { call: usize, pause: u64 },
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However calls are delayed, lost or late, and processes paused: two never may act at once.
    #[test]
    fn at_most_one_may_act(fates in prop::collection::vec(fate(), 300), jitter in 0.0..1.0_f64) {
        let begin = Instant::now();
        let names = ["a", "b", "c"];
        let mut electors = names.map(|name| Elector::new(settings(name), begin));
        let mut waiting_for = [None; 3];
        let mut store = Store::default();
        let mut queue: Vec<(Instant, usize, Event)> =
            (0..3).map(|who| (begin, who, Event::Wake)).collect();
        let mut fates = fates.into_iter();
        let mut calls = 0;
        let mut terms = 0;
        while let Some(next) = (0..queue.len()).min_by_key(|index| queue[*index].0) {
            let (now, who, event) = queue.swap_remove(next);
            let elector = &mut electors[who];
            let stamp = stamp(i64::try_from((now - begin).as_secs()).unwrap());
            let mut wake_after = None;
            match event {
                Event::Wake => match elector.next(now, stamp) {
                    ElectionAction::Wait(at) => queue.push((at, who, Event::Wake)),
                    act => {
                        let Some(fate) = fates.next() else { break };
                        calls += 1;
                        waiting_for[who] = Some(calls);
                        let give_up = Event::GiveUp { call: calls, pause: fate.pause };
                        queue.push((now + elector.call_timeout(now), who, give_up));
                        let effect = Event::Effect { act, start: now, call: calls, fate };
                        queue.push((now + ms(fate.way_there), who, effect));
                    }
                },
                Event::Effect { act, start, call, fate } => {
                    let answer = store.make(&act);
                    if !fate.is_lost {
                        let at = now + ms(fate.way_back + fate.pause);
                        queue.push((at, who, Event::Answer { act, start, call, answer }));
                    }
                }
                Event::Answer { act, start, call, answer } if waiting_for[who] == Some(call) => {
                    match (act, answer) {
                        (ElectionAction::Read, Ok(seen)) => elector.observe(seen, now, jitter),
                        (_, Ok(Some(seen))) => {
                            terms += 1;
                            elector.wrote(seen, start, now);
                        }
                        _ => elector.conflicted(now),
                    }
                    wake_after = Some(0);
                }
                Event::GiveUp { call, pause } if waiting_for[who] == Some(call) => {
                    elector.failed(now, jitter);
                    wake_after = Some(pause);
                }
                Event::Answer { .. } | Event::GiveUp { .. } => {}
            }
            if let Some(pause) = wake_after {
                waiting_for[who] = None;
                queue.push((now + ms(pause), who, Event::Wake));
            }
            let acting = electors.iter().filter(|one| one.leadership(now).may_act(now));
            prop_assert!(acting.count() <= 1, "two leaders {:?} after the start", now - begin);
        }
        prop_assert!(terms > 0, "nobody ever led");
    }
}
