//! The secret of a network, and the identities that follow from it.
//!
//! One file, copied to every node and client, is all that a small network needs. From it come the key
//! that requests are signed with, and a certificate authority; each process makes itself a certificate
//! of that authority when it starts, and TLS is mutual. Networks with an authority of their own use
//! their certificates instead.
//!
//! A secret can be exchanged for another while the network is in use: a file may hold several, one a line. What
//! a process says is by the first; it believes all of them.
use crate::authority::Role;
use crate::private::{read_private, read_private_bytes};
use crate::sign::from_hex;
use crate::validity::Validity;
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
use time::OffsetDateTime;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
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
    /// A step of an exchange that is not the next one.
    #[error("{0}")]
    Exchange(&'static str),
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

/// The secret of a network: 32 random bytes; and others that are believed beside it, while one is exchanged for another.
#[derive(Clone, PartialEq, Eq)]
pub struct NetworkSecret {
    used: [u8; 32],
    believed: Vec<[u8; 32]>,
}

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
        Ok(NetworkSecret { used: random()?, believed: Vec::new() })
    }

    /// The text of a file that holds it: what is used first, then what is believed, too.
    pub fn to_text(&self) -> String {
        self.all().map(|one| HEXLOWER.encode(one) + "\n").collect()
    }

    /// Reads a file. Empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// It cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<NetworkSecret, SecretError> {
        let text = read_private(path).map_err(|error| SecretError::Read { path: path.into(), error })?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let all: Option<Vec<[u8; 32]>> = lines.map(from_hex).collect();
        let mut all = all.unwrap_or_default().into_iter();
        let used = all.next().ok_or_else(|| SecretError::NoSecret(path.into()))?;
        Ok(NetworkSecret { used, believed: all.collect() })
    }

    /// The secret of 64 hexadecimal digits.
    pub(crate) fn from_text(text: &str) -> Option<NetworkSecret> {
        from_hex(text).map(|used| NetworkSecret { used, believed: Vec::new() })
    }

    /// The first step of an exchange: another one is believed, too.
    ///
    /// # Errors
    /// There are two already, or the kernel gives no random numbers.
    pub fn announce(&mut self) -> Result<(), SecretError> {
        if !self.believed.is_empty() {
            return Err(SecretError::Exchange("two are believed already: end that exchange first"));
        }
        self.believed.push(random().map_err(make)?);
        Ok(())
    }

    /// The second step, once everybody believes both: the other one is used from now on. Again, and it is the first one as before.
    ///
    /// # Errors
    /// There is no other one.
    pub fn switch(&mut self) -> Result<(), SecretError> {
        match self.believed.last_mut() {
            Some(other) => {
                std::mem::swap(&mut self.used, other);
                Ok(())
            }
            None => Err(SecretError::Exchange("there is no other one: announce it first")),
        }
    }

    /// The last step, once everybody uses the same one: nothing else is believed.
    ///
    /// # Errors
    /// Nothing else is.
    pub fn retire(&mut self) -> Result<(), SecretError> {
        if self.believed.is_empty() {
            return Err(SecretError::Exchange("there is no other one"));
        }
        self.believed.clear();
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &[u8; 32]> {
        std::iter::once(&self.used).chain(&self.believed)
    }

    /// The key that requests are signed with.
    pub fn signing_key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.derive("requests"))
    }

    /// The keys that requests may be signed with: ours first.
    pub fn believed_keys(&self) -> Vec<hmac::Key> {
        self.all().map(|one| hmac::Key::new(hmac::HMAC_SHA256, &derive(one, "requests"))).collect()
    }

    /// A key for some other purpose, of which the purpose's name is part.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        derive(&self.used, purpose)
    }

    /// The authority's certificate as PEM, for programs such as curl (`--proxy-cacert`): those of all that are believed.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn authority_pem(&self) -> Result<String, SecretError> {
        let pem = |one| {
            let (params, key) = authority(one)?;
            Ok(params.self_signed(&key).map_err(make)?.pem())
        };
        self.all().map(pem).collect()
    }

    /// An identity of this network, with the names and addresses that it is reached by.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn identity(&self, names: &[String]) -> Result<Identity, SecretError> {
        let mut roots = RootCertStore::empty();
        for one in self.all() {
            let (authority, key) = authority(one)?;
            roots.add(authority.self_signed(&key).map_err(make)?.der().clone()).map_err(make)?;
        }
        let (authority, authority_key) = authority(&self.used)?;
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate().map_err(make)?;
        let names: Vec<String> = [MEMBER.to_owned()].into_iter().chain(names.iter().cloned()).collect();
        let mut params = CertificateParams::new(names).map_err(make)?;
        params.distinguished_name.push(DnType::CommonName, MEMBER);
        let certificate = params.signed_by(&key, &issuer).map_err(make)?;
        Ok(Identity {
            chain: vec![certificate.der().clone()],
            key: Some(PrivateKeyDer::Pkcs8(key.serialize_der().into())),
            roots: Arc::new(roots),
            member: true,
        })
    }
}

fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    let random = ring::rand::SystemRandom::new().fill(&mut bytes);
    random.map_err(|_| io::Error::other("the kernel gives no random numbers"))?;
    Ok(bytes)
}

fn derive(secret: &[u8; 32], purpose: &str) -> [u8; 32] {
    // HKDF's expansion (RFC 5869 §2.3) for one block; the secret is uniformly random already.
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let tag = hmac::sign(&key, format!("shorthaul {purpose}\x01").as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

fn authority(secret: &[u8; 32]) -> Result<(CertificateParams, KeyPair), SecretError> {
    // RFC 8410 §7: an Ed25519 key is these bytes and its seed.
    let mut key = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    key.extend_from_slice(&derive(secret, "authority"));
    let key = KeyPair::try_from(&PrivatePkcs8KeyDer::from(key)).map_err(make)?;
    let mut params = CertificateParams::new(Vec::new()).map_err(make)?;
    params.distinguished_name.push(DnType::CommonName, "shorthaul network");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok((params, key))
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
                let bytes = read_private_bytes(key).map_err(|error| wrong(key)(&error))?;
                let private = PrivateKeyDer::from_pem_slice(&bytes);
                let private = private.map_err(|error| wrong(key)(&error))?;
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
        let bytes = read_private_bytes(path).map_err(|error| wrong(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        let all: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
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

    /// When our own certificate is good, if it comes from a file: those of a secret are made anew at each start.
    pub(crate) fn validity(&self) -> Option<Validity> {
        self.chain.first().filter(|_| !self.member).and_then(Validity::of)
    }

    /// Whether anybody would believe our own certificate now, which `path` holds.
    ///
    /// # Errors
    /// Nobody would: it has expired, is not good yet, or is not for this role.
    pub fn check(&self, role: Role, path: &Path) -> Result<(), SecretError> {
        let fault = self.validity().and_then(|own| own.fault_as(role, OffsetDateTime::now_utc()));
        fault.map_or(Ok(()), |reason| Err(SecretError::Certificate { path: path.into(), reason }))
    }

    /// That our own certificate ends soon, or has ended, and what to do, which depends on whether it is read again at SIGHUP.
    pub fn warning(&self, is_read_again: bool) -> Option<String> {
        self.validity().and_then(|own| own.warning(OffsetDateTime::now_utc(), is_read_again))
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
        let builder = match self.verifier()? {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        builder.with_single_cert(self.chain.clone(), key.clone_key()).map(|c| Some(Arc::new(c))).map_err(make)
    }

    /// What says whether a client's certificate is good; `None` where nobody's is.
    pub(crate) fn verifier(&self) -> Result<Option<Arc<dyn ClientCertVerifier>>, SecretError> {
        if self.roots.is_empty() {
            return Ok(None);
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.roots), provider())
            .allow_unauthenticated()
            .build();
        verifier.map(Some).map_err(make)
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

    fn of(byte: u8) -> NetworkSecret {
        NetworkSecret { used: [byte; 32], believed: Vec::new() }
    }

    #[test]
    fn the_same_secret_gives_the_same_authority() {
        let key = |secret: &NetworkSecret| authority(&secret.used).unwrap().1.public_key_pem();
        assert_eq!(key(&of(7)), key(&of(7)));
        assert_ne!(key(&of(7)), key(&of(8)));
        assert_ne!(of(7).derive("requests"), of(7).derive("authority"));
        assert!(!format!("{:?}", of(7)).contains('7'));
    }

    #[test]
    fn one_is_exchanged_for_another_in_three_steps() {
        let mut secret = of(7);
        assert!(secret.switch().is_err() && secret.retire().is_err());
        secret.announce().unwrap();
        assert!(secret.announce().is_err());
        assert_eq!(secret.derive("requests"), of(7).derive("requests"), "it is not used yet");
        assert_eq!(secret.believed_keys().len(), 2);
        assert_eq!(secret.authority_pem().unwrap().matches("BEGIN").count(), 2);
        let other = secret.believed[0];
        secret.switch().unwrap();
        assert_eq!((secret.used, &secret.believed[..]), (other, &[[7; 32]][..]));
        secret.retire().unwrap();
        assert_eq!(secret, NetworkSecret { used: other, believed: Vec::new() });
    }

    #[test]
    fn a_secret_is_read_as_it_is_written() {
        let secret = NetworkSecret::generate().unwrap();
        let path = std::env::temp_dir().join(format!("shorthaul-secret-{}", std::process::id()));
        std::fs::write(&path, secret.to_text()).unwrap();
        assert_eq!(NetworkSecret::read(&path).unwrap(), secret);
        let mut two = secret.clone();
        two.announce().unwrap();
        std::fs::write(&path, format!("# until May\n\n{}", two.to_text())).unwrap();
        assert_eq!(NetworkSecret::read(&path).unwrap(), two);
        for wrong in ["abc".to_owned(), String::new(), secret.to_text() + "abc\n"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(matches!(NetworkSecret::read(&path), Err(SecretError::NoSecret(_))));
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(NetworkSecret::read(&path), Err(SecretError::Read { .. })));
    }
}
