//! Conversion of Events between their two API groups, which name the same fields differently.

use serde_json::{Value, json};

/// The field names in the core group, and those in `events.k8s.io`.
const FIELD_NAMES: [(&str, &str); 8] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("eventTime", "eventTime"),
];

/// Renames the fields as `events.k8s.io` has them.
pub(super) fn to_events_group(event: &mut Value) {
    for (old, new) in FIELD_NAMES {
        rename(event, old, new);
    }
}

/// Renames the fields as the core group has them.
pub(super) fn to_core_group(event: &mut Value) {
    for (old, new) in FIELD_NAMES {
        rename(event, new, old);
    }
    if event["reportingComponent"].is_null() {
        event["reportingComponent"] = json!("");
        event["reportingInstance"] = json!("");
    }
}

fn rename(event: &mut Value, from: &str, to: &str) {
    let Some(event) = event.as_object_mut() else {
        return;
    };
    if let Some(value) = event.remove(from) {
        event.insert(to.to_owned(), value);
    }
}
