//! Formats values as readable YAML that every parser understands.

use serde_json::Value;

/// Formats a whole document.
pub(crate) fn to_string(value: &Value) -> String {
    let mut text = String::new();
    block(&mut text, value, 0);
    text
}

fn block(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                text.push_str(&"  ".repeat(depth));
                text.push_str(&scalar(name));
                text.push(':');
                nested(text, field, depth + 1);
            }
        }
        Value::Array(items) => {
            for item in items {
                let mut inner = String::new();
                block(&mut inner, item, depth + 1);
                // The dash replaces the last two columns of the first line's indentation.
                text.push_str(&"  ".repeat(depth));
                text.push_str("- ");
                text.push_str(inner.trim_start());
            }
        }
        leaf => {
            text.push_str(&inline(leaf));
            text.push('\n');
        }
    }
}

/// Writes the value of a field on the same line, or indented below it.
fn nested(text: &mut String, value: &Value, depth: usize) {
    let is_block = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        text.push('\n');
        // Lists are indented like their field, as is usual in Kubernetes.
        let depth = if value.is_array() { depth - 1 } else { depth };
        block(text, value, depth);
    } else {
        text.push(' ');
        text.push_str(&inline(value));
        text.push('\n');
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        // YAML is a superset of JSON.
        other => other.to_string(),
    }
}

/// Formats a string, without quotes if it cannot be mistaken for another type.
fn scalar(text: &str) -> String {
    let starts_plain =
        text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '.');
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_bare = starts_plain
        && text.chars().all(is_plain)
        && !reserved.contains(&text.to_ascii_lowercase().as_str());
    if is_bare {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_formatted_as_blocks() {
        let value = json!({
            "a": { "b": [{ "c": 1, "d": [] }, "x y", { "e": { "f": "True" } }], "g": {} },
            "h": "a: b",
            "i": null,
            "j": 1.5,
        });
        let expected = "\
a:
  b:
  - c: 1
    d: []
  - \"x y\"
  - e:
      f: \"True\"
  g: {}
h: \"a: b\"
i: null
j: 1.5
";
        assert_eq!(to_string(&value), expected);
    }
}
