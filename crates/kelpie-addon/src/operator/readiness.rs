//! Collectors that should run and do not.

use std::collections::HashMap;
use std::time::Duration;

use kelpie_core::addon::Component;
use serde_json::Value;
use tokio::time::Instant;

/// How a message about it begins; by that a pass after a restart knows what was said before.
pub(super) const NOT_READY: &str = "no pod is ready";

/// Since when which collector has no ready pod.
#[derive(Debug, Default)]
pub(super) struct Unready(HashMap<Component, Instant>);

impl Unready {
    /// Whether a collector is overdue, and if not, when it will be. `ready`: whether it has a ready
    /// pod now.
    pub(super) fn look(
        &mut self,
        component: Component,
        ready: bool,
        patience: Duration,
        now: Instant,
    ) -> Wait {
        if ready {
            self.0.remove(&component);
            return Wait::Nothing;
        }
        let due = *self.0.entry(component).or_insert(now) + patience;
        if due <= now {
            Wait::Overdue
        } else {
            Wait::Until(due)
        }
    }

    /// It should not run.
    pub(super) fn forget(&mut self, component: Component) {
        self.0.remove(&component);
    }
}

/// What there is to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// It is ready.
    Nothing,
    /// It may take until then.
    Until(Instant),
    /// It takes too long.
    Overdue,
}

/// Whether a Deployment has a ready pod of its newest template. The pod before it may be ready all the
/// while, but has no say any more: if only that one is, nothing goes on.
pub(super) fn is_ready(deployment: &Value) -> bool {
    let count = |field: &str| deployment["status"][field].as_u64().unwrap_or(0);
    let generation = deployment["metadata"]["generation"].as_u64();
    let is_seen = count("observedGeneration") >= generation.unwrap_or(0);
    let older = count("replicas").saturating_sub(count("updatedReplicas"));
    is_seen && count("readyReplicas") > older
}

/// Why the first pod that waits does so.
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
        ("", _) if pods.is_empty() => "there is none".to_owned(),
        ("", _) => "none says why".to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const M: Component = Component::Platform;

    #[test]
    fn a_collector_is_overdue_after_its_patience_and_begins_anew_when_it_was_ready() {
        let (start, patience) = (Instant::now(), Duration::from_mins(10));
        let mut unready = Unready::default();
        let mut look = |ready, minutes: u64| {
            let now = start + Duration::from_mins(minutes);
            unready.look(M, ready, patience, now)
        };
        assert_eq!(look(false, 0), Wait::Until(start + patience));
        assert_eq!(look(false, 9), Wait::Until(start + patience));
        assert_eq!(look(false, 10), Wait::Overdue);
        assert_eq!(look(true, 11), Wait::Nothing);
        assert_eq!(
            look(false, 12),
            Wait::Until(start + Duration::from_mins(22))
        );
    }

    #[test]
    fn a_pod_of_the_template_before_does_not_count() {
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
        for (observed, replicas, updated, ready, wanted) in [
            (2, 1, 1, 1, true),
            (2, 2, 1, 2, true),
            (2, 2, 1, 1, false),
            (2, 1, 0, 1, false),
            (2, 1, 1, 0, false),
            (1, 1, 1, 1, false),
        ] {
            let deployment = deployment(observed, replicas, updated, ready);
            assert_eq!(is_ready(&deployment), wanted, "{deployment}");
        }
        assert!(!is_ready(&json!({ "metadata": { "generation": 1 } })));
    }

    #[test]
    fn the_reason_is_that_of_the_first_pod_that_waits() {
        let pod = |state: Value| json!({ "status": { "containerStatuses": [{ "state": state }] } });
        let pods = [
            pod(json!({ "running": {} })),
            pod(json!({ "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } })),
        ];
        assert_eq!(waiting_reason(&pods), "ImagePullBackOff: no such image");
        assert_eq!(waiting_reason(&pods[..1]), "none says why");
        assert_eq!(waiting_reason(&[]), "there is none");
    }
}
