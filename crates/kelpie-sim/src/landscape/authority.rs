//! Who vouches for the API servers.

use std::fmt;

use kelpie_net::{Identity, TlsServer};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

use super::LandscapeError;

/// A certificate authority, and a certificate for loopback.
pub(super) struct Authority {
    /// Its certificate.
    pub(super) pem: String,
    chain: String,
    key: KeyPair,
}

impl Authority {
    /// A new one, with new keys.
    pub(super) fn new() -> Result<Self, LandscapeError> {
        Self::make().map_err(|error| LandscapeError::Certificate(error.to_string()))
    }

    fn make() -> Result<Self, rcgen::Error> {
        let mut own = CertificateParams::default();
        own.distinguished_name = named("kelpie demo");
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        own.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(own, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut serving = CertificateParams::new(names)?;
        // OpenSSL takes a certificate whose subject is its issuer for one that nobody else vouches for.
        serving.distinguished_name = named("kube-apiserver");
        serving.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Newer versions of Python ask for it.
        serving.use_authority_key_identifier_extension = true;
        let chain = serving.signed_by(&key, &issuer)?;
        Ok(Self {
            pem: issuer.pem(),
            chain: chain.pem(),
            key,
        })
    }

    /// As API servers appear.
    pub(super) fn server(&self) -> Result<TlsServer, LandscapeError> {
        let key = self.key.serialize_pem().into_bytes().into();
        let identity = Identity::from_pem(self.chain.as_bytes(), &key);
        let server = identity.and_then(|identity| TlsServer::new(&identity));
        server.map_err(|error| LandscapeError::Certificate(error.to_string()))
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut full = DistinguishedName::new();
    full.push(DnType::CommonName, name);
    full
}

/// Its key is secret.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}
