//! The addon's status, and the changes that each writer may make.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::aggregate::aggregate;
use super::message::sanitize;
use super::transition::{StatusActor, TransitionError, check_transition};
use super::{
    AddonComponent, Aggregate, CollectorReport, Condition, ConditionReason, OperatorUpdate,
    StandardCondition, TransitionTime, lenient,
};
use crate::Time;

/// `status` of an `ObservabilityAddon`. Conditions of other writers are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AddonStatus {
    /// The conditions, in the order of the API server. Older writers may have left several of one
    /// type. Entries that are not conditions are not kept.
    #[serde(deserialize_with = "lenient::list")]
    pub conditions: Vec<Condition>,
    /// The hash of the pod template that the operator announced last, by the component's name.
    #[serde(
        deserialize_with = "lenient::map",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub rollouts: BTreeMap<String, String>,
}

impl AddonStatus {
    /// Returns the condition of a component. Of duplicates, and of the types of Kelpie and of the
    /// shipped operator, the newest counts: a cluster can be taken over from that one, and back.
    pub fn component(&self, component: AddonComponent) -> Option<&Condition> {
        newest(&self.conditions, |it| component.owns(it))
    }

    /// Aggregates the components' conditions.
    pub fn aggregate(&self) -> Option<Aggregate> {
        let [platform, uwl] = AddonComponent::ALL.map(|component| self.component(component));
        aggregate(platform, uwl)
    }

    /// Returns the standard condition that is True. Returns `None` if none is, or several are.
    pub fn standard_condition(&self) -> Option<StandardCondition> {
        self.true_condition().map(|(standard, _)| standard)
    }

    /// Returns the standard condition that is True, with its entry. Returns `None` if none is, or
    /// several are.
    pub fn true_condition(&self) -> Option<(StandardCondition, &Condition)> {
        let mut found = StandardCondition::ALL.into_iter().filter_map(|standard| {
            let of_type = |it: &&Condition| it.type_ == standard.condition_type() && it.is_true();
            Some((standard, self.conditions.iter().find(of_type)?))
        });
        found.next().filter(|_| found.next().is_none())
    }

    /// Applies a collector's report about itself.
    pub fn apply_report(
        &mut self,
        report: &CollectorReport,
        now: Time,
    ) -> Result<(), TransitionError> {
        let component = report.component;
        if let Some(reported) = &report.rollout
            && let Some(announced) = self.rollouts.get(component.name())
            && reported != announced
        {
            return Err(TransitionError::RolloutMismatch {
                reported: reported.clone(),
                announced: announced.clone(),
            });
        }
        let (actor, reason) = (StatusActor::Collector, report.forward.reason());
        self.set_component_condition(component, actor, reason, &report.message, now)
    }

    /// Applies the operator's update about a collector. `UpdateSuccessful` for a rollout that was
    /// announced before is refused once the collector has reported: that would hide its report.
    ///
    /// Without a record of the last rollout, a collector that has reported counts as announced, and
    /// only the record is added. An API server whose CRD does not store it would otherwise get the
    /// same announcement again and again.
    pub fn apply_update(
        &mut self,
        update: &OperatorUpdate,
        now: Time,
    ) -> Result<(), TransitionError> {
        let component = update.component;
        let is_recorded = self.rollouts.contains_key(component.name());
        let is_new_rollout =
            is_recorded && self.is_new_rollout(component, update.rollout.as_deref());
        let actor = StatusActor::Operator {
            rolls_out: update.replaced || is_new_rollout,
        };
        let set =
            self.set_component_condition(component, actor, update.reason, &update.message, now);
        match set {
            Err(TransitionError::NothingRolledOut { .. })
                if !is_recorded && update.rollout.is_some() => {}
            set => set?,
        }
        if let (ConditionReason::UpdateSuccessful, Some(rollout)) = (update.reason, &update.rollout)
        {
            let rollouts = &mut self.rollouts;
            rollouts.insert(component.name().to_owned(), rollout.clone());
        }
        Ok(())
    }

    /// Returns true if this rollout of a component has not been announced yet.
    pub fn is_new_rollout(&self, component: AddonComponent, rollout: Option<&str>) -> bool {
        let announced = self.rollouts.get(component.name());
        rollout.is_some_and(|rollout| announced.is_none_or(|announced| announced != rollout))
    }

    /// Removes the condition and the rollout of a component that no longer exists.
    pub fn remove_component(&mut self, component: AddonComponent) {
        let conditions = &mut self.conditions;
        conditions.retain(|condition| !component.owns(&condition.type_));
        self.rollouts.remove(component.name());
    }

    /// Sets the standard conditions to the aggregate of the components. Exactly one is True
    /// afterwards; types that were never True are not added. Without components nothing changes.
    pub fn set_standard_conditions(&mut self, now: Time) {
        let Some(aggregate) = self.aggregate() else {
            return;
        };
        self.remove_duplicates();
        for standard in StandardCondition::ALL {
            let is_true = standard == aggregate.standard;
            let condition_type = standard.condition_type();
            if !is_true && self.find(condition_type).is_none() {
                continue;
            }
            let condition = Condition::entry(&mut self.conditions, condition_type);
            let flipped = condition.set_status(is_true);
            if flipped {
                condition.last_transition_time = TransitionTime::at(now);
            }
            if is_true {
                condition.reason.clone_from(&aggregate.reason);
                condition.message.clone_from(&aggregate.message);
            } else if flipped {
                condition.reason.clone_from(&aggregate.reason);
                // This stays true until the condition flips back, so it is written only once.
                condition.message = format!("the addon turned {}", aggregate.standard);
            }
        }
    }

    fn set_component_condition(
        &mut self,
        component: AddonComponent,
        actor: StatusActor,
        reason: ConditionReason,
        message: &str,
        now: Time,
    ) -> Result<(), TransitionError> {
        let current = self.component(component);
        let from = current.map(|condition| (condition.reason(), condition.reason.as_str()));
        check_transition(component, from, actor, reason)?;
        let message = sanitize(message);
        let is_same_reason = from.is_some_and(|(from, _)| from == reason);
        self.remove_duplicates();
        self.adopt(component);
        let condition = Condition::entry(&mut self.conditions, component.condition_type());
        let flipped = condition.set_status(true);
        if is_same_reason && !flipped && condition.message == message {
            // An old spelling of the reason is no cause for a write.
            return Ok(());
        }
        if !is_same_reason {
            condition.last_transition_time = TransitionTime::at(now);
        }
        reason.as_str().clone_into(&mut condition.reason);
        condition.message = message;
        Ok(())
    }

    /// Gives a condition of the shipped operator Kelpie's type, if it is the newer one.
    fn adopt(&mut self, component: AddonComponent) {
        let shipped = component.shipped_condition_type();
        if !self.conditions.iter().any(|it| it.type_ == shipped) {
            return;
        }
        let newest = self.component(component).cloned();
        let first = self
            .conditions
            .iter()
            .position(|it| component.owns(&it.type_));
        self.conditions.retain(|it| !component.owns(&it.type_));
        if let (Some(mut condition), Some(first)) = (newest, first) {
            component.condition_type().clone_into(&mut condition.type_);
            self.conditions.insert(first, condition);
        }
    }

    fn find(&self, condition_type: &str) -> Option<&Condition> {
        newest(&self.conditions, |it| it == condition_type)
    }

    /// Keeps one condition of each type, in the position of the type's first condition.
    fn remove_duplicates(&mut self) {
        let mut types: Vec<&str> = Vec::new();
        for condition in &self.conditions {
            if !types.contains(&condition.type_.as_str()) {
                types.push(&condition.type_);
            }
        }
        if types.len() == self.conditions.len() {
            return;
        }
        let kept = types
            .into_iter()
            .filter_map(|condition_type| self.find(condition_type));
        self.conditions = kept.cloned().collect();
    }
}

fn newest(conditions: &[Condition], is_wanted: impl Fn(&str) -> bool) -> Option<&Condition> {
    let wanted = conditions
        .iter()
        .filter(|condition| is_wanted(&condition.type_));
    wanted.max_by_key(|condition| precedence(condition))
}

/// Orders duplicates of a condition: the newest counts, and of equally new ones the most severe.
/// Their order in the list does not matter.
fn precedence(condition: &Condition) -> impl Ord + use<'_> {
    (
        condition.last_transition_time.time(),
        condition.reason(),
        condition.is_true(),
        condition.reason.as_str(),
        condition.message.as_str(),
        condition.status.as_str(),
    )
}
