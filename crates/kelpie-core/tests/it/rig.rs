//! A fencing with its API server, in virtual time.

use std::time::Duration;

use kelpie_core::fence::{Call, Fencing, FlowReport, Reply, Step, TargetOutcome};
use kelpie_core::{Decision, Lists, ResourceRef, ScaleRule, Target, Time, Verdict};

use crate::model::landscape::{Object, Targets, gardener_targets};
use crate::stage::{Stage, at, seen, settings};

const RESERVE: Duration = Duration::from_secs(3);

/// A decision with this verdict and deadline; the rest is of no interest to a flow.
pub fn decision(verdict: Verdict, deadline: Option<Time>) -> Decision {
    let mut stage = Stage::new(settings(), at(0.0));
    let decision = stage.judge.decide(&seen(at(0.0), Lists::NotAsked));
    let rush_at = match verdict {
        Verdict::Fence => Some(deadline.map_or(at(0.0), |deadline| deadline.before(RESERVE))),
        _ => None,
    };
    Decision {
        verdict,
        deadline,
        rush_at,
        ..decision
    }
}

pub fn fence_by(seconds: f64) -> Decision {
    decision(Verdict::Fence, Some(at(seconds)))
}

pub fn release() -> Decision {
    decision(Verdict::Release, None)
}

pub fn target(name: &str, change: impl FnOnce(&mut Target)) -> Target {
    let mut target = Target {
        resource: ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: name.into(),
        },
        optional: false,
        up: ScaleRule::default(),
        down: ScaleRule::default(),
    };
    change(&mut target);
    target
}

pub fn one(change: impl FnOnce(&mut Target)) -> Vec<Target> {
    vec![target("kube-controller-manager", change)]
}

/// A fencing with its API server, in virtual time.
pub struct Rig {
    pub fencing: Fencing,
    pub objects: Targets,
    pub now: Time,
    /// Writes that went through, with the instant.
    pub writes: Vec<(f64, usize, &'static str)>,
    pub reports: Vec<FlowReport>,
    pub rushed: Vec<usize>,
}

impl Rig {
    pub fn new(targets: Vec<Target>, replicas: &[Option<u32>]) -> Self {
        let objects = replicas
            .iter()
            .map(|replicas| replicas.map(Object::with_replicas))
            .collect();
        Self {
            fencing: Fencing::new(targets.into()),
            objects: Targets(objects),
            now: at(0.0),
            writes: Vec::new(),
            reports: Vec::new(),
            rushed: Vec::new(),
        }
    }

    pub fn gardener() -> Self {
        Self::new(gardener_targets(), &[Some(1), Some(1), Some(1)])
    }

    /// Lets everything happen until `end`; `fault` may answer a step instead of the API server.
    pub fn run_with(
        &mut self,
        end: f64,
        mut fault: impl FnMut(&Step, &mut Targets, Time) -> Option<Reply>,
    ) {
        let mut spins = 0;
        loop {
            let polled = self.fencing.poll(self.now);
            self.rushed
                .extend(polled.rushed.iter().map(|target| target.0));
            let is_idle = polled.steps.is_empty();
            for step in polled.steps {
                let reply = match fault(&step, &mut self.objects, self.now) {
                    Some(reply) => reply,
                    None => self.objects.apply(&step, self.now),
                };
                if let Reply::Written(_) = reply {
                    self.writes
                        .push((seconds(self.now), step.target.0, call_name(&step.call)));
                }
                self.reports
                    .extend(self.fencing.reply(step, reply, self.now));
            }
            if !is_idle {
                continue;
            }
            match self.fencing.next_wake(self.now) {
                Some(wake) if wake > at(end) => break,
                Some(wake) if wake > self.now => {
                    self.now = wake;
                    spins = 0;
                }
                Some(wake) => {
                    spins += 1;
                    assert!(
                        spins < 10,
                        "it asks to be polled at {wake} and does nothing"
                    );
                }
                None => break,
            }
        }
        self.now = self.now.max(at(end));
    }

    pub fn run(&mut self, end: f64) {
        self.run_with(end, |_, _, _| None);
    }

    pub fn object(&mut self, index: usize) -> &mut Object {
        self.objects.0[index].as_mut().unwrap()
    }

    pub fn replicas(&self) -> Vec<Option<u32>> {
        let replicas =
            |object: &Option<Object>| object.as_ref().map(|object| object.present.replicas);
        self.objects.0.iter().map(replicas).collect()
    }

    pub fn any_marker(&self) -> bool {
        self.objects
            .0
            .iter()
            .flatten()
            .any(|object| object.present.marked)
    }

    pub fn when(&self, index: usize, call: &str) -> Option<f64> {
        self.writes
            .iter()
            .find(|(_, target, name)| *target == index && *name == call)
            .map(|w| w.0)
    }

    pub fn steer(&mut self, decision: &Decision) {
        self.reports.extend(self.fencing.steer(decision));
    }
}

pub fn scaled(replicas: u32, seconds: f64) -> TargetOutcome {
    TargetOutcome::Scaled {
        replicas,
        at: at(seconds),
        unready: false,
        corrupt_record: false,
    }
}

pub fn seconds(time: Time) -> f64 {
    time.as_micros() as f64 / 1e6
}

pub fn call_name(call: &Call) -> &'static str {
    match call {
        Call::Read => "read",
        Call::WriteRecord(_) => "record",
        Call::ScaleDown(_) => "down",
        Call::ScaleUp(_) => "up",
        Call::DropMarker(_) => "unmark",
    }
}
