//! Gardener's Clusters and the Shoots inside them.

use std::time::Duration;

use kelpie_core::{Hibernation, Operation, ShootFacts};
use serde::Deserialize;
use serde_json::Value;

use super::sieve::Keep;
use super::watch::Watched;

/// What is used of a Cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Its name, which is also its control namespace's.
    pub name: String,
    /// Its Shoot, or what is wrong with it.
    pub shoot: Result<ShootFacts, String>,
}

/// A Cluster has the whole Shoot, seed and cloud profile inside: some 100 KB each.
pub(super) const PAGE: u32 = 50;

impl Watched for ClusterFacts {
    const GROUP: &'static str = "extensions.gardener.cloud";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "Cluster";
    const PLURAL: &'static str = "clusters";
    const KEEP: Keep = Keep::Fields(&[
        (
            "metadata",
            Keep::Fields(&[("name", Keep::All), ("resourceVersion", Keep::All)]),
        ),
        ("spec", Keep::Fields(&[("shoot", SHOOT)])),
    ]);

    fn read(_namespace: &str, name: &str, object: &Value) -> Self {
        Self {
            name: name.to_owned(),
            shoot: read_shoot(&object["spec"]["shoot"]),
        }
    }
}

const SHOOT: Keep = Keep::Fields(&[
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

/// A Shoot as it is written. Go writes null for what is absent, so everything may be.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Shoot {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    hibernation: Option<Sleep>,
    kubernetes: Option<Kubernetes>,
    provider: Option<Provider>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Sleep {
    enabled: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Kubernetes {
    kube_controller_manager: Option<KubeControllerManager>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct KubeControllerManager {
    node_monitor_grace_period: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Provider {
    workers: Option<Vec<Worker>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Worker {
    name: String,
    machine_controller_manager: Option<MachineControllerManager>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct MachineControllerManager {
    node_conditions: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    hibernated: Option<bool>,
    last_operation: Option<LastOperation>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LastOperation {
    #[serde(rename = "type")]
    kind: String,
    state: String,
}

fn read_shoot(shoot: &Value) -> Result<ShootFacts, String> {
    if !shoot.is_object() {
        return Err("spec.shoot is not there".into());
    }
    let shoot = Shoot::deserialize(shoot).map_err(|error| format!("spec.shoot: {error}"))?;
    let spec = shoot.spec.unwrap_or_default();
    let status = shoot.status.unwrap_or_default();
    let workers = spec.provider.unwrap_or_default().workers;
    let workers = workers.unwrap_or_default();
    let controller_manager = spec.kubernetes.unwrap_or_default().kube_controller_manager;
    let grace = controller_manager.and_then(|manager| manager.node_monitor_grace_period);
    Ok(ShootFacts {
        is_deleted: shoot
            .metadata
            .unwrap_or_default()
            .deletion_timestamp
            .is_some(),
        hibernation: if spec.hibernation.unwrap_or_default().enabled == Some(true) {
            Hibernation::Wanted
        } else if status.hibernated == Some(true) {
            Hibernation::WakingUp
        } else {
            Hibernation::Awake
        },
        last_operation: status.last_operation.map(|last| Operation {
            kind: last.kind.as_str().into(),
            has_succeeded: last.state == "Succeeded",
        }),
        has_workers: !workers.is_empty(),
        node_monitor_grace: grace.as_deref().map(read_grace).transpose()?,
        pools: workers.into_iter().filter_map(pool).collect(),
    })
}

/// The conditions of a pool that names its own; the others have the default ones.
fn pool(worker: Worker) -> Option<(String, Vec<String>)> {
    let conditions = worker.machine_controller_manager?.node_conditions?;
    (!conditions.is_empty()).then_some((worker.name, conditions))
}

fn read_grace(text: &str) -> Result<Duration, String> {
    let wrong = |why: &str| {
        format!(
            "spec.kubernetes.kubeControllerManager.nodeMonitorGracePeriod: `{text}` {why}; it has \
             to be a positive duration such as 40s"
        )
    };
    // Go refuses the empty text, the library takes it for zero.
    let parsed: kube::core::Duration = text.parse().map_err(|_| wrong("is no duration"))?;
    if parsed.is_negative() {
        return Err(wrong("is negative"));
    }
    let grace = Duration::from(parsed);
    if grace.is_zero() {
        return Err(wrong("is no time at all"));
    }
    Ok(grace)
}
