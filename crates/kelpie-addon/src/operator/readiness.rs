//! The readiness of collectors that should run.

use std::collections::HashMap;
use std::time::Duration;

use kelpie_core::addon::AddonComponent;
use serde_json::Value;
use tokio::time::Instant;

/// The start of the message about a collector that is not ready. After a restart, the operator
/// recognizes its own condition by it.
pub(super) const NOT_READY: &str = "no pod is ready";

/// Tracks since when each collector has no ready pod.
#[derive(Debug, Default)]
pub(super) struct ReadinessTracker(HashMap<AddonComponent, Instant>);

impl ReadinessTracker {
    /// Records if a collector has a ready pod now. Returns the resulting readiness, with
    /// `ready_within` as the time limit.
    pub(super) fn check(
        &mut self,
        component: AddonComponent,
        ready: bool,
        ready_within: Duration,
        now: Instant,
    ) -> RolloutReadiness {
        if ready {
            self.0.remove(&component);
            return RolloutReadiness::Ready;
        }
        let due = *self.0.entry(component).or_insert(now) + ready_within;
        if due <= now {
            RolloutReadiness::Overdue
        } else {
            RolloutReadiness::PendingUntil(due)
        }
    }

    /// Stops the time of a collector that should not run.
    pub(super) fn reset(&mut self, component: AddonComponent) {
        self.0.remove(&component);
    }
}

/// The progress of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RolloutReadiness {
    /// A pod is ready.
    Ready,
    /// No pod is ready, which is overdue from this instant on.
    PendingUntil(Instant),
    /// No pod was ready in time.
    Overdue,
}

/// Returns true if a Deployment has a ready pod of its newest template. Ready pods of an older
/// template do not count: their reports are refused.
pub(super) fn is_ready(deployment: &Value) -> bool {
    let count = |field: &str| deployment["status"][field].as_u64().unwrap_or(0);
    let generation = deployment["metadata"]["generation"].as_u64();
    let is_observed = count("observedGeneration") >= generation.unwrap_or(0);
    let older = count("replicas").saturating_sub(count("updatedReplicas"));
    is_observed && count("readyReplicas") > older
}

/// Returns the reason and message of the first waiting container.
pub(super) fn waiting_reason(pods: &[Value]) -> String {
    let containers = pods.iter().flat_map(|pod| {
        let containers = pod["status"]["containerStatuses"].as_array();
        containers.into_iter().flatten()
    });
    let mut waiting = containers.map(|container| &container["state"]["waiting"]);
    let found = waiting.find(|waiting| waiting["reason"].is_string());
    let text = |field: &str| {
        found
            .and_then(|found| found[field].as_str())
            .unwrap_or_default()
    };
    match (text("reason"), text("message")) {
        ("", _) if pods.is_empty() => "it has no pods".to_owned(),
        ("", _) => "no container is waiting".to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const M: AddonComponent = AddonComponent::Platform;

    #[test]
    fn ready_collector_restarts_the_time() {
        let (start, ready_within) = (Instant::now(), Duration::from_mins(10));
        let mut tracker = ReadinessTracker::default();
        let mut check = |ready, minutes: u64| {
            let now = start + Duration::from_mins(minutes);
            tracker.check(M, ready, ready_within, now)
        };
        assert_eq!(
            check(false, 0),
            RolloutReadiness::PendingUntil(start + ready_within)
        );
        assert_eq!(
            check(false, 9),
            RolloutReadiness::PendingUntil(start + ready_within)
        );
        assert_eq!(check(false, 10), RolloutReadiness::Overdue);
        assert_eq!(check(true, 11), RolloutReadiness::Ready);
        assert_eq!(
            check(false, 12),
            RolloutReadiness::PendingUntil(start + Duration::from_mins(22))
        );
    }

    #[test]
    fn pods_of_older_templates_do_not_count() {
        let deployment = |observed, replicas, updated, ready| {
            json!({
                "metadata": { "generation": 2 },
                "status": {
                    "observedGeneration": observed,
                    "replicas": replicas,
                    "updatedReplicas": updated,
                    "readyReplicas": ready,
                },
            })
        };
        for (observed, replicas, updated, ready, expected) in [
            (2, 1, 1, 1, true),
            (2, 2, 1, 2, true),
            (2, 2, 1, 1, false),
            (2, 1, 0, 1, false),
            (2, 1, 1, 0, false),
            (1, 1, 1, 1, false),
        ] {
            let deployment = deployment(observed, replicas, updated, ready);
            assert_eq!(is_ready(&deployment), expected, "{deployment}");
        }
        assert!(!is_ready(&json!({ "metadata": { "generation": 1 } })));
    }

    #[test]
    fn first_waiting_container_gives_the_reason() {
        let pod = |state: Value| json!({ "status": { "containerStatuses": [{ "state": state }] } });
        let pods = [
            pod(json!({ "running": {} })),
            pod(json!({ "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } })),
        ];
        assert_eq!(waiting_reason(&pods), "ImagePullBackOff: no such image");
        assert_eq!(waiting_reason(&pods[..1]), "no container is waiting");
        assert_eq!(waiting_reason(&[]), "it has no pods");
    }
}
