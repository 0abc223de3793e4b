//! What a Shoot says about its cluster, and whether the cluster gets a probe.

use std::fmt;
use std::time::Duration;

use crate::PoolConditions;

/// What is used of a Shoot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShootFacts {
    /// It has a deletionTimestamp.
    pub is_deleted: bool,
    /// Whether it sleeps.
    pub hibernation: Hibernation,
    /// What Gardener last did with it; `None` before the first operation.
    pub last_operation: Option<Operation>,
    /// It has at least one worker pool.
    pub has_workers: bool,
    /// Unhealthy conditions of the pools that name their own.
    pub pools: PoolConditions,
    /// The cluster's own grace period, which wins over the configured one.
    pub node_monitor_grace: Option<Duration>,
}

/// Whether a cluster sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hibernation {
    /// It does not.
    #[default]
    Awake,
    /// Its owner wants it to (`spec.hibernation.enabled`), whether it does already or not.
    Wanted,
    /// Its owner wants it awake, and it is not yet (`status.hibernated`).
    WakingUp,
}

/// An operation of Gardener on a Shoot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its type.
    pub kind: OperationKind,
    /// Its state is `Succeeded`.
    pub has_succeeded: bool,
}

/// The type of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// `Create`.
    Create,
    /// `Reconcile`.
    Reconcile,
    /// `Restore`: the second half of a migration, on the new seed.
    Restore,
    /// `Migrate`: the first half of a migration, on the old seed.
    Migrate,
    /// `Delete`.
    Delete,
    /// One this version does not know: it starts no probe.
    Other,
}

impl From<&str> for OperationKind {
    fn from(name: &str) -> Self {
        match name {
            "Create" => Self::Create,
            "Reconcile" => Self::Reconcile,
            "Restore" => Self::Restore,
            "Migrate" => Self::Migrate,
            "Delete" => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// Whether a cluster gets a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// It does; a running one goes on.
    Run,
    /// None is started; a running one goes on.
    NotYet(NotYet),
    /// None is started, and a running one is removed.
    Remove(Removal),
}

/// Why a probe is not started yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotYet {
    /// It was hibernated and its control plane is coming back.
    WakingUp,
    /// Gardener has not touched it yet.
    NoOperation,
    /// It is not created completely.
    Creating,
    /// It is not restored completely after a migration.
    Restoring,
    /// Its last operation says nothing about its control plane.
    UnknownOperation,
}

/// Why a probe is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is being deleted.
    Deleted,
    /// It is hibernated, or going to be.
    Hibernated,
    /// It is moving to another seed.
    Migrating,
    /// It has no nodes that could be cut off.
    NoWorkers,
}

/// Whether the cluster of this Shoot gets a probe.
pub fn eligibility(shoot: &ShootFacts) -> Eligibility {
    let operation = shoot.last_operation;
    let kind = operation.map(|operation| operation.kind);
    if shoot.is_deleted {
        Eligibility::Remove(Removal::Deleted)
    } else if shoot.hibernation == Hibernation::Wanted {
        Eligibility::Remove(Removal::Hibernated)
    } else if kind == Some(OperationKind::Migrate) {
        Eligibility::Remove(Removal::Migrating)
    } else if !shoot.has_workers {
        Eligibility::Remove(Removal::NoWorkers)
    } else if shoot.hibernation == Hibernation::WakingUp {
        Eligibility::NotYet(NotYet::WakingUp)
    } else {
        match operation {
            None => Eligibility::NotYet(NotYet::NoOperation),
            Some(operation) => after(operation),
        }
    }
}

fn after(operation: Operation) -> Eligibility {
    match operation.kind {
        OperationKind::Reconcile => Eligibility::Run,
        OperationKind::Create | OperationKind::Restore if operation.has_succeeded => {
            Eligibility::Run
        }
        OperationKind::Create => Eligibility::NotYet(NotYet::Creating),
        OperationKind::Restore => Eligibility::NotYet(NotYet::Restoring),
        OperationKind::Migrate | OperationKind::Delete | OperationKind::Other => {
            Eligibility::NotYet(NotYet::UnknownOperation)
        }
    }
}

impl fmt::Display for Eligibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => f.write_str("it is probed"),
            Self::NotYet(why) => write!(f, "not probed yet: {why}"),
            Self::Remove(why) => write!(f, "not probed: {why}"),
        }
    }
}

impl fmt::Display for NotYet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WakingUp => "it is waking up from hibernation",
            Self::NoOperation => "no operation has begun on it",
            Self::Creating => "its creation has not succeeded",
            Self::Restoring => "its restoration has not succeeded",
            Self::UnknownOperation => "its last operation says nothing about its control plane",
        })
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deleted => "it is being deleted",
            Self::Hibernated => "it is hibernated",
            Self::Migrating => "it is migrating to another seed",
            Self::NoWorkers => "it has no workers",
        })
    }
}

#[cfg(test)]
mod tests {
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

    /// A shoot that is probed.
    fn shoot() -> ShootFacts {
        ShootFacts {
            has_workers: true,
            last_operation: Some(operation("Reconcile", true)),
            ..ShootFacts::default()
        }
    }

    #[test]
    fn a_shoot_that_was_reconciled_is_probed_in_any_state() {
        for has_succeeded in [true, false] {
            let last_operation = Some(operation("Reconcile", has_succeeded));
            let shoot = ShootFacts {
                last_operation,
                ..shoot()
            };
            assert_eq!(eligibility(&shoot), Eligibility::Run);
        }
    }

    #[test]
    fn create_and_restore_start_a_probe_once_they_have_succeeded() {
        let rows = [
            ("Create", true, Eligibility::Run),
            ("Create", false, Eligibility::NotYet(NotYet::Creating)),
            ("Restore", true, Eligibility::Run),
            ("Restore", false, Eligibility::NotYet(NotYet::Restoring)),
        ];
        for (name, has_succeeded, expected) in rows {
            let shoot = ShootFacts {
                last_operation: Some(operation(name, has_succeeded)),
                ..shoot()
            };
            assert_eq!(eligibility(&shoot), expected, "{name} {has_succeeded}");
        }
    }

    #[test]
    fn no_probe_is_started_before_the_first_operation_or_after_an_unknown_one() {
        let unknown = Eligibility::NotYet(NotYet::UnknownOperation);
        let rows = [
            (None, Eligibility::NotYet(NotYet::NoOperation)),
            (Some(operation("Delete", false)), unknown),
            (Some(operation("Defragment", true)), unknown),
        ];
        for (last_operation, expected) in rows {
            let shoot = ShootFacts {
                last_operation,
                ..shoot()
            };
            assert_eq!(eligibility(&shoot), expected, "{last_operation:?}");
        }
    }

    #[test]
    fn no_probe_is_started_while_the_shoot_wakes_up() {
        let shoot = ShootFacts {
            hibernation: Hibernation::WakingUp,
            ..shoot()
        };
        let expected = Eligibility::NotYet(NotYet::WakingUp);
        assert_eq!(eligibility(&shoot), expected);
    }

    /// Whatever else the shoot says: what removes a probe comes first.
    #[test]
    fn a_probe_is_removed_whatever_the_last_operation_was() {
        let mut operations = vec![None];
        operations.extend(OPERATIONS.map(|name| Some(operation(name, true))));
        operations.extend(OPERATIONS.map(|name| Some(operation(name, false))));
        for last_operation in operations {
            for hibernation in [Hibernation::Awake, Hibernation::WakingUp] {
                let shoot = ShootFacts {
                    hibernation,
                    last_operation,
                    ..shoot()
                };
                let deleted = ShootFacts {
                    is_deleted: true,
                    ..shoot.clone()
                };
                let asleep = ShootFacts {
                    hibernation: Hibernation::Wanted,
                    ..shoot.clone()
                };
                let workerless = ShootFacts {
                    has_workers: false,
                    ..shoot.clone()
                };
                let is_removed =
                    |shoot: &ShootFacts| matches!(eligibility(shoot), Eligibility::Remove(_));
                assert_eq!(eligibility(&deleted), Eligibility::Remove(Removal::Deleted));
                assert_eq!(
                    eligibility(&asleep),
                    Eligibility::Remove(Removal::Hibernated)
                );
                assert!(is_removed(&workerless), "{last_operation:?}");
                let migrates = last_operation.map(|last| last.kind) == Some(OperationKind::Migrate);
                assert_eq!(is_removed(&shoot), migrates, "{last_operation:?}");
            }
        }
    }

    #[test]
    fn reasons_read_well() {
        let said = Eligibility::NotYet(NotYet::Creating).to_string();
        assert_eq!(said, "not probed yet: its creation has not succeeded");
        let said = Eligibility::Remove(Removal::NoWorkers).to_string();
        assert_eq!(said, "not probed: it has no workers");
        assert_eq!(Eligibility::Run.to_string(), "it is probed");
    }
}
