//! The inputs of a probe, which may change while it runs.

use std::sync::Arc;
use std::time::Duration;

use kelpie_core::prober::{Machines, PoolConditions};
use kelpie_kube::kubeconfig::TenantConfig;
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretSlice};

/// A kubeconfig from a Secret, parsed on first use.
///
/// The text is dropped once it is parsed: it is secret, and larger than the result.
#[derive(Debug)]
pub(crate) struct LazyKubeconfig {
    /// A hash of the text. An unchanged Secret has the same fingerprint.
    pub(crate) fingerprint: u64,
    state: Mutex<KubeconfigState>,
}

#[derive(Debug)]
enum KubeconfigState {
    /// The untrusted text.
    Unparsed(SecretSlice<u8>),
    /// The access it describes, or the reason why it cannot be used.
    Parsed(Result<TenantConfig, String>),
}

impl LazyKubeconfig {
    /// Creates a kubeconfig from its text, or from the reason why the Secret contains none.
    pub(crate) fn new(fingerprint: u64, text: Result<SecretSlice<u8>, &str>) -> Self {
        let state = match text {
            Ok(text) => KubeconfigState::Unparsed(text),
            Err(reason) => {
                let problem = format!("the Secret contains no kubeconfig: {reason}");
                KubeconfigState::Parsed(Err(problem))
            }
        };
        Self {
            fingerprint,
            state: Mutex::new(state),
        }
    }

    /// Returns the access that the kubeconfig describes, or the reason why it cannot be used.
    ///
    /// The probe that needs the kubeconfig parses it here, so a text that makes the parser panic
    /// restarts one probe and not the manager of all.
    pub(crate) fn access(&self) -> Result<TenantConfig, String> {
        let mut state = self.state.lock();
        let access = match &*state {
            KubeconfigState::Parsed(access) => return access.clone(),
            KubeconfigState::Unparsed(text) => TenantConfig::from_kubeconfig(text.expose_secret()),
        };
        let access = access.map_err(|error| error.to_string());
        *state = KubeconfigState::Parsed(access.clone());
        access
    }
}

/// The inputs that a running probe picks up without a restart.
///
/// Large values are shared: passing on a change of one costs a pointer for each of the others, and
/// the probe detects a change by comparing pointers.
#[derive(Clone, Default)]
pub(crate) struct ProbeInputs {
    /// The cluster's own grace period; `None` if the configured one applies.
    pub(crate) grace: Option<Duration>,
    /// The unhealthy conditions of each worker pool that names its own.
    pub(crate) pools: Arc<PoolConditions>,
    /// The kubeconfig for the path from inside the seed; `None` while there is no Secret.
    pub(crate) internal: Option<Arc<LazyKubeconfig>>,
    /// The kubeconfig for the path that the nodes use; `None` while there is no Secret.
    pub(crate) external: Option<Arc<LazyKubeconfig>>,
    /// The machines by node. `None` if the seed has no such kind, which turns the machine rule off.
    pub(crate) machines: Option<Arc<Machines>>,
}

/// Returns true if both point to the same allocation, or if both are `None`.
pub(crate) fn same_arc<T>(left: Option<&Arc<T>>, right: Option<&Arc<T>>) -> bool {
    left.map(Arc::as_ptr) == right.map(Arc::as_ptr)
}
