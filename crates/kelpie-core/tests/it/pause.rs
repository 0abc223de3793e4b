//! Fences that pause several objects: each of their writes may fail, come late or be undone.

use std::collections::BTreeMap;

use kelpie_core::prober::fence::{
    Call, Fencing, Observed, PausableObject, PauseState, Reply, ResourceVersion, Step, TargetId,
    WriteAnswer,
};
use kelpie_core::prober::{ActuatorKind, Target, Verdict};
use proptest::prelude::*;

use crate::fence_fixture::{FenceFixture, decision, fence_by, release, seconds, target};

/// Objects that can be paused, as an API server keeps them.
#[derive(Default)]
struct HealthChecks {
    objects: BTreeMap<String, (u64, PauseState)>,
    last_version: u64,
    /// Writes under way: the object, its version and the pause that they set.
    late: Vec<(String, String, PauseState)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum WriteFault {
    None,
    /// The write never reaches the API server.
    Lost,
    /// The write happens, but the reply is lost.
    ReplyLost,
    /// The write happens after its call has failed.
    Late,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    /// Another client pauses an object, also one with our pause.
    Pause,
    /// Another client lifts a pause, also ours.
    Resume,
    /// The object gets another version.
    Touch,
    /// The object is deleted or created.
    Exist(bool),
    /// The late writes happen now.
    Land,
    /// The process is killed. The next one knows nothing.
    Kill,
}

impl HealthChecks {
    fn put(&mut self, name: &str, state: PauseState) {
        self.last_version += 1;
        self.objects
            .insert(name.to_owned(), (self.last_version, state));
    }

    fn state(&self, name: &str) -> Option<PauseState> {
        self.objects.get(name).map(|(_, state)| *state)
    }

    fn objects(&self) -> Vec<PausableObject> {
        let objects = self.objects.iter();
        let object = |(name, (version, state)): (&String, &(u64, PauseState))| PausableObject {
            name: name.clone(),
            version: version.to_string(),
            state: *state,
        };
        objects.map(object).collect()
    }

    fn observed(&self) -> Observed {
        PausableObject::target(&self.objects())
    }

    /// Sets the pause of an object if it still has this version. Returns false after a conflict.
    fn write(&mut self, name: &str, version: &str, state: PauseState) -> bool {
        let Some((found, before)) = self.objects.get(name).copied() else {
            return true;
        };
        let is_current = found.to_string() == version;
        if is_current {
            assert_ne!(
                before,
                PauseState::LeftAlone,
                "changed the pause of another client"
            );
            self.put(name, state);
        }
        is_current
    }

    fn land(&mut self) {
        for (name, version, state) in std::mem::take(&mut self.late) {
            self.write(&name, &version, state);
        }
    }

    fn answer(&mut self, step: &Step, mut fault: impl FnMut() -> WriteFault) -> Reply {
        let (version, state): (&ResourceVersion, _) = match &step.call {
            Call::Read => return Reply::Read(self.observed()),
            Call::Fence(write) => (write.version(), PauseState::Ours),
            Call::Restore(write) => (write.version(), PauseState::Runs),
            Call::DropMarker(drop) => (drop.version(), PauseState::Runs),
            call => panic!("{call:?}"),
        };
        let (mut has_failed, mut has_conflict) = (false, false);
        for (name, version) in version.members() {
            let fault = fault();
            has_failed |= fault != WriteFault::None;
            match fault {
                WriteFault::None => has_conflict |= !self.write(name, version, state),
                WriteFault::ReplyLost => _ = self.write(name, version, state),
                WriteFault::Lost => {}
                WriteFault::Late => self.late.push((name.into(), version.into(), state)),
            }
        }
        let mut written = self.objects();
        written.retain(|object| version.members().any(|(name, _)| name == object.name));
        match PausableObject::target(&written) {
            _ if has_failed => Reply::Failed,
            Observed::Present(object) if !has_conflict => {
                Reply::Written(WriteAnswer::Object(object))
            }
            _ => Reply::Conflict,
        }
    }
}

fn health_checks() -> Vec<Target> {
    vec![target("", |target| {
        target.actuator = ActuatorKind::Pause;
        target.optional = true;
    })]
}

fn any_fault() -> impl Strategy<Value = WriteFault> {
    prop_oneof![
        6 => Just(WriteFault::None),
        1 => Just(WriteFault::Lost),
        1 => Just(WriteFault::ReplyLost),
        1 => Just(WriteFault::Late),
    ]
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        Just(Change::Pause),
        Just(Change::Resume),
        Just(Change::Touch),
        any::<bool>().prop_map(Change::Exist),
        Just(Change::Land),
        Just(Change::Kill),
    ]
}

/// A cluster with its objects, and the fencing that pauses them.
struct Cluster {
    fixture: FenceFixture,
    checks: HealthChecks,
    is_watched: bool,
}

impl Cluster {
    fn new(states: &[PauseState], is_watched: bool) -> Self {
        let mut checks = HealthChecks::default();
        for (name, state) in ["a", "b", "c", "d"].iter().zip(states) {
            checks.put(name, *state);
        }
        let fixture = FenceFixture::new(health_checks(), &[None]);
        Self {
            fixture,
            checks,
            is_watched,
        }
    }

    /// Runs for so many seconds. `fault` is asked for each write.
    fn run(&mut self, length: f64, mut fault: impl FnMut() -> WriteFault) {
        let (fixture, checks) = (&mut self.fixture, &mut self.checks);
        let end = seconds(fixture.now) + length;
        fixture.run_with(end, |step, _, _| Some(checks.answer(step, &mut fault)));
    }

    /// Shows the objects as a watch does.
    fn show(&mut self) {
        if self.is_watched {
            let (fencing, now) = (&mut self.fixture.fencing, self.fixture.now);
            fencing.set_watched(TargetId(0), true, now);
            fencing.observe(TargetId(0), &self.checks.observed(), now);
        }
    }

    fn change(&mut self, name: &str, change: Change) {
        let state = self.checks.state(name);
        match (change, state) {
            (Change::Pause, Some(_)) => self.checks.put(name, PauseState::LeftAlone),
            (Change::Resume, Some(_)) | (Change::Exist(true), None) => {
                self.checks.put(name, PauseState::Runs);
            }
            (Change::Touch, Some(state)) => self.checks.put(name, state),
            (Change::Exist(false), Some(_)) => _ = self.checks.objects.remove(name),
            (Change::Land, _) => self.checks.land(),
            (Change::Kill, _) => self.fixture.fencing = Fencing::new(health_checks().into()),
            _ => {}
        }
        self.show();
    }

    fn states(&self) -> Vec<PauseState> {
        self.checks
            .objects
            .values()
            .map(|(_, state)| *state)
            .collect()
    }
}

#[test]
fn pause_and_restore_are_exact() {
    use PauseState::{LeftAlone, Ours, Runs};
    for is_watched in [false, true] {
        let mut cluster = Cluster::new(&[Runs, LeftAlone, Runs], is_watched);
        cluster.show();
        cluster.fixture.apply(&fence_by(10.0));
        cluster.run(20.0, || WriteFault::None);
        assert_eq!(cluster.states(), [Ours, LeftAlone, Ours]);
        cluster.show();
        cluster.fixture.apply(&release());
        cluster.run(60.0, || WriteFault::None);
        assert_eq!(cluster.states(), [Runs, LeftAlone, Runs]);
        let writes: Vec<_> = cluster.fixture.writes.iter().map(|write| write.2).collect();
        assert_eq!(writes, ["down", "up"]);
    }
}

#[test]
fn half_made_fence_is_lifted() {
    use PauseState::{Ours, Runs};
    let mut cluster = Cluster::new(&[Ours, Runs], false);
    cluster.fixture.apply(&release());
    cluster.run(60.0, || WriteFault::None);
    assert_eq!(cluster.states(), [Runs, Runs]);
}

#[test]
fn object_created_during_a_fence_is_paused() {
    use PauseState::{Ours, Runs};
    let mut cluster = Cluster::new(&[Runs], true);
    cluster.show();
    cluster.fixture.apply(&fence_by(10.0));
    cluster.run(20.0, || WriteFault::None);
    cluster.change("b", Change::Exist(true));
    cluster.run(30.0, || WriteFault::None);
    assert_eq!(cluster.states(), [Ours, Ours]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn pauses_of_others_are_kept_and_ours_are_lifted(
        states in prop::collection::vec(
            prop_oneof![Just(PauseState::Runs), Just(PauseState::LeftAlone)], 0..4),
        rounds in prop::collection::vec(
            (0_u8..3, 0.0..8.0_f64, 0_usize..4, prop::option::of(any_change())), 0..16),
        faults in prop::collection::vec(any_fault(), 0..60),
        lands_late in any::<bool>(),
        is_watched in any::<bool>(),
    ) {
        let names = ["a", "b", "c", "d"];
        let mut cluster = Cluster::new(&states, is_watched);
        let mut faults = faults.into_iter();
        cluster.show();
        for (verdict, length, index, change) in rounds {
            let verdict = match verdict {
                0 => fence_by(seconds(cluster.fixture.now) + 10.0),
                1 => release(),
                _ => decision(Verdict::Hold, None),
            };
            cluster.fixture.apply(&verdict);
            let before = cluster.fixture.writes.len();
            cluster.run(length, || faults.next().unwrap_or(WriteFault::None));
            if verdict.verdict == Verdict::Hold {
                prop_assert_eq!(cluster.fixture.writes.len(), before, "Hold wrote something");
            }
            if let Some(change) = change {
                cluster.change(names[index], change);
            }
        }
        // Whatever happened, a fence that lasts pauses every object, and a release lifts each pause
        // of ours and no other.
        cluster.change("a", Change::Land);
        cluster.fixture.apply(&fence_by(seconds(cluster.fixture.now) + 10.0));
        cluster.run(400.0, || WriteFault::None);
        prop_assert!(!cluster.states().contains(&PauseState::Runs));
        let expected: Vec<PauseState> = cluster.states().into_iter().map(|state| match state {
            PauseState::Ours => PauseState::Runs,
            state => state,
        }).collect();
        cluster.show();
        cluster.fixture.apply(&release());
        if lands_late {
            cluster.run(1.0, || WriteFault::Late);
            cluster.change("a", Change::Land);
        }
        cluster.run(800.0, || WriteFault::None);
        prop_assert_eq!(cluster.states(), expected);
    }
}
