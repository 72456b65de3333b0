//! Signed requests: who has the key proves it without showing it, for one request, to one node, now.
//!
//! `Proxy-Authorization: Shorthaul user=alice, time=1763724000, nonce=<32 hex>, mac=<64 hex>`, where the nonce is
//! the milliseconds of that second (16 bits) and a random number (112 bits), and the
//! MAC is HMAC-SHA-256 (RFC 2104) with the user's token or the network's secret over the request line,
//! every `Shorthaul-` header, and user, time and nonce. `Shorthaul-Node` is among the headers: a node
//! refuses what was meant for another, so a request cannot be replayed there either.
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::hmac;
use ring::rand::SecureRandom;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How far the clocks of two hosts may be apart.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(30);

/// Of a nonce.
const MILLIS_BITS: u32 = 16;
const RANDOM_BITS: u32 = 128 - MILLIS_BITS;

/// A signature, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    user: String,
    pub(crate) time: u64,
    pub(crate) nonce: u128,
    mac: [u8; 32],
}

/// Why a text is no [`Signature`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a signature is `user=NAME, time=SECONDS, nonce=32 HEX DIGITS, mac=64 HEX DIGITS`")]
pub struct SignatureError;

/// Why a signature is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disbelief {
    /// Made too long ago, or in the future.
    #[error("the request was signed more than {} s ago or ahead: compare the clocks", CLOCK_TOLERANCE.as_secs())]
    Time,
    /// Nobody who has the key signed this.
    #[error("the signature is wrong")]
    Forged,
    /// This very request came before.
    #[error("the request was made before")]
    Replayed,
    /// What was made before this node started may have come to the one before it.
    #[error("the request was signed before this node started: ask again, and compare the clocks")]
    Earlier,
    /// So many that they cannot all be remembered.
    #[error("too many signed requests at once")]
    TooMany,
    /// Another process has taken over, and does not say whether it has seen this request.
    #[error("whoever has taken over from this node does not answer: ask again")]
    Unknown,
}

impl Signature {
    /// Whose key it was made with: a user's name, or nothing for the network's secret.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Signs what [`Request::signed_part`](crate::request::Request::signed_part) gave.
    pub fn sign(key: &hmac::Key, user: &str, part: &[u8]) -> Signature {
        let mut random = [0; 16];
        // It fails where the kernel has no random numbers; MACs without them would repeat.
        ring::rand::SystemRandom::new().fill(&mut random).expect("the kernel gives random numbers");
        let millis = unix_millis();
        let nonce = u128::from(millis % 1000) << RANDOM_BITS | u128::from_be_bytes(random) >> MILLIS_BITS;
        Signature::sign_at(key, user, part, millis / 1000, nonce)
    }

    pub(crate) fn sign_at(key: &hmac::Key, user: &str, part: &[u8], time: u64, nonce: u128) -> Signature {
        let mut signature = Signature { user: user.into(), time, nonce, mac: [0; 32] };
        let mac = hmac::sign(key, &signature.covered(part));
        signature.mac.copy_from_slice(mac.as_ref());
        signature
    }

    /// Whether who has the key has signed this.
    pub(crate) fn verify(&self, key: &hmac::Key, part: &[u8]) -> Result<(), Disbelief> {
        hmac::verify(key, &self.covered(part), &self.mac).map_err(|_| Disbelief::Forged)
    }

    fn covered(&self, part: &[u8]) -> Vec<u8> {
        let mut covered = part.to_vec();
        covered.extend_from_slice(format!("{}\n{}\n{:032x}", self.user, self.time, self.nonce).as_bytes());
        covered
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mac = HEXLOWER.encode(&self.mac);
        write!(f, "user={}, time={}, nonce={:032x}, mac={mac}", self.user, self.time, self.nonce)
    }
}

impl FromStr for Signature {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        let mut fields = text.split(',').map(str::trim);
        let mut field = |name: &str| {
            fields.next().and_then(|field| field.strip_prefix(name)?.strip_prefix('=')).ok_or(SignatureError)
        };
        let user = field("user")?.to_owned();
        let time = field("time")?.parse().map_err(|_| SignatureError)?;
        let nonce = from_hex(field("nonce")?).map(u128::from_be_bytes).ok_or(SignatureError)?;
        let mac = from_hex(field("mac")?).ok_or(SignatureError)?;
        Ok(Signature { user, time, nonce, mac })
    }
}

/// This many bytes from twice as many hexadecimal digits.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// When a request was signed, in milliseconds: the time, and what its number says of it.
pub(crate) fn millis_of(time: u64, nonce: u128) -> u64 {
    let millis = (nonce >> RANDOM_BITS).min(999) as u64;
    time.saturating_mul(1000).saturating_add(millis)
}

pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_secs() * 1000 + u64::from(time.subsec_millis()))
}

pub(crate) fn unix_time() -> u64 {
    unix_millis() / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_request_was_signed_is_known_to_the_millisecond() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"k");
        let before = unix_millis();
        let signed: Vec<Signature> = (0..100).map(|_| Signature::sign(&key, "", b"")).collect();
        let within = before..=unix_millis();
        assert!(signed.iter().all(|one| within.contains(&millis_of(one.time, one.nonce))), "{signed:?}");
        assert!(signed.windows(2).all(|two| two[0].nonce != two[1].nonce));
        // What others put there is no reason to take a request for one of another second.
        assert_eq!(millis_of(7, u128::MAX), 7999);
    }

    #[test]
    fn every_field_is_covered() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"k");
        let signature = Signature::sign_at(&key, "alice", b"request", 1000, 7);
        assert_eq!(signature.verify(&key, b"request"), Ok(()));
        let changes: [fn(&mut Signature); 4] =
            [|s| s.user.push('x'), |s| s.time += 1, |s| s.nonce += 1, |s| s.mac[31] ^= 1];
        for change in changes {
            let mut changed = signature.clone();
            change(&mut changed);
            assert_eq!(changed.verify(&key, b"request"), Err(Disbelief::Forged));
        }
    }
}
