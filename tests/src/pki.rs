//! Keys and certificates of test servers, issued when a server starts.

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// A certificate authority for tests, which signs serving and client certificates.
pub struct TestCa(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its private key.
#[derive(Debug, Clone)]
pub struct CertifiedKey {
    /// The certificate, as PEM.
    pub certificate: String,
    /// The private key, as PEM (PKCS#8).
    pub key: String,
}

impl TestCa {
    /// Creates an authority with a new key.
    pub fn new() -> Result<Self> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = common_name("kelpie-e2e");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
        Ok(Self(issuer))
    }

    /// The certificate of the authority itself, as PEM.
    pub fn certificate(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for a server on loopback.
    pub fn serving(&self) -> Result<CertifiedKey> {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut parameters = CertificateParams::new(names)?;
        parameters.distinguished_name = common_name("kube-apiserver");
        self.sign(parameters, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Issues a client certificate for `user`, a member of `groups`.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<CertifiedKey> {
        let mut name = common_name(user);
        for group in groups {
            name.push(DnType::OrganizationName, *group);
        }
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = name;
        self.sign(parameters, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Issues a client certificate that expired in 2020.
    pub fn expired_client(&self, user: &str) -> Result<CertifiedKey> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = common_name(user);
        parameters.not_before = date_time_ymd(2020, 1, 1);
        parameters.not_after = date_time_ymd(2020, 2, 1);
        self.sign(parameters, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut parameters: CertificateParams,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<CertifiedKey> {
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![purpose];
        let key = KeyPair::generate()?;
        Ok(CertifiedKey {
            certificate: parameters.signed_by(&key, &self.0)?.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// Generates a key pair, private key first, both as PEM. API servers sign the tokens of service
/// accounts with it.
pub fn signing_key() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn common_name(name: &str) -> DistinguishedName {
    let mut full = DistinguishedName::new();
    full.push(DnType::CommonName, name);
    full
}
