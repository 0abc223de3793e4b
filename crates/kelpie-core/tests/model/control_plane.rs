//! The control plane of the model: kube-controller-manager and the targets of a fence.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::fence::{
    Call, KeptRecord, Observed, RecordedSetting, Reply, ResourceVersion, Step, TargetObject,
    WriteAnswer,
};
use kelpie_core::prober::{FlowRule, ResourceRef, Setting, Target};

use super::node::ModelNode;
use super::seconds;

/// The time in seconds from the scale-down of a Deployment to the end of its pod.
const POD_SHUTDOWN: f64 = 2.0;
const KUBE_CONTROLLER_MANAGER: usize = 2;

/// Returns the targets as Gardener configures them, with kube-controller-manager last.
pub fn gardener_targets() -> Vec<Target> {
    let level = |level| FlowRule {
        level,
        ..FlowRule::default()
    };
    let target = |name: &str, optional, down, up| Target {
        is_deadline_target: name == "kube-controller-manager",
        optional,
        down: level(down),
        up: level(up),
        ..Target::new(ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: name.into(),
        })
    };
    vec![
        target("machine-controller-manager", false, 0, 1),
        target("cluster-autoscaler", true, 0, 2),
        target("kube-controller-manager", false, 1, 0),
    ]
}

/// The targets as the API server stores them; `None` if the object does not exist.
pub struct Targets(pub Vec<Option<StoredTarget>>);

#[derive(Clone, Debug, PartialEq)]
pub struct StoredTarget {
    pub present: TargetObject,
    /// Its record on the leader Lease.
    pub kept: Option<KeptRecord>,
    /// An admission webhook does not answer: annotations cannot be written.
    pub is_webhook_away: bool,
    version: u64,
    scaled_at: Time,
    effective_before: Setting,
}

impl StoredTarget {
    pub fn with_replicas(replicas: u32) -> Self {
        let version = ResourceVersion::new("1");
        let running = TargetObject::running(Setting(replicas), version);
        Self {
            present: TargetObject {
                uid: "5e1f0c2a-3b4d".into(),
                ..running
            },
            kept: None,
            is_webhook_away: false,
            version: 1,
            scaled_at: Time::MIN,
            effective_before: Setting(replicas),
        }
    }

    /// Changes the resource version, as any write does.
    pub fn touch(&mut self) {
        self.version += 1;
        self.present.version = ResourceVersion::new(&self.version.to_string());
    }

    /// Sets the replicas, as any client may.
    pub fn scale(&mut self, replicas: u32, now: Time) {
        self.effective_before = self.present.setting;
        self.present.setting = Setting(replicas);
        self.scaled_at = now;
        self.touch();
    }

    fn record(&mut self, setting: Setting) {
        let present = &mut self.present;
        assert_eq!(
            setting, present.setting,
            "the record differs from the replicas"
        );
        present.marked = true;
        present.recorded = RecordedSetting::Value(setting);
    }

    /// Returns the setting to restore, as recorded on the object or on the Lease.
    pub fn recorded(&self) -> Option<Setting> {
        let kept = self.kept.as_ref();
        let kept = kept.filter(|kept| self.present.uid.starts_with(kept.uid()));
        match self.present.recorded {
            RecordedSetting::Value(setting) if self.present.marked => Some(setting),
            _ => kept.map(KeptRecord::setting),
        }
    }

    /// Returns the object as a client sees it.
    pub fn seen(&self, now: Time) -> TargetObject {
        TargetObject {
            effective: self.effective(now),
            ..self.present.clone()
        }
    }

    fn effective(&self, now: Time) -> Setting {
        let settled = now.since(self.scaled_at) >= seconds(POD_SHUTDOWN);
        if settled {
            self.present.setting
        } else {
            self.effective_before
        }
    }
}

impl Targets {
    pub fn gardener() -> Self {
        Self(
            (0..3)
                .map(|_| Some(StoredTarget::with_replicas(1)))
                .collect(),
        )
    }

    /// Carries a step out as the API server would. Asserts the invariants of a fence on every
    /// write.
    pub fn apply(&mut self, step: &Step, now: Time) -> Reply {
        let Some(object) = &mut self.0[step.target.0] else {
            return Reply::Read(Observed::Missing);
        };
        let changes_annotations = match &step.call {
            Call::Read => return Reply::Read(Observed::Present(object.seen(now))),
            Call::KeepRecord(keep) => {
                let kept = keep.kept();
                if !object.kept.as_ref().is_none_or(|it| kept.may_replace(it)) {
                    return Reply::Conflict;
                }
                object.kept = Some(kept.clone());
                return Reply::LeaseWritten;
            }
            Call::DropRecord(drop) => {
                object.kept.take_if(|kept| kept == drop.kept());
                let is_of_this = object.present.uid.starts_with(drop.kept().uid());
                let is_restored = object.present.setting >= drop.kept().setting();
                assert!(
                    !is_of_this || is_restored || object.recorded().is_some(),
                    "dropped the record of a fenced target"
                );
                return Reply::LeaseWritten;
            }
            Call::Fence(write) => write.carries_record(),
            Call::Restore(write) => write.drops_marker(),
            Call::WriteRecord(_) | Call::MoveRecord(_) | Call::DropMarker(_) => true,
        };
        // Admission comes before the check of the version.
        if changes_annotations && object.is_webhook_away {
            return Reply::WebhookFailed;
        }
        if step.call.version() != Some(&object.present.version) {
            return Reply::Conflict;
        }
        let mut shows_object = false;
        match &step.call {
            Call::WriteRecord(write) => {
                object.record(write.setting());
                object.touch();
            }
            Call::DropMarker(_) => {
                object.present.marked = false;
                object.touch();
            }
            Call::Fence(scale) => {
                shows_object = scale.carries_record();
                if scale.carries_record() {
                    object.record(scale.recorded());
                }
                let expected = Some(object.present.setting);
                assert_eq!(object.recorded(), expected, "scaled down without a record");
                assert_eq!(scale.recorded(), object.present.setting);
                assert!(
                    scale.setting() < object.present.setting,
                    "scaled down to more replicas"
                );
                object.scale(scale.setting().0, now);
            }
            Call::Restore(scale) => {
                assert!(
                    object.recorded().is_some() || object.present.marked,
                    "scaled up without a marker"
                );
                assert!(
                    scale.setting() > object.present.setting,
                    "scaled up to fewer replicas"
                );
                shows_object = scale.drops_marker();
                object.present.marked &= !scale.drops_marker();
                object.scale(scale.setting().0, now);
            }
            Call::MoveRecord(write) => {
                assert_eq!(
                    object.recorded(),
                    Some(write.setting()),
                    "moved another record"
                );
                object.present.marked = true;
                object.present.recorded = RecordedSetting::Value(write.setting());
                object.touch();
            }
            Call::Read | Call::KeepRecord(_) | Call::DropRecord(_) => {}
        }
        Reply::Written(if shows_object {
            WriteAnswer::Object(object.seen(now))
        } else {
            WriteAnswer::Version(object.present.version.clone())
        })
    }

    fn kcm(&self) -> &StoredTarget {
        self.0[KUBE_CONTROLLER_MANAGER].as_ref().unwrap()
    }

    pub fn kcm_runs(&self, now: Time) -> bool {
        let kcm = self.kcm();
        kcm.present.setting > Setting(0) || now.since(kcm.scaled_at) < seconds(POD_SHUTDOWN)
    }

    pub fn kcm_fenced_at(&self) -> Option<Time> {
        let kcm = self.kcm();
        (kcm.present.setting == Setting(0)).then_some(kcm.scaled_at)
    }
}

/// The node lifecycle controller of kube-controller-manager.
pub struct ModelNodeController {
    grace: Duration,
    health: Vec<NodeHealth>,
}

#[derive(Clone, Copy)]
struct NodeHealth {
    at: Option<Time>,
    value: Time,
    unknown: bool,
}

impl ModelNodeController {
    pub fn new(nodes: usize, grace: f64) -> Self {
        let health = NodeHealth {
            at: None,
            value: Time::MIN,
            unknown: false,
        };
        Self {
            grace: seconds(grace),
            health: vec![health; nodes],
        }
    }

    /// Stops the process, which loses its state.
    pub fn stop(&mut self) {
        for health in &mut self.health {
            health.at = None;
        }
    }

    /// Checks all nodes and returns the number that turned Unknown.
    pub fn tick(&mut self, now: Time, nodes: &[ModelNode]) -> u32 {
        let mut turned_unknown = 0;
        for (health, node) in self.health.iter_mut().zip(nodes) {
            if !node.exists(now) {
                continue;
            }
            let is_renewed = node.value != health.value;
            let at = *health.at.get_or_insert(now);
            if is_renewed {
                *health = NodeHealth {
                    at: Some(now),
                    value: node.value,
                    unknown: false,
                };
            } else if !health.unknown && now > at.after(self.grace) {
                health.unknown = true;
                turned_unknown += 1;
            }
        }
        turned_unknown
    }
}
