//! Kubelets that renew their leases, with clocks that may be wrong.

use fastrand::Rng;
use kelpie_core::{Fraction, Time};

use super::{Event, SECOND, Scenario, at};

/// What a right clock may be off by, in microseconds.
const CLOCK_NOISE: i64 = 5_000;

/// Whose clocks are wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clocks {
    /// Nobody's, to a few milliseconds.
    Right,
    /// One node in five has a clock of its own.
    SomeWrong,
    /// Ours: all nodes differ from us by the same.
    OursWrong,
}

/// A node, its kubelet and its lease.
pub struct Node {
    pub name: String,
    /// `renewTime` as it stands, by the node's clock.
    pub value: Time,
    /// When that was really written.
    pub renewed: Time,
    offset: i64,
    rng: Rng,
    next_attempt: Time,
    /// When the attempt under way was made, and when it will be committed.
    under_way: Option<(Time, Time)>,
    /// When its requests do not get through.
    cut: Option<(Time, Time)>,
    lives: (Time, Time),
    /// When each renewal was written and when it was there to be seen.
    renewals: Vec<(Time, Time)>,
}

impl Node {
    pub fn exists(&self, now: Time) -> bool {
        self.lives.0 <= now && now < self.lives.1
    }

    /// Lets the kubelet work until `now`.
    pub fn advance(&mut self, now: Time) {
        loop {
            if let Some((attempt, commit)) = self.under_way {
                if commit > now {
                    return;
                }
                self.value = Time::from_micros(attempt.as_micros() + self.offset);
                self.renewed = commit;
                self.renewals.push((attempt, commit));
                self.under_way = None;
            }
            if self.next_attempt > now {
                return;
            }
            let attempt = self.next_attempt;
            let is_cut = self
                .cut
                .is_some_and(|(from, to)| from <= attempt && attempt < to);
            let pause = if is_cut {
                self.rng.i64(SECOND / 5..10 * SECOND)
            } else {
                let commit = attempt.as_micros() + self.rng.i64(1_000..20_000);
                self.under_way = Some((attempt, Time::from_micros(commit)));
                10 * SECOND + self.rng.i64(0..=4 * SECOND / 10)
            };
            self.next_attempt = Time::from_micros(attempt.as_micros() + pause);
        }
    }
}

pub fn fleet(scenario: &Scenario, rng: &mut Rng) -> Vec<Node> {
    let ours = offset(rng);
    let mut nodes: Vec<_> = (0..scenario.nodes)
        .map(|index| node(scenario, index, ours, rng))
        .collect();
    match scenario.event {
        Event::Partition => cut(&mut nodes, 0.0, f64::INFINITY),
        Event::PartialPartition { share } => {
            let part = (share * nodes.len() as f64).ceil() as usize;
            cut(&mut nodes[..part], 0.0, f64::INFINITY);
        }
        Event::Hiccup { seconds } | Event::ApiOutage { seconds } => cut(&mut nodes, 0.0, seconds),
        Event::OneDeadNode => cut(&mut nodes[..1], 0.0, f64::INFINITY),
        Event::RollingRestart => {
            // A careful rollout: the next node goes when the last one is back.
            let mut from = 0.0;
            for node in &mut nodes {
                let length = 30.0 + rng.f64() * 90.0;
                cut(std::slice::from_mut(node), from, from + length);
                from += length + 5.0;
            }
        }
        Event::Autoscaling => {
            for node in nodes.iter_mut().skip(1) {
                let when = at(rng.f64() * 200.0);
                match rng.u8(0..3) {
                    0 => {
                        node.lives.0 = when;
                        node.next_attempt = when;
                        node.renewals = vec![(when, when)];
                        node.value = Time::from_micros(when.as_micros() + node.offset);
                    }
                    1 => node.lives.1 = when,
                    _ => {}
                }
            }
        }
        Event::ListGap { .. } => {}
    }
    nodes
}

fn node(scenario: &Scenario, index: usize, ours: i64, rng: &mut Rng) -> Node {
    let offset = match scenario.clocks {
        Clocks::SomeWrong if rng.u8(0..5) == 0 => offset(rng),
        Clocks::OursWrong => ours,
        Clocks::Right | Clocks::SomeWrong => rng.i64(-CLOCK_NOISE..=CLOCK_NOISE),
    };
    let first = Time::from_micros(rng.i64(-10 * SECOND..0));
    Node {
        name: format!("shoot--project--cluster-worker-{index:05}"),
        value: Time::from_micros(first.as_micros() + offset),
        renewed: first,
        offset,
        next_attempt: first,
        under_way: None,
        cut: None,
        lives: (Time::MIN, Time::MAX),
        renewals: vec![(first, first)],
        rng: rng.fork(),
    }
}

/// Half a second to an hour, either way, all magnitudes alike.
fn offset(rng: &mut Rng) -> i64 {
    let magnitude = (0.5_f64.ln() + rng.f64() * (3600.0_f64 / 0.5).ln()).exp();
    let sign = if rng.bool() { 1.0 } else { -1.0 };
    (sign * magnitude * SECOND as f64) as i64
}

fn cut(nodes: &mut [Node], from: f64, to: f64) {
    let to = if to.is_finite() { at(to) } else { Time::MAX };
    for node in nodes {
        node.cut = Some((at(from), to));
    }
}

/// Whether at any instant f of the nodes had really not renewed for this many seconds.
pub fn ever_silent(nodes: &mut [Node], end: Time, seconds: f64) -> bool {
    let expiry = (seconds * SECOND as f64) as i64 - CLOCK_NOISE;
    let mut changes: Vec<(Time, i32, i32)> = Vec::new();
    for node in nodes {
        node.advance(end);
        let (born, gone) = node.lives;
        changes.push((born, 0, 1));
        changes.push((gone, 0, -1));
        let renewals: Vec<_> = node.renewals.iter().filter(|(at, _)| *at >= born).collect();
        for (index, (written, _)) in renewals.iter().enumerate() {
            let expires = Time::from_micros(written.as_micros() + expiry);
            let renewed = renewals
                .get(index + 1)
                .map_or(Time::MAX, |(_, seen)| *seen)
                .min(gone);
            if expires < renewed {
                changes.push((expires, 1, 0));
                changes.push((renewed, -1, 0));
            }
        }
    }
    changes.sort_unstable();
    let f = Fraction::new(0.6).unwrap();
    let (mut expired, mut all) = (0_i32, 0_i32);
    for (when, expiring, living) in changes {
        expired += expiring;
        all += living;
        if when > end {
            break;
        }
        if f.is_reached(expired.max(0) as u32, all.max(0) as u32) && when > Time::MIN {
            return true;
        }
    }
    false
}
