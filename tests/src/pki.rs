//! Keys and certificates of one server, made when it starts.

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// Signs serving and client certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, both as PEM.
#[derive(Debug, Clone)]
pub struct Certified {
    /// The certificate.
    pub certificate: String,
    /// Its private key (PKCS#8).
    pub key: String,
}

impl Authority {
    /// A new certificate authority.
    pub fn new() -> Result<Self> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = named("kelpie-e2e");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
        Ok(Self(issuer))
    }

    /// The authority's own certificate, as PEM.
    pub fn certificate(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a server on loopback.
    pub fn serving(&self) -> Result<Certified> {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut parameters = CertificateParams::new(names)?;
        parameters.distinguished_name = named("kube-apiserver");
        self.sign(parameters, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate that says its holder is `user`, a member of `groups`.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Certified> {
        let mut name = named(user);
        for group in groups {
            name.push(DnType::OrganizationName, *group);
        }
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = name;
        self.sign(parameters, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// The same, but its time is long over.
    pub fn expired_client(&self, user: &str) -> Result<Certified> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = named(user);
        parameters.not_before = date_time_ymd(2020, 1, 1);
        parameters.not_after = date_time_ymd(2020, 2, 1);
        self.sign(parameters, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut parameters: CertificateParams,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<Certified> {
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![purpose];
        let key = KeyPair::generate()?;
        Ok(Certified {
            certificate: parameters.signed_by(&key, &self.0)?.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// A key pair as PEM (private key, public key): what an API server signs service accounts' tokens
/// with.
pub fn signing_key() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn named(name: &str) -> DistinguishedName {
    let mut full = DistinguishedName::new();
    full.push(DnType::CommonName, name);
    full
}
