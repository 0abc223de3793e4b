//! Fence actuators: the means by which a target is stopped and restored.
//!
//! An actuator maps objects to [`Setting`](kelpie_core::prober::Setting)s and applies settings to
//! them. [`Actuators`] performs each call through the actuator of its target.

mod annotations;
mod batch_reader;
mod error;
mod pause;
mod scale;
mod scope;

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
pub use scale::ScaleClient;
pub use scope::{TargetScope, WatchedTarget};

use crate::rbac::PolicyRule;
use crate::system_clock::SystemClock;
use crate::watch::WatchEvent;
use pause::PauseClient;

/// The owner of the fields that a write sets, in `managedFields`.
const FIELD_MANAGER: &str = "kelpie";
/// The time limit of a call, unless the caller sets another one.
const LIMIT: Duration = Duration::from_secs(30);
/// The number of objects on a page of a list: some MB.
const PAGE: u32 = 500;
/// A seed has far fewer targets of a name or a kind than fit on this many pages.
const MOST_PAGES: usize = 40;

/// Performs calls on targets. Each call is one request, or two at the same time, with one deadline
/// and without retries.
#[derive(Clone)]
pub struct Actuators {
    scale: ScaleClient,
    pause: PauseClient,
}

impl Actuators {
    /// Creates the actuators. The end of a pause, for people, is told by `clock`.
    pub(crate) fn new(client: Client, clock: SystemClock) -> Self {
        Self {
            scale: ScaleClient::new(client.clone()),
            pause: PauseClient::new(client, clock),
        }
    }

    /// Returns the same actuators with another client. Discovered kinds are shared.
    pub(crate) fn with_client(&self, client: Client) -> Self {
        let mut same = self.clone();
        same.scale.client = client.clone();
        same.pause.client = client;
        same
    }

    /// Returns the same actuators with this time limit for each call.
    #[must_use]
    pub fn with_limit(&self, limit: Duration) -> Self {
        Self {
            scale: self.scale.with_limit(limit),
            pause: self.pause.with_limit(limit),
        }
    }

    /// Returns the client of the actuator `scale`.
    pub fn scale(&self) -> &ScaleClient {
        &self.scale
    }

    /// Performs a call of a fencing flow on a target of this cluster.
    pub async fn perform(
        &self,
        scope: &TargetScope,
        target: &Target,
        call: &Call,
    ) -> Result<Reply, ActuatorError> {
        match target.actuator {
            ActuatorKind::Scale => {
                let namespace = &scope.namespace;
                self.scale.perform(namespace, &target.resource, call).await
            }
            ActuatorKind::Pause => self.pause.perform(scope, call).await,
        }
    }

    /// Watches a target of all clusters, in one namespace or in all; `None` if a watch does not
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
            ActuatorKind::Pause => Some(self.pause.watch(namespace).boxed()),
        }
    }

    /// Checks that the kind of a target can be fenced by its actuator.
    pub async fn check_kind(&self, target: &Target) -> Result<(), ActuatorError> {
        match target.actuator {
            ActuatorKind::Scale => self.scale.check_kind(&target.resource).await,
            ActuatorKind::Pause => self.pause.check_kind().await,
        }
    }

    async fn read(&self, scope: &TargetScope, target: &Target) -> Result<Observed, ActuatorError> {
        match target.actuator {
            ActuatorKind::Scale => self.scale.read(&scope.namespace, &target.resource).await,
            ActuatorKind::Pause => self.pause.read(scope).await,
        }
    }

    /// Lists a target of all clusters; `None` if a list does not show the settings.
    async fn list(
        &self,
        target: &Target,
    ) -> Result<Option<BTreeMap<TargetScope, TargetObject>>, ActuatorError> {
        match target.actuator {
            ActuatorKind::Scale => self.scale.list(&target.resource).await,
            ActuatorKind::Pause => self.pause.list().await.map(Some),
        }
    }
}

/// Returns the permissions that fencing these targets needs, in one namespace or in all.
pub fn policy_rules(targets: &[Target], namespace: Option<&str>) -> Vec<PolicyRule> {
    let scaled = targets
        .iter()
        .filter(|target| target.actuator == ActuatorKind::Scale)
        .map(|target| &target.resource);
    let mut rules = scale::policy_rules(scaled, namespace);
    let mut targets = targets.iter();
    if targets.any(|target| target.actuator == ActuatorKind::Pause) {
        rules.push(pause::policy_rule(namespace));
    }
    rules
}
