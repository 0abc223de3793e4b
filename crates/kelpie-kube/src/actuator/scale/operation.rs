//! One operation on one object, and the error it may end in.

use std::time::Duration;

use kelpie_core::prober::ResourceRef;

use crate::actuator::ActuatorError;
use crate::client::ApiError;

/// An operation on an object, for messages.
#[derive(Clone, Copy)]
pub(super) struct ScaleOperation<'a> {
    verb: &'static str,
    pub(super) namespace: &'a str,
    pub(super) target: &'a ResourceRef,
}

impl<'a> ScaleOperation<'a> {
    pub(super) fn new(verb: &'static str, namespace: &'a str, target: &'a ResourceRef) -> Self {
        Self {
            verb,
            namespace,
            target,
        }
    }

    pub(super) fn what(&self) -> String {
        if self.namespace.is_empty() {
            self.target.to_string()
        } else {
            format!("{} in namespace {}", self.target, self.namespace)
        }
    }

    pub(super) fn failed(&self, error: ApiError, limit: Duration) -> ActuatorError {
        let (verb, what) = (self.verb, self.what());
        match error {
            ApiError::Unauthorized(reason) | ApiError::Forbidden(reason) => {
                ActuatorError::Denied { verb, what, reason }
            }
            ApiError::NotFound => ActuatorError::NotFound { verb, what },
            ApiError::Conflict => ActuatorError::Conflict { verb, what },
            ApiError::Throttled => ActuatorError::Throttled { verb, what },
            ApiError::TimedOut => ActuatorError::TimedOut { verb, what, limit },
            ApiError::Expired | ApiError::Unavailable(_) => ActuatorError::Unavailable {
                verb,
                what,
                reason: error.to_string(),
            },
        }
    }
}
