//! Signed requests that were accepted lately: each is good once, also where one process goes on in the place of another.
use crate::sign::{CLOCK_TOLERANCE, Disbelief, Signature, millis_of, unix_millis, unix_time};
use ring::hmac;
use std::collections::{HashSet, VecDeque};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most signed requests within twice the tolerance; more are refused rather than forgotten.
const MAX_REMEMBERED: usize = 4_000_000;
/// How long whoever has taken over may take to say whether a request was made before. Meanwhile a thread does nothing else.
const SUCCESSOR_ANSWERS: Duration = Duration::from_secs(1);
/// A request as one process names it to the other: when it was signed or accepted (8 bytes), and its number (16).
const ENTRY: usize = 24;

/// What was signed and accepted lately.
#[derive(Debug)]
pub struct Seen {
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// What was signed then, or earlier, may have been accepted by a process of which nothing is known: in milliseconds.
    since: u64,
    known: HashSet<u128>,
    by_age: VecDeque<(u64, u128)>,
    /// Who has taken over, and decides from then on.
    successor: Option<UnixStream>,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen::since(unix_millis())
    }
}

impl Seen {
    fn since(since: u64) -> Seen {
        Seen { memory: Mutex::new(Memory { since, ..Memory::default() }) }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
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
        signature.verify(key, part)?;
        if now.abs_diff(signature.time) > CLOCK_TOLERANCE.as_secs() {
            return Err(Disbelief::Time);
        }
        self.memory().spend(signature.time, signature.nonce, now)
    }

    /// How long it takes until a request is good whose clock stands where it stood for this one.
    pub(crate) fn good_after(&self, signature: &Signature) -> Duration {
        let signed = millis_of(signature.time, signature.nonce);
        Duration::from_millis(self.memory().since.saturating_sub(signed).saturating_add(1))
    }

    /// Tells a successor what is known, and has it decide from now on. It is not followed yet: [`Seen::keep`] undoes that.
    ///
    /// # Errors
    /// It does not listen. Then nothing has changed.
    pub(crate) fn hand_over(&self, mut successor: UnixStream) -> io::Result<()> {
        successor.set_read_timeout(Some(SUCCESSOR_ANSWERS))?;
        successor.set_write_timeout(Some(SUCCESSOR_ANSWERS))?;
        let mut memory = self.memory();
        let mut all = Vec::with_capacity(16 + ENTRY * memory.by_age.len());
        // In whole seconds, as all versions say it; and rather too early, so that what is good with this one is good with that one.
        all.extend((memory.since / 1000).to_be_bytes());
        all.extend((memory.by_age.len() as u64).to_be_bytes());
        for (at, nonce) in &memory.by_age {
            all.extend(entry(*at, *nonce));
        }
        successor.write_all(&all)?;
        memory.successor = Some(successor);
        Ok(())
    }

    /// There is no successor after all.
    pub(crate) fn keep(&self) {
        self.memory().successor = None;
    }

    /// Knows what a predecessor knew.
    ///
    /// # Errors
    /// It says something else, or ends too early.
    pub(crate) fn inherit(&self, predecessor: &mut impl Read) -> io::Result<()> {
        let mut numbers = [[0; 8]; 2];
        for number in &mut numbers {
            predecessor.read_exact(number)?;
        }
        let [since, count] = numbers.map(u64::from_be_bytes);
        if count > MAX_REMEMBERED as u64 {
            return Err(io::Error::other("what it says of signed requests makes no sense"));
        }
        let mut memory = self.memory();
        memory.since = since.saturating_mul(1000);
        for _ in 0..count {
            let (at, nonce) = read_entry(predecessor)?;
            memory.known.insert(nonce);
            memory.by_age.push_back((at, nonce));
        }
        Ok(())
    }

    /// Answers what a predecessor asks, for as long as it serves what it has.
    pub(crate) fn answer(&self, mut predecessor: &UnixStream) {
        while let Ok((time, nonce)) = read_entry(&mut predecessor) {
            let good = self.memory().spend(time, nonce, unix_time());
            if predecessor.write_all(&[answer_of(good)]).is_err() {
                return;
            }
        }
    }
}

impl Memory {
    /// Whether a request that was signed then is good: once.
    fn spend(&mut self, time: u64, nonce: u128, now: u64) -> Result<(), Disbelief> {
        if millis_of(time, nonce) <= self.since {
            return Err(Disbelief::Earlier);
        }
        // One that is older than this could only have been signed outside the tolerance.
        while let Some(&(at, nonce)) = self.by_age.front() {
            if now.saturating_sub(at) <= 2 * CLOCK_TOLERANCE.as_secs() {
                break;
            }
            self.by_age.pop_front();
            self.known.remove(&nonce);
        }
        if self.by_age.len() >= MAX_REMEMBERED {
            return Err(Disbelief::TooMany);
        }
        if !self.known.insert(nonce) {
            return Err(Disbelief::Replayed);
        }
        self.by_age.push_back((now, nonce));
        match &mut self.successor {
            None => Ok(()),
            Some(successor) => ask(successor, time, nonce),
        }
    }
}

fn ask(successor: &mut UnixStream, time: u64, nonce: u128) -> Result<(), Disbelief> {
    let mut answer = [0];
    let asked = successor.write_all(&entry(time, nonce)).and_then(|()| successor.read_exact(&mut answer));
    if asked.is_err() {
        // What it says later would be taken for the answer to another question.
        let _ = successor.shutdown(std::net::Shutdown::Both);
        return Err(Disbelief::Unknown);
    }
    match answer[0] {
        0 => Ok(()),
        1 => Err(Disbelief::Replayed),
        2 => Err(Disbelief::TooMany),
        3 => Err(Disbelief::Earlier),
        _ => Err(Disbelief::Unknown),
    }
}

/// As [`ask`] reads it.
fn answer_of(good: Result<(), Disbelief>) -> u8 {
    match good {
        Ok(()) => 0,
        Err(Disbelief::Replayed) => 1,
        Err(Disbelief::TooMany) => 2,
        Err(Disbelief::Earlier) => 3,
        Err(_) => 4,
    }
}

fn entry(at: u64, nonce: u128) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    bytes[..8].copy_from_slice(&at.to_be_bytes());
    bytes[8..].copy_from_slice(&nonce.to_be_bytes());
    bytes
}

fn read_entry(from: &mut impl Read) -> io::Result<(u64, u128)> {
    let (mut at, mut nonce) = ([0; 8], [0; 16]);
    from.read_exact(&mut at)?;
    from.read_exact(&mut nonce)?;
    Ok((u64::from_be_bytes(at), u128::from_be_bytes(nonce)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn key(of: &str) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, of.as_bytes())
    }

    fn signed(time: u64, nonce: u128) -> Signature {
        Signature::sign_at(&key("k"), "", b"", time, nonce)
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
    fn what_another_process_may_have_believed_is_not_believed() {
        let seen = Seen::since(1_000_250);
        let at = |millis: u64| signed(millis / 1000, u128::from(millis % 1000) << 112 | u128::from(millis));
        for millis in [998_000, 999_999, 1_000_000, 1_000_250] {
            assert_eq!(seen.check_at(&key("k"), &at(millis), b"", 1000), Err(Disbelief::Earlier), "{millis}");
        }
        // What is signed right afterwards is good, and whose clock is late knows when it will be.
        assert_eq!(seen.check_at(&key("k"), &at(1_000_251), b"", 1000), Ok(()));
        assert_eq!(seen.good_after(&at(1_000_100)), Duration::from_millis(151));
    }

    #[test]
    fn what_is_too_old_to_be_replayed_is_forgotten() {
        let seen = Seen::since(0);
        for time in 1..1000u64 {
            seen.check_at(&key("k"), &signed(time, time.into()), b"", time).unwrap();
        }
        assert!(seen.memory().known.len() <= 62);
    }

    #[test]
    fn of_two_processes_only_one_believes_a_signature() {
        let now = unix_time();
        let (first, second) = (Seen::since(1000 * (now - 20)), Arc::new(Seen::since(1000 * now)));
        let believes = |seen: &Seen, nonce| seen.check_at(&key("k"), &signed(now - 9, nonce), b"", now);
        assert_eq!(believes(&second, 1), Err(Disbelief::Earlier), "it knows nothing of then");
        assert_eq!(believes(&first, 1), Ok(()));
        let (here, mut there) = UnixStream::pair().unwrap();
        first.hand_over(here).unwrap();
        second.inherit(&mut there).unwrap();
        let answering = Arc::clone(&second);
        let answering = std::thread::spawn(move || answering.answer(&there));
        assert_eq!(believes(&second, 1), Err(Disbelief::Replayed), "the first believed it");
        assert_eq!(believes(&second, 2), Ok(()), "signed before it began, and not seen yet");
        assert_eq!(believes(&first, 2), Err(Disbelief::Replayed), "the second believed it");
        assert_eq!(believes(&first, 3), Ok(()));
        assert_eq!(believes(&second, 3), Err(Disbelief::Replayed));
        // A third one: the first asks the second, and that one the third.
        let third = Arc::new(Seen::since(1000 * now));
        let (here, mut there) = UnixStream::pair().unwrap();
        second.hand_over(here).unwrap();
        third.inherit(&mut there).unwrap();
        let of_third = Arc::clone(&third);
        let of_third = std::thread::spawn(move || of_third.answer(&there));
        assert_eq!(believes(&first, 4), Ok(()));
        assert_eq!(believes(&third, 4), Err(Disbelief::Replayed));
        assert_eq!(believes(&third, 3), Err(Disbelief::Replayed));
        // One whose successor is gone believes nothing that it could not ask about, until it is the last again.
        second.memory().successor.as_ref().unwrap().shutdown(std::net::Shutdown::Both).unwrap();
        of_third.join().unwrap();
        assert_eq!(believes(&second, 5), Err(Disbelief::Unknown));
        second.keep();
        assert_eq!(believes(&second, 6), Ok(()));
        drop(first);
        answering.join().unwrap();
    }

    #[test]
    fn what_a_predecessor_says_is_read_whole_or_refused() {
        let mut bytes = [7u64.to_be_bytes(), 2u64.to_be_bytes()].concat();
        bytes.extend([entry(8, 1), entry(9, 2)].concat());
        let seen = Seen::since(0);
        seen.inherit(&mut &bytes[..]).unwrap();
        assert_eq!((7000, 2), {
            let memory = seen.memory();
            (memory.since, memory.known.len())
        });
        for length in 0..bytes.len() {
            assert!(Seen::since(0).inherit(&mut &bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(Seen::since(0).inherit(&mut &[0xff; 64][..]).is_err(), "more than can be");
    }
}
