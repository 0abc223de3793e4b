//! Lists of leases and nodes as they come over the wire: decoded item by item, bounded while read.
//!
//! A [`Decoder`] takes the body in whatever pieces it comes and hands each item of the list to a
//! [`List`], which keeps what is used of it. So the memory that an answer can take is one item and the
//! compact result, never the body. `protobuf` and `json` find the items; `lease` and `node` read
//! one. A list is whole or it is an error: nothing is ever judged on a part of one.

mod json;
mod lease;
mod name;
mod node;
mod protobuf;

pub use lease::LeaseList;
pub use node::NodeList;

use json::Json;
use protobuf::Protobuf;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: &str = "application/json";

/// What a list request accepts, best first.
pub(crate) const ACCEPT: &str = "application/vnd.kubernetes.protobuf, application/json";

/// The list's own metadata, and any other small thing around the items.
const LARGEST_METADATA: usize = 64 * 1024;

/// Why a body is not a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// More than is accepted.
    #[error("{what} is more than {limit}")]
    TooLarge {
        /// Of what there is too much, with its unit.
        what: &'static str,
        /// How much is accepted.
        limit: usize,
    },
    /// Not what was asked for.
    #[error("{0}")]
    Malformed(String),
    /// One page of several, although no page size was asked for.
    #[error("the list is only the first page of several, which was not asked for")]
    Partial,
}

/// How much of a list is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole body.
    pub body: usize,
    /// Bytes of one item.
    pub item: usize,
    /// Items.
    pub items: usize,
}

/// What is kept of a list. There are two: [`LeaseList`] and [`NodeList`].
pub trait List: Default {
    /// The list's kind, as in `LeaseList`.
    const KIND: &'static str;
    /// How much of it is accepted.
    const LIMITS: Limits;

    /// Takes an item in protobuf.
    fn protobuf(&mut self, item: &[u8]) -> Result<(), WireError>;
    /// Takes an item in JSON.
    fn json(&mut self, item: &[u8]) -> Result<(), WireError>;
}

/// Makes a list of a body that comes in pieces.
#[derive(Debug)]
pub struct Decoder<L> {
    form: Form,
    items: Items<L>,
    read: usize,
}

#[derive(Debug)]
enum Form {
    Protobuf(Protobuf),
    Json(Json),
}

/// The items so far, counted.
#[derive(Debug)]
struct Items<L> {
    list: L,
    count: usize,
}

impl<L: List> Items<L> {
    fn add(
        &mut self,
        item: &[u8],
        decode: fn(&mut L, &[u8]) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        if self.count == L::LIMITS.items {
            return Err(WireError::TooLarge {
                what: "the number of items",
                limit: L::LIMITS.items,
            });
        }
        decode(&mut self.list, item).map_err(|error| match error {
            WireError::Malformed(text) => malformed(format!("item {}: {text}", self.count)),
            other => other,
        })?;
        self.count += 1;
        Ok(())
    }
}

impl<L: List> Decoder<L> {
    /// For a body of this content type.
    pub fn new(content_type: Option<&str>) -> Result<Self, WireError> {
        let written = content_type.unwrap_or_default();
        let essence = written.split(';').next().unwrap_or_default().trim();
        let form = if essence.eq_ignore_ascii_case(PROTOBUF) {
            Form::Protobuf(Protobuf::default())
        } else if essence.eq_ignore_ascii_case(JSON) {
            Form::Json(Json::default())
        } else {
            let shown = shown(written);
            return Err(malformed(format!(
                "the answer has content type {shown}: expected {PROTOBUF} or {JSON}"
            )));
        };
        let items = Items {
            list: L::default(),
            count: 0,
        };
        Ok(Self {
            form,
            items,
            read: 0,
        })
    }

    /// Takes the next piece of the body.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), WireError> {
        self.read = self.read.saturating_add(piece.len());
        if self.read > L::LIMITS.body {
            return Err(WireError::TooLarge {
                what: "the size of the list in bytes",
                limit: L::LIMITS.body,
            });
        }
        match &mut self.form {
            Form::Protobuf(form) => form.push(piece, &mut self.items),
            Form::Json(form) => form.push(piece, &mut self.items),
        }
    }

    /// The list, if the body was whole.
    pub fn finish(self) -> Result<L, WireError> {
        match self.form {
            Form::Protobuf(form) => form.finish()?,
            Form::Json(form) => form.finish::<L>()?,
        }
        Ok(self.items.list)
    }
}

fn malformed(text: impl Into<String>) -> WireError {
    WireError::Malformed(text.into())
}

fn check_kind<L: List>(kind: &str) -> Result<(), WireError> {
    if kind == L::KIND {
        return Ok(());
    }
    let shown = shown(kind);
    Err(malformed(format!(
        "the answer is of kind {shown}: expected {}",
        L::KIND
    )))
}

fn check_item_size<L: List>(size: usize) -> Result<(), WireError> {
    if size <= L::LIMITS.item {
        return Ok(());
    }
    Err(WireError::TooLarge {
        what: "the size of one item in bytes",
        limit: L::LIMITS.item,
    })
}

/// The tenant's words, fit for a message: quoted, escaped and short.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    format!("{short:?}")
}
