//! YAML -> a small tree that remembers where everything stood.
//!
//! Anchors, aliases and merge keys are resolved here, within limits that keep a hostile file cheap:
//! aliases share what they refer to, and what they stand for counts in full.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, Span, Tag};

use crate::problem::Place;
use crate::scalar::{Meaning, Scalar};

/// Files longer than this are refused unread.
pub const MAX_BYTES: usize = 1 << 20;
const MAX_DEPTH: usize = 64;
const MAX_NODES: usize = 100_000;

/// A value and where it starts.
#[derive(Debug, PartialEq)]
pub(crate) struct Node {
    pub place: Place,
    pub content: Content,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Content {
    Scalar(Scalar),
    List(Vec<Rc<Node>>),
    /// In the order of the file, duplicates included.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    /// Where the key starts.
    pub place: Place,
    pub value: Rc<Node>,
}

/// The first document of a file.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// `None`: there is nothing but comments.
    pub root: Option<Rc<Node>>,
    /// Where a further document with content starts.
    pub surplus: Option<Place>,
}

/// Why there is no tree: a problem of encoding, size or syntax.
#[derive(Debug, PartialEq)]
pub(crate) struct Fault {
    pub place: Place,
    pub message: String,
}

/// The bytes as text, without byte order mark.
pub(crate) fn decode(bytes: &[u8]) -> Result<&str, Fault> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file is too large; expected at most {MAX_BYTES} bytes");
        return Err(Fault {
            place: Place::START,
            message,
        });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (good, bad) = bytes.split_at(error.valid_up_to());
        let good = String::from_utf8_lossy(good);
        let last_line = good.rsplit('\n').next().unwrap_or_default();
        let place = Place {
            line: good.matches('\n').count() + 1,
            column: last_line.chars().count() + 1,
        };
        let byte = bad.first().copied().unwrap_or_default();
        let message = format!("the file is not UTF-8 text: byte 0x{byte:02x}; save it as UTF-8");
        Fault { place, message }
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Reads the first document of `text`.
pub(crate) fn read(text: &str) -> Result<Document, Fault> {
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) =
            next.map_err(|error| syntax(place(error.marker()), &in_plain_words(error.kind())))?;
        if let Some(surplus) = builder.take(event, &span)? {
            builder.document.surplus = Some(surplus);
            break;
        }
    }
    Ok(builder.document)
}

fn syntax(place: Place, message: &str) -> Fault {
    Fault {
        place,
        message: format!("the file is not valid YAML: {message}"),
    }
}

/// The parser's own words, except where its readers would need to know YAML's grammar.
fn in_plain_words(kind: &ErrorKind) -> String {
    let words = match kind {
        ErrorKind::RecursionLimitExceeded => return too_deep(),
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation => "a tab where only spaces may indent",
        ErrorKind::MappingValueNotAllowed => {
            "a `:` where no key can be; check the indentation, or put the text in quotes"
        }
        ErrorKind::SimpleKeyExpected => "a key without `: ` after it",
        ErrorKind::InvalidQuotedScalarIndent => {
            "quoted text goes on without indentation; is the closing quote missing?"
        }
        other => return other.to_string(),
    };
    words.to_owned()
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

fn place(marker: &Marker) -> Place {
    Place {
        line: marker.line(),
        column: marker.col() + 1,
    }
}

#[derive(Default)]
struct Builder {
    document: Document,
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
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<Option<Place>, Fault> {
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

fn is_plain(style: ScalarStyle, tag: Option<&Tag>) -> bool {
    match tag.and_then(Tag::core_suffix) {
        Some("str") => false,
        Some("int" | "float" | "bool" | "null") => true,
        _ => style == ScalarStyle::Plain,
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
