//! Removes the differences that two servers necessarily have. Everything else has to be equal.

use std::collections::BTreeMap;

use serde_json::Value;

/// Replaces uids and versions by the order in which they first appear, so that equal ones stay
/// equal and different ones stay different. Times lose their value.
#[derive(Default)]
pub(super) struct Normalizer {
    seen: BTreeMap<(&'static str, String), usize>,
}

/// Fields whose values differ between servers, with the names of their replacements.
const SERVER_SPECIFIC: [(&str, &str); 4] = [
    ("uid", "uid"),
    ("resourceVersion", "version"),
    ("continue", "token"),
    ("kubernetes.io/metadata.name", "name"),
];

impl Normalizer {
    pub(super) fn normalize(value: &Value) -> Value {
        let mut normalizer = Self::default();
        let mut value = value.clone();
        normalizer.walk(&mut value);
        value
    }

    fn walk(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("managedFields");
                // Other behaviours write concurrently, which changes the version of a list.
                let is_list = map.contains_key("items") || map.contains_key("rows");
                if let Some(metadata) = map.get_mut("metadata").filter(|_| is_list) {
                    metadata["resourceVersion"] = Value::Null;
                }
                for (field, value) in map.iter_mut() {
                    let specific = SERVER_SPECIFIC.iter().find(|(name, _)| name == field);
                    match (specific, value.as_str()) {
                        // "0" and "" have the same meaning on each server.
                        (Some((_, kind)), Some(text)) if !["", "0"].contains(&text) => {
                            *value = self.placeholder(kind, text).into();
                        }
                        _ => self.walk(value),
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| self.walk(value)),
            Value::String(text) => {
                if is_time(text) {
                    let digits = if text.contains('.') {
                        "with a fraction"
                    } else {
                        "in seconds"
                    };
                    *text = format!("<time {digits}>");
                } else {
                    *text = self.normalize_message(text);
                }
            }
            _ => {}
        }
    }

    fn placeholder(&mut self, kind: &'static str, text: &str) -> String {
        let next = self.seen.keys().filter(|(other, _)| *other == kind).count();
        let number = *self.seen.entry((kind, text.to_owned())).or_insert(next);
        format!("<{kind} {number}>")
    }

    /// Replaces uids and versions within messages.
    fn normalize_message(&self, text: &str) -> String {
        let mut message = text.to_owned();
        for ((kind, seen), number) in &self.seen {
            if seen.len() > 8 {
                message = message.replace(seen, &format!("<{kind} {number}>"));
            }
        }
        let is_about_versions = ["resource version: ", "ResourceVersion in"];
        if is_about_versions.iter().any(|part| message.contains(part)) {
            let digit = |c: char| if c.is_ascii_digit() { '#' } else { c };
            message = message.chars().map(digit).collect();
            while message.contains("##") {
                message = message.replace("##", "#");
            }
        }
        message
    }
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && bytes.ends_with(b"Z")
}
