//! The secret of a network, and the identities that follow from it.
//!
//! One file, copied to every node and client, is all that a small network needs. From it come the key
//! that requests are signed with, and a certificate authority; each process makes itself a certificate
//! of that authority when it starts, and TLS is mutual. Networks with an authority of their own use
//! their certificates instead.
use crate::sign::from_hex;
use data_encoding::HEXLOWER;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use ring::hmac;
use ring::rand::SecureRandom as _;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};

/// The name that every certificate of a secret's authority carries: its holders trust each other.
pub(crate) const MEMBER: &str = "node.shorthaul";

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is no secret.
    #[error("{} holds no secret: `shorthaul secret FILE` makes one", .0.display())]
    NoSecret(PathBuf),
    /// A certificate or key that is none, or that do not fit.
    #[error("{}: {reason}", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Make(String),
}

/// The secret of a network: 32 random bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct NetworkSecret([u8; 32]);

impl fmt::Debug for NetworkSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NetworkSecret(..)")
    }
}

impl NetworkSecret {
    /// A new one.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn generate() -> io::Result<NetworkSecret> {
        let mut bytes = [0; 32];
        let random = ring::rand::SystemRandom::new().fill(&mut bytes);
        random.map_err(|_| io::Error::other("the kernel gives no random numbers"))?;
        Ok(NetworkSecret(bytes))
    }

    /// The text of a file that holds it.
    pub fn to_text(&self) -> String {
        HEXLOWER.encode(&self.0) + "\n"
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<NetworkSecret, SecretError> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| SecretError::Read { path: path.into(), error })?;
        NetworkSecret::from_text(text.trim()).ok_or_else(|| SecretError::NoSecret(path.into()))
    }

    /// The secret of 64 hexadecimal digits.
    pub(crate) fn from_text(text: &str) -> Option<NetworkSecret> {
        from_hex(text).map(NetworkSecret)
    }

    /// The key that requests are signed with.
    pub fn signing_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.derive("requests"))
    }

    /// A key for some other purpose, of which the purpose's name is part.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        // HKDF's expansion (RFC 5869 §2.3) for one block; the secret is uniformly random already.
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let tag = hmac::sign(&key, format!("shorthaul {purpose}\x01").as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(tag.as_ref());
        bytes
    }

    fn authority(&self) -> Result<(CertificateParams, KeyPair), SecretError> {
        // RFC 8410 §7: an Ed25519 key is these bytes and its seed.
        let mut key = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        key.extend_from_slice(&self.derive("authority"));
        let key = KeyPair::try_from(&PrivatePkcs8KeyDer::from(key)).map_err(make)?;
        let mut params = CertificateParams::new(Vec::new()).map_err(make)?;
        params.distinguished_name.push(DnType::CommonName, "shorthaul network");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok((params, key))
    }

    /// The authority's certificate as PEM, for programs such as curl (`--proxy-cacert`).
    ///
    /// # Errors
    /// It cannot be made.
    pub fn authority_pem(&self) -> Result<String, SecretError> {
        let (params, key) = self.authority()?;
        Ok(params.self_signed(&key).map_err(make)?.pem())
    }

    /// An identity of this network, with the names and addresses that it is reached by.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn identity(&self, names: &[String]) -> Result<Identity, SecretError> {
        let (authority, authority_key) = self.authority()?;
        let root = authority.self_signed(&authority_key).map_err(make)?;
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate().map_err(make)?;
        let names: Vec<String> = [MEMBER.to_owned()].into_iter().chain(names.iter().cloned()).collect();
        let mut params = CertificateParams::new(names).map_err(make)?;
        params.distinguished_name.push(DnType::CommonName, MEMBER);
        let certificate = params.signed_by(&key, &issuer).map_err(make)?;
        let mut roots = RootCertStore::empty();
        roots.add(root.der().clone()).map_err(make)?;
        Ok(Identity {
            chain: vec![certificate.der().clone()],
            key: Some(PrivateKeyDer::Pkcs8(key.serialize_der().into())),
            roots: Arc::new(roots),
            member: true,
        })
    }
}

pub(crate) fn make(error: impl fmt::Display) -> SecretError {
    SecretError::Make(error.to_string())
}

/// Who a process is to the others by TLS, and whom it believes.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: Option<PrivateKeyDer<'static>>,
    roots: Arc<RootCertStore>,
    /// Whether names are those of a secret's authority, instead of hosts'.
    member: bool,
}

impl Identity {
    /// An identity from files: a chain of certificates with its key, and the authority of the others.
    ///
    /// # Errors
    /// A file cannot be read, or holds nothing of the kind.
    pub fn from_files(
        own: Option<(&Path, &Path)>,
        authority: Option<&Path>,
    ) -> Result<Identity, SecretError> {
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |reason: &dyn fmt::Display| SecretError::Certificate { path, reason: reason.to_string() }
        };
        let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, SecretError> {
            CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect)
                .map_err(|error| wrong(path)(&error))
        };
        let mut roots = RootCertStore::empty();
        if let Some(path) = authority {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(path)(&error))?;
            }
        }
        let (chain, key) = match own {
            None => (Vec::new(), None),
            Some((chain, key)) => {
                let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key)(&error))?;
                (certificates(chain)?, Some(private))
            }
        };
        Ok(Identity { chain, key, roots: Arc::new(roots), member: false })
    }

    /// An identity from a credential of an authority: a key, its certificate, and the authorities that are believed.
    ///
    /// # Errors
    /// The file cannot be read, or is no credential.
    pub fn from_credential(path: &Path) -> Result<Identity, SecretError> {
        let wrong = |reason: String| SecretError::Certificate { path: path.to_owned(), reason };
        let key = PrivateKeyDer::from_pem_file(path).map_err(|error| wrong(error.to_string()))?;
        let all: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let all = all.map_err(|error| wrong(error.to_string()))?;
        let (authorities, chain): (Vec<_>, Vec<_>) = all.into_iter().partition(crate::authority::is_root);
        if chain.is_empty() {
            return Err(wrong("there is no certificate of its own in it".into()));
        }
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| wrong(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(wrong(
                "there is no authority in it: `shorthaul secret issue` makes credentials".into(),
            ));
        }
        Ok(Identity { chain, key: Some(key), roots: Arc::new(roots), member: false })
    }

    /// How TLS sessions are accepted: TLS 1.3, with a certificate of the client if it has one. `None`
    /// without a certificate of our own.
    ///
    /// # Errors
    /// Key and certificate do not fit each other.
    pub fn server(&self) -> Result<Option<Arc<ServerConfig>>, SecretError> {
        let Some(key) = &self.key else { return Ok(None) };
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(make)?;
        let builder = if self.roots.is_empty() {
            builder.with_no_client_auth()
        } else {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), provider())
                .allow_unauthenticated()
                .build();
            builder.with_client_cert_verifier(verifier.map_err(make)?)
        };
        builder.with_single_cert(self.chain.clone(), key.clone_key()).map(|c| Some(Arc::new(c))).map_err(make)
    }

    /// How nodes are connected to.
    ///
    /// # Errors
    /// Key and certificate do not fit each other.
    pub fn client(&self) -> Result<Arc<ClientConfig>, SecretError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(make)?
            .with_root_certificates(Arc::clone(&self.roots));
        let config = match &self.key {
            Some(key) => builder.with_client_auth_cert(self.chain.clone(), key.clone_key()).map_err(make)?,
            None => builder.with_no_client_auth(),
        };
        Ok(Arc::new(config))
    }

    /// Whether it follows from a network's secret.
    pub fn is_member(&self) -> bool {
        self.member
    }

    /// The name that a node's certificate must carry.
    pub fn name_of(&self, host: &str) -> Option<ServerName<'static>> {
        let name = if self.member { MEMBER } else { host };
        ServerName::try_from(name.to_owned()).ok()
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_secret_gives_the_same_authority() {
        let secret = NetworkSecret([7; 32]);
        let key = |secret: &NetworkSecret| secret.authority().unwrap().1.public_key_pem();
        assert_eq!(key(&secret), key(&NetworkSecret([7; 32])));
        assert_ne!(key(&secret), key(&NetworkSecret([8; 32])));
        assert_ne!(secret.derive("requests"), secret.derive("authority"));
        assert!(!format!("{secret:?}").contains('7'));
    }

    #[test]
    fn a_secret_is_read_as_it_is_written() {
        let secret = NetworkSecret::generate().unwrap();
        let path = std::env::temp_dir().join(format!("shorthaul-secret-{}", std::process::id()));
        std::fs::write(&path, secret.to_text()).unwrap();
        assert_eq!(NetworkSecret::read(&path).unwrap(), secret);
        std::fs::write(&path, "abc").unwrap();
        assert!(matches!(NetworkSecret::read(&path), Err(SecretError::NoSecret(_))));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(NetworkSecret::read(&path), Err(SecretError::Read { .. })));
    }
}
