//! Events of the parser -> nodes of the tree.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{Event, ScalarStyle, Span, Tag};

use super::fault::{Fault, syntax, too_deep};
use super::{Content, Document, Entry, MAX_DEPTH, MAX_NODES, Node, place};
use crate::problem::Place;
use crate::scalar::{Meaning, Scalar};

#[derive(Default)]
pub(super) struct Builder {
    pub document: Document,
    /// The first document has ended.
    done: bool,
    open: Vec<Frame>,
    anchors: HashMap<usize, Anchored>,
    /// Nodes so far, each alias counted as all that it stands for.
    nodes: usize,
}

/// A list or map whose end has not come yet.
struct Frame {
    place: Place,
    anchor: usize,
    /// The count of nodes before this one.
    nodes_before: usize,
    /// Levels below this one.
    depth: usize,
    parts: Parts,
}

enum Parts {
    List(Vec<Rc<Node>>),
    Map {
        entries: Vec<Entry>,
        merges: Vec<Rc<Node>>,
        key: Option<Name>,
    },
}

/// A key that waits for its value.
struct Name {
    text: String,
    place: Place,
    merge: bool,
}

/// What an alias may refer to.
struct Anchored {
    node: Rc<Node>,
    nodes: usize,
    depth: usize,
}

impl Builder {
    /// Takes one event; answers where a second document has content, which ends the reading.
    pub(super) fn take(&mut self, event: Event<'_>, span: &Span) -> Result<Option<Place>, Fault> {
        let place = place(&span.start);
        if self.done && event.is_node() {
            let empty = event
                .scalar()
                .is_some_and(|(text, _)| matches!(text, "" | "~"));
            return Ok((!empty).then_some(place));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1, place)?;
                let scalar = Scalar {
                    plain: is_plain(style, tag.as_deref()),
                    text: text.into(),
                };
                self.attach(
                    Node {
                        place,
                        content: Content::Scalar(scalar),
                    },
                    anchor,
                    1,
                    0,
                )?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.begin(place, anchor, Parts::List(Vec::new()))?;
            }
            Event::MappingStart(_, anchor, _) => {
                let parts = Parts::Map {
                    entries: Vec::new(),
                    merges: Vec::new(),
                    key: None,
                };
                self.begin(place, anchor, parts)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end()?,
            Event::Alias(anchor) => {
                let Some(target) = self.anchors.get(&anchor) else {
                    return Err(syntax(
                        place,
                        "an alias refers to the value that it stands in",
                    ));
                };
                let (node, nodes, depth) = (target.node.clone(), target.nodes, target.depth);
                self.count(nodes, place)?;
                self.place_node(node, depth)?;
            }
            Event::UnresolvedAlias(name) => {
                return Err(syntax(
                    place,
                    &format!("nothing before the alias *{name} has the anchor &{name}"),
                ));
            }
            Event::DocumentEnd => self.done = true,
            _ => {}
        }
        Ok(None)
    }

    fn count(&mut self, nodes: usize, place: Place) -> Result<(), Fault> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            let message = format!("the file stands for more than {MAX_NODES} values");
            return Err(Fault { place, message });
        }
        Ok(())
    }

    fn begin(&mut self, place: Place, anchor: usize, parts: Parts) -> Result<(), Fault> {
        let nodes_before = self.nodes;
        self.count(1, place)?;
        self.open.push(Frame {
            place,
            anchor,
            nodes_before,
            depth: 0,
            parts,
        });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        let Some(frame) = self.open.pop() else {
            return Ok(());
        };
        let content = match frame.parts {
            Parts::List(items) => Content::List(items),
            Parts::Map {
                mut entries,
                merges,
                ..
            } => {
                merge(&mut entries, &merges)?;
                Content::Map(entries)
            }
        };
        let nodes = self.nodes - frame.nodes_before;
        self.attach(
            Node {
                place: frame.place,
                content,
            },
            frame.anchor,
            nodes,
            frame.depth,
        )
    }

    /// Puts a finished node where it belongs and remembers it under its anchor.
    fn attach(
        &mut self,
        node: Node,
        anchor: usize,
        nodes: usize,
        depth: usize,
    ) -> Result<(), Fault> {
        let node = Rc::new(node);
        if anchor > 0 {
            self.anchors.insert(
                anchor,
                Anchored {
                    node: node.clone(),
                    nodes,
                    depth,
                },
            );
        }
        self.place_node(node, depth)
    }

    fn place_node(&mut self, node: Rc<Node>, depth: usize) -> Result<(), Fault> {
        // Aliases of aliases nest without a bracket in sight.
        if self.open.len() + depth > MAX_DEPTH {
            return Err(syntax(node.place, &too_deep()));
        }
        let Some(frame) = self.open.last_mut() else {
            let nothing =
                matches!(&node.content, Content::Scalar(s) if s.meaning() == Meaning::Nothing);
            self.document.root = (!nothing).then_some(node);
            return Ok(());
        };
        frame.depth = frame.depth.max(depth + 1);
        match &mut frame.parts {
            Parts::List(items) => items.push(node),
            Parts::Map {
                entries,
                merges,
                key,
            } => match key.take() {
                None => *key = Some(name(&node)?),
                Some(name) if name.merge => merges.push(node),
                Some(name) => entries.push(Entry {
                    key: name.text,
                    place: name.place,
                    value: node,
                }),
            },
        }
        Ok(())
    }
}

/// Whether a scalar is read for what it means: a tag of one's own makes it text, as in Go.
fn is_plain(style: ScalarStyle, tag: Option<&Tag>) -> bool {
    match tag {
        Some(tag) => matches!(tag.core_suffix(), Some("int" | "float" | "bool" | "null")),
        None => style == ScalarStyle::Plain,
    }
}

fn name(node: &Node) -> Result<Name, Fault> {
    match &node.content {
        Content::Scalar(scalar) => Ok(Name {
            text: scalar.text.clone(),
            place: node.place,
            merge: scalar.plain && scalar.text == "<<",
        }),
        _ => Err(syntax(node.place, "a key has to be text")),
    }
}

/// Adds what merge keys bring in; a map's own keys win, then the first map that has one.
fn merge(entries: &mut Vec<Entry>, merges: &[Rc<Node>]) -> Result<(), Fault> {
    if merges.is_empty() {
        return Ok(());
    }
    let mut known: HashSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    for source in merges {
        let maps = match &source.content {
            Content::List(items) => items.as_slice(),
            _ => std::slice::from_ref(source),
        };
        for map in maps {
            let Content::Map(more) = &map.content else {
                return Err(syntax(map.place, "`<<` takes a map or a list of maps"));
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
