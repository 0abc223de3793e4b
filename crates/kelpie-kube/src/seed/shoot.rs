//! What is read of the Shoot inside a Cluster.

use std::time::Duration;

use kelpie_core::{Hibernation, Operation, ShootFacts};
use serde_json::Value;

use super::field::Field;
use super::sieve::Keep;

pub(super) const KEEP: Keep = Keep::Fields(&[
    (
        "metadata",
        Keep::Fields(&[("deletionTimestamp", Keep::All)]),
    ),
    (
        "spec",
        Keep::Fields(&[
            ("hibernation", Keep::Fields(&[("enabled", Keep::All)])),
            (
                "kubernetes",
                Keep::Fields(&[(
                    "kubeControllerManager",
                    Keep::Fields(&[("nodeMonitorGracePeriod", Keep::All)]),
                )]),
            ),
            (
                "provider",
                Keep::Fields(&[(
                    "workers",
                    Keep::Fields(&[
                        ("name", Keep::All),
                        (
                            "machineControllerManager",
                            Keep::Fields(&[("nodeConditions", Keep::All)]),
                        ),
                    ]),
                )]),
            ),
        ]),
    ),
    (
        "status",
        Keep::Fields(&[
            ("hibernated", Keep::All),
            (
                "lastOperation",
                Keep::Fields(&[("type", Keep::All), ("state", Keep::All)]),
            ),
        ]),
    ),
]);

pub(super) fn read(shoot: &Value) -> Result<ShootFacts, String> {
    if shoot.is_null() {
        return Err("spec.shoot: is not there".into());
    }
    let shoot = Field::new("spec.shoot", shoot);
    let (spec, status) = (shoot.of("spec")?, shoot.of("status")?);
    let is_wanted = spec.of("hibernation")?.of("enabled")?.flag()?;
    let is_asleep = status.of("hibernated")?.flag()?;
    let operation = status.of("lastOperation")?;
    let workers = spec.of("provider")?.of("workers")?.list()?;
    let mut facts = ShootFacts {
        is_deleted: shoot.of("metadata")?.of("deletionTimestamp")?.is_there(),
        hibernation: match (is_wanted, is_asleep) {
            (true, _) => Hibernation::Wanted,
            (false, true) => Hibernation::WakingUp,
            (false, false) => Hibernation::Awake,
        },
        has_workers: !workers.is_empty(),
        ..ShootFacts::default()
    };
    if operation.is_there() {
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
    if grace.is_there() {
        facts.node_monitor_grace = Some(read_grace(&grace)?);
    }
    Ok(facts)
}

/// A grace period, as Go writes durations.
fn read_grace(grace: &Field<'_>) -> Result<Duration, String> {
    let text = grace.text()?;
    let wrong = |why: &str| {
        grace.problem(&format!(
            "`{text}` {why}; it has to be a positive duration such as 40s"
        ))
    };
    let parsed: kube::core::Duration = text.parse().map_err(|_| wrong("is no duration"))?;
    if parsed.is_negative() {
        return Err(wrong("is negative"));
    }
    let parsed = Duration::from(parsed);
    // Go refuses the empty text, which the library takes for zero.
    if parsed.is_zero() {
        return Err(wrong("is no time at all"));
    }
    if i64::try_from(parsed.as_nanos()).is_err() {
        return Err(wrong("is too long"));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::ClusterFacts;
    use super::super::watch::Thin;
    use super::*;

    /// What is made of a Cluster with this Shoot, as it comes over the wire.
    fn facts(shoot: &Value) -> Result<ShootFacts, String> {
        let cluster = json!({
            "apiVersion": "extensions.gardener.cloud/v1alpha1",
            "kind": "Cluster",
            "metadata": { "name": "shoot--a", "managedFields": [{ "fieldsV1": {} }] },
            "spec": { "cloudProfile": { "large": true }, "seed": {}, "shoot": shoot },
        });
        let thin: Thin<ClusterFacts> = serde_json::from_str(&cluster.to_string()).unwrap();
        let facts = thin.into_facts();
        assert_eq!(facts.name, "shoot--a");
        facts.shoot
    }

    #[test]
    fn everything_that_is_used_of_a_shoot_is_read() {
        let found = facts(&json!({
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
        let expected = ShootFacts {
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
    fn what_is_absent_or_null_is_not_so() {
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
            assert_eq!(facts(&shoot), Ok(ShootFacts::default()), "{shoot}");
        }
    }

    #[test]
    fn hibernation_is_what_the_owner_wants_first() {
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
            assert_eq!(facts(&shoot).unwrap().hibernation, expected, "{shoot}");
        }
    }

    fn grace(text: &str) -> Result<Option<Duration>, String> {
        let manager = json!({ "nodeMonitorGracePeriod": text });
        let shoot = json!({ "spec": { "kubernetes": { "kubeControllerManager": manager } } });
        facts(&shoot).map(|facts| facts.node_monitor_grace)
    }

    #[test]
    fn grace_periods_are_positive_durations_as_go_writes_them() {
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
    fn a_shoot_that_cannot_be_read_says_why() {
        let worker = |worker: Value| json!({ "spec": { "provider": { "workers": [worker] } } });
        for (shoot, expected) in [
            (json!(null), "spec.shoot: is not there"),
            (json!("text"), "spec.shoot: is not an object"),
            (json!({ "spec": [] }), "spec.shoot.spec: is not an object"),
            (
                json!({ "spec": { "provider": { "workers": "many" } } }),
                "spec.shoot.spec.provider.workers: is not a list",
            ),
            (
                worker(json!({ "name": 7 })),
                "spec.shoot.spec.provider.workers[0].name: is not a text",
            ),
            (
                worker(json!({ "machineControllerManager": { "nodeConditions": ["A", {}] } })),
                "spec.shoot.spec.provider.workers[0].machineControllerManager.nodeConditions[1]: \
                 is not a text",
            ),
            (
                json!({ "status": { "hibernated": "yes" } }),
                "spec.shoot.status.hibernated: is not true or false",
            ),
            (
                json!({ "status": { "lastOperation": { "type": 7 } } }),
                "spec.shoot.status.lastOperation.type: is not a text",
            ),
        ] {
            assert_eq!(facts(&shoot).unwrap_err(), expected);
        }
    }
}
