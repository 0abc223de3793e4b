//! The Shoot inside a Cluster, reduced to the fields that are used.

use std::time::Duration;

use kelpie_core::prober::PoolConditions;
use kelpie_kube::projection::{Field, FieldPath};
use serde_json::Value;

use crate::source::grace_period;

/// The fields of a Shoot that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shoot {
    /// It has a deletionTimestamp.
    pub(super) is_deleted: bool,
    pub(super) hibernation: Hibernation,
    /// Gardener's last operation; `None` before the first one.
    pub(super) last_operation: Option<Operation>,
    /// It has at least one worker pool.
    pub(super) has_workers: bool,
    /// Unhealthy conditions of the pools that name their own.
    pub(super) pools: PoolConditions,
    /// The cluster's own grace period, which wins over the configured one.
    pub(super) node_monitor_grace: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hibernation {
    #[default]
    Awake,
    /// Its owner wants it hibernated (`spec.hibernation.enabled`), whether or not it is already.
    Wanted,
    /// Its owner wants it awake, and it is not yet (`status.hibernated`).
    WakingUp,
}

/// An operation of Gardener on a Shoot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// Its type, such as `Reconcile`.
    pub(super) kind: String,
    /// Its state is `Succeeded`.
    pub(super) has_succeeded: bool,
}

/// The fields of a Cluster that are used, all of them of its Shoot.
pub(super) const FIELDS: &[FieldPath] = &[
    crate::source::labels::LABELS,
    &["spec", "shoot", "metadata", "deletionTimestamp"],
    &["spec", "shoot", "spec", "hibernation", "enabled"],
    &[
        "spec",
        "shoot",
        "spec",
        "kubernetes",
        "kubeControllerManager",
        "nodeMonitorGracePeriod",
    ],
    &["spec", "shoot", "spec", "provider", "workers", "name"],
    &[
        "spec",
        "shoot",
        "spec",
        "provider",
        "workers",
        "machineControllerManager",
        "nodeConditions",
    ],
    &["spec", "shoot", "status", "hibernated"],
    &["spec", "shoot", "status", "lastOperation", "type"],
    &["spec", "shoot", "status", "lastOperation", "state"],
];

pub(super) fn read(shoot: &Value) -> Result<Shoot, String> {
    if shoot.is_null() {
        return Err("spec.shoot: is missing".into());
    }
    let shoot = Field::new("spec.shoot", shoot);
    let (spec, status) = (shoot.of("spec")?, shoot.of("status")?);
    let is_wanted = spec.of("hibernation")?.of("enabled")?.flag()?;
    let is_asleep = status.of("hibernated")?.flag()?;
    let operation = status.of("lastOperation")?;
    let workers = spec.of("provider")?.of("workers")?.list()?;
    let mut facts = Shoot {
        is_deleted: shoot.of("metadata")?.of("deletionTimestamp")?.is_present(),
        hibernation: match (is_wanted, is_asleep) {
            (true, _) => Hibernation::Wanted,
            (false, true) => Hibernation::WakingUp,
            (false, false) => Hibernation::Awake,
        },
        has_workers: !workers.is_empty(),
        ..Shoot::default()
    };
    if operation.is_present() {
        facts.last_operation = Some(Operation {
            kind: operation.of("type")?.text()?.into(),
            has_succeeded: operation.of("state")?.text()? == "Succeeded",
        });
    }
    for worker in &workers {
        let own = worker
            .of("machineControllerManager")?
            .of("nodeConditions")?;
        let own = own.list()?;
        let own = own.iter().map(|kind| kind.text().map(str::to_owned));
        let own: Vec<String> = own.collect::<Result<_, _>>()?;
        let name = worker.of("name")?.text()?;
        // A pool that names none has the default ones.
        if !own.is_empty() {
            facts.pools.insert(name.to_owned(), own);
        }
    }
    let kubernetes = spec.of("kubernetes")?;
    let grace = kubernetes
        .of("kubeControllerManager")?
        .of("nodeMonitorGracePeriod")?;
    if grace.is_present() {
        facts.node_monitor_grace = Some(grace_period::read(&grace)?);
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use kelpie_kube::projection::FieldMask;
    use serde::de::DeserializeSeed;
    use serde_json::json;

    use super::*;

    /// Reads a Shoot as it comes over the wire.
    fn read_wire(shoot: &Value) -> Result<Shoot, String> {
        let text = json!({ "spec": { "shoot": shoot } }).to_string();
        let mut wire = serde_json::Deserializer::from_str(&text);
        let cluster = FieldMask::new(FIELDS).deserialize(&mut wire).unwrap();
        read(&cluster["spec"]["shoot"])
    }

    #[test]
    fn all_used_fields_are_read() {
        let found = read_wire(&json!({
            "metadata": { "name": "a", "deletionTimestamp": "2026-11-01T00:00:00Z" },
            "spec": {
                "hibernation": { "enabled": false, "schedules": [] },
                "kubernetes": {
                    "version": "1.33.1",
                    "kubeControllerManager": { "nodeMonitorGracePeriod": "2m0s" },
                },
                "provider": { "workers": [
                    { "name": "plain" },
                    { "name": "empty", "machineControllerManager": { "nodeConditions": [] } },
                    { "name": "own", "machineControllerManager": { "nodeConditions": ["A", "B"] } },
                ] },
            },
            "status": {
                "hibernated": true,
                "lastOperation": { "type": "Create", "state": "Processing", "progress": 7 },
            },
        }));
        let own = ("own".to_owned(), vec!["A".to_owned(), "B".to_owned()]);
        let expected = Shoot {
            is_deleted: true,
            hibernation: Hibernation::WakingUp,
            last_operation: Some(Operation {
                kind: "Create".into(),
                has_succeeded: false,
            }),
            has_workers: true,
            pools: [own].into(),
            node_monitor_grace: Some(Duration::from_mins(2)),
        };
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn absent_and_null_are_defaults() {
        let sparse = [
            json!({}),
            json!({ "metadata": null, "spec": null, "status": null }),
            json!({
                "metadata": { "deletionTimestamp": null },
                "spec": {
                    "hibernation": null,
                    "kubernetes": { "kubeControllerManager": null },
                    "provider": { "workers": null },
                },
                "status": { "lastOperation": null },
            }),
        ];
        for shoot in sparse {
            assert_eq!(read_wire(&shoot), Ok(Shoot::default()), "{shoot}");
        }
    }

    #[test]
    fn hibernation_follows_the_spec_first() {
        let rows = [
            (json!(true), true, Hibernation::Wanted),
            (json!(true), false, Hibernation::Wanted),
            (json!(false), true, Hibernation::WakingUp),
            (json!(null), true, Hibernation::WakingUp),
            (json!(false), false, Hibernation::Awake),
        ];
        for (enabled, hibernated, expected) in rows {
            let shoot = json!({
                "spec": { "hibernation": { "enabled": enabled } },
                "status": { "hibernated": hibernated },
            });
            assert_eq!(read_wire(&shoot).unwrap().hibernation, expected, "{shoot}");
        }
    }

    fn grace(text: &str) -> Result<Option<Duration>, String> {
        let manager = json!({ "nodeMonitorGracePeriod": text });
        let shoot = json!({ "spec": { "kubernetes": { "kubeControllerManager": manager } } });
        read_wire(&shoot).map(|shoot| shoot.node_monitor_grace)
    }

    #[test]
    fn grace_is_a_positive_go_duration() {
        for (text, seconds) in [("40s", 40), ("2m0s", 120), ("1h0m1s", 3601)] {
            assert_eq!(
                grace(text),
                Ok(Some(Duration::from_secs(seconds))),
                "{text}"
            );
        }
        for text in ["", "40", "soon", "-40s", "0s", "1d", "99999999999h"] {
            let problem = grace(text).unwrap_err();
            assert!(
                problem.contains("nodeMonitorGracePeriod"),
                "{text}: {problem}"
            );
            assert!(problem.contains("such as 40s"), "{text}: {problem}");
        }
    }

    #[test]
    fn malformed_shoot_names_the_field() {
        let worker = |worker: Value| json!({ "spec": { "provider": { "workers": [worker] } } });
        for (shoot, expected) in [
            (json!(null), "spec.shoot: is missing"),
            (json!("text"), "spec.shoot: is not an object"),
            (json!({ "spec": [] }), "spec.shoot.spec: is not an object"),
            (
                json!({ "spec": { "provider": { "workers": "many" } } }),
                "spec.shoot.spec.provider.workers: is not a list",
            ),
            (
                worker(json!({ "name": 7 })),
                "spec.shoot.spec.provider.workers[0].name: is not a string",
            ),
            (
                worker(json!({ "machineControllerManager": { "nodeConditions": ["A", {}] } })),
                "spec.shoot.spec.provider.workers[0].machineControllerManager.nodeConditions[1]: \
                 is not a string",
            ),
            (
                json!({ "status": { "hibernated": "yes" } }),
                "spec.shoot.status.hibernated: is not true or false",
            ),
            (
                json!({ "status": { "lastOperation": { "type": 7 } } }),
                "spec.shoot.status.lastOperation.type: is not a string",
            ),
        ] {
            assert_eq!(read_wire(&shoot).unwrap_err(), expected);
        }
    }
}
