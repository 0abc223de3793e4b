//! The eligibility of a Shoot's cluster for a probe.

use crate::source::Eligibility;

use super::shoot::{Hibernation, Shoot};

const DELETED: &str = "it is being deleted";
const HIBERNATED: &str = "it is hibernated";
const MIGRATING: &str = "it is migrating to another seed";
const NO_WORKERS: &str = "it has no workers";
const WAKING_UP: &str = "it is waking up from hibernation";
const NO_OPERATION: &str = "no operation has begun on it";
const CREATING: &str = "its creation has not succeeded";
const RESTORING: &str = "its restoration has not succeeded";
const OTHER_OPERATION: &str = "its last operation says nothing about its control plane";

/// The first half of a migration, on the old seed. `Restore` is the second half, on the new one.
const MIGRATE: &str = "Migrate";

/// Returns whether the cluster of this Shoot gets a probe.
pub(super) fn eligibility(shoot: &Shoot) -> Eligibility {
    let operation = shoot.last_operation.as_ref();
    let kind = operation.map(|operation| operation.kind.as_str());
    if shoot.is_deleted {
        Eligibility::Remove(DELETED)
    } else if shoot.hibernation == Hibernation::Wanted {
        Eligibility::Remove(HIBERNATED)
    } else if kind == Some(MIGRATE) {
        Eligibility::Remove(MIGRATING)
    } else if !shoot.has_workers {
        Eligibility::Remove(NO_WORKERS)
    } else if shoot.hibernation == Hibernation::WakingUp {
        Eligibility::NotYet(WAKING_UP)
    } else {
        let has_succeeded = operation.is_some_and(|operation| operation.has_succeeded);
        match kind {
            None => Eligibility::NotYet(NO_OPERATION),
            Some("Reconcile") => Eligibility::Run,
            Some("Create" | "Restore") if has_succeeded => Eligibility::Run,
            Some("Create") => Eligibility::NotYet(CREATING),
            Some("Restore") => Eligibility::NotYet(RESTORING),
            // Also a type that this version does not know.
            Some(_) => Eligibility::NotYet(OTHER_OPERATION),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shoot::Operation;
    use super::*;

    const OPERATIONS: [&str; 6] = [
        "Create",
        "Reconcile",
        "Restore",
        "Migrate",
        "Delete",
        "Defragment",
    ];

    fn operation(name: &str, has_succeeded: bool) -> Operation {
        Operation {
            kind: name.into(),
            has_succeeded,
        }
    }

    /// A Shoot that is probed.
    fn shoot() -> Shoot {
        Shoot {
            has_workers: true,
            last_operation: Some(operation("Reconcile", true)),
            ..Shoot::default()
        }
    }

    #[test]
    fn reconciled_shoot_runs_in_any_state() {
        for has_succeeded in [true, false] {
            let last_operation = Some(operation("Reconcile", has_succeeded));
            let shoot = Shoot {
                last_operation,
                ..shoot()
            };
            assert_eq!(eligibility(&shoot), Eligibility::Run);
        }
    }

    #[test]
    fn create_and_restore_must_succeed() {
        let rows = [
            ("Create", true, Eligibility::Run),
            ("Create", false, Eligibility::NotYet(CREATING)),
            ("Restore", true, Eligibility::Run),
            ("Restore", false, Eligibility::NotYet(RESTORING)),
        ];
        for (name, has_succeeded, expected) in rows {
            let shoot = Shoot {
                last_operation: Some(operation(name, has_succeeded)),
                ..shoot()
            };
            assert_eq!(eligibility(&shoot), expected, "{name} {has_succeeded}");
        }
    }

    #[test]
    fn no_or_unknown_operation_is_not_yet() {
        let unknown = Eligibility::NotYet(OTHER_OPERATION);
        let rows = [
            (None, Eligibility::NotYet(NO_OPERATION)),
            (Some(operation("Delete", false)), unknown),
            (Some(operation("Defragment", true)), unknown),
        ];
        for (last_operation, expected) in rows {
            let shoot = Shoot {
                last_operation: last_operation.clone(),
                ..shoot()
            };
            assert_eq!(eligibility(&shoot), expected, "{last_operation:?}");
        }
    }

    #[test]
    fn waking_up_is_not_yet() {
        let shoot = Shoot {
            hibernation: Hibernation::WakingUp,
            ..shoot()
        };
        let expected = Eligibility::NotYet(WAKING_UP);
        assert_eq!(eligibility(&shoot), expected);
    }

    #[test]
    fn removal_wins_over_any_operation() {
        let mut operations = vec![None];
        operations.extend(OPERATIONS.map(|name| Some(operation(name, true))));
        operations.extend(OPERATIONS.map(|name| Some(operation(name, false))));
        for last_operation in operations {
            for hibernation in [Hibernation::Awake, Hibernation::WakingUp] {
                let shoot = Shoot {
                    hibernation,
                    last_operation: last_operation.clone(),
                    ..shoot()
                };
                let deleted = Shoot {
                    is_deleted: true,
                    ..shoot.clone()
                };
                let asleep = Shoot {
                    hibernation: Hibernation::Wanted,
                    ..shoot.clone()
                };
                let workerless = Shoot {
                    has_workers: false,
                    ..shoot.clone()
                };
                let is_removed =
                    |shoot: &Shoot| matches!(eligibility(shoot), Eligibility::Remove(_));
                assert_eq!(eligibility(&deleted), Eligibility::Remove(DELETED));
                assert_eq!(eligibility(&asleep), Eligibility::Remove(HIBERNATED));
                assert!(is_removed(&workerless), "{last_operation:?}");
                let migrates = last_operation
                    .as_ref()
                    .is_some_and(|last| last.kind == MIGRATE);
                assert_eq!(is_removed(&shoot), migrates, "{last_operation:?}");
            }
        }
    }
}
