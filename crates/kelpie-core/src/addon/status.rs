//! The status as a whole: what each writer may do to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::message::tidy;
use super::transition::{Actor, Refusal, transition};
use super::{
    Aggregate, Component, Condition, Reason, Report, Stamp, Standard, Update, aggregate as combine,
};
use crate::Time;

/// `status` of an `ObservabilityAddon`. What others wrote into it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// By type.
    pub conditions: Vec<Condition>,
    /// The pod template last announced of each component, by its name: the hash of it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rollouts: BTreeMap<String, String>,
}

impl Status {
    /// What a component's condition says; of duplicates the one that counts.
    pub fn component(&self, component: Component) -> Option<&Condition> {
        self.find(component.condition())
    }

    /// What the components make of the addon now.
    pub fn aggregate(&self) -> Option<Aggregate> {
        let [platform, uwl] = Component::ALL.map(|component| self.component(component));
        combine(platform, uwl)
    }

    /// The standard condition that is True; `None` if none is, or several are.
    pub fn standing(&self) -> Option<Standard> {
        let is_true = |standard: &Standard| {
            let mut conditions = self.conditions.iter();
            conditions
                .any(|condition| condition.kind == standard.condition() && condition.is_true())
        };
        let mut standing = Standard::ALL.into_iter().filter(is_true);
        match (standing.next(), standing.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }

    /// Writes down what a collector says of itself.
    pub fn report(&mut self, report: &Report, now: Time) -> Result<(), Refusal> {
        let component = report.component;
        if let Some(reported) = &report.rollout
            && let Some(announced) = self.rollouts.get(component.name())
            && reported != announced
        {
            return Err(Refusal::OtherRollout {
                reported: reported.clone(),
                announced: announced.clone(),
            });
        }
        let actor = Actor::Collector(component);
        let reason = report.forward.reason();
        self.write(component, actor, reason, &report.message, now)
    }

    /// Writes down what the operator says of a collector. An update that was announced before is
    /// refused while the collector speaks for itself: there is nothing new to say.
    pub fn update(&mut self, update: &Update, now: Time) -> Result<(), Refusal> {
        let component = update.component;
        let is_news = self.owes(component, update.rollout.as_deref());
        let actor = Actor::Operator {
            rolls_out: update.replaced || is_news,
        };
        self.write(component, actor, update.reason, &update.message, now)?;
        if let (Reason::UpdateSuccessful, Some(rollout)) = (update.reason, &update.rollout) {
            let rollouts = &mut self.rollouts;
            rollouts.insert(component.name().to_owned(), rollout.clone());
        }
        Ok(())
    }

    /// Whether this rollout of a component has yet to be announced.
    pub fn owes(&self, component: Component, rollout: Option<&str>) -> bool {
        let announced = self.rollouts.get(component.name());
        rollout.is_some_and(|rollout| announced.is_none_or(|announced| announced != rollout))
    }

    /// The component is gone, and so is all that was said about it.
    pub fn forget(&mut self, component: Component) {
        let conditions = &mut self.conditions;
        conditions.retain(|condition| condition.kind != component.condition());
        self.rollouts.remove(component.name());
    }

    /// Makes the standard conditions say what the components make of the addon. Without components
    /// they stay as they are.
    pub fn settle(&mut self, now: Time) {
        let Some(aggregate) = self.aggregate() else {
            return;
        };
        self.heal();
        for standard in Standard::ALL {
            let holds = standard == aggregate.standard;
            let kind = standard.condition();
            if !holds && self.find(kind).is_none() {
                continue;
            }
            let condition = self.entry(kind);
            let flips = condition.flip(holds);
            if flips {
                condition.last_transition_time = Stamp::at(now);
            }
            if holds {
                condition.reason.clone_from(&aggregate.reason);
                condition.message.clone_from(&aggregate.message);
            } else if flips {
                condition.reason.clone_from(&aggregate.reason);
                // What stays true whatever comes: it is not written again before it flips back.
                condition.message = format!("the addon turned {}", aggregate.standard);
            }
        }
    }

    fn write(
        &mut self,
        component: Component,
        actor: Actor,
        reason: Reason,
        message: &str,
        now: Time,
    ) -> Result<(), Refusal> {
        let current = self.component(component);
        let from = current.map(|condition| (condition.reason(), condition.reason.as_str()));
        transition(component, from, actor, reason)?;
        let message = tidy(message);
        let is_same_reason = from.is_some_and(|(from, _)| from == reason);
        self.heal();
        let condition = self.entry(component.condition());
        let flips = condition.flip(true);
        if is_same_reason && !flips && condition.message == message {
            // Old spellings are not corrected for their own sake.
            return Ok(());
        }
        if !is_same_reason {
            condition.last_transition_time = Stamp::at(now);
        }
        reason.name().clone_into(&mut condition.reason);
        condition.message = message;
        Ok(())
    }

    fn find(&self, kind: &str) -> Option<&Condition> {
        let conditions = self.conditions.iter();
        conditions
            .filter(|condition| condition.kind == kind)
            .max_by_key(|condition| weight(condition))
    }

    fn entry(&mut self, kind: &str) -> &mut Condition {
        let mut conditions = self.conditions.iter();
        let found = conditions.position(|condition| condition.kind == kind);
        let place = found.unwrap_or(self.conditions.len());
        if found.is_none() {
            self.conditions.push(Condition::new(kind));
        }
        &mut self.conditions[place]
    }

    /// Of each type only the one that counts is kept, at the place of the first.
    fn heal(&mut self) {
        let mut kinds: Vec<&str> = Vec::new();
        for condition in &self.conditions {
            if !kinds.contains(&condition.kind.as_str()) {
                kinds.push(&condition.kind);
            }
        }
        if kinds.len() == self.conditions.len() {
            return;
        }
        let kept = kinds.into_iter().filter_map(|kind| self.find(kind));
        self.conditions = kept.cloned().collect();
    }
}

/// Of duplicates the newest counts, and of equally new ones the gravest, whatever their order.
fn weight(condition: &Condition) -> impl Ord + use<'_> {
    (
        condition.last_transition_time.time(),
        condition.reason(),
        condition.is_true(),
        condition.reason.as_str(),
        condition.message.as_str(),
        condition.status.as_str(),
    )
}
