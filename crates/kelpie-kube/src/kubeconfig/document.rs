//! A kubeconfig as it is written, with what is used and what is refused of it.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::Options;

use super::KubeconfigError;

/// Deeper is no kubeconfig; nothing in it refers to anything by anchors.
const DEEPEST: usize = 32;
const MOST_NODES: usize = 20_000;
const MOST_ALIASES: usize = 16;

/// The parts of a kubeconfig that are used.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Document {
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
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    cluster: String,
    #[serde(default)]
    user: Option<String>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

/// Where the server is and whom to trust there.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Cluster {
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

/// As whom to appear. No `Debug`: it holds secrets.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct User {
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

impl Document {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, KubeconfigError> {
        // Errors of the parser show the text around them, which may be a secret: only the place is
        // taken over.
        serde_saphyr::from_slice_with_options(bytes, options()).map_err(|error| {
            let place = error.location();
            KubeconfigError::Syntax {
                line: place.map_or(0, |place| place.line()),
                column: place.map_or(0, |place| place.column()),
            }
        })
    }

    /// Cluster and user of the current context.
    pub(super) fn current(self) -> Result<(Cluster, User), KubeconfigError> {
        let current = given(self.current_context.as_ref()).ok_or(KubeconfigError::NoContext)?;
        let contexts = self.contexts.unwrap_or_default();
        let is_current = |context: &NamedContext| context.name == *current;
        let context = only("contexts", contexts, is_current)?.context;
        let clusters = self.clusters.unwrap_or_default();
        let cluster = only("clusters", clusters, |named| named.name == context.cluster)?;
        let user = context.user.unwrap_or_default();
        let user = only("users", self.users.unwrap_or_default(), |named| {
            named.name == user
        })?;
        Ok((cluster.cluster, user.user))
    }
}

/// The one element that is meant.
fn only<T>(
    list: &'static str,
    elements: Vec<T>,
    is_meant: impl Fn(&T) -> bool,
) -> Result<T, KubeconfigError> {
    let mut meant = elements.into_iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => Err(KubeconfigError::Ambiguous(list)),
        (None, _) => Err(KubeconfigError::Missing(list)),
    }
}

impl Cluster {
    /// What would make the server another one than it says, or read our files.
    pub(super) fn refused(&self) -> Option<&'static str> {
        if self.insecure_skip_tls_verify == Some(true) {
            return Some("insecure-skip-tls-verify");
        }
        first_given([
            ("certificate-authority", self.certificate_authority.as_ref()),
            ("proxy-url", self.proxy_url.as_ref()),
        ])
    }
}

impl User {
    /// What would run programs, read our files, or appear as somebody else.
    pub(super) fn refused(&self) -> Option<&'static str> {
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
        first_given([
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

/// An empty text is none, as everywhere in Kubernetes.
pub(super) fn given(text: Option<&String>) -> Option<&String> {
    text.filter(|text| !text.is_empty())
}

fn first_given<const N: usize>(
    fields: [(&'static str, Option<&String>); N],
) -> Option<&'static str> {
    let mut given = fields
        .into_iter()
        .filter(|(_, text)| given(*text).is_some());
    given.next().map(|(name, _)| name)
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            max_nodes: MOST_NODES,
            max_events: 4 * MOST_NODES,
            max_aliases: MOST_ALIASES,
            max_anchors: MOST_ALIASES,
            max_documents: 1,
            max_merge_keys: 0,
        },
    }
}
