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

/// Takes in a read that was answered at once.
fn observe(elector: &mut Elector, seen: Option<SeenLease>, now: Instant, jitter: f64) {
    elector.observe(seen, now, now, jitter);
}

/// An elector that has held the lease since `now`.
fn leader(now: Instant) -> Elector {
    let mut elector = Elector::new(settings("me"), now);
    observe(&mut elector, None, now, 0.0);
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
    observe(&mut elector, None, now, 1.0);
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
        observe(
            &mut elector,
            Some(held("other", renewed + 9)),
            begin - ms(1),
            0.0,
        );
        observe(&mut elector, Some(held("other", renewed)), begin, 0.0);
        let mut now = begin;
        let mut looks = 0;
        while now < begin + Duration::from_secs(15) {
            match elector.next(now, stamp(50)) {
                ElectionAction::Read => {
                    observe(&mut elector, Some(held("other", renewed)), now, 1.0);
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
        observe(&mut elector, Some(held("other", renewed)), now, 0.0);
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
        observe(
            &mut elector,
            Some(seen),
            begin + Duration::from_secs(second),
            0.0,
        );
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
    observe(&mut elector, Some(held("", 5)), now, 1.0);
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
    observe(&mut elector, Some(seen), begin, 0.0);
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
    elector.conflicted(Some("v100"), now + ms(1));
    // What happened is not known yet; we may still act.
    assert!(elector.leadership(now + ms(1)).may_act(now + ms(1)));
    assert_eq!(elector.next(now + ms(1), stamp(0)), ElectionAction::Read);
    observe(&mut elector, Some(held("other", 5)), now + ms(2), 0.0);
    assert_eq!(elector.leadership(now + ms(2)), Leadership::Standby);
    observe(&mut elector, None, now + ms(2), 0.0);
    assert_eq!(elector.leadership(now + ms(2)), Leadership::Standby);
}

#[test]
fn repeated_conflicts_do_not_busy_loop() {
    let now = Instant::now();
    let mut elector = leader(now);
    elector.conflicted(Some("v100"), now);
    assert_eq!(elector.next(now, stamp(0)), ElectionAction::Read);
    observe(&mut elector, Some(held("me", 1)), now, 0.0);
    assert!(matches!(
        elector.next(now, stamp(0)),
        ElectionAction::Update(_)
    ));
    elector.conflicted(Some("v1"), now);
    assert!(matches!(elector.next(now, stamp(0)), ElectionAction::Wait(at) if at > now));
}

/// Lets the elector send a write, which must be due.
fn send_write(elector: &mut Elector, now: Instant, seconds: i64) -> SeenLease {
    let action = elector.next(now, stamp(seconds));
    elector.sent(&action, now);
    match action {
        ElectionAction::Update(seen) => seen,
        other => panic!("{other:?} instead of a write"),
    }
}

#[test]
fn lost_response_is_found_by_reading() {
    let now = Instant::now();
    let mut elector = leader(now);
    let after = |seconds| now + Duration::from_secs(seconds);
    let lost = send_write(&mut elector, after(2), 102);
    // It is repeated as it was, with the same version.
    let again = send_write(&mut elector, after(5), 105);
    assert_eq!(again.version, lost.version);
    elector.conflicted(Some(&again.version), after(6));
    assert_eq!(elector.next(after(6), stamp(0)), ElectionAction::Read);
    let found = SeenLease {
        version: "v102".into(),
        ..lost
    };
    elector.observe(Some(found), after(6), after(7), 0.0);
    // The first write had its effect, so the right to act counts from it.
    let until = after(12);
    assert_eq!(elector.leadership(after(7)), Leadership::Leader { until });
    let renewal = send_write(&mut elector, after(7), 107);
    assert_eq!(
        (renewal.version.as_str(), renewal.record.transitions),
        ("v102", 0)
    );
}

#[test]
fn foreign_record_renews_nothing() {
    let now = Instant::now();
    let mut elector = leader(now);
    let at = now + Duration::from_secs(4);
    observe(&mut elector, Some(held("me", 103)), at, 0.0);
    let until = now + Duration::from_secs(10);
    assert_eq!(elector.leadership(at), Leadership::Leader { until });
}

#[test]
fn failed_write_is_repeated_after_a_pause() {
    let now = Instant::now();
    let mut elector = leader(now);
    let sent = now + Duration::from_secs(2);
    let write = send_write(&mut elector, sent, 102);
    elector.failed(sent, sent + ms(100), 0.0);
    let pause = sent + ms(300);
    assert_eq!(
        elector.next(sent + ms(100), stamp(0)),
        ElectionAction::Wait(pause)
    );
    assert_eq!(send_write(&mut elector, pause, 103).version, write.version);
    // One that timed out has waited long enough.
    let given_up = pause + Duration::from_secs(10);
    elector.failed(pause, given_up, 1.0);
    assert!(matches!(
        elector.next(given_up, stamp(0)),
        ElectionAction::Update(_)
    ));
}

#[test]
fn slow_renewal_extends_leadership_from_its_start() {
    let now = Instant::now();
    let mut elector = leader(now);
    let after = |seconds| now + Duration::from_secs(seconds);
    let slow = send_write(&mut elector, after(2), 102);
    let second = send_write(&mut elector, after(5), 105);
    assert_eq!(elector.leadership(after(10)), Leadership::Standby);
    // The response takes nine seconds.
    let renewed = SeenLease {
        version: "v102".into(),
        ..slow
    };
    assert!(elector.wrote(renewed, after(2), after(11)));
    let until = after(12);
    assert_eq!(elector.leadership(after(11)), Leadership::Leader { until });
    // The second write came too late, which says nothing.
    elector.conflicted(Some(&second.version), after(11));
    assert_eq!(send_write(&mut elector, after(11), 111).version, "v102");
}

#[test]
fn old_response_does_not_revise_a_newer_one() {
    let now = Instant::now();
    let mut elector = leader(now);
    let after = |seconds| now + Duration::from_secs(seconds);
    let slow = send_write(&mut elector, after(2), 102);
    observe(&mut elector, Some(held("other", 5)), after(3), 0.0);
    assert!(!elector.wrote(slow, after(2), after(4)));
    assert_eq!(elector.leadership(after(4)), Leadership::Standby);
    let own = SeenLease {
        record: elector.claim(None, stamp(100)),
        version: "v100".into(),
    };
    assert!(!elector.observe(Some(own), after(1), after(4), 0.0));
}

#[test]
fn stale_read_does_not_revive_leadership() {
    let now = Instant::now();
    let mut elector = leader(now);
    let after = |seconds| now + Duration::from_secs(seconds);
    let lost = send_write(&mut elector, after(2), 102);
    observe(&mut elector, Some(held("other", 5)), after(3), 0.0);
    observe(&mut elector, Some(lost), after(4), 0.0);
    assert_eq!(elector.leadership(after(4)), Leadership::Standby);
}

#[test]
fn calls_overlap_within_the_limit() {
    let now = Instant::now();
    let mut elector = Elector::new(settings("me"), now);
    let mut sent = Vec::new();
    let mut at = now;
    while at < now + elector.call_limit() {
        match elector.next(at, stamp(0)) {
            ElectionAction::Wait(next) => at = next,
            action => {
                elector.sent(&action, at);
                sent.push((at - now).as_millis());
            }
        }
    }
    assert_eq!(sent, [0, 2_500, 5_000, 7_500]);
}

#[test]
fn unready_replica_takes_only_an_abandoned_lease() {
    for free in [None, Some(held("", 5))] {
        let begin = Instant::now();
        let mut elector = Elector::new(settings("me"), begin);
        elector.stand(false);
        let mut now = begin;
        loop {
            match elector.next(now, stamp(0)) {
                ElectionAction::Read => observe(&mut elector, free.clone(), now, 0.0),
                ElectionAction::Wait(at) => now = at,
                ElectionAction::Create(_) | ElectionAction::Update(_) => break,
            }
        }
        let waited = now - begin;
        assert!((5_000..5_500).contains(&waited.as_millis()), "{waited:?}");
    }
}

#[test]
fn ready_replica_takes_a_free_lease_at_once() {
    let now = Instant::now();
    let mut elector = Elector::new(settings("me"), now);
    elector.stand(false);
    observe(&mut elector, Some(held("", 5)), now, 0.0);
    elector.stand(true);
    let at = now + ms(300);
    assert!(matches!(
        elector.next(at, stamp(0)),
        ElectionAction::Update(_)
    ));
}

#[test]
fn unready_replica_waits_after_an_expiry() {
    let begin = Instant::now();
    let mut elector = Elector::new(settings("me"), begin);
    elector.stand(false);
    let mut now = begin;
    loop {
        match elector.next(now, stamp(0)) {
            ElectionAction::Read => observe(&mut elector, Some(held("other", 5)), now, 0.0),
            ElectionAction::Wait(at) => now = at,
            ElectionAction::Create(_) | ElectionAction::Update(_) => break,
        }
    }
    let waited = now - begin;
    assert!((20_000..21_000).contains(&waited.as_millis()), "{waited:?}");
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
    observe(&mut elector, Some(held("other", 5)), now, 0.0);
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

/// Returns the share of ten minutes in which one elector leads, if every call takes this long.
fn share_of_leadership(latency: Duration) -> f64 {
    const LENGTH: u64 = 600_000;
    let begin = Instant::now();
    let mut elector = Elector::new(settings("me"), begin);
    let (mut store, mut calls) = (Store::default(), Vec::new());
    let mut led = 0;
    for millis in (0..LENGTH).step_by(10) {
        let now = begin + ms(millis);
        let stamp = Timestamp::from_millisecond(i64::try_from(millis).unwrap()).unwrap();
        // A call has its effect when it is answered, or after its sender has given up.
        while let Some((start, _)) = calls.first() {
            let answered = *start + latency;
            if now < answered {
                break;
            }
            let (start, act) = calls.remove(0);
            let given = store.make(&act);
            if latency < elector.call_limit() {
                answer(&mut elector, &act, given, (start, now), 0.0);
            } else {
                elector.failed(start, now, 0.0);
            }
        }
        match elector.next(now, stamp) {
            ElectionAction::Wait(_) => {}
            act => {
                elector.sent(&act, now);
                calls.push((now, act));
            }
        }
        led += u32::from(elector.leadership(now).may_act(now));
    }
    f64::from(led) / f64::from(u32::try_from(LENGTH / 10).unwrap())
}

#[test]
fn slow_api_server_still_has_a_leader() {
    for (latency, least) in [
        (0.1, 0.99),
        (3.0, 0.98),
        (4.9, 0.97),
        (6.0, 0.6),
        (9.0, 0.1),
    ] {
        let share = share_of_leadership(Duration::from_secs_f64(latency));
        assert!(share > least, "{latency} s: {share}");
    }
    assert!(share_of_leadership(Duration::from_secs(10)) < f64::EPSILON);
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
    /// It asks what to do. Only the last wake that was planned counts.
    Wake { number: usize },
    /// Its call has its effect on the store.
    Effect {
        act: ElectionAction,
        start: Instant,
        fate: Fate,
    },
    /// Its call is answered.
    Answer {
        act: ElectionAction,
        start: Instant,
        answer: Result<Option<SeenLease>, ()>,
    },
    /// Its patience with the call is over.
    GiveUp { start: Instant },
}

/// Passes the response to a call to its elector. Returns whether it was a successful write.
fn answer(
    elector: &mut Elector,
    act: &ElectionAction,
    answer: Result<Option<SeenLease>, ()>,
    (start, now): (Instant, Instant),
    jitter: f64,
) -> bool {
    match (act, answer) {
        (ElectionAction::Read, Ok(seen)) => {
            elector.observe(seen, start, now, jitter);
        }
        (_, Ok(Some(seen))) => {
            elector.wrote(seen, start, now);
            return true;
        }
        (ElectionAction::Update(of), _) => elector.conflicted(Some(&of.version), now),
        _ => elector.conflicted(None, now),
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However calls are delayed, lost or late, and processes paused: two never may act at once.
    #[test]
    fn at_most_one_may_act(
        fates in prop::collection::vec(fate(), 300),
        jitter in 0.0..1.0_f64,
        stands in prop::array::uniform3(prop::bool::weighted(0.8)),
    ) {
        let begin = Instant::now();
        let names = ["a", "b", "c"];
        let mut electors = names.map(|name| Elector::new(settings(name), begin));
        for (elector, stands) in electors.iter_mut().zip(stands) {
            elector.stand(stands);
        }
        let mut wakes = [0; 3];
        let mut paused_until = [begin; 3];
        let mut store = Store::default();
        let mut queue: Vec<(Instant, usize, Event)> =
            (0..3).map(|who| (begin, who, Event::Wake { number: 0 })).collect();
        let mut fates = fates.into_iter();
        let mut terms = 0;
        while let Some(next) = (0..queue.len()).min_by_key(|index| queue[*index].0) {
            let (now, who, event) = queue.swap_remove(next);
            let elector = &mut electors[who];
            let stamp = stamp(i64::try_from((now - begin).as_secs()).unwrap());
            if !matches!(event, Event::Effect { .. }) && now < paused_until[who] {
                queue.push((paused_until[who], who, event));
                continue;
            }
            let mut wake_at = Some(now);
            match event {
                Event::Wake { number } if number == wakes[who] => match elector.next(now, stamp) {
                    ElectionAction::Wait(at) => wake_at = Some(at),
                    act => {
                        let Some(fate) = fates.next() else { break };
                        elector.sent(&act, now);
                        let give_up = Event::GiveUp { start: now };
                        queue.push((now + elector.call_limit(), who, give_up));
                        let effect = Event::Effect { act, start: now, fate };
                        queue.push((now + ms(fate.way_there), who, effect));
                        paused_until[who] = now + ms(fate.pause);
                    }
                },
                Event::Wake { .. } => wake_at = None,
                Event::Effect { act, start, fate } => {
                    let answer = store.make(&act);
                    let at = now + ms(fate.way_back);
                    let is_answered = !fate.is_lost && at < start + elector.call_limit();
                    if is_answered {
                        queue.push((at, who, Event::Answer { act, start, answer }));
                    }
                    wake_at = None;
                }
                Event::Answer { act, start, answer: given } => {
                    let is_write = answer(elector, &act, given, (start, now), jitter);
                    terms += usize::from(is_write);
                }
                Event::GiveUp { start } => elector.failed(start, now, jitter),
            }
            if let Some(at) = wake_at {
                wakes[who] += 1;
                queue.push((at, who, Event::Wake { number: wakes[who] }));
            }
            let acting = electors.iter().filter(|one| one.leadership(now).may_act(now));
            prop_assert!(acting.count() <= 1, "two leaders {:?} after the start", now - begin);
        }
        prop_assert!(terms > 0, "nobody ever led");
    }
}
