//! One operation on one object, and the error it may end in.

use std::time::Duration;

use kelpie_core::prober::ResourceRef;

use crate::actuator::ActuatorError;
use crate::client::ApiError;

/// An operation on an object, for messages.
#[derive(Clone, Copy)]
pub(super) struct ScaleOperation<'a> {
    pub(super) verb: &'static str,
    pub(super) namespace: &'a str,
    pub(super) target: &'a ResourceRef,
    /// The time limit for the response.
    pub(super) limit: Duration,
}

impl ScaleOperation<'_> {
    pub(super) fn what(&self) -> String {
        if self.namespace.is_empty() {
            self.target.to_string()
        } else {
            format!("{} in namespace {}", self.target, self.namespace)
        }
    }

    pub(super) fn failed(&self, cause: ApiError) -> ActuatorError {
        ActuatorError::Request {
            verb: self.verb,
            what: self.what(),
            limit: self.limit,
            cause,
        }
    }
}
