//! One pass: read the world, say what has to be said first, act, say what came of it.

use std::time::Duration;

use kelpie_core::addon::{Component, Condition, Reason, Refusal, Status, Update};
use kelpie_kube::objects::{CallError, Cause, Kind, Objects};
use kelpie_kube::seed::NoteKind;
use serde_json::Value;
use thiserror::Error;
use tokio::time::Instant;
use tracing::{info, warn};

use super::aim::Aim;
use super::manifest::{Collector, deployment_name, selector};
use super::readiness::{NOT_READY, Unready, Wait, is_ready, waiting_reason};
use super::settings::OperatorOptions;
use super::world::{POD, World};
use crate::addon::{Addon, AddonRef};
use crate::made::{DEPLOYMENT, LABEL, MADE, MANAGER, is_owned_by};
use crate::post::{Say, Voice};
use crate::writer::{StatusWriter, WriteError, Written};

/// Nobody tells when the last pod is gone: it is looked for.
const PODS_GO: Duration = Duration::from_secs(5);

/// What passes share.
pub(super) struct Operation {
    pub(super) objects: Objects,
    pub(super) writer: StatusWriter,
    pub(super) addon: AddonRef,
    pub(super) options: OperatorOptions,
    pub(super) voice: Voice,
    pub(super) say: Say,
    pub(super) dry_run: bool,
    pub(super) unready: Unready,
}

/// What a pass came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Look again then, though nothing happened.
    pub(super) wake: Option<Instant>,
    /// What went wrong with which component.
    pub(super) failures: Vec<String>,
}

impl Findings {
    fn wake_at(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}

/// Why a pass could not be made at all.
#[derive(Debug, Error)]
pub(super) enum PassError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the status cannot be written: {0}")]
    Write(#[from] WriteError),
    #[error("another replica acts by now")]
    Superseded,
}

/// What became of a collector.
enum Deed {
    /// Its objects are as they should be; whether its pods are being replaced, and since when it
    /// is not ready.
    Applied {
        replaced: bool,
        wait: Wait,
    },
    /// Its objects are gone; whether its pods are too.
    Removed {
        clean: bool,
    },
    /// Nothing was to be done.
    Nothing,
    Failed(String),
}

impl Operation {
    pub(super) async fn pass(&mut self) -> Result<Findings, PassError> {
        let addon = self.objects.get(&self.addon.place()).await?;
        let addon = addon.map(Addon::read).filter(|addon| !addon.is_going);
        let Some(addon) = addon else {
            self.sweep(None).await?;
            return Ok(Findings::default());
        };
        let world = match self.prepare(&addon).await {
            Ok(world) => world,
            Err(error) => {
                self.say_why(&addon, &error).await?;
                return Err(error.into());
            }
        };
        let aims = Component::ALL.map(|component| {
            let aim = Aim::of(component, &addon, &self.addon, &self.options, &world);
            (component, aim)
        });
        if self.dry_run {
            rehearse(&aims);
            return Ok(Findings::default());
        }
        self.check_say()?;
        self.say_before(&addon, &world, &aims).await?;
        let mut result = Findings::default();
        let mut words = Vec::new();
        for ((component, aim), found) in aims.iter().zip(&world.deployments) {
            self.check_say()?;
            let deed = self
                .carry_out(*component, aim, found.as_ref(), &addon)
                .await;
            let current = addon.status.component(*component);
            let word = self
                .conclude(*component, aim, deed, current, &mut result)
                .await;
            words.extend(word);
        }
        self.check_say()?;
        self.say(&addon, &words).await?;
        Ok(result)
    }

    /// A process that was paused in the middle of a pass does not know it: what it is about to apply may
    /// be older than what the next one has applied meanwhile.
    fn check_say(&self) -> Result<(), PassError> {
        if self.say.may_act() {
            Ok(())
        } else {
            Err(PassError::Superseded)
        }
    }

    async fn prepare(&self, addon: &Addon) -> Result<World, CallError> {
        self.voice.know(&addon.uid);
        self.sweep(Some(&addon.uid)).await?;
        World::read(&self.objects, &self.addon.namespace, &self.options).await
    }

    /// A pass that was not allowed to look: somebody has to grant it. An API server that does not
    /// answer is no failure of the addon.
    async fn say_why(&self, addon: &Addon, error: &CallError) -> Result<(), PassError> {
        if !matches!(error.cause, Cause::Forbidden(_) | Cause::Invalid(_)) {
            return Ok(());
        }
        let is_told = |component: &Component| {
            *component == Component::Platform || addon.status.component(*component).is_some()
        };
        let told = Component::ALL.into_iter().filter(is_told);
        let words: Vec<Word> = told
            .map(|component| {
                let (reason, message) = (Reason::UpdateFailure, error.to_string());
                Word::Update(update(component, reason, message, None, false))
            })
            .collect();
        self.say(addon, &words).await
    }

    /// What has to stand in the status before a pod comes, or goes.
    async fn say_before(
        &self,
        addon: &Addon,
        world: &World,
        aims: &[(Component, Aim); 2],
    ) -> Result<(), PassError> {
        let mut words = Vec::new();
        for ((component, aim), found) in aims.iter().zip(&world.deployments) {
            let current = addon.status.component(*component).map(Condition::reason);
            let word = aim.foreword(*component, current, found.is_some());
            words.extend(word.map(|(reason, message)| {
                let rollout = aim.rollout();
                Word::Update(update(*component, reason, message, rollout, false))
            }));
        }
        self.say(addon, &words).await
    }

    /// Both components in one write.
    async fn say(&self, addon: &Addon, words: &[Word]) -> Result<(), PassError> {
        if self.options.no_status || words.is_empty() {
            return Ok(());
        }
        let change = |status: &mut Status, now| {
            for word in words {
                match word {
                    Word::Update(update) => match status.update(update, now) {
                        Ok(()) | Err(Refusal::NothingRolledOut { .. }) => {}
                        Err(refusal) => return Err(refusal),
                    },
                    Word::Forget(component) => status.forget(*component),
                }
            }
            Ok(())
        };
        let written = self.writer.write(Some(&addon.uid), change).await;
        match written {
            Ok(Written::Changed) => self.tell(words),
            // Where it is gone, or another one by now, the next pass sees that.
            Ok(Written::Unchanged)
            | Err(WriteError::Absent { .. } | WriteError::Replaced { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn tell(&self, words: &[Word]) {
        for word in words {
            let Word::Update(update) = word else { continue };
            let Update {
                component,
                reason,
                message,
                ..
            } = update;
            info!("{component}: {reason}: {message}");
            let kind = match reason {
                Reason::UpdateFailure => NoteKind::Warning,
                _ => NoteKind::Normal,
            };
            let message = format!("{component}: {message}");
            self.voice.tell(kind, reason.name(), "Deploy", message);
        }
    }

    async fn carry_out(
        &mut self,
        component: Component,
        aim: &Aim,
        found: Option<&Value>,
        addon: &Addon,
    ) -> Deed {
        let done = match aim {
            Aim::Run(collector) => {
                let patience = self.options.ready_within.max(2 * addon.spec.interval());
                let current = addon.status.component(component).map(Condition::reason);
                self.apply(collector).await.map(|deployment| {
                    let ready = is_ready(&deployment);
                    let now = Instant::now();
                    Deed::Applied {
                        replaced: is_replaced(found, &deployment, current),
                        wait: self.unready.look(component, ready, patience, now),
                    }
                })
            }
            Aim::Off(collector) => {
                self.unready.forget(component);
                self.apply(collector).await.map(|_| Deed::Nothing)
            }
            Aim::Unsupported(_) | Aim::Gone => {
                self.unready.forget(component);
                let removed = self.remove(component).await;
                let removed = removed.map_err(|error| error.to_string());
                removed.map(|clean| Deed::Removed { clean })
            }
            Aim::Broken(_) => Ok(Deed::Nothing),
        };
        done.unwrap_or_else(Deed::Failed)
    }

    /// Applies everything, whatever fails on the way; the Deployment as it is then.
    async fn apply(&self, collector: &Collector) -> Result<Value, String> {
        let mut deployment = Value::Null;
        let mut failures = Vec::new();
        for manifest in &collector.manifests {
            let name = manifest.object["metadata"]["name"]
                .as_str()
                .unwrap_or_default();
            let place = manifest.kind.named(&self.addon.namespace, name);
            match self.objects.apply(&place, &manifest.object, MANAGER).await {
                Ok(object) if manifest.kind == DEPLOYMENT => deployment = object,
                Ok(_) => {}
                Err(error) => failures.push(error.to_string()),
            }
        }
        if !failures.is_empty() {
            return Err(failures.join("; "));
        }
        Ok(deployment)
    }

    /// Removes a collector's objects; true once its pods are gone too.
    async fn remove(&self, component: Component) -> Result<bool, CallError> {
        let namespace = &self.addon.namespace;
        for kind in MADE {
            let label = selector(component);
            for object in self.objects.list(kind, namespace, Some(&label)).await? {
                self.delete(kind, &object).await?;
            }
        }
        Ok(self.pods(component).await?.is_empty())
    }

    /// This very object; one that has taken its place is left alone.
    async fn delete(&self, kind: Kind, object: &Value) -> Result<(), CallError> {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let place = kind.named(&self.addon.namespace, name);
        let deleted = self.objects.delete(&place, metadata["uid"].as_str()).await;
        match deleted {
            Err(error) if error.cause != Cause::Conflict => Err(error),
            _ => Ok(()),
        }
    }

    async fn pods(&self, component: Component) -> Result<Vec<Value>, CallError> {
        let namespace = &self.addon.namespace;
        self.objects
            .list(POD, namespace, Some(&selector(component)))
            .await
    }

    /// What is to be said of a collector.
    async fn conclude(
        &self,
        component: Component,
        aim: &Aim,
        deed: Deed,
        current: Option<&Condition>,
        result: &mut Findings,
    ) -> Option<Word> {
        let (reason, message) = aim.afterword(component);
        let plain = |reason, message, replaced| {
            Some(Word::Update(update(
                component,
                reason,
                message,
                aim.rollout(),
                replaced,
            )))
        };
        match deed {
            Deed::Failed(why) => {
                warn!("{component}: {why}");
                result.failures.push(format!("{component}: {why}"));
                plain(Reason::UpdateFailure, why, false)
            }
            Deed::Removed { clean: true } if matches!(aim, Aim::Gone) => {
                current.is_some().then_some(Word::Forget(component))
            }
            Deed::Applied { replaced, wait } => {
                let was_late = current.is_some_and(|condition| {
                    condition.reason() == Reason::UpdateFailure
                        && condition.message.starts_with(NOT_READY)
                });
                match wait {
                    Wait::Overdue => {
                        plain(Reason::UpdateFailure, self.lateness(component).await, false)
                    }
                    Wait::Until(due) => {
                        result.wake_at(due);
                        // Said before a restart, it is still true.
                        if was_late {
                            return None;
                        }
                        plain(reason, message, replaced)
                    }
                    Wait::Nothing => plain(reason, message, replaced),
                }
            }
            Deed::Removed { clean } => {
                if !clean && matches!(aim, Aim::Gone) {
                    result.wake_at(Instant::now() + PODS_GO);
                }
                plain(reason, message, false)
            }
            Deed::Nothing => {
                if let Aim::Broken(why) = aim {
                    result.failures.push(format!("{component}: {why}"));
                }
                plain(reason, message, false)
            }
        }
    }

    async fn lateness(&self, component: Component) -> String {
        let why = match self.pods(component).await {
            Ok(pods) => waiting_reason(&pods),
            Err(error) => error.to_string(),
        };
        format!(
            "{NOT_READY} of Deployment {}: {why}",
            deployment_name(component)
        )
    }

    /// Deletes what the operator made for an addon that is there no longer.
    async fn sweep(&self, uid: Option<&str>) -> Result<(), CallError> {
        if self.dry_run {
            return Ok(());
        }
        let namespace = &self.addon.namespace;
        for kind in MADE {
            for object in self.objects.list(kind, namespace, Some(LABEL)).await? {
                if uid.is_some_and(|uid| is_owned_by(&object, uid)) {
                    continue;
                }
                // It may be that of an addon that came while this replica was paused.
                if !self.say.may_act() {
                    return Ok(());
                }
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                info!(
                    "{} {name} was made for an addon that is gone; it is deleted",
                    kind.kind
                );
                self.delete(kind, &object).await?;
            }
        }
        Ok(())
    }
}

/// Whether pods are being replaced that may have spoken for themselves.
fn is_replaced(found: Option<&Value>, now: &Value, current: Option<Reason>) -> bool {
    let generation = |deployment: &Value| deployment["metadata"]["generation"].clone();
    match found {
        // By the generation: an edit that came after the Deployment was read, and was undone by the
        // very next call, leaves no other trace.
        Some(found) => generation(found) != generation(now),
        // The first pods of all were announced before they came.
        None => matches!(
            current,
            Some(Reason::ForwardSuccessful | Reason::ForwardFailure)
        ),
    }
}

/// Something to be said in the status.
enum Word {
    Update(Update),
    Forget(Component),
}

fn update(
    component: Component,
    reason: Reason,
    message: String,
    rollout: Option<&str>,
    replaced: bool,
) -> Update {
    Update {
        component,
        reason,
        message,
        rollout: rollout.map(str::to_owned),
        replaced,
    }
}

fn rehearse(aims: &[(Component, Aim); 2]) {
    for (component, aim) in aims {
        let (reason, message) = aim.afterword(*component);
        info!("dry run: {component} would be {reason}: {message}");
    }
}
