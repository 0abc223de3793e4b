//! The kubelets of the model, which renew their leases by clocks that may be wrong.

use fastrand::Rng;
use kelpie_core::{Fraction, Time};

use super::{Disruption, RaceScenario, SECOND, at};

/// The largest error of a right clock, in microseconds.
const CLOCK_NOISE: i64 = 5_000;

/// The clocks that are wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clocks {
    /// None is wrong by more than a few milliseconds.
    Right,
    /// The clocks of one node in five are wrong.
    SomeWrong,
    /// The prober's clock is wrong: all nodes differ from it by the same amount.
    OursWrong,
}

/// A node, its kubelet and its lease.
pub struct ModelNode {
    pub name: String,
    /// The current `renewTime`, by the node's clock.
    pub value: Time,
    /// The instant at which it was really written.
    pub renewed: Time,
    offset: i64,
    rng: Rng,
    next_attempt: Time,
    /// The start and the commit of the renewal in flight.
    in_flight: Option<(Time, Time)>,
    /// The start and end of the time in which requests fail.
    cut_off: Option<(Time, Time)>,
    lives: (Time, Time),
    /// The instants at which each renewal was written and became visible.
    renewals: Vec<(Time, Time)>,
}

impl ModelNode {
    pub fn exists(&self, now: Time) -> bool {
        self.lives.0 <= now && now < self.lives.1
    }

    /// Runs the kubelet until `now`.
    pub fn advance(&mut self, now: Time) {
        loop {
            if let Some((attempt, commit)) = self.in_flight {
                if commit > now {
                    return;
                }
                self.value = Time::from_micros(attempt.as_micros() + self.offset);
                self.renewed = commit;
                self.renewals.push((attempt, commit));
                self.in_flight = None;
            }
            if self.next_attempt > now {
                return;
            }
            let attempt = self.next_attempt;
            let is_cut_off = self
                .cut_off
                .is_some_and(|(from, to)| from <= attempt && attempt < to);
            let pause = if is_cut_off {
                self.rng.i64(SECOND / 5..10 * SECOND)
            } else {
                let commit = attempt.as_micros() + self.rng.i64(1_000..20_000);
                self.in_flight = Some((attempt, Time::from_micros(commit)));
                10 * SECOND + self.rng.i64(0..=4 * SECOND / 10)
            };
            self.next_attempt = Time::from_micros(attempt.as_micros() + pause);
        }
    }
}

pub fn model_nodes(scenario: &RaceScenario, rng: &mut Rng) -> Vec<ModelNode> {
    let common_offset = offset(rng);
    let mut nodes: Vec<_> = (0..scenario.nodes)
        .map(|index| node(scenario, index, common_offset, rng))
        .collect();
    match scenario.disruption {
        Disruption::Partition => cut_off(&mut nodes, 0.0, f64::INFINITY),
        Disruption::PartialPartition { share } => {
            let part = (share * nodes.len() as f64).ceil() as usize;
            cut_off(&mut nodes[..part], 0.0, f64::INFINITY);
        }
        Disruption::Hiccup { seconds } | Disruption::ApiOutage { seconds } => {
            cut_off(&mut nodes, 0.0, seconds);
        }
        Disruption::OneDeadNode => cut_off(&mut nodes[..1], 0.0, f64::INFINITY),
        Disruption::RollingRestart => {
            // A careful rollout: the next node restarts when the last one is back.
            let mut from = 0.0;
            for node in &mut nodes {
                let length = 30.0 + rng.f64() * 90.0;
                cut_off(std::slice::from_mut(node), from, from + length);
                from += length + 5.0;
            }
        }
        Disruption::Autoscaling => {
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
        Disruption::ListGap { .. } => {}
    }
    nodes
}

fn node(scenario: &RaceScenario, index: usize, common_offset: i64, rng: &mut Rng) -> ModelNode {
    let offset = match scenario.clocks {
        Clocks::SomeWrong if rng.u8(0..5) == 0 => offset(rng),
        Clocks::OursWrong => common_offset,
        Clocks::Right | Clocks::SomeWrong => rng.i64(-CLOCK_NOISE..=CLOCK_NOISE),
    };
    let first = Time::from_micros(rng.i64(-10 * SECOND..0));
    ModelNode {
        name: format!("shoot--project--cluster-worker-{index:05}"),
        value: Time::from_micros(first.as_micros() + offset),
        renewed: first,
        offset,
        next_attempt: first,
        in_flight: None,
        cut_off: None,
        lives: (Time::MIN, Time::MAX),
        renewals: vec![(first, first)],
        rng: rng.fork(),
    }
}

/// Returns a log-uniform clock error between half a second and an hour, in either direction.
fn offset(rng: &mut Rng) -> i64 {
    let magnitude = (0.5_f64.ln() + rng.f64() * (3600.0_f64 / 0.5).ln()).exp();
    let sign = if rng.bool() { 1.0 } else { -1.0 };
    (sign * magnitude * SECOND as f64) as i64
}

fn cut_off(nodes: &mut [ModelNode], from: f64, to: f64) {
    let to = if to.is_finite() { at(to) } else { Time::MAX };
    for node in nodes {
        node.cut_off = Some((at(from), to));
    }
}

/// Returns whether at any instant f of the nodes had really not renewed for this many seconds.
pub fn ever_silent(nodes: &mut [ModelNode], end: Time, seconds: f64) -> bool {
    let expiry = (seconds * SECOND as f64) as i64 - CLOCK_NOISE;
    let mut changes: Vec<(Time, i32, i32)> = Vec::new();
    for node in nodes {
        node.advance(end);
        let (created, removed) = node.lives;
        changes.push((created, 0, 1));
        changes.push((removed, 0, -1));
        let renewals: Vec<_> = node
            .renewals
            .iter()
            .filter(|(at, _)| *at >= created)
            .collect();
        for (index, (written, _)) in renewals.iter().enumerate() {
            let expires = Time::from_micros(written.as_micros() + expiry);
            let renewed = renewals
                .get(index + 1)
                .map_or(Time::MAX, |(_, seen)| *seen)
                .min(removed);
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
