//! Credentials for API servers.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::pki::CertifiedKey;

/// Proves the identity of a client to an API server.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// Authenticates with a bearer token.
    Token(String),
    /// Authenticates with a client certificate.
    Certificate(CertifiedKey),
}

/// The token of a user with all permissions. Every server under test knows it.
pub(crate) const ADMIN: &str = "token-of-the-admin";
/// The token of a user without any permission. Every server under test knows it.
pub(crate) const UNPRIVILEGED: &str = "token-of-a-stranger";

impl Credentials {
    /// A user with all permissions.
    pub fn admin() -> Self {
        Self::Token(ADMIN.into())
    }

    /// A user that is authenticated and has no permissions.
    pub fn unprivileged() -> Self {
        Self::Token(UNPRIVILEGED.into())
    }

    /// Returns a self-contained kubeconfig for the server at `url`.
    pub(crate) fn kubeconfig(&self, url: &str, ca_certificate: &str) -> String {
        let user = match self {
            Self::Token(token) => format!("token: {token}"),
            Self::Certificate(pair) => format!(
                "client-certificate-data: {}\n    client-key-data: {}",
                BASE64_STANDARD.encode(&pair.certificate),
                BASE64_STANDARD.encode(&pair.key)
            ),
        };
        let ca_certificate = BASE64_STANDARD.encode(ca_certificate);
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: {url}
    certificate-authority-data: {ca_certificate}
users:
- name: test
  user:
    {user}
contexts:
- name: test
  context:
    cluster: test
    user: test
current-context: test
"
        )
    }
}
