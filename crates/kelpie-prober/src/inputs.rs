//! What a probe is given from outside, and may change while it runs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kelpie_core::{Machines, PoolConditions};
use kelpie_kube::kubeconfig::Access;
use secrecy::{ExposeSecret, SecretSlice};

/// A kubeconfig out of a Secret. Its text goes once it is read: it is secret, and larger than what it
/// gives.
#[derive(Debug)]
pub(crate) struct Kubeconfig {
    /// Of the text, to know it again.
    pub(crate) fingerprint: u64,
    stage: Mutex<Stage>,
}

#[derive(Debug)]
enum Stage {
    /// Untrusted.
    Text(SecretSlice<u8>),
    /// What it gives, or why it gives nothing.
    Read(Result<Access, String>),
}

impl Kubeconfig {
    /// From its text, or the reason why the Secret holds none.
    pub(crate) fn new(fingerprint: u64, text: Result<SecretSlice<u8>, &str>) -> Self {
        let stage = match text {
            Ok(text) => Stage::Text(text),
            Err(why) => Stage::Read(Err(format!("the Secret holds none: {why}"))),
        };
        Self {
            fingerprint,
            stage: Mutex::new(stage),
        }
    }

    /// What it gives, or why it gives nothing. It is read here, by the probe that needs it: a text that
    /// the reader fails on ends one probe rather than all.
    pub(crate) fn access(&self) -> Result<Access, String> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let access = match &*stage {
            Stage::Read(access) => return access.clone(),
            Stage::Text(text) => Access::from_kubeconfig(text.expose_secret()),
        };
        let access = access.map_err(|error| error.to_string());
        *stage = Stage::Read(access.clone());
        access
    }
}

/// Everything a probe takes over without a restart. Parts are shared: a change of one costs a pointer
/// for the others, and a probe sees by the pointer what has changed.
#[derive(Clone, Default)]
pub(crate) struct Inputs {
    /// The cluster's own grace period.
    pub(crate) grace: Option<Duration>,
    /// Unhealthy conditions by worker pool.
    pub(crate) pools: Arc<PoolConditions>,
    /// The way into the cluster.
    pub(crate) internal: Option<Arc<Kubeconfig>>,
    /// The way in that its nodes use.
    pub(crate) external: Option<Arc<Kubeconfig>>,
    /// `None`: there is no such kind in the seed, and the machine rule is off.
    pub(crate) machines: Option<Arc<Machines>>,
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs")
            .field("grace", &self.grace)
            .field("internal", &self.internal.is_some())
            .field("external", &self.external.is_some())
            .finish_non_exhaustive()
    }
}

/// Whether two shared parts are the same part.
pub(crate) fn is_same<T: ?Sized>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}
