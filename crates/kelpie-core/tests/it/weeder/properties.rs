//! Properties of all deletions, over arbitrary sequences of events.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_core::weeder::{Deletion, DeletionResult, Pod, WindowChange, Windows};
use proptest::prelude::*;

use super::{RULES, at, crashing, owner};

const SERVICES: [&str; 2] = ["etcd", "api"];

#[derive(Clone, Debug)]
enum WindowStep {
    Wait(i64),
    Recover(usize),
    Close(usize),
    /// The replica stops to act, and acts again.
    Suspend,
    Put {
        service: usize,
        pod: PodState,
    },
    Remove {
        service: usize,
        slot: u32,
    },
    List {
        service: usize,
        pods: Vec<PodState>,
    },
    Delete,
    Complete(DeletionResult),
}

/// A pod in one of the slots. The slot determines its name and owner. A replacement has the same
/// name and another uid.
#[derive(Clone, Debug)]
struct PodState {
    slot: u32,
    number: u32,
    version: u32,
    is_crashing: bool,
    is_terminating: bool,
}

impl PodState {
    fn pod(&self) -> Pod {
        let name = format!("pod{}", self.slot);
        let pod = crashing(&name, self.number);
        Pod {
            // The content of a version, and the owner of a uid, never change.
            version: format!(
                "{}{}{}",
                self.version, self.is_crashing, self.is_terminating
            ),
            owner: (!self.number.is_multiple_of(6)).then(|| owner(&format!("o{}", self.slot % 2))),
            is_terminating: self.is_terminating,
            crash: pod.crash.filter(|_| self.is_crashing),
            ..pod
        }
    }
}

fn any_pod() -> impl Strategy<Value = PodState> {
    let flags = (prop::bool::weighted(0.8), prop::bool::weighted(0.1));
    (0..4_u32, 0..12_u32, 0..3_u32, flags).prop_map(|(slot, number, version, flags)| PodState {
        slot,
        number,
        version,
        is_crashing: flags.0,
        is_terminating: flags.1,
    })
}

fn any_result() -> impl Strategy<Value = DeletionResult> {
    prop_oneof![
        6 => Just(DeletionResult::Deleted),
        1 => Just(DeletionResult::Changed),
        1 => Just(DeletionResult::Gone),
        1 => Just(DeletionResult::Refused),
        1 => Just(DeletionResult::Unknown),
    ]
}

fn any_step() -> impl Strategy<Value = WindowStep> {
    let service = || 0..2_usize;
    prop_oneof![
        2 => (0..60_i64).prop_map(WindowStep::Wait),
        1 => service().prop_map(WindowStep::Recover),
        1 => service().prop_map(WindowStep::Close),
        1 => Just(WindowStep::Suspend),
        8 => (service(), any_pod()).prop_map(|(service, pod)| WindowStep::Put { service, pod }),
        1 => (service(), 0..4_u32)
            .prop_map(|(service, slot)| WindowStep::Remove { service, slot }),
        1 => (service(), prop::collection::vec(any_pod(), 0..5))
            .prop_map(|(service, pods)| WindowStep::List { service, pods }),
        8 => Just(WindowStep::Delete),
        6 => any_result().prop_map(WindowStep::Complete),
    ]
}

/// The expected state, kept independently of the tested code and as simple as possible.
#[derive(Default)]
struct DeletionAuditor {
    /// The open windows: their end in seconds, and the uids of the deleted pods for each owner.
    windows: BTreeMap<String, (i64, BTreeMap<String, BTreeSet<String>>)>,
    /// The uids of the pods whose deletion was acknowledged.
    gone: BTreeSet<String>,
    /// The services and uids of the pods that may have been deleted in the open window.
    unknown: BTreeSet<(String, String)>,
    /// The pods visible since the window of a service opened, by service, uid and version.
    visible: BTreeMap<(usize, String, String), Pod>,
}

/// The slots of each owner, and so the largest number of its pods at a time.
const PODS_PER_OWNER: usize = 2;

impl DeletionAuditor {
    /// Returns the pod as a watch shows it. A deleted pod may be visible for a while, but only as
    /// terminating.
    fn visible_pod(&self, state: &PodState) -> Pod {
        let pod = state.pod();
        if !self.gone.contains(&pod.uid) {
            return pod;
        }
        Pod {
            is_terminating: true,
            version: "last".into(),
            ..pod
        }
    }

    fn record_visible(&mut self, service: usize, pod: &Pod) {
        if self.windows.contains_key(SERVICES[service]) {
            let key = (service, pod.uid.clone(), pod.version.clone());
            self.visible.insert(key, pod.clone());
        }
    }

    fn record_unknown(&mut self, deletion: &Deletion) {
        let owners = self
            .windows
            .get(&deletion.service)
            .map(|(_, owners)| owners);
        let charged = owners.and_then(|owners| owners.get(&deletion.owner.uid));
        if charged.is_some_and(|charged| charged.contains(&deletion.uid)) {
            self.unknown.insert(key(deletion));
        }
    }

    /// Forgets what was charged in the window of a service.
    fn forget(&mut self, service: &str) -> Option<(i64, BTreeMap<String, BTreeSet<String>>)> {
        self.unknown.retain(|(of, _)| of != service);
        self.windows.remove(service)
    }

    fn check_deletion(&mut self, deletion: &Deletion, now: i64) {
        let (until, owners) = self
            .windows
            .get_mut(&deletion.service)
            .expect("a deletion without a window");
        assert!(now < *until, "a deletion after the end of its window");
        assert!(!self.gone.contains(&deletion.uid), "deleted twice");
        let service = SERVICES.iter().position(|name| *name == deletion.service);
        let index = service.expect("one of the two services");
        let pod = (index, deletion.uid.clone(), deletion.version.clone());
        let pod = self.visible.get(&pod).expect("a visible pod");
        assert!(pod.crash.is_some() && !pod.is_terminating);
        assert_eq!(pod.owner.as_ref(), Some(&deletion.owner));
        let charged = owners.entry(deletion.owner.uid.clone()).or_default();
        charged.insert(deletion.uid.clone());
        // The test removes uids that were not deleted after all.
        let cap = RULES.max_deletions_per_pod as usize * PODS_PER_OWNER * 2;
        assert!(charged.len() <= cap, "{charged:?}");
    }
}

fn key(deletion: &Deletion) -> (String, String) {
    (deletion.service.clone(), deletion.uid.clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn deletions_stay_within_window_and_cap(
        steps in prop::collection::vec(any_step(), 1..120),
    ) {
        let mut windows = Windows::new(RULES);
        let mut auditor = DeletionAuditor::default();
        let mut now = 0_i64;
        let mut in_flight: Vec<Deletion> = Vec::new();
        for step in steps {
            match step {
                WindowStep::Wait(seconds) => now += seconds,
                WindowStep::Recover(service) => {
                    windows.plan(SERVICES[service], Some(at(now)), at(now));
                }
                WindowStep::Close(service) => {
                    windows.close(SERVICES[service]);
                    auditor.forget(SERVICES[service]);
                    auditor.visible.retain(|(of, _, _), _| *of != service);
                }
                WindowStep::Suspend => {
                    windows.suspend();
                    auditor.visible.clear();
                }
                WindowStep::Put { service, pod } => {
                    let pod = auditor.visible_pod(&pod);
                    auditor.record_visible(service, &pod);
                    windows.put(SERVICES[service], pod);
                }
                WindowStep::Remove { service, slot } => {
                    let name = format!("pod{slot}");
                    windows.remove(SERVICES[service], &name);
                }
                WindowStep::List { service, pods } => {
                    windows.begin_list(SERVICES[service]);
                    for pod in pods {
                        let pod = auditor.visible_pod(&pod);
                        auditor.record_visible(service, &pod);
                        windows.put(SERVICES[service], pod);
                    }
                    windows.end_list(SERVICES[service]);
                }
                WindowStep::Delete => {
                    let has_work = windows.has_work(at(now));
                    let deletion = windows.next(at(now));
                    prop_assert_eq!(has_work, deletion.is_some());
                    if let Some(deletion) = deletion {
                        prop_assert!(in_flight.iter().all(|other| other.uid != deletion.uid));
                        auditor.check_deletion(&deletion, now);
                        in_flight.push(deletion);
                    }
                }
                WindowStep::Complete(result) => {
                    if let Some(deletion) = in_flight.pop() {
                        windows.record_result(&deletion, result, at(now));
                        match result {
                            DeletionResult::Deleted | DeletionResult::Gone => {
                                auditor.gone.insert(deletion.uid.clone());
                            }
                            DeletionResult::Unknown => {
                                auditor.record_unknown(&deletion);
                            }
                            _ => {}
                        }
                        if !matches!(result, DeletionResult::Deleted | DeletionResult::Unknown)
                            && !auditor.unknown.contains(&key(&deletion))
                            && let Some((_, owners)) = auditor.windows.get_mut(&deletion.service)
                            && let Some(charged) = owners.get_mut(&deletion.owner.uid)
                        {
                            charged.remove(&deletion.uid);
                        }
                    }
                }
            }
            for change in windows.advance(at(now)) {
                match change {
                    WindowChange::Opened { service, .. } => {
                        let until = now + i64::try_from(RULES.watch_duration.as_secs()).unwrap();
                        auditor.forget(&service);
                        auditor.windows.insert(service, (until, BTreeMap::new()));
                    }
                    WindowChange::Closed { service } => {
                        let index = SERVICES.iter().position(|name| *name == service);
                        auditor.visible.retain(|(of, _, _), _| Some(*of) != index);
                        let (until, _) = auditor.forget(&service).expect("an open window");
                        prop_assert!(now >= until);
                    }
                }
            }
            if let Some(wake) = windows.next_wake(at(now)) {
                prop_assert!(wake > at(now), "the next wake is in the past");
            }
        }
    }
}
