//! `guard`: the policy by which nodes turn Unknown only with the prober's permit.

use std::time::Duration;

use kelpie_core::prober::guard::GuardSettings;

use crate::parse::Section;
use crate::schema::{MapSchema, key};
use crate::value::{ConfigValue, DurationRange};

pub(crate) const GUARD: MapSchema = MapSchema {
    location: "under `guard`",
    expected: "a map with any of enabled, duration; {} takes the defaults",
    keys: &[key("enabled"), key("duration")],
    removed: &[],
};

/// A shorter guard would run out while the prober retries; a longer one would hold nodes back for
/// too long after the prober is gone.
const SHORTEST: Duration = Duration::from_mins(1);
const LONGEST: Duration = Duration::from_hours(1);

/// Reads the guard; `None` if it is off, as it is by default.
pub(super) fn parse(root: &Section<'_>) -> Option<GuardSettings> {
    let default = GuardSettings::default();
    let section = root.get("guard")?.section(&GUARD)?;
    let is_enabled = section.get_or("enabled", true, ConfigValue::boolean);
    let duration = section.get_or("duration", default.duration, |value| {
        let duration = value.duration(DurationRange::Positive)?;
        if !(SHORTEST..=LONGEST).contains(&duration) {
            value.reject("a duration from 1m to 1h");
            return None;
        }
        Some(duration)
    });
    is_enabled.then_some(GuardSettings { duration })
}
