//! The status of an observability addon: one list of conditions with several writers.
//!
//! Each [`AddonComponent`] has a [`Condition`] whose [`ConditionReason`] describes its state.
//! [`check_transition`] decides which writer may replace which reason, and
//! [`AddonStatus::apply_report`] and [`AddonStatus::apply_update`] enforce it. A [`Debounce`]
//! decides when a failing collector reports its failure.
//!
//! [`AddonStatus::aggregate`] combines the components' reasons into one [`StandardCondition`], and
//! [`AddonStatus::set_standard_conditions`] makes that the only True one.
//! [`project_to_managed_addon`] shows the result in the hub's own kind.
//!
//! Applying the same input twice changes nothing. Callers compare the status before and after, and
//! write only a status that changed.

mod aggregate;
mod component;
mod condition;
mod debounce;
mod lenient;
mod managed_addon;
mod message;
mod reason;
mod report;
mod standard_condition;
mod status;
mod transition;
mod transition_time;

pub use aggregate::Aggregate;
pub use component::AddonComponent;
pub use condition::Condition;
pub use debounce::Debounce;
pub use managed_addon::{AvailableOwner, project_to_managed_addon};
pub use reason::ConditionReason;
pub use report::{CollectorReport, ForwardOutcome, OperatorUpdate};
pub use standard_condition::StandardCondition;
pub use status::AddonStatus;
pub use transition::{StatusActor, TransitionError, check_transition};
pub use transition_time::TransitionTime;
