//! Events are served by two groups, which have other names for the same things.

use serde_json::{Value, json};

/// Names in the core group, and in `events.k8s.io`.
const NAMES: [(&str, &str); 8] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("eventTime", "eventTime"),
];

/// As `events.k8s.io` has it.
pub(super) fn to_new(event: &mut Value) {
    for (old, new) in NAMES {
        rename(event, old, new);
    }
}

/// As the core group has it.
pub(super) fn to_core(event: &mut Value) {
    for (old, new) in NAMES {
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
