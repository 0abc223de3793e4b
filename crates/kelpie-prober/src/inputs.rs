//! The inputs of a probe, which may change while it runs.

use std::sync::Arc;
use std::time::Duration;

use kelpie_core::prober::{Machines, PoolConditions};
use kelpie_kube::kubeconfig::TenantConfig;
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretSlice};

/// A kubeconfig from a Secret, parsed on first use.
///
/// The text is dropped once it is parsed: it is secret, and larger than the result. While it is not
/// known whether the kubeconfig can be used, and if it cannot be, it holds the last one that could:
/// a Secret that was deleted or broken says nothing about credentials that still work.
#[derive(Debug)]
pub(crate) struct LazyKubeconfig {
    /// A hash of the text. An unchanged Secret has the same fingerprint.
    pub(crate) fingerprint: u64,
    state: Mutex<KubeconfigState>,
    /// The last usable kubeconfig before this one. It has no predecessor of its own.
    previous: Mutex<Option<Arc<LazyKubeconfig>>>,
}

#[derive(Debug)]
enum KubeconfigState {
    /// The untrusted text.
    Unparsed(SecretSlice<u8>),
    /// The access it describes, or the reason why it cannot be used.
    Parsed(Result<TenantConfig, String>),
}

/// The access to use for a cluster: that of its kubeconfig, or of the last one that could be used.
#[derive(Clone, Debug)]
pub(crate) struct UsableKubeconfig {
    pub(crate) access: TenantConfig,
    /// The fingerprint of the kubeconfig that describes the access. Connections stay open while it
    /// stays the same, whatever Secret it came from.
    pub(crate) fingerprint: u64,
    /// The reason why the newest kubeconfig is not the one in use.
    pub(crate) problem: Option<String>,
}

impl LazyKubeconfig {
    /// Creates a kubeconfig from its text, or from the reason why the Secret contains none.
    /// `former` is the kubeconfig that it replaces.
    pub(crate) fn new(
        fingerprint: u64,
        text: Result<SecretSlice<u8>, String>,
        former: Option<Arc<Self>>,
    ) -> Self {
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
            previous: Mutex::new(former.and_then(Self::last_usable)),
        }
    }

    /// Creates the successor of a kubeconfig whose Secret was deleted. Returns `None` if there is
    /// nothing to keep.
    pub(crate) fn deleted(former: Arc<Self>) -> Option<Self> {
        let previous = Self::last_usable(former)?;
        Some(Self {
            // The same for every deletion: what is in use has a fingerprint of its own.
            fingerprint: 0,
            state: Mutex::new(KubeconfigState::Parsed(Err("Secret deleted".to_owned()))),
            previous: Mutex::new(Some(previous)),
        })
    }

    /// Returns the access to use, or the reason why there is none.
    ///
    /// The probe that needs the kubeconfig parses it here, so a text that makes the parser panic
    /// restarts one probe and not the manager of all.
    pub(crate) fn access_or_previous(&self) -> Result<UsableKubeconfig, String> {
        let problem = match self.parsed() {
            Ok(access) => {
                *self.previous.lock() = None;
                return Ok(UsableKubeconfig {
                    access,
                    fingerprint: self.fingerprint,
                    problem: None,
                });
            }
            Err(problem) => problem,
        };
        let previous = self.previous.lock().clone();
        match previous.map(|previous| (previous.parsed(), previous.fingerprint)) {
            Some((Ok(access), fingerprint)) => Ok(UsableKubeconfig {
                access,
                fingerprint,
                problem: Some(format!("{problem}; using the last kubeconfig")),
            }),
            Some((Err(_), _)) | None => Err(problem),
        }
    }

    /// Returns the kubeconfig with this fingerprint: this one, or the one that it falls back on.
    pub(crate) fn with_fingerprint(self: &Arc<Self>, fingerprint: u64) -> Option<Arc<Self>> {
        if self.fingerprint == fingerprint {
            return Some(Arc::clone(self));
        }
        let previous = self.previous.lock().clone();
        previous.filter(|previous| previous.fingerprint == fingerprint)
    }

    fn parsed(&self) -> Result<TenantConfig, String> {
        let mut state = self.state.lock();
        let access = match &*state {
            KubeconfigState::Parsed(access) => return access.clone(),
            KubeconfigState::Unparsed(text) => TenantConfig::from_kubeconfig(text.expose_secret()),
        };
        let access = access.map_err(|error| error.to_string());
        *state = KubeconfigState::Parsed(access.clone());
        access
    }

    /// Returns the kubeconfig to fall back on: this one, unless only its predecessor is known to be
    /// usable.
    fn last_usable(self: Arc<Self>) -> Option<Arc<Self>> {
        let previous = self.previous.lock().clone();
        let is_usable = match &*self.state.lock() {
            KubeconfigState::Parsed(access) => Some(access.is_ok()),
            KubeconfigState::Unparsed(_) => None,
        };
        match (is_usable, previous) {
            (Some(true), _) | (None, None) => Some(self),
            // It does not work, or it was never tried and its predecessor did.
            (Some(false), previous) | (None, previous @ Some(_)) => previous,
        }
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
    /// The kubeconfig for the path from inside the seed; `None` while there was no Secret yet.
    pub(crate) internal: Option<Arc<LazyKubeconfig>>,
    /// The kubeconfig for the path that the nodes use; `None` while there was no Secret yet, or
    /// while the Secrets cannot be read.
    pub(crate) external: Option<Arc<LazyKubeconfig>>,
    /// The machines by node. `None` turns the machine rule off: the seed has no such kind, or it
    /// was never listed.
    pub(crate) machines: Option<Arc<Machines>>,
    /// False while the watch on machines fails after it had listed them. The machine of a node that
    /// joined since is not in `machines`, so a missing machine excludes only nodes that had none
    /// before.
    pub(crate) machines_current: bool,
}

/// Returns true if both point to the same allocation, or if both are `None`.
pub(crate) fn same_arc<T>(left: Option<&Arc<T>>, right: Option<&Arc<T>>) -> bool {
    left.map(Arc::as_ptr) == right.map(Arc::as_ptr)
}

#[cfg(test)]
pub(crate) mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    /// Returns a kubeconfig that can be used, with this token.
    pub(crate) fn usable(token: &str) -> String {
        kelpie_net::install_crypto();
        let authority = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let authority = BASE64_STANDARD.encode(authority.cert.pem());
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: it\n\
             clusters:\n- name: it\n  cluster:\n    server: https://a.example\n    \
             certificate-authority-data: {authority}\n\
             users:\n- name: it\n  user:\n    token: {token}\n\
             contexts:\n- name: it\n  context:\n    cluster: it\n    user: it\n"
        )
    }

    fn kubeconfig(
        fingerprint: u64,
        text: &str,
        former: Option<&Arc<LazyKubeconfig>>,
    ) -> Arc<LazyKubeconfig> {
        let text = SecretSlice::from(text.as_bytes().to_vec());
        let former = former.cloned();
        Arc::new(LazyKubeconfig::new(fingerprint, Ok(text), former))
    }

    #[test]
    fn broken_kubeconfig_falls_back_on_the_last_usable() {
        let good = kubeconfig(1, &usable("one"), None);
        assert_eq!(good.access_or_previous().unwrap().problem, None);
        let broken = kubeconfig(2, "{", Some(&good));
        assert_eq!(broken.access_or_previous().unwrap().fingerprint, 1);
        let broken_again = kubeconfig(3, "[", Some(&broken));
        let used = broken_again.access_or_previous().unwrap();
        assert_eq!(used.fingerprint, 1, "the one before is not usable either");
        let problem = used.problem.unwrap();
        assert!(
            problem.ends_with("; using the last kubeconfig"),
            "{problem}"
        );
        let deleted = LazyKubeconfig::deleted(broken_again).unwrap();
        let used = deleted.access_or_previous().unwrap();
        assert_eq!(used.fingerprint, 1);
        let problem = "Secret deleted; using the last kubeconfig";
        assert_eq!(used.problem.as_deref(), Some(problem));
    }

    #[test]
    fn untried_kubeconfig_does_not_hide_a_working_one() {
        let good = kubeconfig(1, &usable("one"), None);
        good.access_or_previous().unwrap();
        let untried = kubeconfig(2, "{", Some(&good));
        let broken = kubeconfig(3, "[", Some(&untried));
        assert_eq!(broken.access_or_previous().unwrap().fingerprint, 1);
    }

    #[test]
    fn usable_kubeconfig_drops_its_predecessor() {
        let good = kubeconfig(1, &usable("one"), None);
        good.access_or_previous().unwrap();
        let better = kubeconfig(2, &usable("two"), Some(&good));
        assert_eq!(Arc::strong_count(&good), 2);
        assert_eq!(better.access_or_previous().unwrap().fingerprint, 2);
        assert_eq!(Arc::strong_count(&good), 1);
    }

    #[test]
    fn unusable_kubeconfig_has_a_problem() {
        let broken = kubeconfig(1, "{", None);
        assert!(broken.access_or_previous().is_err());
        assert!(LazyKubeconfig::deleted(broken).is_none());
    }
}
