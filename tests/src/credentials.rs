//! Who a client says it is.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::pki::Certified;

/// What a client shows to the API server.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// A bearer token.
    Token(String),
    /// A client certificate.
    Certificate(Certified),
}

/// Tokens every server under test knows: the first may do everything, the second nothing.
pub(crate) const ADMIN: &str = "token-of-the-admin";
pub(crate) const STRANGER: &str = "token-of-a-stranger";

impl Credentials {
    /// May do everything.
    pub fn admin() -> Self {
        Self::Token(ADMIN.into())
    }

    /// Known, without any rights.
    pub fn stranger() -> Self {
        Self::Token(STRANGER.into())
    }

    /// A kubeconfig for the server at `url`, with everything inside it.
    pub(crate) fn kubeconfig(&self, url: &str, authority: &str) -> String {
        let user = match self {
            Self::Token(token) => format!("token: {token}"),
            Self::Certificate(own) => format!(
                "client-certificate-data: {}\n    client-key-data: {}",
                BASE64_STANDARD.encode(&own.certificate),
                BASE64_STANDARD.encode(&own.key)
            ),
        };
        let authority = BASE64_STANDARD.encode(authority);
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: {url}
    certificate-authority-data: {authority}
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
