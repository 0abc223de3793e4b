//! Who is known, by tokens and certificates.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use http::{HeaderMap, header};

use super::call::User;
use crate::refusal::{Reason, Refusal};

/// The users of an API server. As long as there is none, everybody is taken for the admin. Clones are
/// the same users; who is removed is refused from the next request on.
#[derive(Clone, Default)]
pub struct Users(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    by_token: BTreeMap<String, User>,
    by_certificate: BTreeMap<Vec<u8>, User>,
}

impl Users {
    /// Who shows this bearer token is this user.
    pub fn add_token(&self, token: &str, user: User) {
        self.write().by_token.insert(token.to_owned(), user);
    }

    /// Who shows this client certificate (DER) is this user.
    pub fn add_certificate(&self, certificate: &[u8], user: User) {
        self.write()
            .by_certificate
            .insert(certificate.to_vec(), user);
    }

    /// The token is worth nothing any more.
    pub fn remove_token(&self, token: &str) {
        self.write().by_token.remove(token);
    }

    /// The certificate is worth nothing any more.
    pub fn remove_certificate(&self, certificate: &[u8]) {
        self.write().by_certificate.remove(certificate);
    }

    /// Who sends these headers over a connection with this certificate.
    pub(super) fn find(
        &self,
        headers: &HeaderMap,
        certificate: Option<&[u8]>,
    ) -> Result<User, Refusal> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if known.by_token.is_empty() && known.by_certificate.is_empty() {
            return Ok(User::admin());
        }
        if let Some(user) = certificate.and_then(|own| known.by_certificate.get(own)) {
            return Ok(user.clone());
        }
        let given = headers.get(header::AUTHORIZATION);
        let given = given.and_then(|value| value.to_str().ok());
        let token = given.and_then(|value| value.strip_prefix("Bearer "));
        match (token, certificate) {
            (None, None) => Ok(User::anonymous()),
            (Some(token), _) => known.by_token.get(token).cloned().ok_or_else(unknown),
            (None, Some(_)) => Err(unknown()),
        }
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Known> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown() -> Refusal {
    Refusal::new(Reason::Unauthorized, "Unauthorized")
}

/// Tokens are secret.
impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Users").finish_non_exhaustive()
    }
}
