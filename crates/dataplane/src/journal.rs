use shorthaul_os::JournalMap;
use shorthaul_os::files::{create_privately, open_privately};
use shorthaul_proxy::CustodyRecord;
use shorthaul_types::Time;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SIZE: usize = CustodyRecord::SIZE;
/// In front of a journal.
const MAGIC: &[u8; 16] = b"shorthaul 2 \n\0\0\0";
/// How often it is noted that the gateway lives.
const NOTE: Duration = Duration::from_secs(1);
/// An end that has heard nothing for so long has given up (RFC 9293 §3.8.3 has at least 100 s, Linux a quarter of an hour), and
/// its ports may be another connection's.
const TOO_OLD: Duration = Duration::from_secs(15 * 60);

/// The crash journal: a record a flow, in a file that outlives the process that writes it.
///
/// In front stand the boot of the machine and when the gateway was last alive, by the clock of that boot. Slots beyond the size of
/// the file are not kept; the file has one for each flow that may be.
///
/// It is written beside its predecessor, and takes the place of that when all which is still to be seen to stands in it: a crash
/// on the way loses nothing.
pub struct Journal {
    map: JournalMap,
    path: PathBuf,
    boot: [u8; 16],
    noted: Time,
}

impl Journal {
    /// What a predecessor left at `path`, if that can still matter `now`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn left(path: &Path, now: Time) -> io::Result<Vec<CustodyRecord>> {
        let mut bytes = Vec::new();
        match open_privately(path) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) => return Err(error),
        };
        let (slots, _) = bytes.as_chunks::<SIZE>();
        let Some((header, slots)) = slots.split_first() else { return Ok(Vec::new()) };
        let (magic, rest) = header.split_at(16);
        let (boot, rest) = rest.split_at(16);
        let alive = rest.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let age = now.saturating_since(Time::from_nanos(alive));
        if magic != MAGIC || boot != this_boot() || age > TOO_OLD {
            return Ok(Vec::new());
        }
        Ok(slots.iter().filter_map(CustodyRecord::decode).collect())
    }

    /// A journal for `slots` flows, that is to stand at `path`.
    ///
    /// # Errors
    /// The file cannot be made or mapped.
    pub fn create(path: &Path, slots: usize, now: Time) -> io::Result<Self> {
        let mut file = create_privately(&beside(path))?;
        let map = JournalMap::new(&mut file, (slots.max(1) + 1) * SIZE)?;
        let mut journal = Journal { map, path: path.to_owned(), boot: this_boot(), noted: now };
        journal.write_header();
        Ok(journal)
    }

    /// Takes the place of the predecessor's.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn put_in_place(&self) -> io::Result<()> {
        std::fs::rename(beside(&self.path), &self.path)
    }

    /// Stores the record of a slot, or frees it.
    pub fn store(&mut self, slot: u32, record: Option<CustodyRecord>) {
        let bytes = record.map_or([0; SIZE], |record| record.encode());
        self.map.store((slot as usize + 1) * SIZE, &bytes);
    }

    /// Notes now and then that the gateway lives.
    pub fn note_alive(&mut self, now: Time) {
        if now.saturating_since(self.noted) >= NOTE {
            self.noted = now;
            self.write_header();
        }
    }

    fn write_header(&mut self) {
        let mut header = [0; 40];
        header[..16].copy_from_slice(MAGIC);
        header[16..32].copy_from_slice(&self.boot);
        header[32..].copy_from_slice(&self.noted.as_nanos().to_be_bytes());
        self.map.store(0, &header);
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// The boot of this machine; zeros if that cannot be known.
fn this_boot() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_types::{FlowKey, PortId, SeqNum};

    fn record() -> CustodyRecord {
        CustodyRecord {
            flow: FlowKey { src: "10.0.0.1:1".parse().unwrap(), dst: "10.0.0.2:2".parse().unwrap() },
            client_port: PortId(0),
            directions: [(SeqNum(5), SeqNum(3)), (SeqNum(9), SeqNum(9))],
        }
    }

    fn path(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("shorthaul-journal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    fn left(path: &Path, now: u64) -> Vec<CustodyRecord> {
        Journal::left(path, Time::from_secs(now)).unwrap()
    }

    #[test]
    fn what_was_stored_is_there_until_the_next_one_has_taken_its_place() {
        let path = path("place");
        let mut journal = Journal::create(&path, 4, Time::from_secs(100)).unwrap();
        assert_eq!(left(&path, 100), []);
        journal.put_in_place().unwrap();
        journal.store(1, Some(record()));
        journal.store(2, Some(record()));
        journal.store(2, None);
        journal.store(99, Some(record())); // beyond the file: not kept, not harmful
        drop(journal);
        assert_eq!(left(&path, 101), [record()]);
        // Another crash, before anything was seen to.
        drop(Journal::create(&path, 4, Time::from_secs(102)).unwrap());
        assert_eq!(left(&path, 103), [record()]);
        let journal = Journal::create(&path, 4, Time::from_secs(104)).unwrap();
        journal.put_in_place().unwrap();
        assert_eq!(left(&path, 105), []);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_old_or_of_another_boot_or_torn_is_not_believed() {
        let path = path("old");
        let mut journal = Journal::create(&path, 4, Time::from_secs(100)).unwrap();
        journal.put_in_place().unwrap();
        journal.store(0, Some(record()));
        assert_eq!(left(&path, 100 + 14 * 60), [record()]);
        assert_eq!(left(&path, 100 + 16 * 60), [], "by now, its ports may be another's");
        journal.note_alive(Time::from_secs(3_000));
        assert_eq!(left(&path, 3_000 + 14 * 60), [record()], "a flow may hold the same bytes for hours");
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for at in [0, 20, SIZE + 40, SIZE + 125] {
            let mut torn = whole.clone();
            torn[at] ^= 0x40;
            std::fs::write(&path, torn).unwrap();
            assert_eq!(left(&path, 3_001), [], "byte {at}");
        }
        std::fs::write(&path, &whole[..200]).unwrap();
        assert_eq!(left(&path, 3_001), []);
        std::fs::remove_file(path).unwrap();
    }
}
