//! The meaning of a condition, and advice to the operator.

use serde::{Deserialize, Serialize};

use super::condition::ClusterCondition;
use super::summary::SummaryContext;
use crate::Time;
use crate::prober::Rule;

/// The meaning of a condition, and advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Guidance {
    /// The meaning of the condition for the cluster.
    pub meaning: String,
    /// Steps in their order. Empty if there is nothing to do.
    pub advice: Vec<Advice>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Advice {
    /// The step in words.
    pub text: String,
    /// The command for it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Advice {
    fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            command: None,
        }
    }

    fn with(text: &str, command: String) -> Self {
        Self {
            text: text.to_owned(),
            command: Some(command),
        }
    }
}

impl Guidance {
    /// Returns the guidance for a cluster whose control plane is in this namespace.
    pub fn new(context: &SummaryContext<'_>, namespace: &str, now: Time) -> Self {
        let (meaning, mut advice) = match context.condition {
            ClusterCondition::Healthy
            | ClusterCondition::Starting
            | ClusterCondition::Undecided => calm(context.condition),
            ClusterCondition::Fenced => fenced(namespace),
            ClusterCondition::Unfenced => unfenced(context, namespace, now),
            ClusterCondition::WouldFence => (
                "Outside of a dry run, the prober would stop its controllers now.",
                vec![Advice::new(
                    "Nothing protects the nodes unless another prober watches this cluster.",
                )],
            ),
            ClusterCondition::DeadlineImminent => (
                "Many nodes stopped renewing at the same time. The prober looks at the leases \
                 every second and stops the controllers in time if the nodes stay silent.",
                vec![look_at_api_server(namespace)],
            ),
            ClusterCondition::Restoring => (
                "The fence is being lifted. Each controller gets the replicas that it had before.",
                Vec::new(),
            ),
            ClusterCondition::RestoreStuck => restore_stuck(namespace),
            ClusterCondition::Blind => (
                "While its API server is away, kube-controller-manager cannot act either, so \
                 nothing is fenced. The fence follows if nodes are still silent when it is back.",
                vec![look_at_api_server(namespace)],
            ),
            ClusterCondition::Unprotected => unprotected(context, namespace),
            ClusterCondition::Trouble => (
                "The cluster is still judged and fenced, but with less evidence or with one \
                 controller less than configured.",
                vec![Advice::new("Remove the cause of the problem named above.")],
            ),
            ClusterCondition::Paused => (
                "Its controllers carry the annotation that tells the prober to leave them alone. \
                 Nothing protects the nodes.",
                vec![Advice::with(
                    "Remove the annotation when the maintenance is over.",
                    format!(
                        "kubectl -n {namespace} annotate deployment kube-controller-manager \
                         dependency-watchdog.gardener.cloud/ignore-scaling-"
                    ),
                )],
            ),
        };
        advice.push(Advice::with(
            "See the evidence behind the decision.",
            format!("kelpie explain {}", context.id),
        ));
        Self {
            meaning: meaning.to_owned(),
            advice,
        }
    }
}

fn calm(condition: ClusterCondition) -> (&'static str, Vec<Advice>) {
    let meaning = match condition {
        ClusterCondition::Healthy => {
            "The prober sees the nodes renew their leases. There is nothing to do."
        }
        ClusterCondition::Starting => {
            "A new prober watches the leases for a while before it judges them."
        }
        _ => "The prober waits for more evidence. It neither fences nor releases on a guess.",
    };
    (meaning, Vec::new())
}

fn fenced(namespace: &str) -> (&'static str, Vec<Advice>) {
    let advice = vec![
        Advice::new(
            "Find out why the nodes do not reach their API server: the load balancer, the VPN, \
             DNS or the network of their zone.",
        ),
        look_at_api_server(namespace),
        Advice::with(
            "Check that the controllers are stopped.",
            format!("kubectl -n {namespace} get deployments"),
        ),
        Advice::new(
            "Leave the controllers alone: they are started again, exactly as they were, as soon \
             as the nodes renew their leases.",
        ),
    ];
    (
        "The nodes run, but they have lost their API server. Without the fence they would be \
         marked Unknown, and their machines replaced.",
        advice,
    )
}

fn unfenced(
    context: &SummaryContext<'_>,
    namespace: &str,
    now: Time,
) -> (&'static str, Vec<Advice>) {
    let meaning = if context.time_left(now).is_some() {
        "The controllers have to stop before the deadline, or nodes are marked Unknown and \
         replaced."
    } else {
        "The deadline has passed: nodes may be marked Unknown, and their machines replaced in \
         minutes."
    };
    let advice = vec![
        Advice::with(
            "If the prober does not manage it, stop the controllers by hand.",
            format!(
                "kubectl -n {namespace} scale deployment kube-controller-manager \
                 machine-controller-manager cluster-autoscaler --replicas=0"
            ),
        ),
        Advice::with(
            "Look for a webhook, a quota or missing permissions that refuse the change.",
            format!("kubectl -n {namespace} get events --sort-by=.lastTimestamp"),
        ),
    ];
    (meaning, advice)
}

fn restore_stuck(namespace: &str) -> (&'static str, Vec<Advice>) {
    let advice = vec![
        Advice::with(
            "Look for a webhook, a quota or missing permissions that refuse the change.",
            format!("kubectl -n {namespace} get events --sort-by=.lastTimestamp"),
        ),
        Advice::with(
            "See which controllers are still stopped.",
            format!("kubectl -n {namespace} get deployments"),
        ),
    ];
    (
        "The cluster works, but nobody replaces failed nodes or reconciles its controllers until \
         the fence is lifted.",
        advice,
    )
}

fn unprotected(context: &SummaryContext<'_>, namespace: &str) -> (&'static str, Vec<Advice>) {
    let rule = context.facts.decision.map(|decision| decision.reasons.rule);
    match rule {
        Some(Rule::NoCandidates { .. } | Rule::TooFewCandidates { .. }) => (
            "The leases of its nodes prove nothing, so an outage of its network would not be \
             noticed.",
            vec![Advice::new(
                "See in the list of nodes why they do not count.",
            )],
        ),
        _ => (
            "Without usable credentials nothing about its nodes is known, and nothing is fenced.",
            vec![Advice::with(
                "Check the kubeconfig Secret of the cluster.",
                format!("kubectl -n {namespace} get secrets"),
            )],
        ),
    }
}

fn look_at_api_server(namespace: &str) -> Advice {
    Advice::with(
        "Look at its API server.",
        format!("kubectl -n {namespace} get pods -l role=apiserver"),
    )
}
