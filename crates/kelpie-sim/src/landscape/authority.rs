//! The certificate authority of a landscape's API servers.

use std::fmt;

use kelpie_net::{Identity, TlsServer, TlsServerSettings};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

use super::LandscapeError;

/// A certificate authority, with a serving certificate for loopback.
pub(super) struct CertificateAuthority {
    /// The CA certificate, as PEM.
    pub(super) pem: String,
    chain: String,
    key: KeyPair,
}

impl CertificateAuthority {
    /// Creates an authority with new keys.
    pub(super) fn new() -> Result<Self, LandscapeError> {
        Self::generate().map_err(|error| LandscapeError::Certificate(error.to_string()))
    }

    fn generate() -> Result<Self, rcgen::Error> {
        let mut ca = CertificateParams::default();
        ca.distinguished_name = common_name("kelpie demo");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut serving = CertificateParams::new(names)?;
        // OpenSSL takes a certificate whose subject equals its issuer for a self-signed one.
        serving.distinguished_name = common_name("kube-apiserver");
        serving.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Newer versions of Python require it.
        serving.use_authority_key_identifier_extension = true;
        let chain = serving.signed_by(&key, &issuer)?;
        Ok(Self {
            pem: issuer.pem(),
            chain: chain.pem(),
            key,
        })
    }

    /// Returns the TLS configuration that the API servers share.
    pub(super) fn server(&self) -> Result<TlsServer, LandscapeError> {
        let key = self.key.serialize_pem().into_bytes().into();
        let identity = Identity::from_pem(self.chain.as_bytes(), &key);
        let server =
            identity.and_then(|identity| TlsServer::new(&identity, TlsServerSettings::default()));
        server.map_err(|error| LandscapeError::Certificate(error.to_string()))
    }
}

fn common_name(value: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, value);
    name
}

/// Omits the private key, which is secret.
impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}
