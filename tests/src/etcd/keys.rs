//! Keys and certificates of etcd and its clients, as files that can be replaced.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::folder::Folder;
use crate::pki::{Authority, Certified};

/// A folder of PEM files, signed by one authority: `server` for the members, others by name.
pub struct Keys {
    authority: Authority,
    folder: Folder,
}

impl Keys {
    /// A new authority with a certificate for the members.
    pub fn new() -> Result<Self> {
        let keys = Self {
            authority: Authority::new()?,
            folder: Folder::new("keys")?,
        };
        fs::write(keys.authority(), keys.authority.certificate())?;
        keys.write("server", &keys.authority.serving()?)?;
        Ok(keys)
    }

    /// Makes or replaces the certificate and key of a client.
    pub fn issue(&self, name: &str) -> Result<()> {
        self.write(name, &self.authority.client(name, &[])?)
    }

    /// Makes or replaces them by ones that have expired long ago.
    pub fn issue_expired(&self, name: &str) -> Result<()> {
        self.write(name, &self.authority.expired_client(name)?)
    }

    /// The file of the authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// The file of a certificate.
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.crt"))
    }

    /// The file of a key.
    pub fn key(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.key"))
    }

    /// Each file is replaced whole, as kubelet and cert-manager do.
    fn write(&self, name: &str, pair: &Certified) -> Result<()> {
        for (path, content) in [
            (self.certificate(name), &pair.certificate),
            (self.key(name), &pair.key),
        ] {
            let new = path.with_extension("new");
            fs::write(&new, content)?;
            fs::rename(&new, &path)?;
        }
        Ok(())
    }
}
