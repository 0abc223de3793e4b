//! Content negotiation.

use http::{HeaderMap, header};

use crate::kind::ResourceKind;
use crate::status_error::{StatusError, StatusReason};
use crate::wire;

/// The format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseFormat {
    Json,
    Protobuf,
    /// Rows and columns, as kubectl prints them.
    Table,
    /// `PartialObjectMetadata`: the metadata only.
    Metadata,
}

impl ResponseFormat {
    /// Returns the first of the accepted formats that is available for objects of this kind.
    pub(super) fn negotiate(headers: &HeaderMap, kind: &ResourceKind) -> Result<Self, StatusError> {
        let accept = headers.get_all(header::ACCEPT).iter();
        let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
        let accept = accept.join(",");
        let mut accepted = accept.split(',').map(str::trim);
        if accept.trim().is_empty() {
            return Ok(Self::Json);
        }
        accepted
            .find_map(|part| Self::parse(part, kind))
            .ok_or_else(|| {
                let message = "only the following media types are accepted: application/json, \
                           application/yaml, application/vnd.kubernetes.protobuf";
                StatusError::new(StatusReason::NotAcceptable, message)
            })
    }

    fn parse(part: &str, kind: &ResourceKind) -> Option<Self> {
        let mut parameters = part.split(';').map(str::trim);
        let media = parameters.next()?;
        let form = parameters.find_map(|parameter| parameter.strip_prefix("as="));
        match (media, form) {
            ("application/json" | "application/*" | "*/*", None) => Some(Self::Json),
            ("application/json", Some("Table")) => Some(Self::Table),
            ("application/json", Some("PartialObjectMetadata" | "PartialObjectMetadataList")) => {
                Some(Self::Metadata)
            }
            (wire::PROTOBUF, None) if wire::has_encoding(kind) => Some(Self::Protobuf),
            _ => None,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => wire::PROTOBUF,
            _ => super::response::JSON,
        }
    }
}
