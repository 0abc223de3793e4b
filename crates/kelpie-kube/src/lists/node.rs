//! A list of nodes, which are judged one by one while the list is decoded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use kelpie_core::prober::{
    Node, NodeCondition, NodeConventions, NodeRules, NodeSetBuilder, ZONE_LABEL,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::protobuf::{ProtobufFields, ProtobufValue, bytes_field, time};
use super::{List, ListError, ListLimits, MAX_NAMES_BYTES, json, parse_name};

/// The nodes of a cluster. Each is reduced to the fields that are used and passed to `nodes`, which
/// judges it: a whole node is in memory only while it is decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeList<C = NodeSetBuilder> {
    /// The nodes, in the order of the list.
    pub nodes: C,
    rules: Arc<NodeRules>,
}

impl NodeList {
    /// Creates an empty list, whose nodes are judged by `rules`.
    pub fn new(rules: Arc<NodeRules>) -> Self {
        Self {
            nodes: NodeSetBuilder::new(Arc::clone(&rules)),
            rules,
        }
    }
}

impl<C: Default> NodeList<C> {
    /// Creates an empty list that collects the nodes themselves, with the fields that `rules` use.
    pub fn collecting(rules: Arc<NodeRules>) -> Self {
        Self {
            nodes: C::default(),
            rules,
        }
    }
}

impl<C: Extend<Node>> List for NodeList<C> {
    const KIND: &'static str = "NodeList";

    /// A node has 5 to 20 KB, more with many images; 5,000 nodes of 50 KB each have 250 MB.
    const LIMITS: ListLimits = ListLimits {
        body: 256 * 1024 * 1024,
        item: 1024 * 1024,
        items: 20_000,
        names: MAX_NAMES_BYTES,
    };

    /// `{ metadata = 1, status = 3 { conditions = 4 } }`
    fn add_protobuf(&mut self, item: &[u8]) -> Result<usize, ListError> {
        let mut node = Node::default();
        for field in ProtobufFields(item) {
            match field? {
                (1, ProtobufValue::Bytes(metadata)) => {
                    read_metadata(metadata, &mut node, self.rules.conventions())?;
                }
                (3, ProtobufValue::Bytes(status)) => {
                    for field in ProtobufFields(status) {
                        if let (4, ProtobufValue::Bytes(condition)) = field? {
                            node.conditions
                                .extend(read_condition(condition, &self.rules)?);
                        }
                    }
                }
                _ => {}
            }
        }
        // An absent name has not been checked yet.
        parse_name(node.name.as_bytes())?;
        Ok(self.add(node))
    }

    fn add_json(&mut self, item: &[u8]) -> Result<usize, ListError> {
        let parsed: NodeJson<'_> = json::parse_item(item)?;
        let (metadata, conventions) = (parsed.metadata, self.rules.conventions());
        let created = json::parse_time(metadata.creation_timestamp.as_deref())?;
        let mut labels = metadata.labels.unwrap_or_default();
        let mut node = Node {
            name: parse_name(metadata.name.as_bytes())?.to_owned(),
            created: created.unwrap_or_default(),
            pool: labels.remove(conventions.pool_label),
            zone: labels.remove(ZONE_LABEL),
            unmanaged: metadata
                .annotations
                .is_some_and(|all| all.contains_key(conventions.unmanaged_annotation)),
            conditions: Vec::new(),
        };
        let status = parsed.status.unwrap_or_default();
        for condition in status.conditions.unwrap_or_default() {
            let (kind, is_true) = (&*condition.kind, condition.status == "True");
            if self.rules.uses_condition(kind, is_true) {
                node.conditions.push(NodeCondition {
                    kind: kind.to_owned(),
                    is_true,
                    reason: condition.reason.unwrap_or_default().into_owned(),
                });
            }
        }
        Ok(self.add(node))
    }
}

impl<C: Extend<Node>> NodeList<C> {
    /// Adds a node. Returns the length of its name.
    fn add(&mut self, node: Node) -> usize {
        let length = node.name.len();
        self.nodes.extend([node]);
        length
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

/// Reads `{ type = 1, status = 2, reason = 5 }`. `None`: the rules do not use the condition.
fn read_condition(message: &[u8], rules: &NodeRules) -> Result<Option<NodeCondition>, ListError> {
    let (mut kind, mut is_true, mut reason): (&[u8], bool, &[u8]) = (&[], false, &[]);
    for field in ProtobufFields(message) {
        match field? {
            (1, ProtobufValue::Bytes(found)) => kind = found,
            (2, ProtobufValue::Bytes(found)) => is_true = found == b"True",
            (5, ProtobufValue::Bytes(found)) => reason = found,
            _ => {}
        }
    }
    let kind = str::from_utf8(kind).unwrap_or_default();
    Ok(rules.uses_condition(kind, is_true).then(|| NodeCondition {
        kind: kind.to_owned(),
        is_true,
        reason: String::from_utf8_lossy(reason).into_owned(),
    }))
}

/// The fields of a node in JSON that are used.
#[derive(Deserialize)]
struct NodeJson<'a> {
    #[serde(borrow)]
    metadata: NodeMetadataJson<'a>,
    #[serde(borrow)]
    status: Option<NodeStatusJson<'a>>,
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
struct NodeStatusJson<'a> {
    #[serde(borrow)]
    conditions: Option<Vec<NodeConditionJson<'a>>>,
}

#[derive(Deserialize)]
struct NodeConditionJson<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
}
