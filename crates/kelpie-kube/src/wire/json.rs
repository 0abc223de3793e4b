//! The JSON encoding: the elements of `items` in the outermost object.
//!
//! A scanner that knows strings and nesting finds where each item ends; what is inside is serde's.
//! It has no stack: nesting is a number.

use serde::Deserialize;

use super::{
    Items, LARGEST_METADATA, List, WireError, check_item_size, check_kind, malformed, shown,
};

/// Finds the items in a body that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Json {
    place: Place,
    scan: Scan,
    /// The key or value that is being read, if anybody wants it.
    captured: Vec<u8>,
    /// The key whose value is being read.
    key: Key,
    items_seen: bool,
    kind: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
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
    AfterItem,
    End,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Key {
    Kind,
    Metadata,
    Items,
    #[default]
    Other,
}

/// What is used of a list's metadata.
#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "continue", default)]
    next_page: Option<String>,
}

impl Json {
    pub(super) fn push<L: List>(
        &mut self,
        piece: &[u8],
        items: &mut Items<L>,
    ) -> Result<(), WireError> {
        let mut ahead = piece;
        while let Some(first) = ahead.first() {
            match self.place {
                Place::InKey | Place::InValue | Place::InItem => {
                    let (used, is_whole) = self.scan.take(ahead);
                    let (part, rest) = ahead.split_at(used);
                    ahead = rest;
                    self.part(part, is_whole, items)?;
                }
                _ if first.is_ascii_whitespace() => ahead = &ahead[1..],
                _ => {
                    if self.step(*first)? {
                        ahead = &ahead[1..];
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish<L: List>(self) -> Result<(), WireError> {
        if self.place != Place::End {
            return Err(malformed("the list ends too early"));
        }
        check_kind::<L>(self.kind.as_deref().unwrap_or_default())?;
        if !self.items_seen {
            return Err(malformed("the answer has no items"));
        }
        Ok(())
    }

    /// Between keys, values and items. False if the byte is the first of what comes.
    fn step(&mut self, byte: u8) -> Result<bool, WireError> {
        self.place = match (self.place, byte) {
            (Place::Start, b'{') => Place::FirstKey,
            (Place::FirstKey | Place::AfterValue, b'}') => Place::End,
            (Place::FirstKey | Place::NextKey, b'"') => return Ok(self.begin(Place::InKey)),
            (Place::Colon, b':') => Place::Value,
            (Place::Value, b'[') if self.key == Key::Items => Place::FirstItem,
            (Place::Value, b'"' | b'{' | b'[' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                return Ok(self.begin(Place::InValue));
            }
            (Place::AfterValue, b',') => Place::NextKey,
            (Place::FirstItem | Place::AfterItem, b']') => Place::AfterValue,
            (Place::FirstItem | Place::NextItem, b'{') => return Ok(self.begin(Place::InItem)),
            (Place::AfterItem, b',') => Place::NextItem,
            _ => {
                let shown = shown(&char::from(byte).to_string());
                return Err(malformed(format!("the list is no valid JSON at {shown}")));
            }
        };
        Ok(true)
    }

    fn begin(&mut self, place: Place) -> bool {
        self.place = place;
        self.scan = Scan::default();
        self.captured.clear();
        false
    }

    /// A part of a key, value or item; the last one if `is_whole`.
    fn part<L: List>(
        &mut self,
        part: &[u8],
        is_whole: bool,
        items: &mut Items<L>,
    ) -> Result<(), WireError> {
        let size = self.captured.len() + part.len();
        if self.place == Place::InItem {
            check_item_size::<L>(size)?;
            if is_whole && self.captured.is_empty() {
                // The usual case: no copy.
                self.place = Place::AfterItem;
                return items.add(part, L::json);
            }
        } else if self.place == Place::InValue && self.key == Key::Other {
            if is_whole {
                self.place = Place::AfterValue;
            }
            return Ok(());
        } else if size > LARGEST_METADATA {
            return Err(malformed("a key or the metadata of the list is too long"));
        }
        self.captured.extend_from_slice(part);
        if !is_whole {
            return Ok(());
        }
        match self.place {
            Place::InItem => {
                items.add(&self.captured, L::json)?;
                self.place = Place::AfterItem;
            }
            Place::InKey => {
                self.key = match self.captured.as_slice() {
                    b"\"kind\"" => Key::Kind,
                    b"\"metadata\"" => Key::Metadata,
                    b"\"items\"" if self.items_seen => {
                        return Err(malformed("the answer has items twice"));
                    }
                    b"\"items\"" => {
                        self.items_seen = true;
                        Key::Items
                    }
                    _ => Key::Other,
                };
                self.place = Place::Colon;
            }
            _ => {
                self.value()?;
                self.place = Place::AfterValue;
            }
        }
        Ok(())
    }

    /// A value that somebody wants is whole.
    fn value(&mut self) -> Result<(), WireError> {
        match self.key {
            Key::Kind => {
                let kind = serde_json::from_slice(&self.captured);
                self.kind = Some(kind.map_err(|_| malformed("the list's kind is no string"))?);
            }
            Key::Metadata => {
                let metadata = serde_json::from_slice::<Option<Metadata>>(&self.captured);
                let metadata = metadata.map_err(|_| malformed("the list's metadata is none"))?;
                let next = metadata.and_then(|metadata| metadata.next_page);
                if next.is_some_and(|next| !next.is_empty()) {
                    return Err(WireError::Partial);
                }
            }
            // An array of items does not come here.
            Key::Items if self.captured != b"null" => {
                return Err(malformed("the list's items are no array"));
            }
            Key::Items | Key::Other => {}
        }
        Ok(())
    }
}

/// Finds the end of a value.
#[derive(Debug, Default)]
struct Scan {
    nesting: usize,
    in_text: bool,
    is_escaped: bool,
}

impl Scan {
    /// How many of `bytes` belong to the value, and whether it ends with them.
    fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        for (index, byte) in bytes.iter().enumerate() {
            if self.in_text {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => {
                        self.in_text = false;
                        if self.nesting == 0 {
                            return (index + 1, true);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.nesting += 1,
                // A number or literal ends before these.
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

/// An item by serde; the error has the place but little of the tenant's words.
pub(super) fn item<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, WireError> {
    serde_json::from_slice(bytes).map_err(|error| malformed(shown(&error.to_string())))
}

/// A time as Kubernetes writes it.
pub(super) fn time(written: Option<&str>) -> Result<Option<kelpie_core::Time>, WireError> {
    let Some(written) = written else {
        return Ok(None);
    };
    let parsed: Result<jiff::Timestamp, _> = written.parse();
    let time = parsed.map_err(|_| malformed(format!("{} is no time", shown(written))))?;
    Ok(Some(kelpie_core::Time::from_micros(time.as_microsecond())))
}
