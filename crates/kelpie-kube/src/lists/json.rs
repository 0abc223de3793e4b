//! The JSON encoding: the elements of `items` in the outermost object.
//!
//! A scanner that knows only strings and nesting finds the end of each item, and serde decodes the
//! item. The scanner has no stack: nesting is a number.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{
    ItemSink, List, ListError, MAX_METADATA_BYTES, check_kind, malformed, parse_version, quote,
};

/// Finds the items in a body that arrives in chunks.
#[derive(Debug, Default)]
pub(super) struct JsonScanner {
    state: JsonState,
    value: ValueScanner,
    /// The start of the key, value or item that is being read, unless it is skipped.
    captured: Vec<u8>,
    /// The key whose value is being read.
    key: JsonKey,
    items_seen: bool,
    kind: Option<String>,
    resource_version: Option<u64>,
}

/// The position in the outermost object.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum JsonState {
    #[default]
    Start,
    FirstKey,
    NextKey,
    InKey,
    Colon,
    Value,
    InValue,
    AfterValue,
    FirstItem,
    NextItem,
    InItem,
    /// In an item that is skipped because of its size.
    InOversizedItem,
    AfterItem,
    End,
}

/// A key of the outermost object.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum JsonKey {
    Kind,
    Metadata,
    Items,
    #[default]
    Other,
}

/// The fields of a list's metadata that are used.
#[derive(Deserialize)]
struct ListMetadataJson<'a> {
    #[serde(rename = "continue")]
    next_page: Option<String>,
    #[serde(borrow, rename = "resourceVersion")]
    resource_version: Option<VersionJson<'a>>,
}

/// A `resourceVersion`, which is text. Any other value is ignored.
#[derive(Deserialize)]
#[serde(untagged)]
enum VersionJson<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Other(IgnoredAny),
}

impl ListMetadataJson<'_> {
    fn resource_version(&self) -> Option<u64> {
        match self.resource_version.as_ref()? {
            VersionJson::Text(text) => parse_version(text.as_bytes()),
            VersionJson::Other(_) => None,
        }
    }
}

impl JsonScanner {
    pub(super) fn push<L: List>(
        &mut self,
        chunk: &[u8],
        items: &mut ItemSink<L>,
    ) -> Result<(), ListError> {
        let mut rest = chunk;
        while let Some(first) = rest.first() {
            match self.state {
                JsonState::InKey
                | JsonState::InValue
                | JsonState::InItem
                | JsonState::InOversizedItem => {
                    let (used, is_complete) = self.value.scan(rest);
                    let (part, after) = rest.split_at(used);
                    rest = after;
                    self.take_part(part, is_complete, items)?;
                }
                _ if first.is_ascii_whitespace() => rest = &rest[1..],
                _ => {
                    if self.step(*first)? {
                        rest = &rest[1..];
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn resource_version(&self) -> Option<u64> {
        self.resource_version
    }

    pub(super) fn finish<L: List>(self) -> Result<(), ListError> {
        if self.state != JsonState::End {
            return Err(malformed("the list ends too early"));
        }
        check_kind::<L>(self.kind.as_deref().unwrap_or_default())?;
        if !self.items_seen {
            return Err(malformed("the response has no items"));
        }
        Ok(())
    }

    /// Processes a byte between keys, values and items. Returns false if the byte is the first of
    /// the next key, value or item, which has to see it too.
    fn step(&mut self, byte: u8) -> Result<bool, ListError> {
        self.state = match (self.state, byte) {
            (JsonState::Start, b'{') => JsonState::FirstKey,
            (JsonState::FirstKey | JsonState::AfterValue, b'}') => JsonState::End,
            (JsonState::FirstKey | JsonState::NextKey, b'"') => {
                return Ok(self.start(JsonState::InKey));
            }
            (JsonState::Colon, b':') => JsonState::Value,
            (JsonState::Value, b'[') if self.key == JsonKey::Items => JsonState::FirstItem,
            (JsonState::Value, b'"' | b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                return Ok(self.start(JsonState::InValue));
            }
            (JsonState::AfterValue, b',') => JsonState::NextKey,
            (JsonState::FirstItem | JsonState::AfterItem, b']') => JsonState::AfterValue,
            (JsonState::FirstItem | JsonState::NextItem, b'{') => {
                return Ok(self.start(JsonState::InItem));
            }
            (JsonState::AfterItem, b',') => JsonState::NextItem,
            _ => {
                let quoted = quote(&char::from(byte).to_string());
                return Err(malformed(format!("the list is not valid JSON at {quoted}")));
            }
        };
        Ok(true)
    }

    fn start(&mut self, state: JsonState) -> bool {
        self.state = state;
        self.value = ValueScanner::default();
        self.captured.clear();
        false
    }

    /// Takes a part of a key, value or item, or the rest of it if `is_complete`.
    fn take_part<L: List>(
        &mut self,
        part: &[u8],
        is_complete: bool,
        items: &mut ItemSink<L>,
    ) -> Result<(), ListError> {
        let size = self.captured.len() + part.len();
        if self.state == JsonState::InItem {
            if size > L::LIMITS.item {
                items.skip()?;
                self.captured.clear();
                self.state = if is_complete {
                    JsonState::AfterItem
                } else {
                    JsonState::InOversizedItem
                };
                return Ok(());
            }
            if is_complete && self.captured.is_empty() {
                // The usual case, without a copy.
                self.state = JsonState::AfterItem;
                return items.add(part, L::add_json);
            }
        } else if self.state == JsonState::InOversizedItem {
            if is_complete {
                self.state = JsonState::AfterItem;
            }
            return Ok(());
        } else if self.state == JsonState::InValue && self.key == JsonKey::Other {
            if is_complete {
                self.state = JsonState::AfterValue;
            }
            return Ok(());
        } else if size > MAX_METADATA_BYTES {
            return Err(malformed("a key or the metadata of the list is too long"));
        }
        self.captured.extend_from_slice(part);
        if !is_complete {
            return Ok(());
        }
        match self.state {
            JsonState::InItem => {
                items.add(&self.captured, L::add_json)?;
                self.state = JsonState::AfterItem;
            }
            JsonState::InKey => {
                self.key = match self.captured.as_slice() {
                    b"\"kind\"" => JsonKey::Kind,
                    b"\"metadata\"" => JsonKey::Metadata,
                    b"\"items\"" if self.items_seen => {
                        return Err(malformed("the response has items twice"));
                    }
                    b"\"items\"" => {
                        self.items_seen = true;
                        JsonKey::Items
                    }
                    _ => JsonKey::Other,
                };
                self.state = JsonState::Colon;
            }
            _ => {
                self.finish_value()?;
                self.state = JsonState::AfterValue;
            }
        }
        Ok(())
    }

    /// Uses a captured value.
    fn finish_value(&mut self) -> Result<(), ListError> {
        match self.key {
            JsonKey::Kind => {
                let kind = serde_json::from_slice(&self.captured);
                self.kind = Some(kind.map_err(|_| malformed("the list's kind is not a string"))?);
            }
            JsonKey::Metadata => {
                let metadata =
                    serde_json::from_slice::<Option<ListMetadataJson<'_>>>(&self.captured);
                let metadata = metadata.map_err(|_| malformed("the list's metadata is invalid"))?;
                let Some(metadata) = metadata else {
                    return Ok(());
                };
                self.resource_version = metadata.resource_version();
                if metadata.next_page.is_some_and(|next| !next.is_empty()) {
                    return Err(ListError::Partial);
                }
            }
            // An array of items is never captured.
            JsonKey::Items if self.captured != b"null" => {
                return Err(malformed("the list's items are not an array"));
            }
            JsonKey::Items | JsonKey::Other => {}
        }
        Ok(())
    }
}

/// Finds the end of a value.
#[derive(Debug, Default)]
struct ValueScanner {
    nesting: usize,
    in_string: bool,
    is_escaped: bool,
}

impl ValueScanner {
    /// Returns the number of `bytes` that belong to the value, and whether the value ends with
    /// them.
    fn scan(&mut self, bytes: &[u8]) -> (usize, bool) {
        for (index, byte) in bytes.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => {
                        self.in_string = false;
                        if self.nesting == 0 {
                            return (index + 1, true);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.nesting += 1,
                // A number or a literal ends before these.
                b'}' | b']' | b',' | b' ' | b'\t' | b'\r' | b'\n' if self.nesting == 0 => {
                    return (index, true);
                }
                b'}' | b']' => {
                    self.nesting -= 1;
                    if self.nesting == 0 {
                        return (index + 1, true);
                    }
                }
                _ => {}
            }
        }
        (bytes.len(), false)
    }
}

/// Decodes an item. The error has the location and little of the tenant's text.
pub(super) fn parse_item<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ListError> {
    serde_json::from_slice(bytes).map_err(|error| malformed(quote(&error.to_string())))
}

/// Parses a time in the format of Kubernetes, RFC 3339.
pub(super) fn parse_time(text: Option<&str>) -> Result<Option<kelpie_core::Time>, ListError> {
    let parse = |text: &str| match text.parse::<jiff::Timestamp>() {
        Ok(time) => Ok(kelpie_core::Time::from_micros(time.as_microsecond())),
        Err(_) => Err(malformed(format!("{} is not a time", quote(text)))),
    };
    text.map(parse).transpose()
}
