//! The kubeconfig Secrets of Cluster API.

use kelpie_kube::objects::ObjectKind;
use kelpie_kube::projection::FieldPath;
use kelpie_kube::resources::kubeconfig_of;
use kelpie_kube::watch::WatchedResource;
use serde_json::Value;

use crate::source::{ClusterKubeconfig, namespaced_id};

const SUFFIX: &str = "-kubeconfig";

/// A Secret of a Cluster: `None` if it holds something else, such as a certificate authority.
#[derive(Clone, Debug)]
pub(super) struct KubeconfigSecret(pub(super) Option<ClusterKubeconfig>);

impl WatchedResource for KubeconfigSecret {
    const KIND: ObjectKind = ObjectKind::new("", "v1", "Secret", "secrets");
    // Private keys are in other fields, and are never kept.
    const FIELDS: &'static [FieldPath] = &[&["data", "value"]];

    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let cluster = cluster_of(name).map(|cluster| namespaced_id::id(namespace, cluster));
        Self(cluster.map(|cluster| ClusterKubeconfig {
            cluster,
            text: kubeconfig_of(object, "value"),
        }))
    }
}

/// Returns the name of the Secret with the kubeconfig of a Cluster.
pub(super) fn secret_of(cluster: &str) -> String {
    format!("{cluster}{SUFFIX}")
}

/// Returns the Cluster whose kubeconfig is in the Secret of this name.
pub(super) fn cluster_of(secret: &str) -> Option<&str> {
    secret.strip_suffix(SUFFIX)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_kubeconfigs_are_read() {
        let object = json!({ "data": { "value": "aGVsbG8=" } });
        let read = |name| KubeconfigSecret::read("ns", name, &object).0;
        let found = read("a-kubeconfig").unwrap();
        assert_eq!(found.cluster, "ns/a");
        assert_eq!(found.text.unwrap().expose_secret(), b"hello");
        for other in ["a-ca", "a-etcd", "a-sa", "a"] {
            assert!(read(other).is_none(), "{other}");
        }
    }
}
