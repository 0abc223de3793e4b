//! The kubeconfigs of one path, by cluster.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use kelpie_core::WatchCache;
use secrecy::ExposeSecret;

use crate::inputs::LazyKubeconfig;
use crate::source::ClusterKubeconfig;

/// The kubeconfigs as their watch reported them, and the last ones of deleted Secrets.
#[derive(Debug, Default)]
pub(super) struct KubeconfigStore {
    current: WatchCache<String, Arc<LazyKubeconfig>>,
    /// Kubeconfigs that outlive their Secret, which was deleted.
    retained: BTreeMap<String, Arc<LazyKubeconfig>>,
    /// Hashes kubeconfigs with random keys: the fingerprints are useless outside of this process.
    hasher: RandomState,
}

impl KubeconfigStore {
    pub(super) fn has_synced(&self) -> bool {
        self.current.has_synced()
    }

    pub(super) fn get(&self, cluster: &String) -> Option<Arc<LazyKubeconfig>> {
        let current = self.current.get(cluster);
        current.or_else(|| self.retained.get(cluster)).cloned()
    }

    pub(super) fn begin_list(&mut self) {
        self.current.begin_list();
    }

    /// Ends the list. Returns the clusters whose Secret is gone. `exists` tells for which of them
    /// the last kubeconfig is kept.
    pub(super) fn end_list(&mut self, exists: impl Fn(&String) -> bool) -> Vec<String> {
        let all = self.current.iter();
        let before: Vec<_> = all
            .map(|(cluster, kubeconfig)| (cluster.clone(), Arc::clone(kubeconfig)))
            .collect();
        let gone = self.current.end_list();
        for (cluster, kubeconfig) in before {
            if gone.contains(&cluster) && exists(&cluster) {
                self.retain(cluster, kubeconfig);
            }
        }
        gone.into_iter().collect()
    }

    /// Stores a kubeconfig. Returns true if it differs from the last one. An equal text keeps its
    /// pointer: no probe reconnects because of a new list.
    pub(super) fn put(&mut self, kubeconfig: ClusterKubeconfig) -> bool {
        let ClusterKubeconfig { cluster, text } = kubeconfig;
        let exposed = text.as_ref().map(ExposeSecret::expose_secret);
        let fingerprint = self.hasher.hash_one(exposed);
        let (current, retained) = (
            self.current.remove(&cluster),
            self.retained.remove(&cluster),
        );
        let was_deleted = current.is_none();
        let former = current.or(retained);
        let equal = former.as_ref();
        let equal = equal.and_then(|former| former.with_fingerprint(fingerprint));
        let has_changed =
            was_deleted || former.as_ref().map(Arc::as_ptr) != equal.as_ref().map(Arc::as_ptr);
        let stored =
            equal.unwrap_or_else(|| Arc::new(LazyKubeconfig::new(fingerprint, text, former)));
        self.current.put(cluster, stored);
        has_changed
    }

    /// Removes the kubeconfig of a deleted Secret. If the cluster still exists, the last usable one
    /// is kept.
    pub(super) fn remove(&mut self, cluster: &String, exists: bool) {
        let removed = self.current.remove(cluster);
        if let Some(kubeconfig) = removed.filter(|_| exists) {
            self.retain(cluster.clone(), kubeconfig);
        }
    }

    /// Drops what was kept for a cluster that is gone.
    pub(super) fn forget(&mut self, cluster: &str) {
        self.retained.remove(cluster);
    }

    fn retain(&mut self, cluster: String, kubeconfig: Arc<LazyKubeconfig>) {
        if let Some(kept) = LazyKubeconfig::deleted(kubeconfig) {
            self.retained.insert(cluster, Arc::new(kept));
        }
    }
}
