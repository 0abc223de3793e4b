//! Projection of the status to a `ManagedClusterAddOn`, which has three of the five types.

use kelpie_core::addon::{
    AddonStatus, AvailableOwner, Condition, TransitionTime, project_to_managed_addon,
};

use super::{at, condition, status};

fn projected(status: &AddonStatus, owner: AvailableOwner) -> Vec<(String, String, String)> {
    let mut conditions = Vec::new();
    project_to_managed_addon(status, owner, &mut conditions, at(9));
    let text = |it: Condition| (it.type_, it.status, it.reason);
    conditions.into_iter().map(text).collect()
}

fn aggregated(reason: &str) -> AddonStatus {
    let mut status = status(reason, "");
    status.set_standard_conditions(at(1));
    status
}

#[test]
fn disabled_and_not_supported_are_degraded() {
    for (reason, degraded, progressing, available) in [
        ("ForwardSuccessful", "False", "False", "True"),
        ("UpdateSuccessful", "False", "True", "False"),
        ("ForwardFailure", "True", "False", "False"),
        ("UpdateFailure", "True", "False", "False"),
        ("DisabledMetrics", "True", "False", "False"),
        ("NotSupported", "True", "False", "False"),
    ] {
        let row = |kind: &str, status: &str| (kind.into(), status.into(), reason.into());
        let expected = [row("Degraded", degraded), row("Progressing", progressing)];
        assert_eq!(
            projected(&aggregated(reason), AvailableOwner::Hub),
            expected
        );
        let full = projected(&aggregated(reason), AvailableOwner::Addon);
        assert_eq!(full[..2], expected);
        assert_eq!(full[2], row("Available", available));
    }
}

#[test]
fn new_reason_is_projected_without_flip() {
    let mut conditions = vec![condition("Available", "ManagedClusterAddOnLeaseUpdated")];
    project_to_managed_addon(
        &aggregated("ForwardFailure"),
        AvailableOwner::Hub,
        &mut conditions,
        at(2),
    );
    project_to_managed_addon(
        &aggregated("UpdateFailure"),
        AvailableOwner::Hub,
        &mut conditions,
        at(3),
    );
    assert_eq!(
        conditions[0],
        condition("Available", "ManagedClusterAddOnLeaseUpdated")
    );
    assert_eq!(conditions[1].reason, "UpdateFailure");
    assert_eq!(
        conditions[1].last_transition_time,
        TransitionTime::at(at(2))
    );
    let before = conditions.clone();
    project_to_managed_addon(
        &aggregated("UpdateFailure"),
        AvailableOwner::Hub,
        &mut conditions,
        at(4),
    );
    assert_eq!(conditions, before);
}

#[test]
fn invalid_reasons_are_projected_as_unknown() {
    assert!(projected(&status("ForwardFailure", ""), AvailableOwner::Addon).is_empty());
    assert!(projected(&AddonStatus::default(), AvailableOwner::Addon).is_empty());
    let invalid = projected(&aggregated("no word"), AvailableOwner::Hub);
    assert_eq!(invalid[0].2, "Unknown");
}
