//! What holds whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_core::weeder::{Deletion, Outcome, Pod, WindowChange, Windows};
use proptest::prelude::*;

use super::{RULES, at, crashing, owner};

const SERVICES: [&str; 2] = ["etcd", "api"];

#[derive(Clone, Debug)]
enum Step {
    Wait(i64),
    Recover(usize),
    Close(usize),
    /// A pod of an owner, as a selector of a service shows it.
    Put {
        service: usize,
        selector: usize,
        pod: Sketch,
    },
    Remove {
        service: usize,
        selector: usize,
        slot: u32,
    },
    List {
        service: usize,
        selector: usize,
        pods: Vec<Sketch>,
    },
    Delete,
    Settle(Outcome),
}

/// A pod in a slot of its owner: names come again, uids do not.
#[derive(Clone, Debug)]
struct Sketch {
    slot: u32,
    number: u32,
    version: u32,
    is_crashing: bool,
    is_leaving: bool,
}

impl Sketch {
    fn pod(&self) -> Pod {
        let name = format!("pod{}", self.slot);
        let pod = crashing(&name, self.number);
        Pod {
            // What is written once under a version or a uid never changes.
            version: format!("{}{}{}", self.version, self.is_crashing, self.is_leaving),
            owner: (!self.number.is_multiple_of(6)).then(|| owner(&format!("o{}", self.slot % 2))),
            is_leaving: self.is_leaving,
            crash: pod.crash.filter(|_| self.is_crashing),
            ..pod
        }
    }
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let flags = (prop::bool::weighted(0.8), prop::bool::weighted(0.1));
    (0..4_u32, 0..12_u32, 0..3_u32, flags).prop_map(|(slot, number, version, flags)| Sketch {
        slot,
        number,
        version,
        is_crashing: flags.0,
        is_leaving: flags.1,
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        6 => Just(Outcome::Deleted),
        1 => Just(Outcome::Changed),
        1 => Just(Outcome::Gone),
        1 => Just(Outcome::Refused),
        1 => Just(Outcome::Unknown),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..2_usize, 0..2_usize);
    prop_oneof![
        2 => (0..60_i64).prop_map(Step::Wait),
        1 => (0..2_usize).prop_map(Step::Recover),
        1 => (0..2_usize).prop_map(Step::Close),
        8 => (place(), sketch()).prop_map(|((service, selector), pod)| Step::Put { service, selector, pod }),
        1 => (place(), 0..4_u32).prop_map(|((service, selector), slot)| Step::Remove { service, selector, slot }),
        1 => (place(), prop::collection::vec(sketch(), 0..5))
            .prop_map(|((service, selector), pods)| Step::List { service, selector, pods }),
        8 => Just(Step::Delete),
        6 => outcome().prop_map(Step::Settle),
    ]
}

/// What the promises are checked against: kept apart from the code, as simply as can be.
#[derive(Default)]
struct Witness {
    /// Open windows: their end, and for each owner the pods that were deleted.
    windows: BTreeMap<String, (i64, BTreeMap<String, BTreeSet<String>>)>,
    /// Pods of which a deletion was acknowledged.
    gone: BTreeSet<String>,
    /// What was shown of a service's pods since its window opened, by uid and version.
    shown: BTreeMap<(usize, String, String), Pod>,
}

/// Slots of each owner: no more pods of it are ever there at once.
const SLOTS: usize = 2;

impl Witness {
    /// Who was deleted may be seen for a while, but only on its way out.
    fn seen(&self, sketch: &Sketch) -> Pod {
        let pod = sketch.pod();
        if !self.gone.contains(&pod.uid) {
            return pod;
        }
        Pod {
            is_leaving: true,
            version: "last".into(),
            ..pod
        }
    }

    fn show(&mut self, service: usize, pod: &Pod) {
        if self.windows.contains_key(SERVICES[service]) {
            let key = (service, pod.uid.clone(), pod.version.clone());
            self.shown.insert(key, pod.clone());
        }
    }

    fn deletion(&mut self, deletion: &Deletion, now: i64) {
        let (until, owners) = self
            .windows
            .get_mut(&deletion.service)
            .expect("no deletion without a window");
        assert!(now < *until, "no deletion after the end of a window");
        assert!(!self.gone.contains(&deletion.uid), "nothing twice");
        let service = SERVICES.iter().position(|name| *name == deletion.service);
        let place = service.expect("one of the two");
        let pod = (place, deletion.uid.clone(), deletion.version.clone());
        let pod = self.shown.get(&pod).expect("seen");
        assert!(pod.crash.is_some() && !pod.is_leaving);
        assert_eq!(pod.owner.as_ref(), Some(&deletion.owner));
        let charged = owners.entry(deletion.owner.uid.clone()).or_default();
        charged.insert(deletion.uid.clone());
        // Uids that were not deleted after all are taken out again below.
        let cap = RULES.max_deletions_per_pod as usize * SLOTS * 2;
        assert!(charged.len() <= cap, "{charged:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_deletion_is_within_a_window_and_its_cap(steps in prop::collection::vec(step(), 1..120)) {
        let mut windows = Windows::new(RULES);
        let mut witness = Witness::default();
        let mut now = 0_i64;
        let mut under_way: Vec<Deletion> = Vec::new();
        for step in steps {
            match step {
                Step::Wait(seconds) => now += seconds,
                Step::Recover(service) => windows.plan(SERVICES[service], 2, at(now), at(now)),
                Step::Close(service) => {
                    windows.close(SERVICES[service]);
                    witness.windows.remove(SERVICES[service]);
                    witness.shown.retain(|(of, _, _), _| *of != service);
                }
                Step::Put { service, selector, pod } => {
                    let pod = witness.seen(&pod);
                    witness.show(service, &pod);
                    windows.put(SERVICES[service], selector, pod);
                }
                Step::Remove { service, selector, slot } => {
                    let name = format!("pod{slot}");
                    windows.remove(SERVICES[service], selector, &name);
                }
                Step::List { service, selector, pods } => {
                    windows.begin_list(SERVICES[service], selector);
                    for pod in pods {
                        let pod = witness.seen(&pod);
                        witness.show(service, &pod);
                        windows.put(SERVICES[service], selector, pod);
                    }
                    windows.end_list(SERVICES[service], selector);
                }
                Step::Delete => {
                    let has_work = windows.has_work(at(now));
                    let deletion = windows.next(at(now));
                    prop_assert_eq!(has_work, deletion.is_some());
                    if let Some(deletion) = deletion {
                        prop_assert!(under_way.iter().all(|other| other.uid != deletion.uid));
                        witness.deletion(&deletion, now);
                        under_way.push(deletion);
                    }
                }
                Step::Settle(outcome) => {
                    if let Some(deletion) = under_way.pop() {
                        windows.settle(&deletion, outcome, at(now));
                        match outcome {
                            Outcome::Deleted | Outcome::Gone => {
                                witness.gone.insert(deletion.uid.clone());
                            }
                            _ => {}
                        }
                        if !matches!(outcome, Outcome::Deleted | Outcome::Unknown)
                            && let Some((_, owners)) = witness.windows.get_mut(&deletion.service)
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
                        witness.windows.insert(service, (until, BTreeMap::new()));
                    }
                    WindowChange::Closed { service } => {
                        let place = SERVICES.iter().position(|name| *name == service);
                        witness.shown.retain(|(of, _, _), _| Some(*of) != place);
                        let (until, _) = witness.windows.remove(&service).expect("it was open");
                        prop_assert!(now >= until);
                    }
                }
            }
            if let Some(wake) = windows.next_wake(at(now)) {
                prop_assert!(wake > at(now), "never in the past");
            }
        }
    }
}
