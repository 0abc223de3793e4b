//! A `Fencing` and the API server with its targets, in virtual time.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::fence::{
    Call, FenceEvent, Fencing, FlowReport, Observed, Reply, Step, TargetId, TargetOutcome,
};
use kelpie_core::prober::{Decision, ListResult, ResourceRef, Setting, Target, Verdict};

use crate::evaluator_fixture::{EvaluatorFixture, at, observation, settings};
use crate::model::control_plane::{StoredTarget, Targets, gardener_targets};

const RESERVE: Duration = Duration::from_secs(3);

/// Returns a decision with this verdict and deadline. A flow does not use the other fields.
pub fn decision(verdict: Verdict, deadline: Option<Time>) -> Decision {
    let mut fixture = EvaluatorFixture::new(settings(), at(0.0));
    let decision = fixture
        .evaluator
        .decide(&observation(at(0.0), ListResult::NotAsked));
    let parallel_from = match verdict {
        Verdict::Fence => Some(deadline.map_or(at(0.0), |deadline| deadline.before(RESERVE))),
        _ => None,
    };
    Decision {
        verdict,
        deadline,
        parallel_from,
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
        is_deadline_target: name == "kube-controller-manager",
        ..Target::new(ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: name.into(),
        })
    };
    change(&mut target);
    target
}

/// Makes a target need two writes: its kind is not known to have its replicas in the object.
pub fn in_two_writes(target: &mut Target) {
    target.resource.api_version = "example.org/v1".into();
    target.resource.kind = "Rig".into();
}

pub fn one(change: impl FnOnce(&mut Target)) -> Vec<Target> {
    vec![target("kube-controller-manager", change)]
}

/// A `Fencing` and the API server with its targets, in virtual time.
pub struct FenceFixture {
    pub fencing: Fencing,
    pub objects: Targets,
    pub now: Time,
    /// The successful writes: the second, the index of the target and the name of the call.
    pub writes: Vec<(f64, usize, &'static str)>,
    pub reports: Vec<FlowReport>,
    pub started_early: Vec<usize>,
    pub events: Vec<FenceEvent>,
    /// The last decision. It is repeated if a fence was undone.
    last: Option<Decision>,
    /// The number of times that a look at the leases was wanted.
    pub looks: usize,
}

impl FenceFixture {
    pub fn new(targets: Vec<Target>, replicas: &[Option<u32>]) -> Self {
        let objects = replicas
            .iter()
            .map(|replicas| replicas.map(StoredTarget::with_replicas))
            .collect();
        Self {
            fencing: Fencing::new(targets.into()),
            objects: Targets(objects),
            now: at(0.0),
            writes: Vec::new(),
            reports: Vec::new(),
            started_early: Vec::new(),
            events: Vec::new(),
            last: None,
            looks: 0,
        }
    }

    pub fn gardener() -> Self {
        Self::new(gardener_targets(), &[Some(1), Some(1), Some(1)])
    }

    /// Runs until `end`. `fault` may answer a step instead of the API server.
    pub fn run_with(
        &mut self,
        end: f64,
        mut fault: impl FnMut(&Step, &mut Targets, Time) -> Option<Reply>,
    ) {
        let mut spins = 0;
        loop {
            self.look_if_wanted();
            self.show_lease();
            let polled = self.fencing.poll(self.now);
            self.started_early
                .extend(polled.started_early.iter().map(|target| target.0));
            let is_idle = polled.steps.is_empty() && polled.report.is_none();
            self.reports.extend(polled.report);
            self.events.extend(self.fencing.take_events());
            for step in polled.steps {
                let reply = match fault(&step, &mut self.objects, self.now) {
                    Some(reply) => reply,
                    None => self.objects.apply(&step, self.now),
                };
                if let Reply::Written(_) | Reply::LeaseWritten = reply {
                    self.writes
                        .push((seconds(self.now), step.target.0, call_name(&step.call)));
                }
                self.reports
                    .extend(self.fencing.reply(step, reply, self.now));
                self.events.extend(self.fencing.take_events());
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
                        "asks to be polled at {wake} without having a step"
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

    pub fn object(&mut self, index: usize) -> &mut StoredTarget {
        self.objects.0[index].as_mut().unwrap()
    }

    pub fn replicas(&self) -> Vec<Option<u32>> {
        let replicas =
            |object: &Option<StoredTarget>| object.as_ref().map(|object| object.present.setting.0);
        self.objects.0.iter().map(replicas).collect()
    }

    pub fn has_marker(&self) -> bool {
        self.objects
            .0
            .iter()
            .flatten()
            .any(|object| object.present.marked || object.kept.is_some())
    }

    /// Shows the records on the leader Lease to the fencing.
    pub fn show_lease(&mut self) {
        for (index, object) in self.objects.0.iter().enumerate() {
            let kept = object.as_ref().and_then(|object| object.kept.clone());
            self.fencing.set_kept(TargetId(index), kept, self.now);
        }
    }

    /// Changes the targets that have a record on the leader Lease. While a target is unchanged, the
    /// fence of its record may still happen.
    pub fn touch_kept(&mut self) {
        let objects = self.objects.0.iter_mut().flatten();
        for object in objects.filter(|object| object.kept.is_some()) {
            object.touch();
        }
    }

    /// Takes the admission webhook away, or brings it back.
    pub fn set_webhook(&mut self, is_away: bool) {
        for object in self.objects.0.iter_mut().flatten() {
            object.is_webhook_away = is_away;
        }
    }

    pub fn first_write_at(&self, index: usize, call: &str) -> Option<f64> {
        self.writes
            .iter()
            .find(|(_, target, name)| *target == index && *name == call)
            .map(|write| write.0)
    }

    /// Decides the same again if a fence was undone.
    pub fn look_if_wanted(&mut self) {
        if let Some(last) = self.last.filter(|_| self.fencing.wants_look()) {
            self.looks += 1;
            self.apply(&last);
        }
    }

    /// Shows the state of a target to the fencing, as a watch does.
    pub fn show(&mut self, index: usize) {
        let object = self.objects.0[index].as_ref();
        let observed = object.map(|object| object.seen(self.now));
        let observed = observed.map_or(Observed::Missing, Observed::Present);
        self.fencing.set_watched(TargetId(index), true, self.now);
        let report = self.fencing.observe(TargetId(index), &observed, self.now);
        self.reports.extend(report);
        self.events.extend(self.fencing.take_events());
    }

    pub fn apply(&mut self, decision: &Decision) {
        let at = self.now;
        let decision = Decision {
            at,
            evidence_at: at,
            ..*decision
        };
        self.last = Some(decision);
        self.reports.extend(self.fencing.apply(&decision));
    }
}

pub fn scaled(replicas: u32, seconds: f64) -> TargetOutcome {
    TargetOutcome::Applied {
        setting: Setting(replicas),
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
        Call::Fence(_) => "down",
        Call::Restore(_) => "up",
        Call::DropMarker(_) => "unmark",
        Call::KeepRecord(_) => "keep",
        Call::MoveRecord(_) => "move",
        Call::DropRecord(_) => "drop",
    }
}
