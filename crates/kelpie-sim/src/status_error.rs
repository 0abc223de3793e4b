//! The error responses of an API server.

use serde_json::{Map, Value, json};

use crate::kind::ResourceKind;
use crate::resource::GroupResource;

/// The machine-readable reason of a `Status`, like `metav1.StatusReason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "these are the API's own words")]
pub enum StatusReason {
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
    /// An error without a reason, as the API server returns for errors it does not expect.
    Unknown,
}

impl StatusReason {
    /// Returns the HTTP status code that belongs to the reason.
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

/// A request that failed: the content of the `Status` that the client receives.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusError {
    /// The machine-readable reason, which also determines the HTTP status code.
    pub reason: StatusReason,
    /// The message for people, in the API server's wording.
    pub message: String,
    /// The `details` of the `Status`: `name`, `group`, `kind`, `uid`, `causes`,
    /// `retryAfterSeconds`.
    pub details: Option<Map<String, Value>>,
}

impl std::fmt::Display for StatusError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StatusError {}

impl StatusError {
    /// Creates an error without details.
    pub fn new(reason: StatusReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            details: None,
        }
    }

    /// Creates an error with details, a JSON object that may be empty.
    pub(crate) fn with_details(
        reason: StatusReason,
        message: impl Into<String>,
        details: &Value,
    ) -> Self {
        Self {
            details: details.as_object().cloned(),
            ..Self::new(reason, message)
        }
    }

    /// The object `name` of `resource` does not exist.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" not found");
        Self::for_object(StatusReason::NotFound, message, resource, name)
    }

    /// An object `name` of `resource` already exists.
    pub(crate) fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" already exists");
        Self::for_object(StatusReason::AlreadyExists, message, resource, name)
    }

    /// The request is based on a `resourceVersion` that is no longer the current one.
    pub fn outdated(resource: &GroupResource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    /// The request conflicts with the object's current state, for the reason `why`.
    pub(crate) fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::for_object(StatusReason::Conflict, message, resource, name)
    }

    /// The request refers to a version older than the history that is kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusReason::Expired, message)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusReason::BadRequest, message)
    }

    /// A field has an invalid value. `cause` is the machine-readable cause, such as
    /// `FieldValueInvalid`.
    pub(crate) fn invalid(
        kind: &ResourceKind,
        name: &str,
        field: &str,
        cause: &str,
        why: &str,
    ) -> Self {
        Self::invalid_as(&kind.group_kind(), name, field, cause, why)
    }

    /// The same as [`StatusError::invalid`] for messages that name the resource differently.
    pub(crate) fn invalid_as(
        shown: &GroupResource,
        name: &str,
        field: &str,
        cause: &str,
        why: &str,
    ) -> Self {
        let message = format!("{shown} \"{name}\" is invalid: {field}: {why}");
        let mut error = Self::for_object(StatusReason::Invalid, message, shown, name);
        let cause = json!([{ "reason": cause, "message": why, "field": field }]);
        let details = error.details.get_or_insert_default();
        details.insert("causes".into(), cause);
        error
    }

    /// The name of an object differs from the one in the URL.
    pub(crate) fn other_name(given: &str, name: &str) -> Self {
        Self::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))
    }

    /// A replica count is below zero.
    pub(crate) fn negative_replicas(
        kind: &ResourceKind,
        name: &str,
        field: &str,
        count: i64,
    ) -> Self {
        let why = format!("Invalid value: {count}: must be greater than or equal to 0");
        Self::invalid(kind, name, field, "FieldValueInvalid", &why)
    }

    /// A patch results in something that cannot be decoded as an object of its kind; `why` is the
    /// decoder's message.
    pub(crate) fn undecodable(why: &str) -> Self {
        let why = format!("Invalid value: {why}");
        let nothing = GroupResource::from_static("", "");
        Self::invalid_as(&nothing, "", "patch", "FieldValueInvalid", &why)
    }

    pub(crate) fn for_object(
        reason: StatusReason,
        message: String,
        resource: &GroupResource,
        name: &str,
    ) -> Self {
        let details = [
            ("name", name),
            ("group", resource.group()),
            ("kind", resource.plural()),
        ];
        // The API server omits empty fields.
        let details = details.into_iter().filter(|(_, value)| !value.is_empty());
        let details = details.map(|(field, value)| (field.to_owned(), value.into()));
        Self {
            details: Some(details.collect()),
            ..Self::new(reason, message)
        }
    }

    /// Returns the `Status` object that the client receives.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.reason.code(),
        });
        if self.reason != StatusReason::Unknown {
            status["reason"] = format!("{:?}", self.reason).into();
        }
        if let Some(details) = &self.details {
            status["details"] = Value::Object(details.clone());
        }
        status
    }
}
