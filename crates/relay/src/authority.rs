//! A small authority: it issues credentials to nodes and clients, each with names and an end.
//!
//! Its folder holds `authority.key`, which never leaves it, `authority.pem`, and `issued`, a line for each credential. A
//! credential is one file: a private key, a certificate, and the authorities that its holder believes. Those of clients are
//! good for clients only (RFC 5280 §4.2.1.12), so that no client is a node. While authorities change, two are valid at once.
//!
//! Key and certificates are two files that belong together, and a machine may stop between them: both are written beside (`.new`), and the
//! certificates are what counts. A new key takes its place when its certificate is there, at the latest when the folder is opened next.
use crate::account::is_reserved;
use crate::secret::{SecretError, make};
use data_encoding::HEXLOWER;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use ring::rand::SecureRandom as _;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// How long an authority is good.
const AUTHORITY_DAYS: i64 = 3650;
/// The files of a folder.
const KEY: &str = "authority.key";
const NEW_KEY: &str = "authority.key.new";
const OLD_KEY: &str = "authority.key.old";
const CERTIFICATES: &str = "authority.pem";
const NEW_CERTIFICATES: &str = "authority.pem.new";
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
    /// No other process has it meanwhile.
    locked: File,
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

/// Writes a file, which is on the disk then.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), SecretError> {
    // One that is there may be for others to read, or be another's.
    let _ = std::fs::remove_file(path);
    let written = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|error| SecretError::Write { path: path.into(), error })
}

fn rename(from: &Path, to: &Path) -> Result<(), SecretError> {
    std::fs::rename(from, to).map_err(|error| SecretError::Write { path: to.into(), error })
}

/// An authority's key, as its file has it: the generation that its name ends with, then the key.
fn key_of(text: &str) -> Result<(&str, KeyPair), String> {
    let (first, key) = text.split_once('\n').unwrap_or((text, ""));
    let generation = first.strip_prefix("# ").ok_or("it is no key of an authority")?;
    Ok((generation, KeyPair::from_pem(key).map_err(|error| error.to_string())?))
}

/// Whether the first of these certificates is of that key.
fn is_of(pem: &str, key: &KeyPair) -> bool {
    let Ok(first) = CertificateDer::from_pem_slice(pem.as_bytes()) else { return false };
    let read = X509Certificate::from_der(&first);
    read.is_ok_and(|(_, read)| read.public_key().subject_public_key.data.as_ref() == key.public_key_raw())
}

fn read(path: &Path) -> Result<String, SecretError> {
    std::fs::read_to_string(path).map_err(|error| SecretError::Read { path: path.into(), error })
}

/// Puts a new key in its place, if it is that of the certificates: what was left to do when the machine stopped.
fn complete(folder: &Path) -> Result<(), SecretError> {
    let (key, new) = (folder.join(KEY), folder.join(NEW_KEY));
    if !new.exists() {
        return Ok(());
    }
    let (text, pem) = (read(&new)?, read(&folder.join(CERTIFICATES)).unwrap_or_default());
    if !key_of(&text).is_ok_and(|(_, key)| is_of(&pem, &key)) {
        // It never came so far, and is written over by the next one.
        return Ok(());
    }
    if key.exists() {
        rename(&key, &folder.join(OLD_KEY))?;
    }
    rename(&new, &key)?;
    sync(folder)
}

/// What is in a folder is named so on the disk, too.
fn sync(folder: &Path) -> Result<(), SecretError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| SecretError::Write { path: folder.into(), error })
}

/// Keeps other processes out of a folder while it is kept.
fn lock(folder: &Path) -> Result<File, SecretError> {
    let locked = File::open(folder).and_then(|folder| folder.lock().map(|()| folder));
    locked.map_err(|error| SecretError::Read { path: folder.into(), error })
}

impl Authority {
    /// A new one, in a new folder.
    ///
    /// # Errors
    /// There is one already, or nothing can be written.
    pub fn create(folder: &Path) -> Result<Authority, SecretError> {
        let wrong = |error: io::Error| SecretError::Write { path: folder.into(), error };
        std::fs::create_dir_all(folder).map_err(wrong)?;
        let locked = lock(folder)?;
        complete(folder)?;
        let path = folder.join(KEY);
        if path.exists() {
            // A key that is in use already is never written over.
            return Err(SecretError::Write { path, error: io::ErrorKind::AlreadyExists.into() });
        }
        Authority::begin(folder, locked, None)
    }

    fn begin(
        folder: &Path,
        locked: File,
        before: Option<(&CertificateParams, &KeyPair, &str)>,
    ) -> Result<Authority, SecretError> {
        let generation = HEXLOWER.encode(&random::<4>()?);
        let key = KeyPair::generate().map_err(make)?;
        let mut params = params(&generation)?;
        let now = OffsetDateTime::now_utc();
        (params.not_before, params.not_after) = (now - CLOCKS, now + Duration::days(AUTHORITY_DAYS));
        let mut pem = params.self_signed(&key).map_err(make)?.pem();
        if let Some((old_params, old_key, old_pem)) = before {
            // The old one is believed by who has a credential of the new. Who has one of the old is shown that the old one says
            // who the new one is.
            let end = "-----END CERTIFICATE-----";
            let old = old_pem.split_inclusive(end).next().unwrap_or_default();
            let issuer = Issuer::from_params(old_params, old_key);
            let cross = params.signed_by(&key, &issuer).map_err(make)?.pem();
            pem = format!("{pem}{}\n{cross}", old.trim());
        }
        write(&folder.join(NEW_KEY), &(format!("# {generation}\n") + &key.serialize_pem()), 0o600)?;
        write(&folder.join(NEW_CERTIFICATES), &pem, 0o644)?;
        sync(folder)?;
        rename(&folder.join(NEW_CERTIFICATES), &folder.join(CERTIFICATES))?;
        complete(folder)?;
        Ok(Authority { folder: folder.into(), locked, params, key, pem })
    }

    /// The one in a folder.
    ///
    /// # Errors
    /// There is none.
    pub fn open(folder: &Path) -> Result<Authority, SecretError> {
        let locked = lock(folder)?;
        complete(folder)?;
        let path = folder.join(KEY);
        let (text, pem) = (read(&path)?, read(&folder.join(CERTIFICATES))?);
        let wrong = |reason: String| SecretError::Certificate { path: path.clone(), reason };
        let (generation, key) = key_of(&text).map_err(wrong)?;
        if !is_of(&pem, &key) {
            return Err(wrong(format!(
                "it is not the key of the first certificate in {CERTIFICATES}, which belongs beside it"
            )));
        }
        Ok(Authority { folder: folder.into(), locked, params: params(generation)?, key, pem })
    }

    /// Begins another in the place of this one. Credentials of both are valid with all who have one of the new; the old key is
    /// kept as `authority.key.old`.
    ///
    /// # Errors
    /// Nothing can be written.
    pub fn rotate(self) -> Result<Authority, SecretError> {
        let Authority { folder, locked, params, key, pem } = self;
        Authority::begin(&folder, locked, Some((&params, &key, &pem)))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("shorthaul-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Folder(path)
        }

        /// Like another one, as it was at that time.
        fn like(name: &str, other: &Folder) -> Folder {
            let folder = Folder::new(name);
            for file in std::fs::read_dir(&other.0).unwrap().map(Result::unwrap) {
                std::fs::copy(file.path(), folder.0.join(file.file_name())).unwrap();
            }
            folder
        }

        fn text(&self, file: &str) -> Option<String> {
            std::fs::read_to_string(self.0.join(file)).ok()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_machine_that_stops_while_authorities_change_leaves_one_that_works() {
        let begun = Folder::new("authority-begun");
        drop(Authority::create(&begun.0).unwrap());
        assert!(matches!(Authority::create(&begun.0), Err(SecretError::Write { .. })), "it is in use");
        let old = begun.text(KEY).unwrap();
        let changed = Folder::like("authority-changed", &begun);
        drop(Authority::open(&changed.0).unwrap().rotate().unwrap());
        let (new, pem) = (changed.text(KEY).unwrap(), changed.text(CERTIFICATES).unwrap());
        assert_eq!((changed.text(OLD_KEY), changed.text(NEW_KEY)), (Some(old.clone()), None));
        assert_ne!(new, old);
        // Before the certificates are in their place, it is the one of before; and the next try works.
        let before = Folder::like("authority-before", &begun);
        std::fs::write(before.0.join(NEW_KEY), &new).unwrap();
        std::fs::write(before.0.join(NEW_CERTIFICATES), &pem[..pem.len() / 2]).unwrap();
        drop(Authority::open(&before.0).unwrap());
        assert_eq!(before.text(KEY), Some(old.clone()));
        drop(Authority::open(&before.0).unwrap().rotate().unwrap());
        assert_eq!(before.text(OLD_KEY), Some(old.clone()));
        // Behind that, it is the new one: with the old key still in its place, or moved away already.
        for is_moved in [false, true] {
            let between = Folder::like("authority-between", &begun);
            std::fs::write(between.0.join(NEW_KEY), &new).unwrap();
            std::fs::write(between.0.join(CERTIFICATES), &pem).unwrap();
            if is_moved {
                std::fs::rename(between.0.join(KEY), between.0.join(OLD_KEY)).unwrap();
            }
            drop(Authority::open(&between.0).unwrap());
            assert_eq!([between.text(KEY), between.text(OLD_KEY)], [Some(new.clone()), Some(old.clone())]);
            assert_eq!(between.text(NEW_KEY), None);
        }
        // One that was never complete is begun again.
        let first = Folder::new("authority-first");
        std::fs::write(first.0.join(NEW_KEY), &new).unwrap();
        drop(Authority::create(&first.0).unwrap());
        assert!(first.text(KEY).is_some_and(|key| key != new));
    }

    #[test]
    fn a_key_beside_the_certificates_of_another_issues_nothing() {
        let (one, other) = (Folder::new("authority-one"), Folder::new("authority-other"));
        drop(Authority::create(&one.0).unwrap());
        drop(Authority::create(&other.0).unwrap());
        std::fs::copy(other.0.join(CERTIFICATES), one.0.join(CERTIFICATES)).unwrap();
        let refused = Authority::open(&one.0).unwrap_err().to_string();
        assert!(refused.contains("authority.key") && refused.contains("authority.pem"), "{refused}");
    }

    #[test]
    fn a_certificate_that_cannot_be_read_is_nobodys() {
        assert_eq!(Holder::of(&CertificateDer::from(vec![0x30, 0x03, 1, 2, 3])), None);
        let key = KeyPair::generate().unwrap();
        let mut nameless = CertificateParams::new(vec!["paris.example".into()]).unwrap();
        nameless.distinguished_name = rcgen::DistinguishedName::new();
        let nameless = nameless.self_signed(&key).unwrap();
        assert_eq!(Holder::of(nameless.der()), None, "it has no name");
    }
}
