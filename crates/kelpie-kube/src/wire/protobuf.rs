//! The protobuf encoding: an envelope around a list.
//!
//! `k8s\0`, then `Unknown { typeMeta = 1, raw = 2, contentEncoding = 3 }`; in `raw` the list
//! `{ metadata = 1, items = 2 }`.

use std::mem;

use super::{Items, LARGEST_METADATA, List, WireError, check_item_size, check_kind, malformed};

const MAGIC: &[u8] = b"k8s\0";

/// Kind and version of the list.
const LARGEST_TYPE: u64 = 1_024;

/// Finds the items in a body that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Protobuf {
    /// Of the last piece, what cannot be used without the next one.
    rest: Vec<u8>,
    place: Place,
    /// Bytes ahead that nobody needs.
    skip: u64,
    kind_seen: bool,
    list_seen: bool,
}

#[derive(Debug, Default, Clone, Copy)]
enum Place {
    #[default]
    Magic,
    Envelope,
    /// In the list, with so many bytes of it ahead.
    List(u64),
}

impl Protobuf {
    pub(super) fn push<L: List>(
        &mut self,
        piece: &[u8],
        items: &mut Items<L>,
    ) -> Result<(), WireError> {
        let mut rest = mem::take(&mut self.rest);
        if rest.is_empty() {
            let used = self.take(piece, items)?;
            rest.extend_from_slice(&piece[used..]);
        } else {
            rest.extend_from_slice(piece);
            let used = self.take(&rest, items)?;
            rest.drain(..used);
        }
        self.rest = rest;
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(), WireError> {
        let at_end = matches!(self.place, Place::Envelope | Place::List(0));
        if at_end && self.list_seen && self.skip == 0 && self.rest.is_empty() {
            return Ok(());
        }
        Err(malformed("the list ends too early"))
    }

    /// Uses what is whole of `bytes` and says how much that was.
    fn take<L: List>(&mut self, bytes: &[u8], items: &mut Items<L>) -> Result<usize, WireError> {
        let mut used = 0;
        loop {
            let ahead = &bytes[used..];
            if self.skip > 0 {
                let skipped = ahead
                    .len()
                    .min(usize::try_from(self.skip).unwrap_or(usize::MAX));
                self.skip -= skipped as u64;
                used += skipped;
                if self.skip > 0 {
                    return Ok(used);
                }
                continue;
            }
            let step = match self.place {
                Place::Magic => self.magic(ahead)?,
                Place::Envelope => self.envelope::<L>(ahead)?,
                Place::List(0) => {
                    self.place = Place::Envelope;
                    continue;
                }
                Place::List(left) => self.list(ahead, left, items)?,
            };
            match step {
                Some(step) => used += step,
                None => return Ok(used),
            }
        }
    }

    fn magic(&mut self, ahead: &[u8]) -> Result<Option<usize>, WireError> {
        let Some(magic) = ahead.get(..MAGIC.len()) else {
            return Ok(None);
        };
        if magic != MAGIC {
            return Err(malformed(
                "the answer does not begin as protobuf of Kubernetes does",
            ));
        }
        self.place = Place::Envelope;
        Ok(Some(MAGIC.len()))
    }

    fn envelope<L: List>(&mut self, ahead: &[u8]) -> Result<Option<usize>, WireError> {
        let Some(head) = Head::read(ahead)? else {
            return Ok(None);
        };
        match (head.number, head.body) {
            (1, Body::Bytes(length)) => {
                if length > LARGEST_TYPE {
                    return Err(malformed("the list's kind is too long"));
                }
                let Some(content) = head.content(ahead) else {
                    return Ok(None);
                };
                check_kind::<L>(&text(content, 2)?)?;
                self.kind_seen = true;
                return Ok(Some(head.size + content.len()));
            }
            (2, Body::Bytes(length)) => {
                if !self.kind_seen || self.list_seen {
                    return Err(malformed("the answer has no kind, or several lists"));
                }
                self.list_seen = true;
                self.place = Place::List(length);
            }
            (3, Body::Bytes(1..)) => {
                return Err(malformed("the list is compressed, which was not asked for"));
            }
            (_, body) => self.skip = body.length(),
        }
        Ok(Some(head.size))
    }

    fn list<L: List>(
        &mut self,
        ahead: &[u8],
        left: u64,
        items: &mut Items<L>,
    ) -> Result<Option<usize>, WireError> {
        let Some(head) = Head::read(ahead)? else {
            return Ok(None);
        };
        let whole = (head.size as u64).checked_add(head.body.length());
        let left = whole.and_then(|whole| left.checked_sub(whole));
        let Some(left) = left else {
            return Err(malformed("a part of the list is longer than the list"));
        };
        let is_item = match (head.number, head.body) {
            (1, Body::Bytes(length)) if length > LARGEST_METADATA as u64 => {
                return Err(malformed("the list's metadata is too long"));
            }
            (1, Body::Bytes(_)) => false,
            (2, Body::Bytes(length)) => {
                check_item_size::<L>(usize::try_from(length).unwrap_or(usize::MAX))?;
                true
            }
            (_, body) => {
                self.place = Place::List(left);
                self.skip = body.length();
                return Ok(Some(head.size));
            }
        };
        let Some(content) = head.content(ahead) else {
            return Ok(None);
        };
        if is_item {
            items.add(content, L::protobuf)?;
        } else if !text(content, 3)?.is_empty() {
            return Err(WireError::Partial);
        }
        self.place = Place::List(left);
        Ok(Some(head.size + content.len()))
    }
}

/// The fields of a message that is there as a whole.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

/// A field's value; 32 and 64 bit numbers are used nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn read(&mut self) -> Result<(u32, Value<'a>), WireError> {
        let cut = || malformed("it is cut off");
        let head = Head::read(self.0)?.ok_or_else(cut)?;
        let content = head.content(self.0).ok_or_else(cut)?;
        self.0 = &self.0[head.size + content.len()..];
        let value = match head.body {
            Body::Varint(value) => Value::Varint(value),
            Body::Bytes(_) => Value::Bytes(content),
            Body::Fixed(_) => Value::Fixed,
        };
        Ok((head.number, value))
    }
}

/// The text of field `number`, empty if it is not there.
fn text(message: &[u8], number: u32) -> Result<String, WireError> {
    let mut found: &[u8] = &[];
    for field in Fields(message) {
        if let (at, Value::Bytes(bytes)) = field?
            && at == number
        {
            found = bytes;
        }
    }
    Ok(String::from_utf8_lossy(found).into_owned())
}

/// What stands before a field's content.
#[derive(Clone, Copy, Debug)]
struct Head {
    number: u32,
    body: Body,
    /// Its own length.
    size: usize,
}

#[derive(Clone, Copy, Debug)]
enum Body {
    /// The value itself: nothing follows.
    Varint(u64),
    /// So many bytes follow.
    Bytes(u64),
    Fixed(u64),
}

impl Body {
    fn length(self) -> u64 {
        match self {
            Self::Varint(_) => 0,
            Self::Bytes(length) | Self::Fixed(length) => length,
        }
    }
}

impl Head {
    /// `None` if `bytes` end within it.
    fn read(bytes: &[u8]) -> Result<Option<Self>, WireError> {
        let Some((tag, mut size)) = varint(bytes)? else {
            return Ok(None);
        };
        let number = u32::try_from(tag >> 3).unwrap_or(0);
        if number == 0 {
            return Err(malformed("a field has no valid number"));
        }
        let body = match tag & 7 {
            1 => Body::Fixed(8),
            5 => Body::Fixed(4),
            kind @ (0 | 2) => {
                let Some((value, more)) = varint(&bytes[size..])? else {
                    return Ok(None);
                };
                size += more;
                if kind == 0 {
                    Body::Varint(value)
                } else {
                    Body::Bytes(value)
                }
            }
            _ => return Err(malformed("a field has no valid type")),
        };
        Ok(Some(Self { number, body, size }))
    }

    /// What follows it, if `bytes` have all of that.
    fn content<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let length = usize::try_from(self.body.length()).ok()?;
        bytes.get(self.size..self.size.checked_add(length)?)
    }
}

/// A number and its length; `None` if `bytes` end within it.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, WireError> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() < 10 {
        return Ok(None);
    }
    Err(malformed("a number is too long"))
}

/// A 32 bit number as protobuf writes it: the low bits, negative ones with all the high bits set.
#[expect(clippy::cast_possible_truncation, reason = "that is the encoding")]
pub(super) fn int32(value: u64) -> i32 {
    value.cast_signed() as i32
}

/// Seconds and nanoseconds of a `Time` or `MicroTime`; `None` if both are absent, which is how
/// Kubernetes writes the time that is none.
pub(super) fn time(message: &[u8]) -> Result<Option<kelpie_core::Time>, WireError> {
    let (mut seconds, mut nanos) = (None, None);
    for field in Fields(message) {
        match field? {
            (1, Value::Varint(value)) => seconds = Some(value.cast_signed()),
            (2, Value::Varint(value)) => nanos = Some(int32(value)),
            _ => {}
        }
    }
    if seconds.is_none() && nanos.is_none() {
        return Ok(None);
    }
    let (seconds, nanos) = (seconds.unwrap_or(0), nanos.unwrap_or(0));
    Ok(Some(kelpie_core::Time::from_unix(seconds, nanos)))
}
