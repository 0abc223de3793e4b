//! Finds a configuration file in the `ConfigMap` that holds it, as `kubectl get cm -o yaml` prints
//! it.

use crate::Strictness;
use crate::problem::{ConfigProblem, SourcePosition};
use crate::schema::MapSchema;
use crate::yaml::{self, MAX_BYTES, YamlContent, YamlEntry, YamlNode};

/// A file that was found in a `ConfigMap`.
pub(crate) struct EmbeddedFile {
    /// The file. Lines and columns are those of the `ConfigMap`, unless `position` is set.
    pub text: String,
    /// The position of the file, where positions in `text` count from its start.
    pub position: Option<SourcePosition>,
}

/// Keys that say nothing about the kind of a file.
const COMMON_KEYS: [&str; 2] = ["name", "namespace"];

/// Returns the file of the kind that `schema` describes, or the problem of a `ConfigMap` that
/// holds none or several. `None` means that this is not a `ConfigMap`, or a list of them.
pub(crate) fn find(
    text: &str,
    root: &YamlNode,
    schema: &MapSchema,
) -> Option<Result<EmbeddedFile, ConfigProblem>> {
    let values = values(root)?;
    let total: usize = values.iter().map(|(_, value)| value.len()).sum();
    let problem = |message: &str| ConfigProblem::error(root.position, "", message);
    if total > MAX_BYTES {
        // Aliases can make many large values of one.
        let problem = problem("the file has values of a ConfigMap that are too large");
        return Some(Err(problem.expected(format!("at most {MAX_BYTES} bytes"))));
    }
    let mut matching = values.iter().filter(|(_, value)| is_kind(value, schema));
    let found = match (matching.next(), matching.next(), values.as_slice()) {
        (Some(found), None, _) | (None, _, [found]) => found,
        (Some(_), Some(_), _) => {
            let problem = problem("the file has several values that could be the configuration");
            let advice = "save one of them to a separate file";
            return Some(Err(problem.expected("one").hint(advice)));
        }
        (None, _, []) => {
            let problem = problem("the file is a ConfigMap without a value under `data`");
            return Some(Err(problem.expected(schema.expected)));
        }
        (None, ..) => {
            let problem =
                problem("the file is a ConfigMap, and no value in it is the configuration");
            return Some(Err(problem.expected(schema.expected)));
        }
    };
    let (entry, value) = found;
    Some(Ok(match in_place(text, entry, value) {
        Some(text) => EmbeddedFile {
            text,
            position: None,
        },
        None => EmbeddedFile {
            text: (*value).to_owned(),
            position: Some(entry.value.position),
        },
    }))
}

/// Returns the values under `data` of a `ConfigMap`, or of all ConfigMaps of a list.
fn values(root: &YamlNode) -> Option<Vec<(&YamlEntry, &str)>> {
    let is_map = |map: &&YamlNode| kind(map) == Some("ConfigMap");
    let maps: Vec<&YamlNode> = match kind(root)? {
        "ConfigMap" => vec![root],
        "List" | "ConfigMapList" => match &get(root, "items")?.value.content {
            YamlContent::List(items) => items.iter().map(AsRef::as_ref).filter(is_map).collect(),
            _ => return None,
        },
        _ => return None,
    };
    if maps.is_empty() {
        return None;
    }
    let mut values = Vec::new();
    for map in maps {
        let data = get(map, "data").map(|entry| &entry.value.content);
        let Some(YamlContent::Map(entries)) = data else {
            continue;
        };
        values.extend(entries.iter().filter_map(|entry| {
            let YamlContent::Scalar(scalar) = &entry.value.content else {
                return None;
            };
            Some((entry, scalar.text.as_str()))
        }));
    }
    Some(values)
}

fn get<'n>(node: &'n YamlNode, name: &str) -> Option<&'n YamlEntry> {
    let YamlContent::Map(entries) = &node.content else {
        return None;
    };
    entries.iter().find(|entry| entry.key == name)
}

fn kind(node: &YamlNode) -> Option<&str> {
    get(node, "apiVersion")?;
    match &get(node, "kind")?.value.content {
        YamlContent::Scalar(scalar) => Some(&scalar.text),
        _ => None,
    }
}

/// Returns true if a text is a map with a key that only this kind of file has.
fn is_kind(text: &str, schema: &MapSchema) -> bool {
    let document = yaml::parse(text).unwrap_or_default();
    let Some(root) = document.root else {
        return false;
    };
    let YamlContent::Map(entries) = &root.content else {
        return false;
    };
    entries.iter().any(|entry| {
        let mut keys = schema.keys.iter();
        let known = keys.find(|key| key.matches(&entry.key, Strictness::Lenient));
        known.is_some_and(|key| !COMMON_KEYS.contains(&key.name))
    })
}

/// Returns the lines of a literal block where they stand in the file, after as many empty lines as
/// there are lines before them: YAML reads the same from it, and every position is that of the
/// file. Returns `None` for a value in another style.
fn in_place(text: &str, entry: &YamlEntry, value: &str) -> Option<String> {
    // A marker of a document is one only at the start of a line.
    if value.starts_with('%')
        || value
            .lines()
            .any(|line| matches!(line.get(..3), Some("---" | "...")))
    {
        return None;
    }
    let line = entry.position.line;
    let indent = entry.position.column - 1;
    let head = text.lines().nth(line.checked_sub(1)?)?;
    let is_literal = head
        .trim_end()
        .trim_end_matches(['-', '+'])
        .ends_with(": |");
    if !is_literal {
        return None;
    }
    let is_inside = |line: &&str| {
        let own = line.trim_start_matches(' ');
        own.is_empty() || line.len() - own.len() > indent
    };
    let block: Vec<&str> = text.lines().skip(line).take_while(is_inside).collect();
    let own_indent = block.iter().find(|line| !line.trim().is_empty());
    let own_indent = own_indent.map(|line| line.len() - line.trim_start_matches(' ').len())?;
    let dedented = block
        .iter()
        .map(|line| line.get(own_indent..).unwrap_or_default());
    let is_same = dedented.clone().collect::<Vec<_>>().join("\n").trim_end() == value.trim_end();
    is_same.then(|| "\n".repeat(line) + &block.join("\n") + "\n")
}
