//! Certificates of one control plane: its certificate authority, and the servers and users signed by it.
//!
//! Control planes share no certificates, so an API server rejects the kubeconfigs of other control planes.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

/// A certificate and its key, as PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS #8.
    pub key: String,
}

/// A user of an API server: the certificate's common name and organization.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// An additional group besides `system:authenticated`. At most one group is possible, because the subject has
    /// one organization.
    pub group: Option<String>,
}

impl User {
    /// A user without additional group.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), group: None }
    }

    /// Sets the user's group.
    #[must_use]
    pub fn in_group(self, group: impl Into<String>) -> Self {
        Self { group: Some(group.into()), ..self }
    }

    /// A member of `system:masters`.
    pub fn admin() -> Self {
        Self::new("admin").in_group("system:masters")
    }
}

/// The certificate authority of one control plane.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Creates a self-signed authority.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = parameters(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().context("generating the CA's key")?;
        let issuer = CertifiedIssuer::self_signed(params, key).context("signing the CA's certificate")?;
        Ok(Self { issuer })
    }

    /// The authority's certificate as PEM.
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// Signs a certificate for a server on 127.0.0.1. The certificate is valid for clients, too, because etcd uses it
    /// to connect to itself.
    pub fn server(&self, name: &str) -> Result<Identity> {
        self.server_with(parameters(name, None))
    }

    /// Like [`Authority::server`], but expired in 2001.
    pub fn expired_server(&self, name: &str) -> Result<Identity> {
        let mut params = parameters(name, None);
        params.not_after = date_time_ymd(2001, 1, 1);
        self.server_with(params)
    }

    fn server_with(&self, mut params: CertificateParams) -> Result<Identity> {
        params.subject_alt_names = vec![
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            SanType::DnsName("localhost".try_into().context("encoding localhost")?),
        ];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// Signs a client certificate for a user.
    pub fn user(&self, user: &User) -> Result<Identity> {
        let mut params = parameters(&user.name, user.group.as_deref());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().context("generating a key")?;
        let certificate = params.signed_by(&key, &self.issuer).context("signing a certificate")?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

/// A key pair for service account tokens: private and public key, both as PEM.
pub fn signing_key() -> Result<(String, String)> {
    let key = KeyPair::generate().context("generating the key of service accounts")?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn parameters(name: &str, organization: Option<&str>) -> CertificateParams {
    let mut subject = DistinguishedName::new();
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    subject.push(DnType::CommonName, name);
    let mut params = CertificateParams::default();
    params.distinguished_name = subject;
    params
}
