//! What must differ between two servers is made the same; everything else has to be.

use std::collections::BTreeMap;

use serde_json::Value;

/// Replaces uids, versions and times by the order in which they first appear: equal ones stay equal,
/// different ones stay different.
#[derive(Default)]
pub(super) struct Normal {
    seen: BTreeMap<(&'static str, String), usize>,
}

/// Fields whose values are a server's own, and what they are replaced by.
const OWN: [(&str, &str); 4] = [
    ("uid", "uid"),
    ("resourceVersion", "version"),
    ("continue", "token"),
    ("kubernetes.io/metadata.name", "name"),
];

impl Normal {
    pub(super) fn of(value: &Value) -> Value {
        let mut normal = Self::default();
        let mut value = value.clone();
        normal.walk(&mut value);
        value
    }

    fn walk(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("managedFields");
                // Others write too: the version of a list may be that of anybody's write.
                let is_list = map.contains_key("items") || map.contains_key("rows");
                if let Some(metadata) = map.get_mut("metadata").filter(|_| is_list) {
                    metadata["resourceVersion"] = Value::Null;
                }
                for (field, value) in map.iter_mut() {
                    let own = OWN.iter().find(|(name, _)| name == field);
                    match (own, value.as_str()) {
                        // "0" and "" mean the same to every server.
                        (Some((_, kind)), Some(text)) if !["", "0"].contains(&text) => {
                            *value = self.named(kind, text).into();
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
                    *text = self.told(text);
                }
            }
            _ => {}
        }
    }

    fn named(&mut self, kind: &'static str, text: &str) -> String {
        let next = self.seen.keys().filter(|(other, _)| *other == kind).count();
        let number = *self.seen.entry((kind, text.to_owned())).or_insert(next);
        format!("<{kind} {number}>")
    }

    /// Messages repeat uids and versions.
    fn told(&self, text: &str) -> String {
        let mut told = text.to_owned();
        for ((kind, seen), number) in &self.seen {
            if seen.len() > 8 {
                told = told.replace(seen, &format!("<{kind} {number}>"));
            }
        }
        let is_about_versions = ["resource version: ", "ResourceVersion in"];
        if is_about_versions.iter().any(|part| told.contains(part)) {
            let digit = |c: char| if c.is_ascii_digit() { '#' } else { c };
            told = told.chars().map(digit).collect();
            while told.contains("##") {
                told = told.replace("##", "#");
            }
        }
        told
    }
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && bytes.ends_with(b"Z")
}
