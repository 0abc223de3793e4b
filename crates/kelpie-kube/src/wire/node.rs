//! What is kept of a list of nodes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kelpie_core::{Condition, Node, Time};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::protobuf::{Fields, Value, time};
use super::{Limits, List, WireError, json, malformed, name};

const POOL: &str = "worker.gardener.cloud/pool";
const UNMANAGED: &str = "node.machine.sapcloud.io/not-managed-by-mcm";

/// Conditions of one node that hold; kubelets and problem detectors write a dozen, and few of them hold.
/// A list with more is refused: nothing is decided about a node of which a part was left out.
const MOST_CONDITIONS: usize = 64;

/// Longer texts are nobody's: kinds and reasons that mean something are short. Nobody validates them.
const LONGEST_TEXT: usize = 1_024;

/// The nodes of a cluster in the order of the list, with what is used of them; of their conditions those
/// that may count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeList(pub Vec<Node>);

impl List for NodeList {
    const KIND: &'static str = "NodeList";

    /// A node has 5 to 20 KB, more with many images; 50 KB for each of 5,000 make 256 MB.
    const LIMITS: Limits = Limits {
        body: 256 * 1024 * 1024,
        item: 1024 * 1024,
        items: 20_000,
    };

    /// `{ metadata = 1, status = 3 { conditions = 4 } }`
    fn protobuf(&mut self, item: &[u8]) -> Result<(), WireError> {
        let mut node = Node::default();
        for field in Fields(item) {
            match field? {
                (1, Value::Bytes(metadata)) => read_metadata(metadata, &mut node)?,
                (3, Value::Bytes(status)) => {
                    for field in Fields(status) {
                        if let (4, Value::Bytes(condition)) = field? {
                            add_condition(&mut node, read_condition(condition)?)?;
                        }
                    }
                }
                _ => {}
            }
        }
        // An absent name never came by the check.
        name::check(node.name.as_bytes())?;
        self.0.push(node);
        Ok(())
    }

    fn json(&mut self, item: &[u8]) -> Result<(), WireError> {
        let written: Written<'_> = json::item(item)?;
        let metadata = written.metadata;
        let created = json::time(metadata.creation_timestamp.as_deref())?;
        let mut node = Node {
            name: name::check(metadata.name.as_bytes())?.to_owned(),
            created: created.unwrap_or_default(),
            pool: metadata.labels.unwrap_or_default().remove(POOL),
            unmanaged: metadata
                .annotations
                .is_some_and(|all| all.contains_key(UNMANAGED)),
            conditions: Vec::new(),
        };
        let status = written.status.unwrap_or_default();
        for condition in status.conditions.unwrap_or_default() {
            add_condition(
                &mut node,
                Condition {
                    kind: condition.kind,
                    is_true: condition.status == "True",
                    reason: condition.reason.unwrap_or_default(),
                },
            )?;
        }
        self.0.push(node);
        Ok(())
    }
}

/// `{ name = 1, creationTimestamp = 8, labels = 11, annotations = 12 }`
fn read_metadata(message: &[u8], node: &mut Node) -> Result<(), WireError> {
    for field in Fields(message) {
        match field? {
            (1, Value::Bytes(found)) => name::check(found)?.clone_into(&mut node.name),
            (8, Value::Bytes(found)) => {
                node.created = time(found)?.unwrap_or(Time::default());
            }
            (11, Value::Bytes(label)) => {
                let (key, value) = read_pair(label)?;
                if key == POOL.as_bytes() {
                    node.pool = Some(String::from_utf8_lossy(value).into_owned());
                }
            }
            (12, Value::Bytes(annotation)) => {
                node.unmanaged |= read_pair(annotation)?.0 == UNMANAGED.as_bytes();
            }
            _ => {}
        }
    }
    Ok(())
}

/// An entry of a map: `{ key = 1, value = 2 }`
fn read_pair(message: &[u8]) -> Result<(&[u8], &[u8]), WireError> {
    let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
    for field in Fields(message) {
        match field? {
            (1, Value::Bytes(found)) => key = found,
            (2, Value::Bytes(found)) => value = found,
            _ => {}
        }
    }
    Ok((key, value))
}

/// `{ type = 1, status = 2, reason = 5 }`
fn read_condition(message: &[u8]) -> Result<Condition, WireError> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let mut condition = Condition::default();
    for field in Fields(message) {
        match field? {
            (1, Value::Bytes(found)) => condition.kind = text(found),
            (2, Value::Bytes(found)) => condition.is_true = found == b"True",
            (5, Value::Bytes(found)) => condition.reason = text(found),
            _ => {}
        }
    }
    Ok(condition)
}

/// What cannot matter is not kept: a list may have millions of conditions.
fn add_condition(node: &mut Node, mut condition: Condition) -> Result<(), WireError> {
    if condition.kind.len() > LONGEST_TEXT {
        return Ok(());
    }
    if condition.reason.len() > LONGEST_TEXT {
        condition.reason = String::new();
    }
    let Some(condition) = condition.that_may_count() else {
        return Ok(());
    };
    if node.conditions.len() == MOST_CONDITIONS {
        let text = format!("it has more than {MOST_CONDITIONS} conditions that hold");
        return Err(malformed(text));
    }
    node.conditions.push(condition);
    Ok(())
}

/// What is used of a node in JSON.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    creation_timestamp: Option<Cow<'a, str>>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    #[expect(
        clippy::zero_sized_map_values,
        reason = "written as a map; only keys are used"
    )]
    annotations: Option<BTreeMap<String, IgnoredAny>>,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Option<Vec<WrittenCondition>>,
}

#[derive(Deserialize)]
struct WrittenCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    reason: Option<String>,
}
