//! What survives the gateway: how each flow stands, and the bytes that are held.
use crate::journal_cells::{AHEAD, Cells, Rows};
use crate::take_over::Alive;
use shorthaul_os::files::{create_privately, open_privately};
use shorthaul_os::{Arena, Buffers, Found, Layout, Records};
use shorthaul_proxy::{Custody, FlowRecord, Holding, Inherited};
use shorthaul_types::{Bytes, Time};
use shorthaul_wire::{Chunk, Labelled, Payload};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// In front of a journal.
const MAGIC: &[u8; 16] = b"shorthaul 6 \n\0\0\0";
/// As far as it is the same in all versions.
const NAME: &[u8] = b"shorthaul ";
/// Where the records begin, behind the header.
const HEADER: usize = 56;
/// How often it is noted that the gateway lives.
const NOTE: Duration = Duration::from_secs(1);
/// An end that has heard nothing for this long has given up (RFC 9293 §3.8.3 has at least 100 s, Linux a quarter of an hour), and
/// its ports may be another connection's.
const TOO_OLD: Duration = Duration::from_secs(15 * 60);
/// Buffers take more room than bytes, and the bounds of the memory may be raised while the gateway runs. Room that is not used
/// costs nothing.
const SPACIOUS: u64 = 4;
const LEAST: u64 = 256 << 20;
/// So many flows of which bytes are copied one after the other need no memory for that which is not there.
const SPARE: usize = 256;
/// Sizes of the buffers that bytes are copied to.
const SIZES: [usize; 3] = [2_048, 16_384, 65_536];

/// The crash journal: a record for each flow and the bytes that are held, in a file that outlives the process that writes it.
///
/// In front stand the boot of the machine and when the gateway was last alive, by the clock of that boot. Packets are
/// received into buffers that lie in the file, so that most bytes are never copied: their label says whose they are. What was
/// copied elsewhere on its way is copied into the file, too.
///
/// It is written beside its predecessor, and takes the place of that when all which is still to be seen to stands in it: a crash
/// on the way loses nothing.
pub struct Journal {
    records: Records,
    buffers: Buffers,
    path: PathBuf,
    layout: Layout,
    boot: [u8; 16],
    noted: Time,
    /// Where the records lie.
    cells: Cells,
    copies: HashMap<u32, Copies>,
    /// What was needed for that and is empty.
    spare: Vec<Copies>,
    /// How many slots, from the first on, have room for a record.
    room: usize,
    /// There was no more when it was asked for last.
    is_cramped: bool,
    /// Bytes, and changes of flows, for which there was no room: a crash loses them.
    bytes_without_room: u64,
    records_without_room: u64,
    /// It stands at its path, and outlives this process.
    is_in_place: bool,
}

/// The bytes of a flow that were copied, by direction.
#[derive(Default)]
struct Copies {
    chunks: [VecDeque<Chunk>; 2],
    /// Of which flow bytes found no room, and up to where.
    counted: [(u64, u64); 2],
}

/// The journal of a predecessor, which has ended, or goes on until it has handed over.
pub struct Former {
    found: Option<Found>,
    boot: [u8; 16],
    /// What was copied of it, by stream and offset.
    copied: HashMap<([u64; 2], u64), Copied>,
}

/// A copy of bytes that lie in one buffer.
#[derive(Default)]
struct Copied {
    len: usize,
    pieces: Vec<Payload>,
}

/// What stands in front.
struct Header([u8; HEADER]);

impl Header {
    fn number(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[at..at + 8]);
        u64::from_be_bytes(bytes)
    }

    /// How the file is divided, and where in it the records are.
    fn layout(&self) -> Option<(Layout, Rows)> {
        let [slots, buffers] = [self.number(40), self.number(48)].map(usize::try_from);
        let rows = Rows::new(HEADER, slots.ok()?)?;
        Some((Layout { records: rows.end, buffers: buffers.ok()? }, rows))
    }
}

impl Former {
    /// The journal at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is not ours.
    pub fn open(path: &Path) -> io::Result<Former> {
        Ok(Former { found: Found::open(open_privately(path)?)?, boot: this_boot(), copied: HashMap::new() })
    }

    /// What stands in front, if it can still matter `now`.
    fn header(&self, now: Time) -> Option<(Layout, Rows)> {
        let mut header = Header([0; HEADER]);
        let found = self.found.as_ref()?;
        let age = found
            .copy(0, &mut header.0)
            .then(|| now.saturating_since(Time::from_nanos(header.number(32))))?;
        let (layout, rows) = header.layout()?;
        let fits = layout.records.checked_add(layout.buffers).is_some_and(|len| len <= found.len());
        let ours = header.0[..16] == *MAGIC && header.0[16..32] == self.boot;
        (ours && fits && age <= TOO_OLD).then_some((layout, rows))
    }

    /// Whether another version of the program wrote it: what it says is not known then.
    pub fn is_of_another_version(&self) -> bool {
        let mut magic = [0; MAGIC.len()];
        let is_there = self.found.as_ref().is_some_and(|found| found.copy(0, &mut magic));
        is_there && magic.starts_with(NAME) && magic != *MAGIC
    }

    /// Copies what is held and was not copied yet, into buffers of the journal that is to follow, as far as there is room. Whoever holds it
    /// may go on meanwhile, and is told with each buffer that this gets on. Says how many bytes that were.
    pub fn copy_ahead(&mut self, now: Time, into: Option<&Buffers>, alive: &Alive) -> usize {
        let (Some((layout, _)), Some(found)) = (self.header(now), &self.found) else { return 0 };
        let mut before = std::mem::take(&mut self.copied);
        let mut copied = 0;
        for (labelled, at) in found.labelled(layout) {
            alive.say();
            let key = (labelled.stream, labelled.offset);
            let mut known = before.remove(&key).unwrap_or_default();
            let more = (labelled.len as usize).saturating_sub(known.len);
            if more > 0 {
                let size = SIZES.into_iter().find(|size| more <= *size).unwrap_or(more);
                let lent = into.and_then(|buffers| buffers.chunk(size));
                let mut chunk = lent.unwrap_or_else(|| Chunk::new(more));
                if found.copy_labelled(&labelled, at, known.len, &mut chunk.spare_mut()[..more]) {
                    chunk.advance(more);
                    known.pieces.push(Payload::new(Arc::new(chunk), 0..more));
                    known.len += more;
                    copied += more;
                }
            }
            self.copied.insert(key, known);
        }
        copied
    }

    /// What was left, if that can still matter `now`. Whoever left it has ended, or does nothing any more; what was not copied yet is
    /// copied now.
    pub fn left(mut self, now: Time, into: Option<&Buffers>, alive: &Alive) -> Vec<Inherited> {
        self.copy_ahead(now, into, alive);
        let (Some((_, rows)), Some(found)) = (self.header(now), &self.found) else { return Vec::new() };
        let mut flows: HashMap<u64, Left> = HashMap::new();
        for (slot, record) in rows.read(found) {
            alive.say();
            // Where there are two, of one flow either holds; of two flows, the one before was over.
            let slot = u64::from(slot);
            if flows.get(&slot).is_none_or(|left| left.record.serial < record.serial) {
                flows.insert(slot, Left { record, pieces: Default::default() });
            }
        }
        for (([stream, serial], offset), copied) in self.copied {
            if let Some(left) = flows.get_mut(&(stream >> 1)).filter(|left| left.record.serial == serial) {
                let mut at = offset;
                for piece in copied.pieces {
                    let behind = at + piece.len() as u64;
                    left.pieces[(stream & 1) as usize].push((at, piece));
                    at = behind;
                }
            }
        }
        let mut flows: Vec<_> = flows.into_iter().collect();
        flows.sort_unstable_by_key(|(slot, _)| *slot);
        let assemble = |(_, left): (u64, Left)| {
            alive.say();
            Inherited::assemble(left.record, left.pieces)
        };
        flows.into_iter().map(assemble).collect()
    }
}

impl Journal {
    /// A journal for `slots` flows that hold `memory` bytes, that is to stand at `path`.
    ///
    /// # Errors
    /// The file cannot be made or mapped, or the file system has no room for anything.
    pub fn create(path: &Path, slots: usize, memory: Bytes, now: Time) -> io::Result<Self> {
        let buffers = memory.0.saturating_mul(SPACIOUS).max(LEAST);
        let too_large = || io::Error::other("the memory is larger than can be addressed");
        let rows = Rows::new(HEADER, slots.max(1)).ok_or_else(too_large)?;
        let buffers = usize::try_from(buffers).map_err(|_| too_large())?;
        let layout = Layout { records: rows.end, buffers };
        let (records, buffers) = Arena::create(create_privately(&beside(path))?, layout)?;
        let mut journal = Journal {
            records,
            buffers,
            path: path.to_owned(),
            layout,
            boot: this_boot(),
            noted: now,
            cells: Cells::new(rows),
            copies: HashMap::new(),
            spare: Vec::new(),
            room: 0,
            is_cramped: false,
            bytes_without_room: 0,
            records_without_room: 0,
            is_in_place: false,
        };
        match journal.write_header() {
            true => Ok(journal),
            false => {
                let why = "the file system has no room for what is to survive a crash: make some, choose another directory with \
                           --run-dir, or write `custody = false`";
                Err(io::Error::new(io::ErrorKind::StorageFull, why))
            }
        }
    }

    /// Takes the place of the predecessor's.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn put_in_place(&mut self) -> io::Result<()> {
        std::fs::rename(beside(&self.path), &self.path)?;
        self.is_in_place = true;
        Ok(())
    }

    /// Where packets are to be received into.
    pub fn buffers(&self) -> Buffers {
        self.buffers.clone()
    }

    /// Bytes that were held, and changes of flows, for which there was no room.
    pub fn without_room(&self) -> (u64, u64) {
        (self.bytes_without_room, self.records_without_room)
    }

    /// Takes room for the records of this many slots, and some more. Says how many there are, from the first on, that have it.
    pub fn make_room(&mut self, slots: usize) -> u32 {
        if !self.is_cramped {
            self.room = self.cells.make_room(&mut self.records, slots);
            self.is_cramped = self.room < slots.saturating_add(AHEAD).min(self.cells.slots());
        }
        u32::try_from(self.room).unwrap_or(u32::MAX)
    }

    /// Notes now and then that the gateway lives, and gives room back that it does not need any more.
    pub fn note_alive(&mut self, now: Time) {
        if now.saturating_since(self.noted) >= NOTE {
            self.noted = now;
            self.is_cramped = false;
            self.write_header();
            self.buffers.give_room_back();
        }
    }

    fn write_header(&mut self) -> bool {
        let mut header = [0; HEADER];
        header[..16].copy_from_slice(MAGIC);
        header[16..32].copy_from_slice(&self.boot);
        let numbers = [self.noted.as_nanos(), self.cells.slots() as u64, self.layout.buffers as u64];
        for (number, to) in numbers.into_iter().zip(header[32..].chunks_exact_mut(8)) {
            to.copy_from_slice(&number.to_be_bytes());
        }
        self.records.store(0, &header)
    }

    /// Nothing of this slot is copied any more.
    fn put_by(&mut self, slot: u32) {
        let Some(mut copies) = self.copies.remove(&slot) else { return };
        if self.spare.len() < SPARE {
            copies.chunks.iter_mut().for_each(VecDeque::clear);
            self.spare.push(Copies { counted: Default::default(), ..copies });
        }
    }

    /// Copies bytes that do not lie in the file already. Says for how many there was room.
    fn copy(&mut self, mut labelled: Labelled, bytes: &[u8]) -> usize {
        let [stream, serial] = labelled.stream;
        let (all, end) = (bytes.len(), labelled.offset + bytes.len() as u64);
        let mut bytes = bytes;
        let side = (stream & 1) as usize;
        let Copies { chunks, counted } =
            self.copies.entry((stream >> 1) as u32).or_insert_with(|| self.spare.pop().unwrap_or_default());
        let (copies, counted) = (&mut chunks[side], &mut counted[side]);
        while !bytes.is_empty() {
            let has_room = |chunk: &&mut Chunk| {
                let known = chunk.label().and_then(|label| label.read());
                chunk.filled() < chunk.capacity()
                    && known.is_some_and(|known| {
                        known.stream == labelled.stream
                            && known.offset + u64::from(known.len) == labelled.offset
                    })
            };
            if copies.back_mut().filter(has_room).is_none() {
                let size = SIZES.into_iter().find(|size| bytes.len() <= *size).unwrap_or(SIZES[2]);
                match self.buffers.chunk(size) {
                    Some(chunk) => copies.push_back(chunk),
                    None => {
                        // They will be told again, and count once.
                        let from = if counted.0 == serial { counted.1 } else { 0 };
                        self.bytes_without_room += end.saturating_sub(labelled.offset.max(from));
                        *counted = (serial, end.max(from));
                        return all - bytes.len();
                    }
                }
            }
            let Some(chunk) = copies.back_mut() else { break };
            let taken = chunk.append(bytes);
            if let Some(label) = chunk.label() {
                let begun = label.read().unwrap_or(Labelled { start: 0, len: 0, ..labelled });
                label.write(&Labelled { len: begun.len + taken as u32, ..begun });
            }
            labelled.offset += taken as u64;
            bytes = &bytes[taken..];
        }
        all - bytes.len()
    }
}

impl Custody for Journal {
    fn hold(&mut self, Holding { slot, serial, direction, offset }: Holding, payload: &Payload) -> usize {
        let stream = [u64::from(slot) << 1 | u64::from(direction), serial];
        let len = payload.len() as u32;
        if let Some((label, start)) = payload.label() {
            let whole = Labelled { stream, offset, start, len };
            match label.read() {
                None => {
                    label.write(&whole);
                    return payload.len();
                }
                Some(known) if continues(&known, &whole) => {
                    label.write(&Labelled { len: known.len + len, ..known });
                    return payload.len();
                }
                Some(_) => {}
            }
        }
        self.copy(Labelled { stream, offset, start: 0, len }, payload.as_slice())
    }

    fn store(&mut self, slot: u32, record: &FlowRecord) {
        if !self.cells.has(slot) {
            self.records_without_room += 1; // a predecessor had more flows than this one may have
            return;
        }
        let has_room = self.cells.store(&mut self.records, slot, &record.encode());
        self.records_without_room += u64::from(!has_room);
        if let Some(Copies { chunks, counted }) = self.copies.get_mut(&slot) {
            for (side, copies) in chunks.iter_mut().enumerate() {
                let delivered = record.held(side).start;
                let is_over = |chunk: &Chunk| {
                    let known = chunk.label().and_then(|label| label.read());
                    known.is_none_or(|known| {
                        known.stream[1] != record.serial || known.offset + u64::from(known.len) <= delivered
                    })
                };
                while copies.front().is_some_and(is_over) {
                    copies.pop_front();
                }
            }
            if chunks.iter().all(VecDeque::is_empty) && *counted == [(0, 0); 2] {
                self.put_by(slot);
            }
        }
    }

    fn free(&mut self, slot: u32) {
        self.put_by(slot);
        self.cells.free(&mut self.records, slot);
    }
}

impl Drop for Journal {
    /// The file of a gateway that never began goes with it.
    fn drop(&mut self) {
        if !self.is_in_place {
            let _ = std::fs::remove_file(beside(&self.path));
        }
    }
}

/// Whether bytes lie in a buffer right behind others of the same stream, which they continue.
fn continues(known: &Labelled, more: &Labelled) -> bool {
    known.stream == more.stream
        && known.start.checked_add(known.len) == Some(more.start)
        && known.offset + u64::from(known.len) == more.offset
}

/// What is left of a flow.
struct Left {
    record: FlowRecord,
    pieces: [Vec<(u64, Payload)>; 2],
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
#[path = "journal_tests.rs"]
mod tests;
