//! What is wanted of a collector, from what was found: pure, one answer for each world.

use kelpie_core::addon::{Component, Reason};

use super::manifest::{Collector, Recipe};
use super::settings::OperatorOptions;
use super::world::World;
use crate::addon::{Addon, AddonRef};

/// What is wanted of a collector.
pub(super) enum Aim {
    /// It should run.
    Run(Collector),
    /// It should be there, without pods.
    Off(Collector),
    /// It cannot work here: it should not be there.
    Unsupported(String),
    /// It is not wanted: it should not be there, and nothing be said about it.
    Gone,
    /// What it should be cannot be told: it stays as it is.
    Broken(String),
}

impl Aim {
    pub(super) fn of(
        component: Component,
        addon: &Addon,
        place: &AddonRef,
        options: &OperatorOptions,
        world: &World,
    ) -> Self {
        let [platform, uwl] = &world.sources;
        let place_of = |what: &str, source: &super::settings::Source| {
            format!(
                "there is no {what} {} in namespace {}",
                source.name, source.namespace
            )
        };
        match (component, platform, uwl) {
            (Component::Platform, Err(problem), _) | (Component::Uwl, _, Err(problem)) => {
                return Self::Broken(problem.clone());
            }
            (Component::Platform, Ok(false), _) => {
                return Self::Unsupported(place_of("Service", &options.platform));
            }
            (Component::Uwl, Ok(false), _) | (Component::Uwl, _, Ok(false)) => return Self::Gone,
            _ => {}
        }
        let [own, others] = &world.lists;
        let list = match component {
            Component::Platform => own,
            Component::Uwl => others,
        };
        let list = match list {
            Ok(list) => list,
            Err(problem) => return Self::Broken(problem.clone()),
        };
        if component == Component::Uwl && list.is_empty() {
            return Self::Gone;
        }
        let hub = match &world.hub {
            Ok(hub) => hub,
            Err(problem) => return Self::Broken(problem.clone()),
        };
        let recipe = Recipe {
            component,
            addon,
            place,
            options,
            hub,
            list,
            world,
        };
        if addon.spec.enable_metrics {
            Self::Run(recipe.collector())
        } else {
            Self::Off(recipe.collector())
        }
    }

    /// What can be said before anything is done, if the collector does not exist yet or is to stop:
    /// so that no pod of it is heard too early, or too late.
    pub(super) fn foreword(
        &self,
        component: Component,
        current: Option<Reason>,
        exists: bool,
    ) -> Option<(Reason, String)> {
        // What failed before is announced when it has worked: not before, or it would flap.
        if current == Some(Reason::UpdateFailure) && !matches!(self, Self::Broken(_)) {
            return None;
        }
        match self {
            Self::Run(_) => {
                let is_first = matches!(
                    current,
                    None | Some(Reason::DisabledMetrics | Reason::NotSupported)
                );
                (!exists && is_first).then(|| self.afterword(component))
            }
            Self::Gone if current.is_none() && !exists => None,
            Self::Broken(_) | Self::Off(_) | Self::Unsupported(_) | Self::Gone => {
                Some(self.afterword(component))
            }
        }
    }

    /// What is to be said once it was done.
    pub(super) fn afterword(&self, component: Component) -> (Reason, String) {
        match self {
            Self::Run(_) => (
                Reason::UpdateSuccessful,
                format!("the {component} is rolled out"),
            ),
            Self::Off(_) => (
                Reason::DisabledMetrics,
                "metrics are disabled: spec.enableMetrics is false".to_owned(),
            ),
            Self::Unsupported(why) => (Reason::NotSupported, why.clone()),
            Self::Gone => (
                Reason::DisabledMetrics,
                format!("the {component} is not wanted"),
            ),
            Self::Broken(why) => (Reason::UpdateFailure, why.clone()),
        }
    }

    pub(super) fn rollout(&self) -> Option<&str> {
        match self {
            Self::Run(collector) => Some(&collector.rollout),
            _ => None,
        }
    }
}
