//! In which form a client wants its answer.

use http::{HeaderMap, header};

use crate::kind::Kind;
use crate::refusal::{Reason, Refusal};
use crate::wire;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Protobuf,
    /// Rows and columns, for people.
    Table,
    /// The metadata alone.
    Metadata,
}

impl Format {
    /// The first of what the client accepts that objects of this kind can be written in.
    pub(super) fn wanted(headers: &HeaderMap, kind: &Kind) -> Result<Self, Refusal> {
        let accept = headers.get_all(header::ACCEPT).iter();
        let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
        let accept = accept.join(",");
        let mut wanted = accept.split(',').map(str::trim);
        if accept.trim().is_empty() {
            return Ok(Self::Json);
        }
        wanted.find_map(|part| Self::of(part, kind)).ok_or_else(|| {
            let message = "only the following media types are accepted: application/json, \
                           application/yaml, application/vnd.kubernetes.protobuf";
            Refusal::new(Reason::NotAcceptable, message)
        })
    }

    fn of(part: &str, kind: &Kind) -> Option<Self> {
        let mut parameters = part.split(';').map(str::trim);
        let media = parameters.next()?;
        let form = parameters.find_map(|parameter| parameter.strip_prefix("as="));
        match (media, form) {
            ("application/json" | "application/*" | "*/*", None) => Some(Self::Json),
            ("application/json", Some("Table")) => Some(Self::Table),
            ("application/json", Some("PartialObjectMetadata" | "PartialObjectMetadataList")) => {
                Some(Self::Metadata)
            }
            (wire::PROTOBUF, None) if wire::is_written(kind) => Some(Self::Protobuf),
            _ => None,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => wire::PROTOBUF,
            _ => super::answer::JSON,
        }
    }
}
