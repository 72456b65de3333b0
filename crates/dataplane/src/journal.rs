use shorthaul_os::JournalMap;
use shorthaul_os::files::open_privately;
use shorthaul_proxy::CustodyRecord;
use std::io::{self, Read};
use std::path::Path;

const SIZE: usize = CustodyRecord::SIZE;

/// The crash journal: a record a flow, in a file that outlives the process that writes it.
///
/// Slots beyond the size of the file are not kept; the file has one for each flow that may be.
pub struct Journal {
    map: JournalMap,
}

impl Journal {
    /// Opens the journal at `path` with room for `slots` records; returns what a predecessor left
    /// in it, and empties it.
    ///
    /// # Errors
    /// The file cannot be made or mapped.
    pub fn open(path: &Path, slots: usize) -> io::Result<(Self, Vec<CustodyRecord>)> {
        let mut file = open_privately(path)?;
        let mut left = Vec::new();
        file.read_to_end(&mut left)?;
        let (records, _) = left.as_chunks::<SIZE>();
        let records = records.iter().filter_map(CustodyRecord::decode).collect();
        file.set_len(0)?;
        Ok((Journal { map: JournalMap::new(&mut file, slots.max(1) * SIZE)? }, records))
    }

    /// Stores the record of a slot, or frees it.
    pub fn store(&mut self, slot: u32, record: Option<CustodyRecord>) {
        let bytes = record.map_or([0; SIZE], |record| record.encode());
        self.map.store(slot as usize * SIZE, &bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_types::{FlowKey, PortId, SeqNum};

    #[test]
    fn what_was_stored_is_there_for_the_next_one_and_only_once() {
        let path = std::env::temp_dir().join(format!("shorthaul-journal-{}", std::process::id()));
        let flow = FlowKey { src: "10.0.0.1:1".parse().unwrap(), dst: "10.0.0.2:2".parse().unwrap() };
        let record = CustodyRecord {
            flow,
            client_port: PortId(0),
            directions: [(SeqNum(5), SeqNum(3)), (SeqNum(9), SeqNum(9))],
        };
        let (mut journal, left) = Journal::open(&path, 4).unwrap();
        assert!(left.is_empty());
        journal.store(1, Some(record));
        journal.store(2, Some(record));
        journal.store(2, None);
        journal.store(99, Some(record)); // beyond the file: not kept, not harmful
        drop(journal);
        assert_eq!(Journal::open(&path, 4).unwrap().1, [record]);
        assert_eq!(Journal::open(&path, 4).unwrap().1, []);
        std::fs::remove_file(path).unwrap();
    }
}
