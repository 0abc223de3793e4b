//! Lists of leases and nodes, decoded item by item and with limits.
//!
//! A [`Decoder`] takes a body in chunks and passes each item to a [`List`], which keeps the fields
//! that are used. So a response takes the memory of one item and of the compact result, never of
//! the whole body. `protobuf` and `json` find the items and the version of the list; `lease` and
//! `node` decode one item. An incomplete list is an error: no decision is made on a part of a list.

mod json;
mod lease;
mod node;
mod protobuf;

pub use lease::LeaseList;
pub use node::NodeList;

use json::JsonScanner;
use protobuf::ProtobufScanner;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";

/// The `Accept` header of a list request, preferred encoding first.
pub(crate) const ACCEPT: &str = "application/vnd.kubernetes.protobuf, application/json";

/// The maximum size of the list's metadata and of each key.
const MAX_METADATA_BYTES: usize = 64 * 1024;

/// The maximum length of a DNS subdomain, which the API server requires of names.
const MAX_NAME_BYTES: usize = 253;

/// The maximum size of all names of a list, which are what is kept of hostile items. 20,000 nodes
/// may have names of 104 bytes.
const MAX_NAMES_BYTES: usize = 2 * 1024 * 1024;

/// The reason why a body is not a valid list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A limit is exceeded.
    #[error("{what} is more than {limit}")]
    TooLarge {
        /// The limited quantity with its unit, such as "the number of items".
        what: &'static str,
        /// The limit that is exceeded.
        limit: usize,
    },
    /// The body is malformed, or is not the expected list.
    #[error("{0}")]
    Malformed(String),
    /// The list has further pages, although the request had no page size.
    #[error("the list is only the first page of several, although no page size was requested")]
    Partial,
}

/// The limits of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimits {
    /// The maximum size of the body in bytes.
    pub body: usize,
    /// The maximum size of one item in bytes. A larger one is skipped: users of the cluster may
    /// write to their nodes and leases, so it says nothing, and costs only itself.
    pub item: usize,
    /// The maximum number of items.
    pub items: usize,
    /// The maximum size of the names of all items in bytes.
    pub names: usize,
}

/// The decoded items of a list: a [`LeaseList`] or a [`NodeList`].
pub trait List {
    /// The kind of the list, such as `LeaseList`.
    const KIND: &'static str;
    /// The limits of the list.
    const LIMITS: ListLimits;

    /// Adds an item in protobuf. Returns the size of its name.
    fn add_protobuf(&mut self, item: &[u8]) -> Result<usize, ListError>;
    /// Adds an item in JSON. Returns the size of its name.
    fn add_json(&mut self, item: &[u8]) -> Result<usize, ListError>;
}

/// Decodes a list from a body that arrives in chunks.
#[derive(Debug)]
pub struct Decoder<L> {
    scanner: Scanner,
    items: ItemSink<L>,
    /// The size of the body so far.
    bytes: usize,
}

#[derive(Debug)]
enum Scanner {
    Protobuf(ProtobufScanner),
    Json(JsonScanner),
}

/// Adds items to a list and counts them.
#[derive(Debug)]
struct ItemSink<L> {
    list: L,
    count: usize,
    /// The number of items that were skipped because of their size.
    oversized: usize,
    /// The size of all names.
    names: usize,
}

impl<L: List> ItemSink<L> {
    fn add(
        &mut self,
        item: &[u8],
        decode: fn(&mut L, &[u8]) -> Result<usize, ListError>,
    ) -> Result<(), ListError> {
        self.check_count()?;
        let name = decode(&mut self.list, item).map_err(|error| match error {
            ListError::Malformed(reason) => malformed(format!("item {}: {reason}", self.count)),
            other => other,
        })?;
        self.names += name;
        check_limit(
            "the size of all names in bytes",
            self.names,
            L::LIMITS.names,
        )?;
        self.count += 1;
        Ok(())
    }

    /// Counts an item that is skipped because of its size.
    fn skip(&mut self) -> Result<(), ListError> {
        self.check_count()?;
        self.count += 1;
        self.oversized += 1;
        Ok(())
    }

    fn check_count(&self) -> Result<(), ListError> {
        check_limit("the number of items", self.count + 1, L::LIMITS.items)
    }
}

impl<L: List> Decoder<L> {
    /// Creates a decoder for a body of this content type, which adds the items to `list`.
    pub fn new(list: L, content_type: Option<&str>) -> Result<Self, ListError> {
        let content_type = content_type.unwrap_or_default();
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let scanner = if essence.eq_ignore_ascii_case(PROTOBUF) {
            Scanner::Protobuf(ProtobufScanner::default())
        } else if essence.eq_ignore_ascii_case(JSON) {
            Scanner::Json(JsonScanner::default())
        } else {
            let quoted = quote(content_type);
            return Err(malformed(format!(
                "the response has content type {quoted}: expected {PROTOBUF} or {JSON}"
            )));
        };
        let items = ItemSink {
            list,
            count: 0,
            oversized: 0,
            names: 0,
        };
        Ok(Self {
            scanner,
            items,
            bytes: 0,
        })
    }

    /// Decodes the next chunk of the body.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), ListError> {
        self.bytes = self.bytes.saturating_add(chunk.len());
        check_limit("the size of the list in bytes", self.bytes, L::LIMITS.body)?;
        match &mut self.scanner {
            Scanner::Protobuf(scanner) => scanner.push(chunk, &mut self.items),
            Scanner::Json(scanner) => scanner.push(chunk, &mut self.items),
        }
    }

    /// Returns the `resourceVersion` of the list, if it has been read and is a decimal number. API
    /// servers promise only that it is text, so another version is no error.
    pub fn resource_version(&self) -> Option<u64> {
        match &self.scanner {
            Scanner::Protobuf(scanner) => scanner.resource_version(),
            Scanner::Json(scanner) => scanner.resource_version(),
        }
    }

    /// Returns the number of items that were skipped because of their size.
    pub fn oversized(&self) -> usize {
        self.items.oversized
    }

    /// Returns the list. Fails if the body was incomplete.
    pub fn finish(self) -> Result<L, ListError> {
        match self.scanner {
            Scanner::Protobuf(scanner) => scanner.finish()?,
            Scanner::Json(scanner) => scanner.finish::<L>()?,
        }
        Ok(self.items.list)
    }
}

fn malformed(reason: impl Into<String>) -> ListError {
    ListError::Malformed(reason.into())
}

fn check_kind<L: List>(kind: &str) -> Result<(), ListError> {
    if kind == L::KIND {
        return Ok(());
    }
    let quoted = quote(kind);
    Err(malformed(format!(
        "the response is of kind {quoted}: expected {}",
        L::KIND
    )))
}

fn check_limit(what: &'static str, value: usize, limit: usize) -> Result<(), ListError> {
    if value <= limit {
        return Ok(());
    }
    Err(ListError::TooLarge { what, limit })
}

/// Parses a `resourceVersion`. `None`: it is not a decimal number of 64 bits.
fn parse_version(text: &[u8]) -> Option<u64> {
    // A number may have a sign for `parse`.
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// Quotes untrusted text for a message: escaped and cut to 80 characters.
fn quote(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    format!("{short:?}")
}

/// Returns `bytes` as the name of an object. Names end up in logs, metrics and terminals, so those
/// that no API server would accept are refused.
fn parse_name(bytes: &[u8]) -> Result<&str, ListError> {
    let is_allowed =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(byte);
    if bytes.is_empty() {
        return Err(malformed("it has no name"));
    }
    if bytes.len() > MAX_NAME_BYTES {
        let reason = format!("its name is longer than {MAX_NAME_BYTES} bytes");
        return Err(malformed(reason));
    }
    match str::from_utf8(bytes) {
        Ok(name) if bytes.iter().all(is_allowed) => Ok(name),
        _ => {
            let quoted = quote(&String::from_utf8_lossy(bytes));
            Err(malformed(format!("{quoted} is not a valid name")))
        }
    }
}
