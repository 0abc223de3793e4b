//! What a member or a cluster is started with.

use std::path::Path;

use crate::etcd::Keys;

/// The version and flags of the members to start.
#[derive(Debug, Clone)]
pub struct Setup {
    pub(crate) name: String,
    flags: Vec<String>,
    pub(crate) secure: bool,
}

/// What every member is started with.
const FLAGS: [&str; 2] = [
    // The data does not outlive the test.
    "--unsafe-no-fsync",
    // Members are added and removed before all have been connected for five seconds.
    "--strict-reconfig-check=false",
];

impl Setup {
    /// The server named `etcd`, or of one line: `etcd-3.5`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            flags: FLAGS.map(str::to_owned).to_vec(),
            secure: false,
        }
    }

    /// One more flag for every member, as in `--snapshot-count=10`.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Clients must come by TLS and show a certificate of the same authority.
    #[must_use]
    pub fn secured_by(mut self, keys: &Keys) -> Self {
        self.secure = true;
        let named = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
        self.flags.push(named("trusted-ca-file", &keys.authority()));
        self.flags
            .push(named("cert-file", &keys.certificate("server")));
        self.flags.push(named("key-file", &keys.key("server")));
        self.flag("--client-cert-auth")
    }

    pub(crate) fn flags(&self) -> impl Iterator<Item = String> {
        self.flags.iter().cloned()
    }
}
