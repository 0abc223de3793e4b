//! Clusters that move between shards: never without a probe that judges, never with two owners.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::shard::{
    Announcement, Assignment, ClusterClaim, ClusterList, HANDOVER_LIMIT, Handover, LEASE_DURATION,
    ObservedShard, Revision, ShardTable,
};
use proptest::prelude::*;

const CLUSTER: &str = "one";
const NAMES: [&str; 3] = ["a", "b", "c"];
/// The time from the start of a probe to its first judgement.
const WARM_UP: i64 = 30_000;
/// In milliseconds.
const STEP: i64 = 250;

/// A selector of the model: the value of the cluster's only label, or several of them.
type Selector = &'static [&'static str];

fn at(millis: i64) -> Time {
    Time::from_micros(millis * 1_000)
}

fn revision(number: usize) -> Revision {
    Revision::parse(&number.to_string())
}

fn announcement(selector: Selector) -> Announcement<Selector> {
    Announcement {
        selector: Some(selector),
        seen: revision(1),
        unready: ClusterList::Named(BTreeSet::new()),
        retained: ClusterList::Named(BTreeSet::new()),
    }
}

fn observed(
    name: &str,
    renewal: i64,
    announcement: &Announcement<Selector>,
) -> ObservedShard<Selector> {
    ObservedShard {
        name: name.into(),
        renewal: renewal.to_string(),
        duration: LEASE_DURATION,
        announcement: announcement.clone(),
    }
}

/// A table of the shard `a` that has read its own Lease for long enough, and that of `b`.
fn settled(b: &Announcement<Selector>) -> ShardTable<Selector> {
    let mut table = ShardTable::new("a", &["a"][..]);
    table.saw(revision(1));
    table.listed(at(0));
    for millis in [0, 7_500, 15_000] {
        let own = observed("a", millis, &announcement(&["a"]));
        table.observe(vec![own, observed("b", millis, b)], at(millis), at(millis));
        table.announced(at(millis));
    }
    table
}

fn claim(is_claimed: bool, number: usize) -> ClusterClaim<'static> {
    ClusterClaim {
        id: CLUSTER,
        is_claimed,
        revision: revision(number),
        follows_gap: false,
        has_record: false,
    }
}

fn selects(label: &'static str) -> impl Fn(&Selector) -> bool {
    move |selector| selector.contains(&label)
}

#[test]
fn owner_waits_until_others_saw_the_move() {
    let mut b = announcement(&["b"]);
    let mut handover = Handover::default();
    let table = settled(&b);
    let assignment = handover.update(&table, &claim(true, 2), selects("a"), at(15_000));
    assert_eq!(assignment, Assignment::Standby);
    b.seen = revision(2);
    let table = settled(&b);
    let assignment = handover.update(&table, &claim(true, 2), selects("a"), at(15_000));
    assert_eq!(assignment, Assignment::Owner);
}

#[test]
fn claim_after_gap_is_a_new_claim() {
    let (table, mut handover) = (settled(&announcement(&["b"])), Handover::default());
    let mut owned = claim(true, 1);
    let mut update =
        |claim: &ClusterClaim<'_>| handover.update(&table, claim, selects("a"), at(15_000));
    assert_eq!(update(&owned), Assignment::Owner);
    owned.revision = revision(2);
    assert_eq!(update(&owned), Assignment::Owner);
    owned.follows_gap = true;
    assert_eq!(update(&owned), Assignment::Standby);
}

#[test]
fn old_shard_waits_for_the_first_judgement() {
    let mut b = announcement(&["b"]);
    b.seen = revision(2);
    b.unready = ClusterList::Named(BTreeSet::from([CLUSTER.to_owned()]));
    let mut handover = Handover::default();
    handover.update(&settled(&b), &claim(true, 1), selects("a"), at(15_000));
    let mut update = |b: &Announcement<Selector>, now| {
        handover.update(&settled(b), &claim(false, 2), selects("b"), now)
    };
    assert_eq!(update(&b, at(15_000)), Assignment::Standby);
    assert_eq!(update(&b, at(16_000)), Assignment::Standby);
    b.unready = ClusterList::Any;
    assert_eq!(update(&b, at(17_000)), Assignment::Standby);
    b.unready = ClusterList::Named(BTreeSet::new());
    assert_eq!(update(&b, at(18_000)), Assignment::Elsewhere);
}

#[test]
fn unclaimed_cluster_is_let_go_after_limit() {
    let (table, mut handover) = (settled(&announcement(&["b"])), Handover::default());
    handover.update(&table, &claim(true, 1), selects("a"), at(15_000));
    let limit = at(16_000).after(HANDOVER_LIMIT);
    for (now, expected) in [
        (at(16_000), Assignment::Standby),
        (limit.before(Duration::from_millis(1)), Assignment::Standby),
        (limit, Assignment::Elsewhere),
    ] {
        let assignment = handover.update(&table, &claim(false, 2), selects("x"), now);
        assert_eq!(assignment, expected);
    }
}

#[test]
fn record_on_lease_delays_the_handover() {
    let mut b = announcement(&["b"]);
    b.seen = revision(2);
    let (table, mut handover) = (settled(&b), Handover::default());
    handover.update(&table, &claim(true, 1), selects("a"), at(15_000));
    let mut left = claim(false, 2);
    left.has_record = true;
    for now in [at(16_000), at(16_000).after(HANDOVER_LIMIT * 2)] {
        let assignment = handover.update(&table, &left, selects("b"), now);
        assert_eq!(assignment, Assignment::Owner);
        assert!(handover.retains());
    }
    left.has_record = false;
    let assignment = handover.update(&table, &left, selects("b"), at(20_000));
    assert_eq!(assignment, Assignment::Elsewhere);
    // The new owner waits for that.
    let mut b = announcement(&["b"]);
    b.retained = ClusterList::Named(BTreeSet::from([CLUSTER.to_owned()]));
    let mut handover = Handover::default();
    let assignment = handover.update(&settled(&b), &claim(true, 1), selects("a"), at(15_000));
    assert_eq!(assignment, Assignment::Standby);
}

#[test]
fn first_of_two_claimants_owns() {
    let table = settled(&announcement(&["a", "b"]));
    let now = at(15_000);
    let mut first = Handover::default();
    assert_eq!(
        first.update(&table, &claim(true, 1), selects("a"), now),
        Assignment::Owner
    );
    let names: Vec<&str> = table
        .claimants(selects("a"))
        .into_iter()
        .map(|it| &**it)
        .collect();
    assert_eq!(names, ["a", "b"]);

    let mut table = ShardTable::new("b", &["a", "b"][..]);
    table.saw(revision(1));
    for millis in [0, 7_500, 15_000] {
        let shards = [
            ("a", announcement(&["a"])),
            ("b", announcement(&["a", "b"])),
        ];
        let shards = shards.map(|(name, it)| observed(name, millis, &it));
        table.observe(shards.into(), at(millis), at(millis));
    }
    let mut second = Handover::default();
    let assignment = second.update(&table, &claim(true, 1), selects("a"), now);
    assert_eq!(assignment, Assignment::Standby);
}

#[test]
fn silent_shard_expires() {
    let mut table = settled(&announcement(&["b"]));
    let own = |millis| observed("a", millis, &announcement(&["a"]));
    let mut live_after = |millis| {
        // A deleted Lease counts as long as one that is not renewed.
        table.observe(vec![own(millis)], at(millis), at(millis));
        (table.live().count(), table.claimants(selects("b")).len())
    };
    assert_eq!(live_after(29_999), (2, 1));
    assert_eq!(live_after(30_000), (1, 0));
    assert_eq!(
        table.owner_until(),
        at(25_000),
        "the own write is the older one"
    );
}

#[test]
fn gap_between_renewals_delays_the_owner() {
    let mut b = announcement(&["b"]);
    b.seen = revision(1);
    let mut table = settled(&b);
    let mut handover = Handover::default();
    let mut update = |table: &ShardTable<Selector>, millis| {
        handover.update(table, &claim(true, 1), selects("a"), at(millis))
    };
    assert_eq!(update(&table, 15_000), Assignment::Owner);
    table.announced(at(25_001));
    assert_eq!(update(&table, 25_001), Assignment::Standby);
    for millis in [25_000, 35_000, 40_000] {
        let own = observed("a", millis, &announcement(&["a"]));
        table.observe(vec![own, observed("b", millis, &b)], at(millis), at(millis));
    }
    assert_eq!(update(&table, 39_999), Assignment::Standby);
    assert_eq!(update(&table, 40_000), Assignment::Owner);
}

#[test]
fn lease_that_is_not_renewed_stays_expired() {
    let mut table = settled(&announcement(&["b"]));
    for millis in [20_000, 29_000, 30_000, 33_000, 60_000] {
        let shards = [("a", millis), ("b", 15_000)];
        let selectors = [announcement(&["a"]), announcement(&["b"])];
        let shards = shards.into_iter().zip(&selectors);
        let shards = shards.map(|((name, renewal), it)| observed(name, renewal, it));
        table.observe(shards.collect(), at(millis), at(millis));
        let live = table.live().count();
        assert_eq!(live, if millis < 30_000 { 2 } else { 1 }, "{millis}");
    }
}

/// A number of milliseconds, at random.
fn any_millis(rng: &mut fastrand::Rng, limit: i64) -> i64 {
    rng.i64(0..=limit)
}

/// The Leases as the API server has them.
type Leases = BTreeMap<&'static str, (i64, Announcement<Selector>)>;

/// One process, which is the only replica of its shard.
struct Process {
    name: &'static str,
    table: ShardTable<Selector>,
    handover: Handover,
    /// The version of the cluster that the process has seen, as an index of the history.
    view: usize,
    next_view_at: i64,
    probing_since: Option<i64>,
    assignment: Assignment,
    owner_until: Time,
    calls: Calls,
}

/// The read or write of Leases under way.
enum Calls {
    Idle {
        until: i64,
    },
    Reading {
        start: i64,
        at: i64,
        done: i64,
        read: Option<Vec<ObservedShard<Selector>>>,
    },
    Writing {
        start: i64,
        at: i64,
        done: i64,
        content: Option<Announcement<Selector>>,
        is_answered: bool,
    },
}

impl Process {
    fn new(name: &'static str, view: usize, now: i64) -> Self {
        let index = NAMES.iter().position(|it| *it == name).unwrap();
        let mut table = ShardTable::new(name, &NAMES[index..=index]);
        table.saw(revision(view));
        table.listed(at(now));
        Self {
            name,
            table,
            handover: Handover::default(),
            view,
            next_view_at: now,
            probing_since: None,
            assignment: Assignment::Elsewhere,
            owner_until: Time::MIN,
            calls: Calls::Idle { until: now },
        }
    }

    fn is_judging(&self, now: i64) -> bool {
        self.probing_since
            .is_some_and(|since| now >= since + WARM_UP)
    }

    fn is_owner(&self, now: i64) -> bool {
        self.assignment == Assignment::Owner && at(now) < self.owner_until
    }

    fn update(&mut self, label: &'static str, now: i64) {
        let claim = claim(label == self.name, self.view);
        let assignment = self
            .handover
            .update(&self.table, &claim, selects(label), at(now));
        self.assignment = assignment;
        self.owner_until = self.table.owner_until();
        if assignment == Assignment::Elsewhere {
            self.probing_since = None;
        } else {
            self.probing_since.get_or_insert(now);
        }
    }

    fn announcement(&self, now: i64) -> Announcement<Selector> {
        let is_unready = self.handover.is_unready(self.is_judging(now), at(now));
        let unready = is_unready.then(|| CLUSTER.to_owned());
        Announcement {
            selector: Some(*self.table.selector()),
            seen: self.table.seen(),
            unready: ClusterList::Named(unready.into_iter().collect()),
            retained: ClusterList::Named(BTreeSet::new()),
        }
    }

    /// Makes a step. `history` has the label since each instant.
    fn step(
        &mut self,
        history: &[(i64, &'static str)],
        leases: &mut Leases,
        now: i64,
        rng: &mut fastrand::Rng,
    ) {
        let next = self.view + 1;
        if history
            .get(next)
            .is_some_and(|(since, _)| now >= (*since).max(self.next_view_at))
        {
            self.view = next;
            self.table.saw(revision(next));
            self.update(history[next].1, now);
        }
        if let Some((since, _)) = history.get(self.view + 1)
            && now < *since
        {
            // The next change arrives with this delay.
            self.next_view_at = since + any_millis(rng, 15_000);
        }
        let label = history[self.view].1;
        match &mut self.calls {
            Calls::Idle { until } if now >= *until => {
                let (reach, back) = (any_millis(rng, 1_000), any_millis(rng, 1_000));
                let (at, done) = (now + reach, now + reach + back);
                self.calls = Calls::Reading {
                    start: now,
                    at,
                    done,
                    read: None,
                };
            }
            Calls::Idle { .. } => {}
            Calls::Reading {
                start,
                at: read_at,
                done,
                read,
            } => {
                if now >= *read_at && read.is_none() {
                    let all = leases
                        .iter()
                        .map(|(name, (renewal, it))| observed(name, *renewal, it));
                    *read = Some(all.collect());
                }
                if now >= *done
                    && let Some(read) = read.take()
                {
                    self.table.observe(read, at(*start), at(now));
                    self.update(label, now);
                    let (reach, back) = (any_millis(rng, 1_000), any_millis(rng, 1_000));
                    self.calls = Calls::Writing {
                        start: now,
                        at: now + reach,
                        done: now + reach + back,
                        content: (rng.u8(0..10) > 0).then(|| self.announcement(now)),
                        is_answered: rng.u8(0..10) > 0,
                    };
                }
            }
            Calls::Writing {
                start,
                at: write_at,
                done,
                content,
                is_answered,
            } => {
                if now < *write_at {
                    return;
                }
                if let Some(content) = content.take() {
                    leases.insert(self.name, (*start, content));
                } else if now >= *done {
                    if *is_answered && leases.get(self.name).is_some_and(|(at, _)| at == start) {
                        self.table.announced(at(*start));
                    }
                    let pause = if rng.u8(0..20) == 0 { 20_000 } else { 3_000 };
                    self.update(label, now);
                    self.calls = Calls::Idle { until: now + pause };
                }
            }
        }
    }
}

/// Plays a cluster that moves at these instants. Returns the steps with two owners, those without
/// a shard that judges, and the number of steps with an owner.
fn play(
    moves: &[(i64, usize)],
    restarts: &[(i64, usize)],
    number: u64,
) -> (Vec<i64>, Vec<i64>, usize) {
    let mut rng = fastrand::Rng::with_seed(number);
    let mut history = vec![(0, NAMES[0]), (0, NAMES[0])];
    let mut clock = 120_000;
    for (after, to) in moves {
        clock += after;
        history.push((clock, NAMES[*to]));
    }
    let end = clock + 240_000;
    let mut leases = Leases::new();
    let mut processes = NAMES.map(|name| Process::new(name, 1, 0));
    for process in &mut processes {
        process.update(NAMES[0], 0);
    }
    let (mut doubled, mut unjudged, mut owned) = (Vec::new(), Vec::new(), 0);
    let mut now = 0;
    while now < end {
        now += STEP;
        for (instant, which) in restarts {
            if (now - STEP..now).contains(instant) {
                let view = history
                    .iter()
                    .rposition(|(since, _)| *since <= now)
                    .unwrap();
                processes[*which] = Process::new(NAMES[*which], view, now);
                processes[*which].update(history[view].1, now);
            }
        }
        for process in &mut processes {
            process.step(&history, &mut leases, now, &mut rng);
        }
        let owners = processes.iter().filter(|it| it.is_owner(now)).count();
        owned += owners;
        if owners > 1 {
            doubled.push(now);
        }
        if now > 60_000 && !processes.iter().any(|it| it.is_judging(now)) {
            unjudged.push(now);
        }
    }
    (doubled, unjudged, owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Moves at any pace, restarts and lost calls.
    #[test]
    fn cluster_has_one_owner_at_most(
        moves in prop::collection::vec((0_i64..90_000, 0_usize..3), 0..8),
        restarts in prop::collection::vec((0_i64..600_000, 0_usize..3), 0..4),
        number: u64,
    ) {
        let (doubled, _, owned) = play(&moves, &restarts, number);
        prop_assert_eq!(doubled, Vec::<i64>::new());
        prop_assert!(owned > 0, "the cluster is never owned");
    }

    /// A cluster stays with a shard for the time of a warm-up at least.
    #[test]
    fn moving_cluster_is_always_judged(
        moves in prop::collection::vec((75_000_i64..200_000, 0_usize..3), 0..6),
        number: u64,
    ) {
        let (_, unjudged, _) = play(&moves, &[], number);
        prop_assert_eq!(unjudged, Vec::<i64>::new());
    }
}
