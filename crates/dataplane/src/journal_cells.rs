//! Where the records of flows lie in a journal: in cells of a few sizes, one for each flow.
//!
//! A record is written into a free cell, its first byte last; then the cell of the record before is free, which is one whose first byte is
//! zero. So after a kill at any instruction each flow has a whole record, or two, of which either holds: what the later one allows has not left yet. What is
//! delivered goes after both.
use shorthaul_os::{Found, Records};
use shorthaul_proxy::FlowRecord;

/// Behind each record: whose it is.
const NAME: usize = 4;
/// Bytes of a cell, row by row: enough for nearly all flows of IPv4, for nearly all of IPv6, and for any.
const SIZES: [usize; 3] = [128, 160, FlowRecord::MOST + NAME];
const ROWS: usize = SIZES.len();
/// Cells that are free in each row before flows have them: more than flows can be opened in a round.
pub(crate) const AHEAD: usize = 2_048;
/// A row begins at a multiple of this.
const ALIGNED: usize = 64;

/// Where the rows lie: behind numbers that say how many cells of each were ever used, one behind the other, each with a cell for every slot,
/// and one to write the next record into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    start: usize,
    starts: [usize; ROWS],
    /// Cells of each row.
    cells: usize,
    /// Where they end.
    pub end: usize,
}

impl Rows {
    /// The rows for so many slots, from `start` on. `None` if they are more than can be addressed.
    pub fn new(start: usize, slots: usize) -> Option<Rows> {
        let cells = slots.checked_add(1)?;
        let (mut starts, mut end) = ([0; ROWS], start.checked_add(ROWS * 8)?);
        for (row, size) in SIZES.into_iter().enumerate() {
            starts[row] = end.checked_next_multiple_of(ALIGNED)?;
            end = starts[row].checked_add(cells.checked_mul(size)?)?;
        }
        Some(Rows { start, starts, cells, end })
    }

    fn at(&self, row: usize, cell: usize) -> usize {
        self.starts[row] + cell * SIZES[row]
    }

    /// Where the file says how many cells of a row were ever used: all of those are among the first. Behind them there are only holes, and to
    /// look into them takes time.
    fn used_at(&self, row: usize) -> usize {
        self.start + row * 8
    }

    /// The records that a file has, each with its slot.
    pub fn read(self, found: &Found) -> impl Iterator<Item = (u32, FlowRecord)> + '_ {
        let cells = move |row: usize| {
            let mut used = [0; 8];
            found.copy(self.used_at(row), &mut used);
            let used = usize::try_from(u64::from_be_bytes(used)).unwrap_or(usize::MAX).min(self.cells);
            (0..used).map(move |cell| (row, cell))
        };
        (0..ROWS).flat_map(cells).filter_map(move |(row, cell)| {
            let mut bytes = [0; SIZES[ROWS - 1]];
            let bytes = &mut bytes[..SIZES[row]];
            found.copy(self.at(row, cell), bytes);
            let (record, behind) = FlowRecord::decode(bytes)?;
            Some((u32::from_ne_bytes(*behind.first_chunk()?), record))
        })
    }
}

/// The cell of a slot as one number, which is not zero.
fn number_of(row: usize, cell: usize) -> Option<u32> {
    u32::try_from(cell * (ROWS + 1) + row + 1).ok()
}

/// The row and the cell that have a number; zero is none.
fn cell_of(number: u32) -> Option<(usize, usize)> {
    let number = number as usize;
    Some(((number % (ROWS + 1)).checked_sub(1)?, number / (ROWS + 1)))
}

/// Cells of one size.
#[derive(Debug, Default)]
struct Row {
    /// Those that were ever used are the first ones.
    used: usize,
    /// Of those, the free ones.
    free: Vec<u32>,
    /// So many, from the first one on, have room in the file.
    with_room: usize,
}

impl Row {
    fn taken(&self) -> usize {
        self.used - self.free.len()
    }
}

/// The cells of a journal, as who writes it knows them.
#[derive(Debug)]
pub(crate) struct Cells {
    rows: Rows,
    all: [Row; ROWS],
    /// The cell of each slot, by its [number](number_of).
    places: Vec<u32>,
}

impl Cells {
    /// All are free.
    pub fn new(rows: Rows) -> Self {
        Cells { rows, all: Default::default(), places: vec![0; rows.cells - 1] }
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.places.len()
    }

    /// Takes room for the records of this many slots, and some more. Says how many there are, from the first on, that have it: none, where
    /// longer records have none ahead.
    pub fn make_room(&mut self, records: &mut Records, slots: usize) -> usize {
        let Cells { rows, all, .. } = self;
        let mut room = slots.saturating_add(AHEAD).min(rows.cells - 1);
        for (number, row) in all.iter_mut().enumerate() {
            // Few need a longer one.
            let needed = if number == 0 { room } else { row.taken().saturating_add(AHEAD) };
            let wanted = needed.saturating_add(1).min(rows.cells);
            if row.with_room < wanted {
                let from = rows.at(number, row.with_room);
                let end = records.reserve(from, rows.at(number, wanted));
                row.with_room = (end.max(from) - rows.starts[number]) / SIZES[number];
                row.with_room = row.with_room.min(rows.cells);
            }
            if number == 0 {
                room = row.with_room.saturating_sub(1);
            } else if row.with_room < wanted {
                room = 0;
            }
        }
        room
    }

    /// Whether a slot can have a record at all.
    pub fn has(&self, slot: u32) -> bool {
        (slot as usize) < self.places.len()
    }

    /// How the flow of a slot stands. Says whether there was room for it; what was said before holds otherwise.
    pub fn store(&mut self, records: &mut Records, slot: u32, record: &[u8]) -> bool {
        let needed = record.len() + NAME;
        let fitting = SIZES.iter().position(|size| needed <= *size).unwrap_or(ROWS);
        let stored = (fitting..ROWS).find_map(|row| self.write(records, row, slot, record));
        let Some(place) = stored else { return false };
        self.free(records, slot);
        self.places[slot as usize] = place;
        true
    }

    /// Writes a record into a free cell of a row.
    fn write(&mut self, records: &mut Records, row: usize, slot: u32, record: &[u8]) -> Option<u32> {
        let Row { used, free, .. } = &mut self.all[row];
        let cell = match free.last() {
            Some(cell) => *cell as usize,
            None => Some(*used).filter(|cell| *cell < self.rows.cells)?,
        };
        let number = number_of(row, cell)?;
        let at = self.rows.at(row, cell);
        let (first, rest) = record.split_first()?;
        let is_known =
            cell < *used || records.store(self.rows.used_at(row), &(cell as u64 + 1).to_be_bytes());
        let is_stored = is_known
            && records.store(at + record.len(), &slot.to_ne_bytes())
            && records.store(at + 1, rest)
            && records.store(at, &[*first]);
        if !is_stored {
            return None;
        }
        if free.pop().is_none() {
            *used += 1;
        }
        Some(number)
    }

    /// A slot has no record any more.
    pub fn free(&mut self, records: &mut Records, slot: u32) {
        let Some(place) = self.places.get_mut(slot as usize) else { return };
        if let Some((row, cell)) = cell_of(std::mem::take(place)) {
            records.store(self.rows.at(row, cell), &[0]);
            self.all[row].free.push(cell as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_os::files::create_privately;
    use shorthaul_os::{Arena, Layout};

    #[test]
    fn a_slot_has_one_cell_of_the_smallest_size_and_others_have_it_afterwards() {
        let path = std::env::temp_dir().join(format!("shorthaul-cells-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let slots = 100;
        let rows = Rows::new(56, slots).unwrap();
        let layout = Layout { records: rows.end, buffers: 0 };
        let (mut records, _) = Arena::create(create_privately(&path).unwrap(), layout).unwrap();
        let mut cells = Cells::new(rows);
        assert_eq!(cells.make_room(&mut records, 0), slots);
        let store = |cells: &mut Cells, records: &mut Records, slot: u32, len: usize| {
            assert!(cells.store(records, slot, &[7; FlowRecord::MOST][..len]));
            cell_of(cells.places[slot as usize]).unwrap()
        };
        let taken = |cells: &Cells| cells.all.each_ref().map(Row::taken);
        for (len, row) in [(90, 0), (124, 0), (125, 1), (156, 1), (157, 2), (FlowRecord::MOST, 2), (90, 0)] {
            assert_eq!(store(&mut cells, &mut records, 3, len).0, row);
            assert_eq!(taken(&cells), std::array::from_fn(|other| usize::from(other == row)));
        }
        // All slots at once, again and again: each row has a cell for each, and one more.
        for round in 0..10 {
            for slot in 0..slots as u32 {
                store(&mut cells, &mut records, slot, [90, 150, 250][(round + slot as usize / 50) % 3]);
            }
            assert_eq!(taken(&cells).iter().sum::<usize>(), slots);
        }
        (0..slots as u32).for_each(|slot| cells.free(&mut records, slot));
        for slot in (0..slots as u32).chain(0..slots as u32) {
            assert_eq!(store(&mut cells, &mut records, slot, 100).0, 0);
        }
        assert_eq!((taken(&cells), cells.all[0].used), ([slots, 0, 0], slots + 1));
        assert!(!cells.has(slots as u32));
        (0..slots as u32).for_each(|slot| cells.free(&mut records, slot));
        assert_eq!(taken(&cells), [0; ROWS]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_said_of_rows_may_be_anything() {
        for slots in [0, 1, 1 << 20, usize::MAX - 1, usize::MAX, usize::MAX / 600, 1 << 55] {
            for start in [0, 56, usize::MAX - 3] {
                assert!(Rows::new(start, slots).is_none_or(|rows| rows.end > start));
            }
        }
    }
}
