//! `guard`: the policy by which nodes turn Unknown only with the prober's permit.

use std::time::Duration;

use kelpie_core::prober::guard::{GroupHold, GuardSettings};

use crate::parse::Section;
use crate::schema::{MapSchema, Shape, key};
use crate::value::{ConfigValue, DurationRange, MAX_COUNT};

pub(crate) const GUARD: MapSchema = MapSchema {
    location: "under `guard`",
    expected: "a map with any of enabled, duration, zone, pool; {} takes the defaults",
    keys: &[
        key("enabled"),
        key("duration"),
        key("zone").shaped(Shape::Map(&GROUP)),
        key("pool").shaped(Shape::Map(&GROUP)),
    ],
    removed: &[],
};

pub(crate) const GROUP: MapSchema = MapSchema {
    location: "under `zone` and `pool`",
    expected: "a map with any of hold, minNodes",
    keys: &[key("hold"), key("minNodes")],
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
    let guard = GuardSettings {
        duration,
        zone: group(&section, "zone"),
        pool: group(&section, "pool"),
    };
    is_enabled.then_some(guard)
}

/// Reads how long the nodes of a silent zone or pool are held back.
fn group(section: &Section<'_>, key: &str) -> GroupHold {
    let default = GroupHold::default();
    let Some(section) = section.get(key).and_then(|value| value.section(&GROUP)) else {
        return default;
    };
    GroupHold {
        hold: section.get_or("hold", default.hold, |value| {
            let hold = value.duration(DurationRange::NonNegative)?;
            if hold > LONGEST {
                value.reject("a duration of at most 1h; 0s holds nothing back");
                return None;
            }
            Some(hold)
        }),
        min_nodes: section.get_or("minNodes", default.min_nodes, |value| {
            value.integer(2..=MAX_COUNT)
        }),
    }
}
