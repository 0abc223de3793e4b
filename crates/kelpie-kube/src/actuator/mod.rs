//! Fence actuators: the means by which a target is stopped and restored.
//!
//! An actuator maps objects to [`Setting`](kelpie_core::prober::Setting)s and applies settings to
//! them. [`Actuators`] performs each call through the actuator of its target.

mod annotations;
mod batch_reader;
mod error;
mod scale;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use kelpie_core::prober::fence::{Call, Observed, Reply, TargetObject};
use kelpie_core::prober::{ActuatorKind, Target};
use kube::Client;

pub use annotations::IGNORE_ANNOTATION;
pub use batch_reader::BatchReader;
pub use error::ActuatorError;
pub use scale::{ScaleClient, WatchedTarget};

use crate::rbac::PolicyRule;
use crate::watch::WatchEvent;

/// Performs calls on targets. Each call is one request, or two at the same time, with one deadline
/// and without retries.
#[derive(Clone)]
pub struct Actuators {
    scale: ScaleClient,
}

impl Actuators {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            scale: ScaleClient::new(client),
        }
    }

    /// Returns the same actuators with another client. Discovered kinds are shared.
    pub(crate) fn with_client(&self, client: Client) -> Self {
        let mut same = self.clone();
        same.scale.client = client;
        same
    }

    /// Returns the same actuators with this time limit for each call.
    #[must_use]
    pub fn with_limit(&self, limit: Duration) -> Self {
        Self {
            scale: self.scale.with_limit(limit),
        }
    }

    /// Returns the client of the actuator `scale`.
    pub fn scale(&self) -> &ScaleClient {
        &self.scale
    }

    /// Performs a call of a fencing flow on a target in this namespace.
    pub async fn perform(
        &self,
        namespace: &str,
        target: &Target,
        call: &Call,
    ) -> Result<Reply, ActuatorError> {
        match target.actuator {
            ActuatorKind::Scale => self.scale.perform(namespace, &target.resource, call).await,
        }
    }

    /// Watches all targets of this name, in one namespace or in all; `None` if a watch does not
    /// show their settings. The stream never ends.
    pub fn watch(
        &self,
        target: &Target,
        namespace: Option<&str>,
    ) -> Option<BoxStream<'static, WatchEvent<WatchedTarget>>> {
        match target.actuator {
            ActuatorKind::Scale => {
                let events = self.scale.watch(&target.resource, namespace)?;
                Some(events.boxed())
            }
        }
    }

    /// Checks that the kind of a target can be fenced by its actuator.
    pub async fn check_kind(&self, target: &Target) -> Result<(), ActuatorError> {
        match target.actuator {
            ActuatorKind::Scale => self.scale.check_kind(&target.resource).await,
        }
    }

    async fn read(&self, namespace: &str, target: &Target) -> Result<Observed, ActuatorError> {
        match target.actuator {
            ActuatorKind::Scale => self.scale.read(namespace, &target.resource).await,
        }
    }

    /// Lists the objects of a target in all namespaces; `None` if a list does not show their
    /// settings.
    async fn list(
        &self,
        target: &Target,
    ) -> Result<Option<BTreeMap<String, TargetObject>>, ActuatorError> {
        match target.actuator {
            ActuatorKind::Scale => self.scale.list(&target.resource).await,
        }
    }
}

/// Returns the permissions that fencing these targets needs, in one namespace or in all.
pub fn policy_rules(targets: &[Target], namespace: Option<&str>) -> Vec<PolicyRule> {
    let scaled = targets
        .iter()
        .filter(|target| target.actuator == ActuatorKind::Scale)
        .map(|target| &target.resource);
    scale::policy_rules(scaled, namespace)
}
