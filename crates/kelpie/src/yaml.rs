//! Values as YAML that people can read and every parser understands.

use serde_json::Value;

/// The whole document.
pub(crate) fn text(value: &Value) -> String {
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
                // The dash takes the place of the first line's last indentation.
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

/// What follows a name: on the same line, or indented below.
fn nested(text: &mut String, value: &Value, depth: usize) {
    let is_block = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        text.push('\n');
        // Lists stand as deep as their name, as everywhere in Kubernetes.
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
        Value::String(words) => scalar(words),
        // JSON is YAML.
        other => other.to_string(),
    }
}

/// Words are bare where nobody could take them for something else.
fn scalar(words: &str) -> String {
    let begins = words.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '.');
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    let other = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_bare = begins
        && words.chars().all(is_plain)
        && !other.contains(&words.to_ascii_lowercase().as_str());
    if is_bare {
        words.to_owned()
    } else {
        Value::from(words).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_lists_and_leaves_look_as_people_write_them() {
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
        assert_eq!(text(&value), expected);
    }
}
