//! Inputs that probes can do without.

use std::time::Duration;

use kelpie_kube::client::ApiError;
use kelpie_kube::watch::WatchEvent;
use tokio::time::Instant;

/// Probes start without an optional input that fails, or says nothing, for this long.
const PATIENCE: Duration = Duration::from_secs(10);
/// A watch that resumes without an event counts as current this long after its last error. It is
/// longer than the pause between two attempts.
const QUIET: Duration = Duration::from_secs(90);

/// An input that probes can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OptionalInput {
    Machines,
    ExternalKubeconfigs,
}

impl OptionalInput {
    pub(crate) const ALL: [Self; 2] = [Self::Machines, Self::ExternalKubeconfigs];

    /// Returns the name of the input in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Machines => "Machines",
            Self::ExternalKubeconfigs => "external kubeconfig Secrets",
        }
    }

    /// Returns the value of the label of metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Machines => "machines",
            Self::ExternalKubeconfigs => "external_kubeconfigs",
        }
    }

    /// Returns the consequence of its absence.
    pub(crate) fn consequence(self) -> &'static str {
        match self {
            Self::Machines => "nodes are judged without the state of their machines",
            Self::ExternalKubeconfigs => "clusters are judged without the external path",
        }
    }
}

/// The state of the watch on an optional input.
#[derive(Debug, Default)]
pub(super) struct InputWatch {
    has_synced: bool,
    is_listing: bool,
    /// The start of the wait for the first list: everything else was listed, or the watch failed.
    waiting_since: Option<Instant>,
    /// The last error since the watch is known to work.
    last_error: Option<Instant>,
    is_absent: bool,
}

impl InputWatch {
    /// Returns whether probes have to wait for the first list.
    pub(super) fn is_pending(&self) -> bool {
        !self.has_synced && !self.is_absent
    }

    /// Returns whether the input counts as absent: it was never listed.
    pub(super) fn is_absent(&self) -> bool {
        self.is_absent
    }

    /// Returns whether everything since the last list has been seen.
    pub(super) fn is_current(&self) -> bool {
        self.last_error.is_none()
    }

    /// Takes in an event other than an error.
    pub(super) fn track<T>(&mut self, event: &WatchEvent<T>) {
        match event {
            WatchEvent::Error(_) => return,
            WatchEvent::Init => self.is_listing = true,
            WatchEvent::InitDone => {
                *self = Self {
                    has_synced: true,
                    ..Self::default()
                }
            }
            WatchEvent::Apply(_) | WatchEvent::Delete { .. } => {}
        }
        if self.has_synced && !self.is_listing {
            self.last_error = None;
        }
    }

    pub(super) fn fail(&mut self, cause: &ApiError, now: Instant) {
        self.is_listing = false;
        self.last_error = Some(now);
        let since = *self.waiting_since.get_or_insert(now);
        let is_denied = matches!(cause, ApiError::Forbidden(_));
        self.is_absent |= !self.has_synced && (is_denied || now >= since + PATIENCE);
    }

    /// Takes in the time. `is_awaited` is true if everything else was listed.
    pub(super) fn tick(&mut self, is_awaited: bool, now: Instant) {
        if !self.has_synced && is_awaited {
            let since = *self.waiting_since.get_or_insert(now);
            // A long list that comes in is waited for.
            self.is_absent |= !self.is_listing && now >= since + PATIENCE;
        }
        if self.last_error.is_some_and(|at| now >= at + QUIET) {
            self.last_error = None;
        }
    }
}
