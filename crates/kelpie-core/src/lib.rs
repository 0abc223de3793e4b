//! Decisions of Kelpie: values in, values out.

mod fraction;
mod settings;
mod target;
mod time;

pub use fraction::Fraction;
pub use settings::{Settings, Thresholds};
pub use target::{ResourceRef, ScaleRule, Target};
pub use time::Time;
