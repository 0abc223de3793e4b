//! Authentication by bearer token and client certificate.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, header};
use parking_lot::RwLock;

use super::request::UserInfo;
use crate::status_error::{StatusError, StatusReason};

/// The users of an API server. While there are none, all requests are made as the admin. Clones
/// share the users. Removing a user takes effect with the next request.
#[derive(Clone, Default)]
pub struct Users(Arc<RwLock<KnownUsers>>);

#[derive(Default)]
struct KnownUsers {
    by_token: BTreeMap<String, UserInfo>,
    by_certificate: BTreeMap<Vec<u8>, UserInfo>,
}

impl Users {
    /// Authenticates requests with this bearer token as `user`.
    pub fn add_token(&self, token: &str, user: UserInfo) {
        self.0.write().by_token.insert(token.to_owned(), user);
    }

    /// Authenticates connections with this client certificate (DER) as `user`.
    pub fn add_certificate(&self, certificate: &[u8], user: UserInfo) {
        let mut known = self.0.write();
        known.by_certificate.insert(certificate.to_vec(), user);
    }

    /// Revokes a bearer token.
    pub fn remove_token(&self, token: &str) {
        self.0.write().by_token.remove(token);
    }

    /// Returns the user of a request, by its headers and its connection's certificate.
    pub(super) fn authenticate(
        &self,
        headers: &HeaderMap,
        certificate: Option<&[u8]>,
    ) -> Result<UserInfo, StatusError> {
        let known = self.0.read();
        if known.by_token.is_empty() && known.by_certificate.is_empty() {
            return Ok(UserInfo::admin());
        }
        if let Some(user) = certificate.and_then(|own| known.by_certificate.get(own)) {
            return Ok(user.clone());
        }
        let header = headers.get(header::AUTHORIZATION);
        let header = header.and_then(|value| value.to_str().ok());
        let token = header.and_then(|value| value.strip_prefix("Bearer "));
        match (token, certificate) {
            (None, None) => Ok(UserInfo::anonymous()),
            (Some(token), _) => known.by_token.get(token).cloned().ok_or_else(unauthorized),
            (None, Some(_)) => Err(unauthorized()),
        }
    }
}

fn unauthorized() -> StatusError {
    StatusError::new(StatusReason::Unauthorized, "Unauthorized")
}

/// Omits the tokens, which are secret.
impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Users").finish_non_exhaustive()
    }
}
