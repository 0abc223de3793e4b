//! A list of nodes, reduced to the fields that are used.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kelpie_core::prober::{Node, NodeCondition, NodeConventions, ZONE_LABEL};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::protobuf::{ProtobufFields, ProtobufValue, bytes_field, time};
use super::{List, ListError, ListLimits, json, malformed, parse_name};

/// The maximum number of kept conditions of a node. Kubelets and problem detectors write a dozen,
/// of which few are kept. A list with more is refused: no decision is made on a part of a node.
const MAX_CONDITIONS: usize = 64;

/// The maximum length of a condition's type and reason. Known ones are short, and the API server
/// does not validate them.
const MAX_TEXT_BYTES: usize = 1_024;

/// The nodes of a cluster in the order of the list, reduced to the fields that are used. Only
/// conditions that may exclude a node are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeList {
    /// The nodes in the order of the list.
    pub nodes: Vec<Node>,
    conventions: NodeConventions,
}

impl NodeList {
    /// Creates an empty list for nodes of these conventions.
    pub fn new(conventions: NodeConventions) -> Self {
        Self {
            nodes: Vec::new(),
            conventions,
        }
    }
}

impl List for NodeList {
    const KIND: &'static str = "NodeList";

    /// A node has 5 to 20 KB, more with many images; 5,000 nodes of 50 KB each have 250 MB.
    const LIMITS: ListLimits = ListLimits {
        body: 256 * 1024 * 1024,
        item: 1024 * 1024,
        items: 20_000,
    };

    /// `{ metadata = 1, status = 3 { conditions = 4 } }`
    fn add_protobuf(&mut self, item: &[u8]) -> Result<(), ListError> {
        let mut node = Node::default();
        for field in ProtobufFields(item) {
            match field? {
                (1, ProtobufValue::Bytes(metadata)) => {
                    read_metadata(metadata, &mut node, &self.conventions)?;
                }
                (3, ProtobufValue::Bytes(status)) => {
                    for field in ProtobufFields(status) {
                        if let (4, ProtobufValue::Bytes(condition)) = field? {
                            let condition = read_condition(condition)?;
                            add_condition(&mut node, condition, &self.conventions)?;
                        }
                    }
                }
                _ => {}
            }
        }
        // An absent name has not been checked yet.
        parse_name(node.name.as_bytes())?;
        self.nodes.push(node);
        Ok(())
    }

    fn add_json(&mut self, item: &[u8]) -> Result<(), ListError> {
        let parsed: NodeJson<'_> = json::parse_item(item)?;
        let metadata = parsed.metadata;
        let created = json::parse_time(metadata.creation_timestamp.as_deref())?;
        let mut labels = metadata.labels.unwrap_or_default();
        let mut node = Node {
            name: parse_name(metadata.name.as_bytes())?.to_owned(),
            created: created.unwrap_or_default(),
            pool: labels.remove(self.conventions.pool_label),
            zone: labels.remove(ZONE_LABEL),
            unmanaged: metadata
                .annotations
                .is_some_and(|all| all.contains_key(self.conventions.unmanaged_annotation)),
            conditions: Vec::new(),
        };
        let status = parsed.status.unwrap_or_default();
        for condition in status.conditions.unwrap_or_default() {
            let condition = NodeCondition {
                kind: condition.kind,
                is_true: condition.status == "True",
                reason: condition.reason.unwrap_or_default(),
            };
            add_condition(&mut node, condition, &self.conventions)?;
        }
        self.nodes.push(node);
        Ok(())
    }
}

/// Reads `{ name = 1, creationTimestamp = 8, labels = 11, annotations = 12 }`. The entries of the
/// maps are `{ key = 1, value = 2 }`.
fn read_metadata(
    message: &[u8],
    node: &mut Node,
    conventions: &NodeConventions,
) -> Result<(), ListError> {
    for field in ProtobufFields(message) {
        match field? {
            (1, ProtobufValue::Bytes(found)) => parse_name(found)?.clone_into(&mut node.name),
            (8, ProtobufValue::Bytes(found)) => node.created = time(found)?.unwrap_or_default(),
            (11, ProtobufValue::Bytes(label)) => {
                let key = bytes_field(label, 1)?;
                let value = || -> Result<Option<String>, ListError> {
                    let value = String::from_utf8_lossy(bytes_field(label, 2)?);
                    Ok(Some(value.into_owned()))
                };
                if key == conventions.pool_label.as_bytes() {
                    node.pool = value()?;
                } else if key == ZONE_LABEL.as_bytes() {
                    node.zone = value()?;
                }
            }
            (12, ProtobufValue::Bytes(annotation)) => {
                let key = bytes_field(annotation, 1)?;
                node.unmanaged |= key == conventions.unmanaged_annotation.as_bytes();
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads `{ type = 1, status = 2, reason = 5 }`.
fn read_condition(message: &[u8]) -> Result<NodeCondition, ListError> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let mut condition = NodeCondition::default();
    for field in ProtobufFields(message) {
        match field? {
            (1, ProtobufValue::Bytes(found)) => condition.kind = text(found),
            (2, ProtobufValue::Bytes(found)) => condition.is_true = found == b"True",
            (5, ProtobufValue::Bytes(found)) => condition.reason = text(found),
            _ => {}
        }
    }
    Ok(condition)
}

/// Adds a condition if it may exclude the node. A list may have millions of conditions.
fn add_condition(
    node: &mut Node,
    mut condition: NodeCondition,
    conventions: &NodeConventions,
) -> Result<(), ListError> {
    if condition.kind.len() > MAX_TEXT_BYTES {
        return Ok(());
    }
    if condition.reason.len() > MAX_TEXT_BYTES {
        condition.reason = String::new();
    }
    let Some(condition) = condition.into_relevant(conventions) else {
        return Ok(());
    };
    if node.conditions.len() == MAX_CONDITIONS {
        let reason = format!("it has more than {MAX_CONDITIONS} conditions that may exclude it");
        return Err(malformed(reason));
    }
    node.conditions.push(condition);
    Ok(())
}

/// The fields of a node in JSON that are used.
#[derive(Deserialize)]
struct NodeJson<'a> {
    #[serde(borrow)]
    metadata: NodeMetadataJson<'a>,
    status: Option<NodeStatusJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeMetadataJson<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    creation_timestamp: Option<Cow<'a, str>>,
    labels: Option<BTreeMap<String, String>>,
    #[expect(
        clippy::zero_sized_map_values,
        reason = "a map of which only the keys are used"
    )]
    annotations: Option<BTreeMap<String, IgnoredAny>>,
}

#[derive(Default, Deserialize)]
struct NodeStatusJson {
    conditions: Option<Vec<NodeConditionJson>>,
}

#[derive(Deserialize)]
struct NodeConditionJson {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
}
