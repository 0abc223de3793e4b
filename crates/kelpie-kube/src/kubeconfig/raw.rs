//! The raw kubeconfig: the fields that are used and the fields that are refused.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::Options;

use super::KubeconfigError;

/// Limits that no kubeconfig comes near; none needs anchors.
const MAX_DEPTH: usize = 32;
const MAX_NODES: usize = 20_000;
const MAX_ALIASES: usize = 16;

/// A kubeconfig as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawKubeconfig {
    #[serde(default)]
    current_context: Option<String>,
    #[serde(default)]
    contexts: Option<Vec<NamedContext>>,
    #[serde(default)]
    clusters: Option<Vec<NamedCluster>>,
    #[serde(default)]
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
    #[serde(default)]
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
    #[serde(default)]
    pub(super) certificate_authority_data: Option<String>,
    #[serde(default)]
    pub(super) tls_server_name: Option<String>,
    #[serde(default)]
    certificate_authority: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: Option<bool>,
    #[serde(default)]
    proxy_url: Option<String>,
}

/// The credentials. There is no `Debug`, because they are secret.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct RawUser {
    #[serde(default)]
    pub(super) token: Option<String>,
    #[serde(default)]
    pub(super) client_certificate_data: Option<String>,
    #[serde(default)]
    pub(super) client_key_data: Option<String>,
    #[serde(default)]
    client_certificate: Option<String>,
    #[serde(default)]
    client_key: Option<String>,
    #[serde(default, rename = "tokenFile")]
    token_file: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
    #[serde(default, rename = "as")]
    impersonated: Option<String>,
    #[serde(default)]
    as_uid: Option<String>,
    #[serde(default)]
    as_groups: Option<Vec<IgnoredAny>>,
    #[serde(default)]
    as_user_extra: Option<IgnoredAny>,
    #[serde(default)]
    exec: Option<IgnoredAny>,
    #[serde(default)]
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

    /// Returns the cluster and the user of the current context.
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

/// Returns the only element that matches.
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
        if self.insecure_skip_tls_verify == Some(true) {
            return Some("insecure-skip-tls-verify");
        }
        first_non_empty([
            ("certificate-authority", self.certificate_authority.as_ref()),
            ("proxy-url", self.proxy_url.as_ref()),
        ])
    }
}

impl RawUser {
    /// Returns a field that would run programs, read local files or impersonate another user.
    pub(super) fn refused_field(&self) -> Option<&'static str> {
        if self.exec.is_some() {
            return Some("exec");
        }
        if self.auth_provider.is_some() {
            return Some("auth-provider");
        }
        if self
            .as_groups
            .as_ref()
            .is_some_and(|groups| !groups.is_empty())
        {
            return Some("as-groups");
        }
        if self.as_user_extra.is_some() {
            return Some("as-user-extra");
        }
        first_non_empty([
            ("tokenFile", self.token_file.as_ref()),
            ("client-certificate", self.client_certificate.as_ref()),
            ("client-key", self.client_key.as_ref()),
            ("as", self.impersonated.as_ref()),
            ("as-uid", self.as_uid.as_ref()),
            ("username", self.username.as_ref()),
            ("password", self.password.as_ref()),
        ])
    }
}

/// Returns a string that is not empty. As everywhere in Kubernetes, an empty string means none.
pub(super) fn non_empty(text: Option<&String>) -> Option<&String> {
    text.filter(|text| !text.is_empty())
}

fn first_non_empty<const N: usize>(
    fields: [(&'static str, Option<&String>); N],
) -> Option<&'static str> {
    let mut present = fields
        .into_iter()
        .filter(|(_, text)| non_empty(*text).is_some());
    present.next().map(|(name, _)| name)
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
