//! A small authority: it issues credentials to nodes and clients, each with names and an end.
//!
//! Its folder holds `authority.key`, which never leaves it, `authority.pem`, and `issued`, a line for each credential. A
//! credential is one file: a private key, a certificate, and the authorities that its holder believes. Those of clients are
//! good for clients only (RFC 5280 §4.2.1.12), so that no client is a node. While authorities change, two are valid at once.
use crate::account::is_reserved;
use crate::secret::{SecretError, make};
use data_encoding::HEXLOWER;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use ring::rand::SecureRandom as _;
use rustls_pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// How long an authority is good.
const AUTHORITY_DAYS: i64 = 3650;
/// How far the clocks of two hosts may be apart.
const CLOCKS: Duration = Duration::HOUR;

/// What a credential is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To be a node, and to ask other nodes.
    Node,
    /// To ask nodes.
    Client,
}

/// A folder with an authority.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    params: CertificateParams,
    key: KeyPair,
    /// The certificates of this authority, of the one before it, and of this one by that.
    pem: String,
}

/// A credential that was issued.
#[derive(Clone, Debug)]
pub struct Issued {
    /// By which it can be revoked: hexadecimal digits.
    pub serial: String,
    /// The file's text.
    pub pem: String,
    /// Its last day.
    pub until: String,
}

/// Who has shown a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The name that it was issued to.
    pub name: String,
    /// Hexadecimal digits.
    pub serial: String,
    /// Whether it may be a node.
    pub is_node: bool,
}

/// Whether a certificate is an authority's by itself.
pub(crate) fn is_root(certificate: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(certificate)
        .is_ok_and(|(_, read)| read.subject().as_raw() == read.issuer().as_raw())
}

impl Holder {
    /// Reads a certificate that was verified already.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Holder> {
        let (_, read) = X509Certificate::from_der(certificate).ok()?;
        let name = read.subject().iter_common_name().next()?.as_str().ok()?.to_owned();
        // Without the extension, a certificate is for everything.
        let usage = read.extended_key_usage().ok()?;
        let is_node = usage.is_none_or(|usage| usage.value.server_auth || usage.value.any);
        Some(Holder { name, serial: as_compared(&HEXLOWER.encode(read.raw_serial())), is_node })
    }
}

/// A serial number, or a name, as it is compared with others: DER has zeros in front of a number whose first bit is set, `openssl` prints none, and some print
/// colons between.
pub(crate) fn as_compared(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let digits: String = lower.chars().filter(|letter| *letter != ':').collect();
    match digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
        true => digits.trim_start_matches('0').to_owned(),
        false => lower,
    }
}

fn params(generation: &str) -> Result<CertificateParams, SecretError> {
    let mut params = CertificateParams::new(Vec::new()).map_err(make)?;
    params.distinguished_name.push(DnType::CommonName, format!("shorthaul authority {generation}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(params)
}

fn random<const N: usize>() -> Result<[u8; N], SecretError> {
    let mut bytes = [0; N];
    let random = ring::rand::SystemRandom::new().fill(&mut bytes);
    random.map_err(|_| make("the kernel gives no random numbers"))?;
    // A serial number is positive, and none begins with zeros (RFC 5280 §4.1.2.2).
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(bytes)
}

fn write(path: &Path, text: &str, mode: u32, anew: bool) -> Result<(), SecretError> {
    let mut options = OpenOptions::new();
    options.write(true).mode(mode);
    // A key that is in use already is never written over.
    if anew {
        options.create_new(true)
    } else {
        options.create(true).truncate(true)
    };
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| SecretError::Write { path: path.into(), error })
}

fn read(path: &Path) -> Result<String, SecretError> {
    std::fs::read_to_string(path).map_err(|error| SecretError::Read { path: path.into(), error })
}

impl Authority {
    /// A new one, in a new folder.
    ///
    /// # Errors
    /// There is one already, or nothing can be written.
    pub fn create(folder: &Path) -> Result<Authority, SecretError> {
        let wrong = |error: io::Error| SecretError::Write { path: folder.into(), error };
        std::fs::create_dir_all(folder).map_err(wrong)?;
        Authority::begin(folder, None)
    }

    fn begin(folder: &Path, before: Option<&Authority>) -> Result<Authority, SecretError> {
        let generation = HEXLOWER.encode(&random::<4>()?);
        let key = KeyPair::generate().map_err(make)?;
        let mut params = params(&generation)?;
        let now = OffsetDateTime::now_utc();
        (params.not_before, params.not_after) = (now - CLOCKS, now + Duration::days(AUTHORITY_DAYS));
        let mut pem = params.self_signed(&key).map_err(make)?.pem();
        if let Some(before) = before {
            // The old one is believed by who has a credential of the new. Who has one of the old is shown that the old one says
            // who the new one is.
            let end = "-----END CERTIFICATE-----";
            let old = before.pem.split_inclusive(end).next().unwrap_or_default();
            let issuer = Issuer::from_params(&before.params, &before.key);
            let cross = params.signed_by(&key, &issuer).map_err(make)?.pem();
            pem = format!("{pem}{}\n{cross}", old.trim());
        }
        write(
            &folder.join("authority.key"),
            &(format!("# {generation}\n") + &key.serialize_pem()),
            0o600,
            true,
        )?;
        write(&folder.join("authority.pem"), &pem, 0o644, false)?;
        Ok(Authority { folder: folder.into(), params, key, pem })
    }

    /// The one in a folder.
    ///
    /// # Errors
    /// There is none.
    pub fn open(folder: &Path) -> Result<Authority, SecretError> {
        let path = folder.join("authority.key");
        let (text, pem) = (read(&path)?, read(&folder.join("authority.pem"))?);
        let wrong = |reason: String| SecretError::Certificate { path: path.clone(), reason };
        let generation = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let generation = generation.ok_or_else(|| wrong("it is no key of an authority".into()))?;
        let key = text.split_once('\n').map_or("", |(_, key)| key);
        let key = KeyPair::from_pem(key).map_err(|error| wrong(error.to_string()))?;
        Ok(Authority { folder: folder.into(), params: params(generation)?, key, pem })
    }

    /// Begins another in the place of this one. Credentials of both are valid with all who have one of the new; the old key is
    /// kept as `authority.key.old`.
    ///
    /// # Errors
    /// Nothing can be written.
    pub fn rotate(self) -> Result<Authority, SecretError> {
        let (key, old) = (self.folder.join("authority.key"), self.folder.join("authority.key.old"));
        std::fs::rename(&key, &old).map_err(|error| SecretError::Write { path: key, error })?;
        Authority::begin(&self.folder, Some(&self))
    }

    /// Issues a credential to `name`, for `days`. A node is reached by `hosts`, names and addresses.
    ///
    /// # Errors
    /// It is no name, or one that stands for others; a host is no name; or nothing can be written.
    pub fn issue(&self, role: Role, name: &str, hosts: &[String], days: u32) -> Result<Issued, SecretError> {
        let is_named = !name.is_empty() && name.len() <= 64;
        if !is_named || !name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.@".contains(&c)) {
            return Err(make(format!("`{name}` is no name: it is letters, digits, `-`, `_`, `.` and `@`")));
        }
        if is_reserved(name) {
            return Err(make(format!(
                "`{name}` stands for those who have no name of their own: take another"
            )));
        }
        let serial = random::<16>()?;
        let key = KeyPair::generate().map_err(make)?;
        let mut params = CertificateParams::new(hosts.to_vec()).map_err(make)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.extended_key_usages = match role {
            Role::Node => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
            Role::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        let now = OffsetDateTime::now_utc();
        (params.not_before, params.not_after) = (now - CLOCKS, now + Duration::days(days.into()));
        let until = params.not_after.date().to_string();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).map_err(make)?;
        let serial = HEXLOWER.encode(&serial);
        let path = self.folder.join("issued");
        let role = if role == Role::Node { "node" } else { "client" };
        let line = format!("{serial} {role} {name} {until} {}\n", hosts.join(","));
        let added = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        added
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(|error| SecretError::Write { path, error })?;
        Ok(Issued { serial, pem: key.serialize_pem() + &certificate.pem() + &self.pem, until })
    }

    /// What was issued: a line each of serial number, role, name, last day and hosts.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn issued(&self) -> Result<String, SecretError> {
        let path = self.folder.join("issued");
        if path.exists() { read(&path) } else { Ok(String::new()) }
    }
}
