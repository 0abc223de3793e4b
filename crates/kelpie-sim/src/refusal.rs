//! What an API server says when it does not do what it was asked for.

use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::resource::Resource;

/// Why, in the words of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "these are the API's own words")]
pub enum Reason {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Expired,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServiceUnavailable,
    Timeout,
    /// No word at all: the server did not expect this.
    Unknown,
}

impl Reason {
    /// The HTTP status.
    pub const fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Expired => 410,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
            Self::InternalError | Self::Unknown => 500,
            Self::ServiceUnavailable => 503,
            Self::Timeout => 504,
        }
    }
}

/// A refused request: what is in the `Status` that the client gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// For people.
    pub message: String,
    /// What it is about: `name`, `group`, `kind`, `uid`, `causes`, `retryAfterSeconds`.
    pub details: Option<Map<String, Value>>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// A refusal that is about nothing in particular.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            details: None,
        }
    }

    /// What is missing is `name` of `resource`.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" not found");
        Self::about(Reason::NotFound, message, resource, name)
    }

    /// There is one of this name.
    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" already exists");
        Self::about(Reason::AlreadyExists, message, resource, name)
    }

    /// The request rests on an older version than the present one.
    pub fn outdated(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    /// The request rests on something that is not so.
    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::about(Reason::Conflict, message, resource, name)
    }

    /// What the request asks about lies before the history that is kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(Reason::Expired, message)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    /// A field that cannot be as it is. `cause` is the machine's word for why.
    pub(crate) fn invalid(kind: &Kind, name: &str, field: &str, cause: &str, why: &str) -> Self {
        Self::invalid_as(&kind.singular_resource(), name, field, cause, why)
    }

    /// The same, where the server speaks of the resource by another name.
    pub(crate) fn invalid_as(
        shown: &Resource,
        name: &str,
        field: &str,
        cause: &str,
        why: &str,
    ) -> Self {
        let message = format!("{shown} \"{name}\" is invalid: {field}: {why}");
        let mut refusal = Self::about(Reason::Invalid, message, shown, name);
        let cause = json!([{ "reason": cause, "message": why, "field": field }]);
        let details = refusal.details.get_or_insert_default();
        details.insert("causes".into(), cause);
        refusal
    }

    /// A count that is below zero.
    pub(crate) fn negative(kind: &Kind, name: &str, field: &str, count: i64) -> Self {
        let why = format!("Invalid value: {count}: must be greater than or equal to 0");
        Self::invalid(kind, name, field, "FieldValueInvalid", &why)
    }

    /// What a patch leads to is no object of its kind: `why` in the words of who reads it.
    pub(crate) fn undecodable(why: &str) -> Self {
        let why = format!("Invalid value: {why}");
        let nothing = Resource::known("", "");
        Self::invalid_as(&nothing, "", "patch", "FieldValueInvalid", &why)
    }

    pub(crate) fn about(reason: Reason, message: String, resource: &Resource, name: &str) -> Self {
        let mut details = Map::new();
        insert(&mut details, "name", name);
        insert(&mut details, "group", resource.group());
        insert(&mut details, "kind", resource.plural());
        Self {
            reason,
            message,
            details: Some(details),
        }
    }

    /// The `Status` the client gets.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.reason.code(),
        });
        if self.reason != Reason::Unknown {
            status["reason"] = format!("{:?}", self.reason).into();
        }
        if let Some(details) = &self.details {
            status["details"] = Value::Object(details.clone());
        }
        status
    }
}

/// What is empty is left out, as the API server does.
fn insert(details: &mut Map<String, Value>, key: &str, value: &str) {
    if !value.is_empty() {
        details.insert(key.into(), value.into());
    }
}
