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

/// The targets' objects, as an API server keeps them.
pub struct Targets(pub Vec<Option<Object>>);

#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    pub present: Present,
    version: u64,
    scaled_at: Time,
    pods_before: u32,
}

impl Object {
    pub fn with_replicas(replicas: u32) -> Self {
        let version = Version::new("1");
        Self {
            present: Present::new(replicas, replicas, version, |_| None),
            version: 1,
            scaled_at: Time::MIN,
            pods_before: replicas,
        }
    }

    /// Any write moves the version on.
    pub fn touch(&mut self) {
        self.version += 1;
        self.present.version = Version::new(&self.version.to_string());
    }

    /// Somebody sets the count.
    pub fn scale(&mut self, replicas: u32, now: Time) {
        self.pods_before = self.present.replicas;
        self.present.replicas = replicas;
        self.scaled_at = now;
        self.touch();
    }

    fn ready(&self, now: Time) -> u32 {
        let settled = now.since(self.scaled_at) >= seconds(POD_END);
        if settled {
            self.present.replicas
        } else {
            self.pods_before
        }
    }
}

impl Targets {
    pub fn gardener() -> Self {
        Self((0..3).map(|_| Some(Object::with_replicas(1))).collect())
    }

    /// Carries a step out, as the API server would. Every write is held to what a fence promises.
    pub fn apply(&mut self, step: &Step, now: Time) -> Reply {
        let Some(object) = &mut self.0[step.target.0] else {
            return Reply::Seen(Sight::Missing);
        };
        let based_on = match &step.call {
            Call::Read => {
                let ready = object.ready(now);
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
        match &step.call {
            Call::WriteRecord(write) => {
                assert_eq!(
                    write.replicas(),
                    object.present.replicas,
                    "the record is not true"
                );
                object.present.marked = true;
                object.present.recorded = Recorded::Count(write.replicas());
                object.touch();
            }
            Call::DropMarker(_) => {
                object.present.marked = false;
                object.touch();
            }
            Call::ScaleDown(scale) => {
                let record = (object.present.marked, object.present.recorded);
                let expected = (true, Recorded::Count(object.present.replicas));
                assert_eq!(record, expected, "scaled down without its record");
                assert_eq!(scale.recorded(), object.present.replicas);
                assert!(
                    scale.replicas() < object.present.replicas,
                    "scaled down to more"
                );
                object.scale(scale.replicas(), now);
            }
            Call::ScaleUp(scale) => {
                assert!(
                    object.present.marked,
                    "scaled up what does not carry our marker"
                );
                assert!(
                    scale.replicas() > object.present.replicas,
                    "scaled up to less"
                );
                object.scale(scale.replicas(), now);
            }
            Call::Read => {}
        }
        Reply::Written(object.present.version.clone())
    }

    fn kcm(&self) -> &Object {
        self.0[KCM].as_ref().unwrap()
    }

    pub fn kcm_runs(&self, now: Time) -> bool {
        let kcm = self.kcm();
        kcm.present.replicas > 0 || now.since(kcm.scaled_at) < seconds(POD_END)
    }

    pub fn kcm_fenced_at(&self) -> Option<Time> {
        let kcm = self.kcm();
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
