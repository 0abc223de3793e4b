//! Builds the tree from the events of the YAML parser.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{Event, ScalarStyle, Span, Tag};

use super::error::{YamlError, syntax_error, too_deep};
use super::{MAX_DEPTH, MAX_NODES, YamlContent, YamlDocument, YamlEntry, YamlNode, position};
use crate::problem::SourcePosition;
use crate::scalar::{Scalar, ScalarValue};

/// Consumes parser events one by one and keeps the collections that are still open.
#[derive(Default)]
pub(super) struct TreeBuilder {
    pub document: YamlDocument,
    /// True once the first document has ended.
    done: bool,
    /// The collections around the current event, outermost first.
    open: Vec<OpenNode>,
    anchors: HashMap<usize, SizedNode>,
    /// The number of nodes so far. An alias counts as many nodes as it refers to.
    nodes: usize,
}

/// A list or map whose end has not been reached.
struct OpenNode {
    position: SourcePosition,
    anchor: usize,
    /// The value of [`TreeBuilder::nodes`] before this node.
    nodes_before: usize,
    /// The number of levels nested below this node.
    depth: usize,
    children: Children,
}

enum Children {
    List(Vec<Rc<YamlNode>>),
    Map {
        entries: Vec<YamlEntry>,
        merges: Vec<Rc<YamlNode>>,
        key: Option<PendingKey>,
    },
}

/// A key whose value has not been parsed yet.
struct PendingKey {
    text: String,
    position: SourcePosition,
    /// True for the merge key `<<`.
    merge: bool,
}

/// A complete node, which aliases can refer to.
#[derive(Clone)]
struct SizedNode {
    node: Rc<YamlNode>,
    /// The number of nodes in it, itself included.
    nodes: usize,
    /// The number of levels nested below it.
    depth: usize,
}

impl TreeBuilder {
    /// Adds one event to the tree. Returns the position of a second document that has content;
    /// the caller stops there.
    pub(super) fn push_event(
        &mut self,
        event: Event<'_>,
        span: &Span,
    ) -> Result<Option<SourcePosition>, YamlError> {
        let position = position(&span.start);
        if self.done && event.is_node() {
            let empty = event
                .scalar()
                .is_some_and(|(text, _)| matches!(text, "" | "~"));
            return Ok((!empty).then_some(position));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1, position)?;
                let scalar = Scalar {
                    plain: is_plain(style, tag.as_deref()),
                    text: text.into(),
                };
                self.finish_node(anchor, position, YamlContent::Scalar(scalar), (1, 0))?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.begin(position, anchor, Children::List(Vec::new()))?;
            }
            Event::MappingStart(_, anchor, _) => {
                let children = Children::Map {
                    entries: Vec::new(),
                    merges: Vec::new(),
                    key: None,
                };
                self.begin(position, anchor, children)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end()?,
            Event::Alias(anchor) => {
                let Some(target) = self.anchors.get(&anchor).cloned() else {
                    return Err(syntax_error(
                        position,
                        "an alias refers to a value that contains it",
                    ));
                };
                self.count(target.nodes, position)?;
                self.insert_node(target)?;
            }
            Event::UnresolvedAlias(name) => {
                return Err(syntax_error(
                    position,
                    &format!("the alias *{name} has no anchor &{name} before it"),
                ));
            }
            Event::DocumentEnd => self.done = true,
            _ => {}
        }
        Ok(None)
    }

    fn count(&mut self, nodes: usize, position: SourcePosition) -> Result<(), YamlError> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            let message = format!("the file expands to more than {MAX_NODES} values");
            return Err(YamlError { position, message });
        }
        Ok(())
    }

    fn begin(
        &mut self,
        position: SourcePosition,
        anchor: usize,
        children: Children,
    ) -> Result<(), YamlError> {
        let nodes_before = self.nodes;
        self.count(1, position)?;
        self.open.push(OpenNode {
            position,
            anchor,
            nodes_before,
            depth: 0,
            children,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), YamlError> {
        let Some(frame) = self.open.pop() else {
            return Ok(());
        };
        let content = match frame.children {
            Children::List(items) => YamlContent::List(items),
            Children::Map {
                mut entries,
                merges,
                ..
            } => {
                merge(&mut entries, &merges)?;
                YamlContent::Map(entries)
            }
        };
        let nodes = self.nodes - frame.nodes_before;
        self.finish_node(frame.anchor, frame.position, content, (nodes, frame.depth))
    }

    /// Adds a complete node to the enclosing collection and stores it under its anchor.
    fn finish_node(
        &mut self,
        anchor: usize,
        position: SourcePosition,
        content: YamlContent,
        (nodes, depth): (usize, usize),
    ) -> Result<(), YamlError> {
        let node = Rc::new(YamlNode { position, content });
        let node = SizedNode { node, nodes, depth };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.insert_node(node)
    }

    fn insert_node(&mut self, SizedNode { node, depth, .. }: SizedNode) -> Result<(), YamlError> {
        // Aliases of aliases nest without any brackets, so the parser does not limit them.
        if self.open.len() + depth > MAX_DEPTH {
            return Err(syntax_error(node.position, &too_deep()));
        }
        let Some(frame) = self.open.last_mut() else {
            let is_null =
                matches!(&node.content, YamlContent::Scalar(s) if s.value() == ScalarValue::Null);
            self.document.root = (!is_null).then_some(node);
            return Ok(());
        };
        frame.depth = frame.depth.max(depth + 1);
        match &mut frame.children {
            Children::List(items) => items.push(node),
            Children::Map {
                entries,
                merges,
                key,
            } => match key.take() {
                None => *key = Some(pending_key(&node)?),
                Some(name) if name.merge => merges.push(node),
                Some(name) => entries.push(YamlEntry {
                    key: name.text,
                    position: name.position,
                    value: node,
                }),
            },
        }
        Ok(())
    }
}

/// Returns true if the scalar is typed by its text. A custom tag makes it a string, as in Go.
fn is_plain(style: ScalarStyle, tag: Option<&Tag>) -> bool {
    match tag {
        Some(tag) => matches!(tag.core_suffix(), Some("int" | "float" | "bool" | "null")),
        None => style == ScalarStyle::Plain,
    }
}

fn pending_key(node: &YamlNode) -> Result<PendingKey, YamlError> {
    match &node.content {
        YamlContent::Scalar(scalar) => Ok(PendingKey {
            text: scalar.text.clone(),
            position: node.position,
            merge: scalar.plain && scalar.text == "<<",
        }),
        _ => Err(syntax_error(node.position, "a key must be a string")),
    }
}

/// Adds the entries of merge keys. A map's own keys win, then the first merged map with a key.
fn merge(entries: &mut Vec<YamlEntry>, merges: &[Rc<YamlNode>]) -> Result<(), YamlError> {
    if merges.is_empty() {
        return Ok(());
    }
    let mut known: HashSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    for source in merges {
        let maps = match &source.content {
            YamlContent::List(items) => items.as_slice(),
            _ => std::slice::from_ref(source),
        };
        for map in maps {
            let YamlContent::Map(more) = &map.content else {
                return Err(syntax_error(
                    map.position,
                    "`<<` takes a map or a list of maps",
                ));
            };
            for entry in more {
                if known.insert(entry.key.clone()) {
                    entries.push(entry.clone());
                }
            }
        }
    }
    Ok(())
}
