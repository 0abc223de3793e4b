//! The release and the flags of the members to start.

use std::path::Path;

use crate::etcd::CertificateFiles;

/// The release and the flags of the members to start.
#[derive(Debug, Clone)]
pub struct EtcdSetup {
    pub(crate) name: String,
    flags: Vec<String>,
    pub(crate) secure: bool,
}

/// The flags of every member.
const FLAGS: [&str; 2] = [
    // The data need not survive the test.
    "--unsafe-no-fsync",
    // The tests add and remove members before all have been connected for five seconds.
    "--strict-reconfig-check=false",
];

impl EtcdSetup {
    /// Uses the default release, `etcd`, or a given one, such as `etcd-3.5`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            flags: FLAGS.map(str::to_owned).to_vec(),
            secure: false,
        }
    }

    /// Writes to disk as in production. Without it no write waits for the disk.
    #[must_use]
    pub fn with_fsync(mut self) -> Self {
        self.flags.retain(|flag| flag != FLAGS[0]);
        self
    }

    /// Adds a flag for every member, such as `--snapshot-count=10`.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Requires TLS from clients, with a certificate of the same authority.
    #[must_use]
    pub fn with_client_tls(mut self, certificates: &CertificateFiles) -> Self {
        self.secure = true;
        let named = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
        self.flags
            .push(named("trusted-ca-file", &certificates.authority()));
        self.flags
            .push(named("cert-file", &certificates.certificate("server")));
        self.flags
            .push(named("key-file", &certificates.key("server")));
        self.flag("--client-cert-auth")
    }

    pub(crate) fn flags(&self) -> impl Iterator<Item = String> {
        self.flags.iter().cloned()
    }
}
