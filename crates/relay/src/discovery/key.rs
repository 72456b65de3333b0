use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::private::read_private;
use crate::secret::NetworkSecret;

/// Bytes of a key as it is kept in a file: 256 bits, as long as the digest (RFC 2104 §3).
pub const KEY_LEN: usize = 32;
/// Bytes of a message authentication code: HMAC-SHA-256 cut to 128 bits (RFC 4868 §2.1.1).
pub const MAC_LEN: usize = 16;
/// Where a message has the number of its key.
pub(crate) const KEY_NUMBER_AT: usize = 7;
/// How long one cookie key is the current one.
const COOKIE_LIFE: Duration = Duration::from_secs(120);

/// A secret of 256 bits.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_LEN]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)") // never in a log
    }
}

/// Why a file holds no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read.
    #[error("cannot read the network key {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Something else is in it.
    #[error(
        "{path}, line {line}: a network key is 64 hexadecimal digits; make one with \
         `shorthaul secret {path}`"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// Nothing is in it.
    #[error("{path} holds no key; make one with `shorthaul secret {path}`")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Key {
    /// The key with these bytes.
    pub const fn new(bytes: [u8; KEY_LEN]) -> Self {
        Key(bytes)
    }

    /// A key that nobody can guess.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; KEY_LEN];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Key(bytes))
    }

    /// As 64 hexadecimal digits, for a file.
    pub fn to_hex(&self) -> String {
        HEXLOWER.encode(&self.0)
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        // A key of any length is taken, so this never fails; a wrong key would only fail to verify.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0)
            .unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
        for part in parts {
            mac.update(part);
        }
        mac
    }

    /// The code over `parts`, one after the other.
    pub(crate) fn sign(&self, parts: &[&[u8]]) -> [u8; MAC_LEN] {
        let mut code = [0; MAC_LEN];
        code.copy_from_slice(&self.mac(parts).finalize().into_bytes()[..MAC_LEN]);
        code
    }

    /// Whether `code` is the code over `parts`; takes equally long however much of it is right.
    pub(crate) fn verify(&self, parts: &[&[u8]], code: &[u8]) -> bool {
        code.len() == MAC_LEN && self.mac(parts).verify_truncated_left(code).is_ok()
    }
}

/// The keys of a network: what its members sign with, and former keys that are still believed.
///
/// A member is whoever holds a key: clients and nodes alike. Keys are told apart by their number modulo 256,
/// which stands in every message, so that a network can change its key without a moment at which
/// nobody understands anybody: add the new key at the end of every file, then first everywhere.
#[derive(Clone, Debug)]
pub struct Keyring {
    keys: Vec<(u8, Key)>,
}

impl Keyring {
    /// One key.
    pub fn single(key: Key) -> Self {
        Keyring { keys: vec![(number(&key), key)] }
    }

    /// Reads a file with a secret on each line, and takes the key that follows from it for discovery: so that the secret
    /// of a network can be the same for all its purposes, and what is signed for one says nothing about another. The
    /// first signs, all are believed. Empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// The file cannot be read, or holds no key, or something else.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let text = read_private(path).map_err(|error| KeyError::Unreadable { path: path.into(), error })?;
        let mut keys = Vec::new();
        for (line, text) in (1..).zip(text.lines().map(str::trim)) {
            if !text.is_empty() && !text.starts_with('#') {
                let malformed = || KeyError::Malformed { path: path.into(), line };
                let secret = NetworkSecret::from_text(text).ok_or_else(malformed)?;
                let key = Key(secret.derive("discovery"));
                keys.push((number(&key), key));
            }
        }
        if keys.is_empty() { Err(KeyError::Empty { path: path.into() }) } else { Ok(Keyring { keys }) }
    }

    /// Makes `bytes` a message of this network: puts the number of the current key at its place, and the code over
    /// everything before it at the end. Fewer than 24 bytes stay as they are.
    pub fn seal(&self, bytes: &mut [u8]) {
        let (number, key) = self.current();
        let Some(signed) = bytes.len().checked_sub(MAC_LEN).filter(|signed| *signed > KEY_NUMBER_AT) else {
            return;
        };
        bytes[KEY_NUMBER_AT] = number;
        let code = key.sign(&[&bytes[..signed]]);
        bytes[signed..].copy_from_slice(&code);
    }

    /// What is signed with, and its number.
    fn current(&self) -> (u8, &Key) {
        (self.keys[0].0, &self.keys[0].1)
    }

    /// The keys of that number: hardly ever more than one.
    pub(crate) fn numbered(&self, number: u8) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(move |(own, _)| *own == number).map(|(_, key)| key)
    }

    /// The key that cookies are made with: known to every node, so that the cookie from one holds for all.
    pub fn cookie_key(&self) -> Key {
        let (_, key) = self.current();
        let mut derived = [0; KEY_LEN];
        derived.copy_from_slice(&key.mac(&[b"shorthaul discovery cookie"]).finalize().into_bytes());
        Key(derived)
    }
}

/// What tells keys apart without telling anything about them.
fn number(key: &Key) -> u8 {
    key.sign(&[b"shorthaul discovery key number"])[0]
}

/// Proof that whoever shows it receives what is sent to its address (as in RFC 7873): bound to the
/// address and to a period of two minutes. The period's predecessor and successor are taken too, so a
/// cookie lives for two to four minutes, and clocks may differ by as much.
#[derive(Clone, Debug)]
pub struct Cookies(Key);

impl Cookies {
    /// Cookies made with this key.
    pub const fn new(key: Key) -> Self {
        Cookies(key)
    }

    /// The cookie for an address at a time since 1970.
    pub(crate) fn bake(&self, address: IpAddr, since_1970: Duration) -> [u8; MAC_LEN] {
        self.of_period(address, period(since_1970))
    }

    /// Whether a cookie that was made at one time is taken at another; both since 1970.
    pub fn is_current(baked: Duration, now: Duration) -> bool {
        period(baked).abs_diff(period(now)) <= 1
    }

    /// Whether a cookie is one for that address, of about this time.
    pub(crate) fn accept(&self, cookie: &[u8; MAC_LEN], address: IpAddr, since_1970: Duration) -> bool {
        let now = period(since_1970);
        [now, now.wrapping_sub(1), now.wrapping_add(1)]
            .iter()
            .any(|&period| self.0.verify(&[&period.to_be_bytes(), &sixteen(address)], cookie))
    }

    fn of_period(&self, address: IpAddr, period: u64) -> [u8; MAC_LEN] {
        self.0.sign(&[&period.to_be_bytes(), &sixteen(address)])
    }
}

fn period(since_1970: Duration) -> u64 {
    since_1970.as_secs() / COOKIE_LIFE.as_secs()
}

/// An address in 16 bytes; an IPv4 address as IPv6 sockets see it (RFC 4291 §2.5.5.2).
pub(crate) fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_keys_signs_with_the_first_and_believes_all() {
        let (old, new) = (Key::new([1; 32]), Key::new([2; 32]));
        let path = std::env::temp_dir().join(format!("shorthaul-keys-{}", std::process::id()));
        std::fs::write(&path, format!("# ours\n{}\n\n{}\n", new.to_hex(), old.to_hex())).unwrap();
        let ring = Keyring::read(&path).unwrap();
        let derived = |key: &Key| Key(NetworkSecret::from_text(&key.to_hex()).unwrap().derive("discovery"));
        assert_eq!(ring.current().1, &derived(&new));
        assert!(ring.numbered(number(&derived(&old))).any(|key| *key == derived(&old)));
        // What stands in the file is never a key itself: it has other purposes.
        assert!(ring.keys.iter().all(|(_, key)| *key != old && *key != new));
        std::fs::write(&path, "# ours\nabc\n").unwrap();
        let error = Keyring::read(&path).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("shorthaul secret"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(Keyring::read(&path).unwrap_err().to_string().contains("cannot read"));
    }

    #[test]
    fn a_cookie_is_for_one_address_and_passes_away() {
        let cookies = Cookies::new(Key::new([3; 32]));
        let (here, there): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let now = Duration::from_secs(1_000_000);
        let cookie = cookies.bake(here, now);
        for seconds in 0..500 {
            let later = now + Duration::from_secs(seconds);
            assert_eq!(Cookies::is_current(now, later), cookies.accept(&cookie, here, later), "{seconds}");
        }
        assert!(cookies.accept(&cookie, here, now + COOKIE_LIFE));
        assert!(!cookies.accept(&cookie, there, now));
        assert!(!cookies.accept(&cookie, here, now + 3 * COOKIE_LIFE));
        assert!(!Cookies::new(Key::new([4; 32])).accept(&cookie, here, now));
    }
}
