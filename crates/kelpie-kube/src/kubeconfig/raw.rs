//! The raw kubeconfig: the fields that are used and the fields that are refused.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::Options;

use super::KubeconfigError;

/// Limits that no kubeconfig comes near; none needs anchors.
const MAX_DEPTH: usize = 32;
const MAX_NODES: usize = 20_000;
const MAX_ALIASES: usize = 16;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawKubeconfig {
    current_context: Option<String>,
    contexts: Option<Vec<NamedContext>>,
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: RawContext,
}

#[derive(Deserialize)]
struct RawContext {
    cluster: String,
    user: Option<String>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: RawCluster,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: RawUser,
}

/// The server and the certificate authority to trust.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawCluster {
    pub(super) server: String,
    pub(super) certificate_authority_data: Option<String>,
    pub(super) tls_server_name: Option<String>,
    certificate_authority: Option<String>,
    insecure_skip_tls_verify: Option<bool>,
    proxy_url: Option<String>,
}

/// The credentials. There is no `Debug`, because they are secret.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawUser {
    pub(super) token: Option<String>,
    pub(super) client_certificate_data: Option<String>,
    pub(super) client_key_data: Option<String>,
    client_certificate: Option<String>,
    client_key: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
    username: Option<String>,
    password: Option<String>,
    #[serde(rename = "as")]
    impersonated: Option<String>,
    as_uid: Option<String>,
    as_groups: Option<Vec<IgnoredAny>>,
    as_user_extra: Option<IgnoredAny>,
    exec: Option<IgnoredAny>,
    auth_provider: Option<IgnoredAny>,
}

impl RawKubeconfig {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, KubeconfigError> {
        // The parser's errors quote the text around them, which may be secret. Only the location is
        // used.
        serde_saphyr::from_slice_with_options(bytes, options()).map_err(|error| {
            let location = error.location();
            KubeconfigError::Syntax {
                line: location.map_or(0, |location| location.line()),
                column: location.map_or(0, |location| location.column()),
            }
        })
    }

    pub(super) fn into_current(self) -> Result<(RawCluster, RawUser), KubeconfigError> {
        let current = non_empty(self.current_context.as_ref()).ok_or(KubeconfigError::NoContext)?;
        let contexts = self.contexts.unwrap_or_default();
        let is_current = |context: &NamedContext| context.name == *current;
        let context = find_unique("contexts", contexts, is_current)?.context;
        let clusters = self.clusters.unwrap_or_default();
        let cluster = find_unique("clusters", clusters, |named| named.name == context.cluster)?;
        let user = context.user.unwrap_or_default();
        let user = find_unique("users", self.users.unwrap_or_default(), |named| {
            named.name == user
        })?;
        Ok((cluster.cluster, user.user))
    }
}

fn find_unique<T>(
    list: &'static str,
    elements: Vec<T>,
    is_match: impl Fn(&T) -> bool,
) -> Result<T, KubeconfigError> {
    let mut matches = elements.into_iter().filter(is_match);
    match (matches.next(), matches.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => Err(KubeconfigError::Ambiguous(list)),
        (None, _) => Err(KubeconfigError::Missing(list)),
    }
}

impl RawCluster {
    /// Returns a field that would weaken TLS, redirect the connection or read local files.
    pub(super) fn refused_field(&self) -> Option<&'static str> {
        let is_set = |text: Option<&String>| non_empty(text).is_some();
        first_set([
            (
                "insecure-skip-tls-verify",
                self.insecure_skip_tls_verify == Some(true),
            ),
            (
                "certificate-authority",
                is_set(self.certificate_authority.as_ref()),
            ),
            ("proxy-url", is_set(self.proxy_url.as_ref())),
        ])
    }
}

impl RawUser {
    /// Returns a field that would run programs, read local files or impersonate another user.
    pub(super) fn refused_field(&self) -> Option<&'static str> {
        let is_set = |text: Option<&String>| non_empty(text).is_some();
        let groups = self.as_groups.as_ref();
        first_set([
            ("exec", self.exec.is_some()),
            ("auth-provider", self.auth_provider.is_some()),
            ("as-groups", groups.is_some_and(|groups| !groups.is_empty())),
            ("as-user-extra", self.as_user_extra.is_some()),
            ("tokenFile", is_set(self.token_file.as_ref())),
            (
                "client-certificate",
                is_set(self.client_certificate.as_ref()),
            ),
            ("client-key", is_set(self.client_key.as_ref())),
            ("as", is_set(self.impersonated.as_ref())),
            ("as-uid", is_set(self.as_uid.as_ref())),
            ("username", is_set(self.username.as_ref())),
            ("password", is_set(self.password.as_ref())),
        ])
    }
}

/// Returns a string that is not empty. As everywhere in Kubernetes, an empty string means none.
pub(super) fn non_empty(text: Option<&String>) -> Option<&String> {
    text.filter(|text| !text.is_empty())
}

fn first_set<const N: usize>(fields: [(&'static str, bool); N]) -> Option<&'static str> {
    let mut set = fields.into_iter().filter(|(_, is_set)| *is_set);
    set.next().map(|(name, _)| name)
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_documents: 1,
            max_merge_keys: 0,
        },
    }
}
