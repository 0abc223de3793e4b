//! kube-controller-manager, and the targets as an API server keeps them.

use std::time::Duration;

use kelpie_core::fence::{Call, Present, Recorded, Reply, Sight, Step, Version};
use kelpie_core::{ResourceRef, ScaleRule, Target, Time};

use super::node::Node;
use super::seconds;

/// How long a pod lives on after its Deployment was scaled.
const POD_END: f64 = 2.0;
const KCM: usize = 2;

/// The targets as Gardener configures them: kube-controller-manager last.
pub fn gardener_targets() -> Vec<Target> {
    let target = |name: &str, optional, down, up| Target {
        resource: ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: name.into(),
        },
        optional,
        down: ScaleRule {
            level: down,
            ..ScaleRule::default()
        },
        up: ScaleRule {
            level: up,
            ..ScaleRule::default()
        },
    };
    vec![
        target("machine-controller-manager", false, 0, 1),
        target("cluster-autoscaler", true, 0, 2),
        target("kube-controller-manager", false, 1, 0),
    ]
}

/// The targets' objects.
pub struct Targets(Vec<Object>);

struct Object {
    present: Present,
    version: u64,
    scaled_at: Time,
    pods_before: u32,
}

impl Targets {
    pub fn gardener() -> Self {
        let object = || Object {
            present: Present {
                replicas: 1,
                ready: 1,
                version: Version::new("1"),
                marked: false,
                recorded: Recorded::Absent,
                ignored: false,
            },
            version: 1,
            scaled_at: Time::MIN,
            pods_before: 1,
        };
        Self((0..3).map(|_| object()).collect())
    }

    /// Carries a step out, as the API server would.
    pub fn apply(&mut self, step: &Step, now: Time) -> Reply {
        let object = &mut self.0[step.target.0];
        let based_on = match &step.call {
            Call::Read => {
                let ready = if now.since(object.scaled_at) < seconds(POD_END) {
                    object.pods_before
                } else {
                    object.present.replicas
                };
                return Reply::Seen(Sight::Present(Present {
                    ready,
                    ..object.present.clone()
                }));
            }
            Call::WriteRecord(write) => write.version(),
            Call::ScaleDown(scale) => scale.version(),
            Call::ScaleUp(scale) => scale.version(),
            Call::DropMarker(drop) => drop.version(),
        };
        if *based_on != object.present.version {
            return Reply::Conflict;
        }
        let scaled_to = match &step.call {
            Call::WriteRecord(write) => {
                object.present.marked = true;
                object.present.recorded = Recorded::Count(write.replicas());
                None
            }
            Call::DropMarker(_) => {
                object.present.marked = false;
                None
            }
            Call::ScaleDown(scale) => Some(scale.replicas()),
            Call::ScaleUp(scale) => Some(scale.replicas()),
            Call::Read => None,
        };
        if let Some(replicas) = scaled_to {
            object.pods_before = object.present.replicas;
            object.present.replicas = replicas;
            object.scaled_at = now;
        }
        object.version += 1;
        object.present.version = Version::new(&object.version.to_string());
        Reply::Written(object.present.version.clone())
    }

    pub fn kcm_runs(&self, now: Time) -> bool {
        let kcm = &self.0[KCM];
        kcm.present.replicas > 0 || now.since(kcm.scaled_at) < seconds(POD_END)
    }

    pub fn kcm_fenced_at(&self) -> Option<Time> {
        let kcm = &self.0[KCM];
        (kcm.present.replicas == 0).then_some(kcm.scaled_at)
    }
}

/// kube-controller-manager's node lifecycle controller.
pub struct Kcm {
    grace: Duration,
    stamps: Vec<Stamp>,
}

#[derive(Clone, Copy)]
struct Stamp {
    at: Option<Time>,
    value: Time,
    unknown: bool,
}

impl Kcm {
    pub fn new(nodes: usize, grace: f64) -> Self {
        let stamp = Stamp {
            at: None,
            value: Time::MIN,
            unknown: false,
        };
        Self {
            grace: seconds(grace),
            stamps: vec![stamp; nodes],
        }
    }

    /// The process is gone, and its memory with it.
    pub fn stop(&mut self) {
        for stamp in &mut self.stamps {
            stamp.at = None;
        }
    }

    /// Looks at every node; the number that turned Unknown.
    pub fn tick(&mut self, now: Time, nodes: &[Node]) -> u32 {
        let mut turned = 0;
        for (stamp, node) in self.stamps.iter_mut().zip(nodes) {
            if !node.exists(now) {
                continue;
            }
            let advanced = node.value != stamp.value;
            let at = *stamp.at.get_or_insert(now);
            if advanced {
                *stamp = Stamp {
                    at: Some(now),
                    value: node.value,
                    unknown: false,
                };
            } else if !stamp.unknown && now > at.after(self.grace) {
                stamp.unknown = true;
                turned += 1;
            }
        }
        turned
    }
}
