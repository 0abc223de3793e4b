//! Certificates of etcd and its clients, in files that can be replaced.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::folder::Folder;
use crate::pki::{CertifiedKey, TestCa};

/// A folder of PEM files signed by one authority: `server` for the members, other names for
/// clients.
pub struct CertificateFiles {
    authority: TestCa,
    folder: Folder,
}

impl CertificateFiles {
    /// Creates an authority and the certificate of the members.
    pub fn new() -> Result<Self> {
        let certificates = Self {
            authority: TestCa::new()?,
            folder: Folder::new("certificates")?,
        };
        fs::write(
            certificates.authority(),
            certificates.authority.certificate(),
        )?;
        certificates.write("server", &certificates.authority.serving()?)?;
        Ok(certificates)
    }

    /// Issues or replaces the certificate and the key of a client.
    pub fn issue(&self, name: &str) -> Result<()> {
        self.write(name, &self.authority.client(name, &[])?)
    }

    /// Issues or replaces them with ones that expired long ago.
    pub fn issue_expired(&self, name: &str) -> Result<()> {
        self.write(name, &self.authority.expired_client(name)?)
    }

    /// Returns the file of the authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// Returns the file of a certificate.
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.crt"))
    }

    /// Returns the file of a private key.
    pub fn key(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.key"))
    }

    /// Replaces each file atomically, as the kubelet and cert-manager do.
    fn write(&self, name: &str, pair: &CertifiedKey) -> Result<()> {
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
