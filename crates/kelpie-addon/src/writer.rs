//! How everybody writes the addon's status: read, decide, put back what was read; if somebody was
//! faster, decide again on what is there then.

use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::addon::{Refusal, Status};
use kelpie_kube::objects::{CallError, Cause, Objects};
use thiserror::Error;
use tokio::time::{Instant, sleep};
use tracing::debug;

use crate::addon::{Addon, AddonRef};
use crate::backoff::Backoff;

/// Between two attempts when somebody was faster.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long somebody may be faster, until the caller is told.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes the status of one addon, under the rules. Clones are the same.
#[derive(Clone)]
pub struct StatusWriter {
    objects: Objects,
    addon: AddonRef,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The status is what was wanted now.
    Changed,
    /// It was so before: nothing was written.
    Unchanged,
}

/// Why a status was not written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The rules forbid it. Nothing is wrong.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// There is no such addon.
    #[error("there is no ObservabilityAddon {name} in namespace {namespace}; create it first")]
    Absent {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Another addon of the same name has taken its place.
    #[error("refused: ObservabilityAddon {name} in namespace {namespace} is another one by now")]
    Replaced {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// To be tried again at the next occasion.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl StatusWriter {
    /// For this addon.
    pub fn new(objects: Objects, addon: AddonRef) -> Self {
        Self { objects, addon }
    }

    /// The addon as it is.
    pub async fn read(&self) -> Result<Addon, WriteError> {
        let found = self.objects.get(&self.addon.place()).await?;
        found.map(Addon::read).ok_or_else(|| WriteError::Absent {
            namespace: self.addon.namespace.clone(),
            name: self.addon.name.clone(),
        })
    }

    /// Lets `change` change the status. It is called again, with a fresh status, whenever somebody
    /// else was faster; `uid`: only if it is still that addon.
    pub async fn write(
        &self,
        uid: Option<&str>,
        mut change: impl FnMut(&mut Status, Time) -> Result<(), Refusal>,
    ) -> Result<Written, WriteError> {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let give_up = Instant::now() + PATIENCE;
        loop {
            let addon = self.read().await?;
            if uid.is_some_and(|uid| uid != addon.uid) {
                return Err(WriteError::Replaced {
                    namespace: self.addon.namespace.clone(),
                    name: self.addon.name.clone(),
                });
            }
            let mut status = addon.status.clone();
            change(&mut status, self.objects.now())?;
            if status == addon.status {
                return Ok(Written::Unchanged);
            }
            let wanted = addon.with_status(&status);
            let place = self.addon.place();
            match self.objects.replace_status(&place, &wanted).await {
                Ok(_) => return Ok(Written::Changed),
                Err(error) if error.cause == Cause::Conflict && Instant::now() < give_up => {
                    debug!("somebody else was faster; the status is read again");
                    sleep(backoff.pause(fastrand::f64())).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
