//! The readiness of collectors that should run.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use kelpie_core::addon::{AddonComponent, Condition, ConditionReason};
use serde_json::Value;
use tokio::time::Instant;

/// The start of the message about a collector that is not ready. After a restart, the operator
/// recognizes its own condition by it.
pub(super) const NOT_READY: &str = "no pod is ready";

/// The first installation of a collector has failed after this time without a ready pod: as long as
/// a collector may fail to forward before it reports that. Nothing worked before, so there is
/// nothing to be patient with.
pub(super) const FIRST_READY_WITHIN: Duration = Duration::from_mins(5);

/// Tracks since when each collector has no ready pod.
#[derive(Debug, Default)]
pub(super) struct ReadinessTracker {
    since: HashMap<AddonComponent, Instant>,
    /// The collectors that have worked before.
    installed: HashSet<AddonComponent>,
}

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
            self.since.remove(&component);
            self.installed.insert(component);
            return RolloutReadiness::Ready;
        }
        let due = *self.since.entry(component).or_insert(now) + ready_within;
        if due <= now {
            RolloutReadiness::Overdue
        } else {
            RolloutReadiness::PendingUntil(due)
        }
    }

    /// Stops the time of a collector that should not run.
    pub(super) fn reset(&mut self, component: AddonComponent) {
        self.since.remove(&component);
    }

    /// Returns whether a collector has never worked, as far as this process and its condition know.
    pub(super) fn is_first_install(
        &mut self,
        component: AddonComponent,
        current: Option<&Condition>,
    ) -> bool {
        let has_reported = matches!(
            current.map(Condition::reason),
            Some(ConditionReason::ForwardSuccessful | ConditionReason::ForwardFailure)
        );
        if has_reported {
            self.installed.insert(component);
        }
        !self.installed.contains(&component)
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
    fn first_installation_ends_with_the_first_success() {
        let condition = |reason: &str| Condition {
            reason: reason.to_owned(),
            ..Condition::default()
        };
        let mut tracker = ReadinessTracker::default();
        assert!(tracker.is_first_install(M, None));
        assert!(tracker.is_first_install(M, Some(&condition("UpdateSuccessful"))));
        // The operator restarts while the collector works, which is then updated.
        assert!(!tracker.is_first_install(M, Some(&condition("ForwardSuccessful"))));
        assert!(!tracker.is_first_install(M, Some(&condition("UpdateSuccessful"))));
        let mut tracker = ReadinessTracker::default();
        tracker.check(M, true, Duration::ZERO, Instant::now());
        assert!(!tracker.is_first_install(M, None));
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
