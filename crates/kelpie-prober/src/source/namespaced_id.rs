//! Ids of clusters that share a namespace: `namespace/name`.

use kelpie_kube::watch::WatchEvent;

/// Returns the id of a cluster.
pub(super) fn id(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// Returns the namespace and the name of a cluster.
pub(super) fn parts(id: &str) -> (&str, &str) {
    id.split_once('/').unwrap_or(("", id))
}

/// Makes the name of a deleted object the id of its cluster.
pub(super) fn with_deleted_id<T>(event: WatchEvent<T>) -> WatchEvent<T> {
    match event {
        WatchEvent::Delete { namespace, name } => WatchEvent::Delete {
            name: id(&namespace, &name),
            namespace,
        },
        other => other,
    }
}
