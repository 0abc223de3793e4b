//! The status of an observability addon: one list of conditions with several writers, that never flaps.
//!
//! Reading order: a [`Component`] has a [`Condition`] whose [`Reason`] says how it is. Who may change
//! which reason into which stands in `transition`; [`Status::report`] and [`Status::update`] hold the
//! writers to it; a [`Debounce`] says when a failing collector has something to report. [`aggregate`] turns the components' reasons into one [`Standard`] type, which
//! [`Status::settle`] makes the only True one; [`project`] shows it in a kind of the hub's own. Nothing here is written when nothing changed: callers
//! compare the status before and after.

mod aggregate;
mod component;
mod condition;
mod debounce;
mod message;
mod project;
mod reason;
mod report;
mod stamp;
mod standard;
mod status;
mod transition;

pub use aggregate::{Aggregate, aggregate};
pub use component::Component;
pub use condition::Condition;
pub use debounce::Debounce;
pub use project::{Availability, project};
pub use reason::Reason;
pub use report::{Forward, Report, Update};
pub use stamp::Stamp;
pub use standard::Standard;
pub use status::Status;
pub use transition::{Actor, Refusal, transition};
