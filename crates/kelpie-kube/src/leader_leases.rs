//! Leader Leases as an operator uses them: to find the leader, to reach its pod and to pause it.
//!
//! Nothing here is used by a running component. The permissions are those of the operator: `list`
//! and `patch` on Leases, `get` on pods and `create` on `pods/portforward`.

use std::io;

use k8s_openapi::api::core::v1::Pod;
use kelpie_core::{PAUSE_ANNOTATION, PAUSE_REASON_ANNOTATION, PauseSwitch, Time};
use kelpie_net::Network;
use kube::Api;
use serde_json::{Value, json};

use crate::client::{ClusterClient, root_cause};
use crate::objects::{ObjectClient, ObjectError, ObjectKind};

const LEASES: ObjectKind = ObjectKind::new("coordination.k8s.io", "v1", "Lease", "leases");
const PODS: ObjectKind = ObjectKind::new("", "v1", "Pod", "pods");
/// The name of the port on which a component serves its state.
const METRICS_PORT: &str = "metrics";

/// The leader Leases in a namespace.
#[derive(Clone)]
pub struct LeaderLeases {
    client: ClusterClient,
    objects: ObjectClient,
    namespace: String,
}

/// A leader Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderLease {
    /// The name of the Lease.
    pub name: String,
    /// The identity of the leader; `None` if the Lease is free.
    pub holder: Option<String>,
    /// The pause switch on it.
    pub pause: PauseSwitch,
}

impl LeaderLease {
    fn read(lease: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let annotation = |name: &str| lease["metadata"]["annotations"][name].as_str();
        Some(Self {
            name: text(&lease["metadata"]["name"])?,
            holder: text(&lease["spec"]["holderIdentity"]).filter(|holder| !holder.is_empty()),
            pause: PauseSwitch::read(
                annotation(PAUSE_ANNOTATION),
                annotation(PAUSE_REASON_ANNOTATION),
            ),
        })
    }

    /// Returns the pod of the leader. The identity is its name and a suffix.
    pub fn pod(&self) -> Option<&str> {
        let holder = self.holder.as_deref()?;
        Some(holder.rsplit_once('_').map_or(holder, |(pod, _)| pod))
    }
}

impl LeaderLeases {
    /// Prepares the Leases of a namespace.
    pub fn new(client: &ClusterClient, namespace: &str) -> Self {
        Self {
            objects: client.objects(),
            client: client.clone(),
            namespace: namespace.to_owned(),
        }
    }

    /// Lists the Lease of this name and those of its shards, which have a suffix after a dash.
    pub async fn list(&self, name: &str) -> Result<Vec<LeaderLease>, ObjectError> {
        let leases = self.objects.list(LEASES, &self.namespace, None).await?;
        let leases = leases.iter().filter_map(LeaderLease::read);
        let is_wanted = |lease: &LeaderLease| {
            let rest = lease.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let mut leases: Vec<_> = leases.filter(is_wanted).collect();
        leases.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(leases)
    }

    /// Pauses the replicas of a Lease until an instant, or until [`resume`](Self::resume).
    pub async fn pause(
        &self,
        lease: &str,
        until: Option<Time>,
        reason: &str,
    ) -> Result<(), ObjectError> {
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        self.annotate(lease, Some(PauseSwitch::annotation(until)), reason)
            .await
    }

    /// Ends the pause of the replicas of a Lease.
    pub async fn resume(&self, lease: &str) -> Result<(), ObjectError> {
        self.annotate(lease, None, None).await
    }

    async fn annotate(
        &self,
        lease: &str,
        until: Option<String>,
        reason: Option<&str>,
    ) -> Result<(), ObjectError> {
        // A merge patch removes what is null.
        let annotations = json!({PAUSE_ANNOTATION: until, PAUSE_REASON_ANNOTATION: reason});
        let patch = json!({"metadata": {"annotations": annotations}});
        let path = LEASES.named(&self.namespace, lease);
        self.objects.merge(&path, &patch).await.map(|_| ())
    }

    /// Returns the port on which a pod serves its state: the one that is named so, or `default`.
    /// `None`: there is no such pod.
    pub async fn metrics_port(&self, pod: &str, default: u16) -> Result<Option<u16>, ObjectError> {
        let Some(pod) = self.objects.get(&PODS.named(&self.namespace, pod)).await? else {
            return Ok(None);
        };
        let containers = pod["spec"]["containers"].as_array();
        let ports = containers.into_iter().flatten();
        let mut ports = ports.filter_map(|container| container["ports"].as_array());
        let port = ports.find_map(|ports| {
            let port = ports.iter().find(|port| port["name"] == METRICS_PORT)?;
            u16::try_from(port["containerPort"].as_u64()?).ok()
        });
        Ok(Some(port.unwrap_or(default)))
    }

    /// Returns a network that leads to the ports of this pod, whatever the host of an address is: a
    /// component serves its state only to requests for its loopback address. Each connection is
    /// forwarded by the API server.
    pub fn pod_network(&self, pod: &str) -> Network {
        let pods: Api<Pod> = Api::namespaced(self.client.urgent(), &self.namespace);
        let pod = pod.to_owned();
        Network::in_process(move |_, port| {
            let (pods, pod) = (pods.clone(), pod.clone());
            Box::pin(async move {
                let failed = |error: &dyn std::error::Error| {
                    io::Error::other(format!("port-forward to pod {pod}: {}", describe(error)))
                };
                let forwarder = pods.portforward(&pod, &[port]).await;
                let mut forwarder = forwarder.map_err(|error| failed(&error))?;
                let stream = forwarder.take_stream(port);
                // It moves the bytes until the stream is dropped.
                tokio::spawn(forwarder.join());
                stream.ok_or_else(|| io::Error::other("the port-forward has no stream"))
            })
        })
    }
}

fn describe(error: &dyn std::error::Error) -> String {
    let cause = root_cause(error);
    let text = error.to_string();
    if text.contains(&cause) {
        text
    } else {
        format!("{text}: {cause}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_the_identity_without_its_suffix() {
        let pod = |holder: Option<&str>| {
            let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": holder}});
            let lease = LeaderLease::read(&lease).unwrap();
            lease.pod().map(str::to_owned)
        };
        let holder = "kelpie-prober-7c9_0123456789abcdef";
        assert_eq!(pod(Some(holder)).as_deref(), Some("kelpie-prober-7c9"));
        assert_eq!(pod(Some("plain")).as_deref(), Some("plain"));
        assert_eq!(pod(Some("")), None);
        assert_eq!(pod(None), None);
    }

    #[test]
    fn lease_has_its_pause() {
        let lease = json!({"metadata": {"name": "a", "annotations": {
            PAUSE_ANNOTATION: "true", PAUSE_REASON_ANNOTATION: "drill",
        }}});
        let lease = LeaderLease::read(&lease).unwrap();
        assert!(lease.pause.is_paused(Time::from_micros(0)));
        assert!(lease.pause.to_string().ends_with("because: drill"));
    }
}
