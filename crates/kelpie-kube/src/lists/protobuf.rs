//! The protobuf encoding of Kubernetes: an envelope around a list.
//!
//! `k8s\0`, then `Unknown { typeMeta = 1, raw = 2, contentEncoding = 3 }`; in `raw` the list
//! `{ metadata = 1 { resourceVersion = 2, continue = 3 }, items = 2 }`.

use std::mem;

use prost::encoding::decode_varint;

use super::{ItemSink, List, ListError, MAX_METADATA_BYTES, check_kind, malformed, parse_version};

const MAGIC: &[u8] = b"k8s\0";

/// The maximum size of `typeMeta`, the kind and version of the list.
const MAX_TYPE_BYTES: u64 = 1_024;

/// The length of the longest varint.
const MAX_VARINT_BYTES: usize = 10;

/// Finds the items in a body that arrives in chunks.
#[derive(Debug, Default)]
pub(super) struct ProtobufScanner {
    /// The end of the last chunk, which cannot be decoded without the next one.
    rest: Vec<u8>,
    state: ProtobufState,
    /// The number of bytes ahead that are skipped.
    skip: u64,
    kind_seen: bool,
    list_seen: bool,
    resource_version: Option<u64>,
}

#[derive(Debug, Default, Clone, Copy)]
enum ProtobufState {
    #[default]
    Magic,
    Envelope,
    /// In the list. The number is the rest of its length in bytes.
    List(u64),
}

impl ProtobufScanner {
    pub(super) fn push<L: List>(
        &mut self,
        chunk: &[u8],
        items: &mut ItemSink<L>,
    ) -> Result<(), ListError> {
        let mut rest = mem::take(&mut self.rest);
        if rest.is_empty() {
            let used = self.scan(chunk, items)?;
            rest.extend_from_slice(&chunk[used..]);
        } else {
            rest.extend_from_slice(chunk);
            let used = self.scan(&rest, items)?;
            rest.drain(..used);
        }
        self.rest = rest;
        Ok(())
    }

    pub(super) fn resource_version(&self) -> Option<u64> {
        self.resource_version
    }

    pub(super) fn finish(self) -> Result<(), ListError> {
        let at_end = matches!(self.state, ProtobufState::Envelope | ProtobufState::List(0));
        if at_end && self.list_seen && self.skip == 0 && self.rest.is_empty() {
            return Ok(());
        }
        Err(malformed("the list ends too early"))
    }

    /// Decodes the complete parts of `bytes` and returns their length.
    fn scan<L: List>(&mut self, bytes: &[u8], items: &mut ItemSink<L>) -> Result<usize, ListError> {
        let mut used = 0;
        loop {
            let remaining = &bytes[used..];
            if self.skip > 0 {
                let skipped = remaining
                    .len()
                    .min(usize::try_from(self.skip).unwrap_or(usize::MAX));
                self.skip -= skipped as u64;
                used += skipped;
                if self.skip > 0 {
                    return Ok(used);
                }
                continue;
            }
            let step = match self.state {
                ProtobufState::Magic => self.scan_magic(remaining)?,
                ProtobufState::Envelope => self.scan_envelope::<L>(remaining)?,
                ProtobufState::List(0) => {
                    self.state = ProtobufState::Envelope;
                    continue;
                }
                ProtobufState::List(left) => self.scan_list(remaining, left, items)?,
            };
            match step {
                Some(step) => used += step,
                None => return Ok(used),
            }
        }
    }

    fn scan_magic(&mut self, remaining: &[u8]) -> Result<Option<usize>, ListError> {
        let Some(magic) = remaining.get(..MAGIC.len()) else {
            return Ok(None);
        };
        if magic != MAGIC {
            return Err(malformed("the response is not Kubernetes protobuf"));
        }
        self.state = ProtobufState::Envelope;
        Ok(Some(MAGIC.len()))
    }

    fn scan_envelope<L: List>(&mut self, remaining: &[u8]) -> Result<Option<usize>, ListError> {
        let Some(header) = FieldHeader::read(remaining)? else {
            return Ok(None);
        };
        match (header.number, header.payload) {
            (1, FieldPayload::Bytes(length)) => {
                if length > MAX_TYPE_BYTES {
                    return Err(malformed("the list's kind is too long"));
                }
                let Some(content) = header.content(remaining) else {
                    return Ok(None);
                };
                check_kind::<L>(&String::from_utf8_lossy(bytes_field(content, 2)?))?;
                self.kind_seen = true;
                return Ok(Some(header.size + content.len()));
            }
            (2, FieldPayload::Bytes(length)) => {
                if !self.kind_seen || self.list_seen {
                    return Err(malformed("the response has no kind, or several lists"));
                }
                self.list_seen = true;
                self.state = ProtobufState::List(length);
            }
            (3, FieldPayload::Bytes(1..)) => {
                return Err(malformed("the list is compressed, which was not requested"));
            }
            (_, payload) => self.skip = payload.length(),
        }
        Ok(Some(header.size))
    }

    fn scan_list<L: List>(
        &mut self,
        remaining: &[u8],
        left: u64,
        items: &mut ItemSink<L>,
    ) -> Result<Option<usize>, ListError> {
        let Some(header) = FieldHeader::read(remaining)? else {
            return Ok(None);
        };
        let total = (header.size as u64).checked_add(header.payload.length());
        let left = total.and_then(|total| left.checked_sub(total));
        let Some(left) = left else {
            return Err(malformed("a part of the list is longer than the list"));
        };
        let is_item = match (header.number, header.payload) {
            (1, FieldPayload::Bytes(length)) if length > MAX_METADATA_BYTES as u64 => {
                return Err(malformed("the list's metadata is too long"));
            }
            (1, FieldPayload::Bytes(_)) => false,
            (2, FieldPayload::Bytes(length)) if length <= L::LIMITS.item as u64 => true,
            (number, payload) => {
                if number == 2 {
                    items.skip()?;
                }
                self.state = ProtobufState::List(left);
                self.skip = payload.length();
                return Ok(Some(header.size));
            }
        };
        let Some(content) = header.content(remaining) else {
            return Ok(None);
        };
        if is_item {
            items.add(content, L::add_protobuf)?;
        } else if !bytes_field(content, 3)?.is_empty() {
            return Err(ListError::Partial);
        } else {
            self.resource_version = parse_version(bytes_field(content, 2)?);
        }
        self.state = ProtobufState::List(left);
        Ok(Some(header.size + content.len()))
    }
}

/// Iterates over the fields of a complete message: their numbers and values.
pub(super) struct ProtobufFields<'a>(pub(super) &'a [u8]);

/// The value of a field. No field with a fixed-size value is used, so that value is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtobufValue<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Fixed,
}

impl<'a> Iterator for ProtobufFields<'a> {
    type Item = Result<(u32, ProtobufValue<'a>), ListError>;

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

impl<'a> ProtobufFields<'a> {
    fn read(&mut self) -> Result<(u32, ProtobufValue<'a>), ListError> {
        let cut = || malformed("it is cut off");
        let header = FieldHeader::read(self.0)?.ok_or_else(cut)?;
        let content = header.content(self.0).ok_or_else(cut)?;
        self.0 = &self.0[header.size + content.len()..];
        let value = match header.payload {
            FieldPayload::Varint(value) => ProtobufValue::Varint(value),
            FieldPayload::Bytes(_) => ProtobufValue::Bytes(content),
            FieldPayload::Fixed(_) => ProtobufValue::Fixed,
        };
        Ok((header.number, value))
    }
}

/// Returns the content of the field `number`. An absent field is empty.
pub(super) fn bytes_field(message: &[u8], number: u32) -> Result<&[u8], ListError> {
    let mut found: &[u8] = &[];
    for field in ProtobufFields(message) {
        if let (at, ProtobufValue::Bytes(bytes)) = field?
            && at == number
        {
            found = bytes;
        }
    }
    Ok(found)
}

/// The header of a field: its number, and its value or the length of its content.
#[derive(Clone, Copy, Debug)]
struct FieldHeader {
    number: u32,
    payload: FieldPayload,
    /// The length of the header itself.
    size: usize,
}

/// The payload of a field, by wire type.
#[derive(Clone, Copy, Debug)]
enum FieldPayload {
    /// The value itself. No content follows.
    Varint(u64),
    /// The length of the content that follows, in bytes.
    Bytes(u64),
    /// The size of the number that follows, in bytes.
    Fixed(u64),
}

impl FieldPayload {
    /// Returns the length of the content after the header.
    fn length(self) -> u64 {
        match self {
            Self::Varint(_) => 0,
            Self::Bytes(length) | Self::Fixed(length) => length,
        }
    }
}

impl FieldHeader {
    /// Reads a header. `None`: `bytes` ends within it.
    fn read(bytes: &[u8]) -> Result<Option<Self>, ListError> {
        let Some((tag, mut size)) = varint(bytes)? else {
            return Ok(None);
        };
        let number = u32::try_from(tag >> 3).unwrap_or(0);
        if number == 0 {
            return Err(malformed("a field has no valid number"));
        }
        let payload = match tag & 7 {
            1 => FieldPayload::Fixed(8),
            5 => FieldPayload::Fixed(4),
            kind @ (0 | 2) => {
                let Some((value, more)) = varint(&bytes[size..])? else {
                    return Ok(None);
                };
                size += more;
                if kind == 0 {
                    FieldPayload::Varint(value)
                } else {
                    FieldPayload::Bytes(value)
                }
            }
            _ => return Err(malformed("a field has no valid type")),
        };
        Ok(Some(Self {
            number,
            payload,
            size,
        }))
    }

    /// Returns the content after the header. `None`: `bytes` ends within it.
    fn content<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let length = usize::try_from(self.payload.length()).ok()?;
        bytes.get(self.size..self.size.checked_add(length)?)
    }
}

/// Returns a varint and its length. `None`: `bytes` ends within it.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, ListError> {
    let mut rest = bytes;
    match decode_varint(&mut rest) {
        Ok(value) => Ok(Some((value, bytes.len() - rest.len()))),
        Err(_) if bytes.len() < MAX_VARINT_BYTES => Ok(None),
        Err(_) => Err(malformed("a number is too long")),
    }
}

/// Converts a varint to an `int32`. Protobuf sign-extends it to 64 bits, so the low bits are the
/// value.
#[expect(clippy::cast_possible_truncation, reason = "the encoding of int32")]
pub(super) fn int32(value: u64) -> i32 {
    value.cast_signed() as i32
}

/// Reads the seconds and nanoseconds of a `Time` or `MicroTime`. Kubernetes encodes the zero time
/// by leaving out both, for which this returns `None`.
pub(super) fn time(message: &[u8]) -> Result<Option<kelpie_core::Time>, ListError> {
    let (mut seconds, mut nanos) = (None, None);
    for field in ProtobufFields(message) {
        match field? {
            (1, ProtobufValue::Varint(value)) => seconds = Some(value.cast_signed()),
            (2, ProtobufValue::Varint(value)) => nanos = Some(int32(value)),
            _ => {}
        }
    }
    if seconds.is_none() && nanos.is_none() {
        return Ok(None);
    }
    let (seconds, nanos) = (seconds.unwrap_or(0), nanos.unwrap_or(0));
    Ok(Some(kelpie_core::Time::from_unix(seconds, nanos)))
}
