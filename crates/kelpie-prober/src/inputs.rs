//! What a probe is given from outside, and may change while it runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::{Machines, PoolConditions};
use secrecy::{ExposeSecret, SecretSlice};

/// A kubeconfig as its Secret holds it: untrusted until parsed.
pub(crate) enum RawKubeconfig {
    /// What stands there.
    Bytes(SecretSlice<u8>),
    /// The Secret is there and holds none, for this reason.
    Unusable(&'static str),
}

impl PartialEq for RawKubeconfig {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bytes(one), Self::Bytes(other)) => one.expose_secret() == other.expose_secret(),
            (Self::Unusable(one), Self::Unusable(other)) => one == other,
            _ => false,
        }
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
    pub(crate) internal: Option<Arc<RawKubeconfig>>,
    /// The way in that its nodes use.
    pub(crate) external: Option<Arc<RawKubeconfig>>,
    /// `None`: there is no such kind in the seed, and the machine rule is off.
    pub(crate) machines: Option<Arc<Machines>>,
}

impl fmt::Debug for RawKubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(_) => f.write_str("Bytes"),
            Self::Unusable(why) => write!(f, "Unusable({why})"),
        }
    }
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
