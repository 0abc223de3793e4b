//! Properties of fencing while it is paused.

use kelpie_core::prober::Verdict;
use proptest::prelude::*;

use crate::evaluator_fixture::at;
use crate::fence_fixture::{FenceFixture, decision, fence_by, release, seconds};

/// An event while a prober runs.
#[derive(Clone, Copy, Debug)]
enum FleetEvent {
    Pause,
    Resume,
    Fence,
    Hold,
    Release,
    /// Another client starts a controller.
    Start(usize),
}

fn any_event() -> impl Strategy<Value = FleetEvent> {
    prop_oneof![
        1 => Just(FleetEvent::Pause),
        1 => Just(FleetEvent::Resume),
        3 => Just(FleetEvent::Fence),
        1 => Just(FleetEvent::Hold),
        1 => Just(FleetEvent::Release),
        1 => (0_usize..3).prop_map(FleetEvent::Start),
    ]
}

/// The calls by which a fence is begun or made.
const FENCING: [&str; 3] = ["record", "down", "keep"];

proptest! {
    #[test]
    fn nothing_is_fenced_while_paused(
        events in prop::collection::vec((any_event(), 1_u32..40), 1..20),
    ) {
        let mut fixture = FenceFixture::gardener();
        let mut is_paused = false;
        let mut end = 0.0;
        for (event, tenths) in events {
            let deadline = seconds(fixture.now) + 4.0;
            match event {
                FleetEvent::Pause => is_paused = true,
                FleetEvent::Resume => is_paused = false,
                FleetEvent::Fence => fixture.apply(&fence_by(deadline)),
                FleetEvent::Hold => fixture.apply(&decision(Verdict::Hold, None)),
                FleetEvent::Release => fixture.apply(&release()),
                FleetEvent::Start(index) => {
                    let object = fixture.object(index);
                    object.present.setting.0 = 1;
                    object.touch();
                }
            }
            fixture.fencing.set_paused(is_paused);
            let before = fixture.writes.len();
            end += f64::from(tenths) / 10.0;
            fixture.run(end);
            let written = &fixture.writes[before..];
            let fenced = written.iter().find(|(_, _, call)| FENCING.contains(call));
            prop_assert!(!is_paused || fenced.is_none(), "{:?}", fenced);
        }
        // Always: a release restores, paused or not.
        fixture.apply(&release());
        fixture.run(end + 120.0);
        prop_assert!(!fixture.has_marker());
        // And with the end of the pause, fencing works again.
        fixture.fencing.set_paused(false);
        let deadline = seconds(fixture.now) + 4.0;
        fixture.apply(&fence_by(deadline));
        fixture.run(deadline + 60.0);
        prop_assert_eq!(fixture.replicas()[0], Some(0));
    }
}

#[test]
fn fence_goes_on_with_the_first_decision_after_the_pause() {
    let mut fixture = FenceFixture::gardener();
    fixture.fencing.set_paused(true);
    fixture.apply(&fence_by(4.0));
    fixture.run(10.0);
    assert_eq!(fixture.replicas(), [Some(1), Some(1), Some(1)]);
    assert!(fixture.writes.is_empty(), "{:?}", fixture.writes);
    fixture.fencing.set_paused(false);
    fixture.apply(&fence_by(14.0));
    fixture.run(40.0);
    assert_eq!(fixture.replicas(), [Some(0), Some(0), Some(0)]);
}

#[test]
fn standby_does_not_fence_while_paused() {
    let mut fixture = FenceFixture::gardener();
    fixture.fencing.set_paused(true);
    let report = fixture.fencing.assist(&fence_by(4.0), at(0.0));
    assert!(report.is_none());
    fixture.run(10.0);
    assert!(fixture.writes.is_empty(), "{:?}", fixture.writes);
}
