//! Signed requests: who has the key proves it without showing it, for one request, to one node, now.
//!
//! `Proxy-Authorization: Shorthaul user=alice, time=1763724000, nonce=<32 hex>, mac=<64 hex>`, where the
//! MAC is HMAC-SHA-256 (RFC 2104) with the user's token or the network's secret over the request line,
//! every `Shorthaul-` header, and user, time and nonce. `Shorthaul-Node` is among the headers: a node
//! refuses what was meant for another, so a request cannot be replayed there either.
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::hmac;
use ring::rand::SecureRandom;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How far the clocks of two hosts may be apart.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(30);
/// Most signed requests within twice the tolerance; more are refused rather than forgotten.
const MAX_REMEMBERED: usize = 4_000_000;

/// A signature, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    user: String,
    time: u64,
    nonce: u128,
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
}

impl Signature {
    /// Whose key it was made with: a user's name, or nothing for the network's secret.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Signs what [`Request::signed_part`](crate::request::Request::signed_part) gave.
    pub fn sign(key: &hmac::Key, user: &str, part: &[u8]) -> Signature {
        let mut nonce = [0; 16];
        // It fails where the kernel has no random numbers; MACs without them would repeat.
        ring::rand::SystemRandom::new().fill(&mut nonce).expect("the kernel gives random numbers");
        Signature::sign_at(key, user, part, unix_time(), u128::from_be_bytes(nonce))
    }

    fn sign_at(key: &hmac::Key, user: &str, part: &[u8], time: u64, nonce: u128) -> Signature {
        let mut signature = Signature { user: user.into(), time, nonce, mac: [0; 32] };
        let mac = hmac::sign(key, &signature.covered(part));
        signature.mac.copy_from_slice(mac.as_ref());
        signature
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

/// What was signed and accepted lately.
#[derive(Debug)]
pub struct Seen {
    nonces: Mutex<Nonces>,
    /// What was signed earlier may have been accepted by a process that is no more.
    since: u64,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen::since(unix_time())
    }
}

#[derive(Debug, Default)]
struct Nonces {
    known: HashSet<u128>,
    by_age: VecDeque<(u64, u128)>,
}

impl Seen {
    fn since(since: u64) -> Seen {
        Seen { nonces: Mutex::default(), since }
    }

    /// Believes a signature, once.
    ///
    /// # Errors
    /// If it is wrong, old, or was believed before.
    pub fn check(&self, key: &hmac::Key, signature: &Signature, part: &[u8]) -> Result<(), Disbelief> {
        self.check_at(key, signature, part, unix_time())
    }

    fn check_at(
        &self,
        key: &hmac::Key,
        signature: &Signature,
        part: &[u8],
        now: u64,
    ) -> Result<(), Disbelief> {
        // First, so that nobody without the key can fill the memory or learn what is in it.
        hmac::verify(key, &signature.covered(part), &signature.mac).map_err(|_| Disbelief::Forged)?;
        let tolerance = CLOCK_TOLERANCE.as_secs();
        if now.abs_diff(signature.time) > tolerance {
            return Err(Disbelief::Time);
        }
        // Clocks that agree may be in different seconds.
        if signature.time + 1 < self.since {
            return Err(Disbelief::Earlier);
        }
        let mut nonces = self.nonces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // One that is older than this could only have been signed outside the tolerance.
        while let Some(&(at, nonce)) = nonces.by_age.front() {
            if now.saturating_sub(at) <= 2 * tolerance {
                break;
            }
            nonces.by_age.pop_front();
            nonces.known.remove(&nonce);
        }
        if nonces.by_age.len() >= MAX_REMEMBERED {
            return Err(Disbelief::TooMany);
        }
        if !nonces.known.insert(signature.nonce) {
            return Err(Disbelief::Replayed);
        }
        nonces.by_age.push_back((now, signature.nonce));
        Ok(())
    }
}

fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(of: &str) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, of.as_bytes())
    }

    #[test]
    fn a_signature_is_good_once_and_soon() {
        let seen = Seen::since(0);
        let signature = Signature::sign_at(&key("k"), "alice", b"request", 1000, 7);
        let read: Signature = signature.to_string().parse().unwrap();
        assert_eq!(read, signature);
        assert_eq!(seen.check_at(&key("k"), &read, b"request", 1031), Err(Disbelief::Time));
        assert_eq!(seen.check_at(&key("k"), &read, b"request", 969), Err(Disbelief::Time));
        assert_eq!(seen.check_at(&key("other"), &read, b"request", 1000), Err(Disbelief::Forged));
        assert_eq!(seen.check_at(&key("k"), &read, b"request!", 1000), Err(Disbelief::Forged));
        // None of the failures spent it.
        assert_eq!(seen.check_at(&key("k"), &read, b"request", 970), Ok(()));
        assert_eq!(seen.check_at(&key("k"), &read, b"request", 1030), Err(Disbelief::Replayed));
    }

    #[test]
    fn every_field_is_covered() {
        let seen = Seen::since(0);
        let signature = Signature::sign_at(&key("k"), "alice", b"request", 1000, 7);
        let changes: [fn(&mut Signature); 4] =
            [|s| s.user.push('x'), |s| s.time += 1, |s| s.nonce += 1, |s| s.mac[31] ^= 1];
        for change in changes {
            let mut changed = signature.clone();
            change(&mut changed);
            assert_eq!(seen.check_at(&key("k"), &changed, b"request", 1000), Err(Disbelief::Forged));
        }
    }

    #[test]
    fn what_another_process_may_have_believed_is_not_believed() {
        let seen = Seen::since(1000);
        let signed = |time| Signature::sign_at(&key("k"), "", b"", time, time.into());
        assert_eq!(seen.check_at(&key("k"), &signed(998), b"", 1000), Err(Disbelief::Earlier));
        assert_eq!(seen.check_at(&key("k"), &signed(999), b"", 1000), Ok(()));
    }

    #[test]
    fn what_is_too_old_to_be_replayed_is_forgotten() {
        let seen = Seen::since(0);
        for time in 0..1000u64 {
            let signature = Signature::sign_at(&key("k"), "", b"", time, time.into());
            seen.check_at(&key("k"), &signature, b"", time).unwrap();
        }
        assert!(seen.nonces.lock().unwrap().known.len() <= 62);
    }
}
