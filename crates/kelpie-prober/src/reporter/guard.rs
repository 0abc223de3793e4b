//! Reports on the guard of a cluster.

use std::mem;

use kelpie_core::prober::guard::{GuardState, HeldGroup};
use kelpie_kube::events::EventType;
use tracing::{info, warn};

use super::ProbeReporter;
use super::cluster_events::capitalized;
use crate::guard_executor::GuardReport;
use crate::subsystem::Subsystem;

/// The guard as it was reported last.
#[derive(Debug, Default)]
pub(super) struct GuardReporter {
    state: Option<mem::Discriminant<GuardState>>,
    /// The last Event told that the guard is armed.
    is_armed: Option<bool>,
    held: Vec<HeldGroup>,
}

impl ProbeReporter {
    /// Reports a change of the guard. Its renewals show on the state page only.
    pub(crate) fn guard(&mut self, report: &GuardReport) {
        let state = &report.state;
        self.state.update(|shown| {
            shown.guard = Some(state.clone());
            shown.held_groups.clone_from(&report.held);
        });
        let kind = mem::discriminant(state);
        if self.guard.state.replace(kind) != Some(kind) {
            let cluster = &*self.cluster.id;
            info!(cluster, "guard: {state}");
            self.metrics.guard(state);
        }
        if report.is_leader {
            self.record_guard_event(state);
        }
        self.report_held(report);
        // Without the right, or where the kind does not exist, the prober works as without a guard.
        let is_optional = matches!(state, GuardState::Refused | GuardState::Unsupported);
        let problem = report.problem.clone().filter(|_| !is_optional);
        self.problem(Subsystem::Guard, problem);
    }

    /// Records an Event when the guard begins or ceases to protect the cluster. A policy that is
    /// not proven yet is neither.
    fn record_guard_event(&mut self, state: &GuardState) {
        let is_armed = match state {
            GuardState::Unknown | GuardState::Unproven { .. } => return,
            GuardState::Armed { .. } => true,
            GuardState::Unsupported
            | GuardState::Refused
            | GuardState::Foreign { .. }
            | GuardState::Lost
            | GuardState::Expired => false,
        };
        if self.guard.is_armed.replace(is_armed) == Some(is_armed) {
            return;
        }
        if is_armed {
            let message = "No node turns Unknown without a permit of the prober".to_owned();
            self.record_cluster_event(EventType::Normal, "GuardArmed", message);
        } else {
            let message = format!("The guard does not protect the nodes: {state}");
            self.record_cluster_event(EventType::Warning, "GuardNotArmed", message);
        }
    }

    /// Reports zones and pools that begin to be held back.
    fn report_held(&mut self, report: &GuardReport) {
        let before = mem::replace(&mut self.guard.held, report.held.clone());
        for group in &report.held {
            let is_same = |known: &HeldGroup| known.kind == group.kind && known.name == group.name;
            if before.iter().any(is_same) {
                continue;
            }
            let cluster = &*self.cluster.id;
            warn!(cluster, "guard: {group}: its nodes fell silent together");
            if report.is_leader {
                let message = format!(
                    "{}: its nodes fell silent together",
                    capitalized(&group.to_string())
                );
                self.record_cluster_event(EventType::Warning, "GroupHeld", message);
            }
        }
    }
}
