//! A file in memory: what is stored into it outlives the process, without a system call a store. Records lie in it at fixed
//! places, and packet buffers, each with a label beside it.
use crate::files::owned_by_us;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, ftruncate, seek};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use shorthaul_wire::{Chunk, Label, Labelled, Lender, Lent};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of the pieces in which room is taken from the file system.
const EXTENT: usize = 1 << 20;
/// Sizes of packet buffers, in bytes.
const SIZES: [usize; 3] = [2_048, 16_384, 65_536];
/// In front of each buffer; the first bytes of it are its label.
const IN_FRONT: usize = 64;
/// Extents without a buffer in use that keep their room all the same.
const SPARE: usize = 4;
/// Extents whose room is given back at once: each takes the kernel some hundred microseconds.
const AT_ONCE: usize = 4;

/// How the file is divided: records first, then extents of buffers. All of an extent's buffers have one size, and it begins with
/// the number of that size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes for records, at the beginning.
    pub records: usize,
    /// Bytes for packet buffers, at most.
    pub buffers: usize,
}

impl Layout {
    fn first_extent(self) -> usize {
        self.records.div_ceil(EXTENT)
    }

    fn extents(self) -> usize {
        self.first_extent() + self.buffers.div_ceil(EXTENT)
    }

    fn len(self) -> usize {
        self.extents() * EXTENT
    }
}

/// How many buffers of a size there are in an extent.
fn count(class: usize) -> usize {
    (EXTENT - IN_FRONT) / (SIZES[class] + IN_FRONT)
}

/// Where a buffer lies in its extent.
fn place(class: usize, number: usize) -> usize {
    IN_FRONT + number * (SIZES[class] + IN_FRONT)
}

/// A mapped file. Its memory is the process's for good.
#[derive(Debug)]
pub struct Arena {
    start: NonNull<u8>,
    layout: Layout,
    inner: Mutex<Inner>,
}

// SAFETY: the mapping lives as long as the process. Each buffer has one owner, who was given it and gives it back; labels are
// atomic; records are written through `&mut Records` alone.
unsafe impl Send for Arena {}
// SAFETY: as above; the lists are behind a lock.
unsafe impl Sync for Arena {}

#[derive(Debug)]
struct Inner {
    file: File,
    /// The extents of buffers that ever had room, from the first one on.
    extents: Vec<Extent>,
    /// Of each size, the extents in which there are free buffers. The first is taken from, so that the last ones fall empty.
    open: [BTreeSet<usize>; SIZES.len()],
    /// Those that have no room at the moment.
    bare: BTreeSet<usize>,
    /// How many there are without a buffer in use, and how few there were since room was given back last.
    idle: usize,
    least_idle: usize,
    /// The file system had no room, and is not asked again before that.
    is_full: bool,
}

/// Buffers of one size.
#[derive(Debug, Default)]
struct Extent {
    class: usize,
    /// The free ones, by number.
    free: Vec<u16>,
}

impl Extent {
    /// It has room, and no buffer in use.
    fn is_idle(&self) -> bool {
        self.free.len() == count(self.class)
    }
}

/// What may be written at fixed places in an arena. There is one.
#[derive(Debug)]
pub struct Records {
    arena: Arc<Arena>,
    /// The extents that have room.
    reserved: Vec<bool>,
}

/// Buffers of an arena, to be had from several places.
#[derive(Clone, Debug)]
pub struct Buffers(Arc<Arena>);

impl Arena {
    /// Maps `file`, which is empty, with room for nothing yet.
    ///
    /// # Errors
    /// The kernel's: the file system cannot hold a file with holes of that length, or the process cannot map it.
    pub fn create(file: File, layout: Layout) -> io::Result<(Records, Buffers)> {
        ftruncate(&file, layout.len() as u64)?;
        // SAFETY: a fresh mapping of a file of this length.
        let start = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), layout.len(), prot, MapFlags::SHARED, &file, 0)
        }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        let inner = Mutex::new(Inner {
            file,
            extents: Vec::new(),
            open: Default::default(),
            bare: BTreeSet::new(),
            idle: 0,
            least_idle: 0,
            is_full: false,
        });
        let arena = Arc::new(Arena { start, layout, inner });
        let reserved = vec![false; layout.first_extent()];
        Ok((Records { arena: Arc::clone(&arena), reserved }, Buffers(arena)))
    }

    /// Takes room for an extent: a store without it would end the process (SIGBUS).
    fn reserve(&self, file: &File, extent: usize) -> bool {
        fallocate(file, FallocateFlags::empty(), (extent * EXTENT) as u64, EXTENT as u64).is_ok()
    }

    /// Copies `bytes` to `offset`, where there is room.
    fn copy(&self, offset: usize, bytes: &[u8]) {
        debug_assert!(offset + bytes.len() <= self.layout.len());
        // SAFETY: the range lies within the mapping and has room, and only the callers of this write it: `Records`, of which there
        // is one and which is borrowed mutably, and whoever has just reserved an extent.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free buffer.
    fn find(&self, class: usize) -> Option<usize> {
        let mut inner = self.lock();
        let number = match inner.open[class].first() {
            Some(number) => *number,
            None => self.furnish(&mut inner, class)?,
        };
        let extent = &mut inner.extents[number];
        let was_idle = extent.is_idle();
        let buffer = usize::from(extent.free.pop()?);
        if extent.free.is_empty() {
            inner.open[class].remove(&number);
        }
        if was_idle {
            inner.idle -= 1;
            inner.least_idle = inner.least_idle.min(inner.idle);
        }
        Some((self.layout.first_extent() + number) * EXTENT + place(class, buffer))
    }

    /// Makes an extent with buffers of this size, and says its number.
    fn furnish(&self, inner: &mut Inner, class: usize) -> Option<usize> {
        let first = self.layout.first_extent();
        let more = Some(inner.extents.len()).filter(|number| first + number < self.layout.extents());
        let fresh = inner.bare.first().copied().or(more).filter(|_| !inner.is_full);
        let number = match fresh.filter(|number| self.reserve(&inner.file, first + number)) {
            Some(number) => number,
            None => {
                inner.is_full = true;
                // One of another size that nobody uses. Its bytes go: among them may be what looks like labels.
                let number = inner.extents.iter().rposition(Extent::is_idle)?;
                let changes = self.strip(inner, number) && self.reserve(&inner.file, first + number);
                changes.then_some(number)?
            }
        };
        if number == inner.extents.len() {
            inner.extents.push(Extent::default());
        }
        inner.bare.remove(&number);
        self.copy((first + number) * EXTENT, &(class as u64 + 1).to_ne_bytes());
        inner.extents[number] = Extent { class, free: (0..count(class) as u16).rev().collect() };
        inner.open[class].insert(number);
        inner.idle += 1;
        Some(number)
    }

    /// Gives the room of an extent back that nobody uses. Says whether the file system takes it.
    fn strip(&self, inner: &mut Inner, number: usize) -> bool {
        let at = (self.layout.first_extent() + number) * EXTENT;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let is_taken = fallocate(&inner.file, hole, at as u64, EXTENT as u64).is_ok();
        if is_taken {
            let Extent { class, .. } = std::mem::take(&mut inner.extents[number]);
            inner.open[class].remove(&number);
            inner.bare.insert(number);
            inner.idle -= 1;
        }
        is_taken
    }
}

impl Records {
    fn reserve_extent(&mut self, extent: usize) -> bool {
        if !self.reserved[extent] {
            self.reserved[extent] = self.arena.reserve(&self.arena.lock().file, extent);
        }
        self.reserved[extent]
    }

    /// Takes room for what lies between `start` and `end`, as far as there is any. Says up to where there is, which may be further.
    pub fn reserve(&mut self, start: usize, end: usize) -> usize {
        let (first, wanted) = (start / EXTENT, end.div_ceil(EXTENT).min(self.reserved.len()));
        let _ = (first..wanted).all(|extent| self.reserve_extent(extent));
        let reserved = self.reserved.iter().skip(first).take_while(|reserved| **reserved).count();
        ((first + reserved) * EXTENT).min(self.arena.layout.records)
    }

    /// Stores `bytes` at `offset`, in one go as seen by whoever finds the file when this process was ended: before everything that
    /// is stored later. Says whether there is room.
    pub fn store(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let Some(end) = offset.checked_add(bytes.len()).filter(|end| *end <= self.arena.layout.records)
        else {
            return false;
        };
        if !(offset / EXTENT..end.div_ceil(EXTENT)).all(|extent| self.reserve_extent(extent)) {
            return false;
        }
        compiler_fence(Ordering::SeqCst);
        self.arena.copy(offset, bytes);
        compiler_fence(Ordering::SeqCst);
        true
    }
}

impl Buffers {
    /// A chunk with room for `capacity` bytes, one of the sizes that buffers have; `None` if there is no room, or no such size.
    pub fn chunk(&self, capacity: usize) -> Option<Chunk> {
        let class = SIZES.iter().position(|size| *size == capacity)?;
        let offset = self.0.find(class)?;
        let lender: Arc<dyn Lender> = Arc::clone(&self.0) as Arc<dyn Lender>;
        // SAFETY: the offset is that of a free buffer, which nobody else has, with its label 64 bytes before it; extents are
        // aligned as pages are, and buffers as their labels need. The mapping is never undone.
        let lent = unsafe {
            let at = self.0.start.as_ptr().add(offset);
            let label = &*at.cast::<Label>();
            Lent { bytes: std::slice::from_raw_parts_mut(at.add(IN_FRONT), capacity), label, lender }
        };
        Some(Chunk::lent(lent))
    }

    /// Gives room back to the file system that was not needed since this was called last, a little at a time. Says how many bytes.
    pub fn give_room_back(&self) -> usize {
        let inner = &mut *self.0.lock();
        inner.is_full = false;
        let surplus = inner.least_idle.saturating_sub(SPARE).min(AT_ONCE);
        let given = (0..surplus)
            .take_while(|_| {
                let last = inner.extents.iter().rposition(Extent::is_idle);
                last.is_some_and(|number| self.0.strip(inner, number))
            })
            .count();
        inner.least_idle = inner.idle;
        given * EXTENT
    }
}

impl Lender for Arena {
    fn give_back(&self, bytes: &'static mut [u8]) {
        let Some(class) = SIZES.iter().position(|size| *size == bytes.len()) else { return };
        let at = bytes.as_ptr() as usize - self.start.as_ptr() as usize - IN_FRONT;
        let number = at / EXTENT - self.layout.first_extent();
        let buffer = (at % EXTENT - IN_FRONT) / (SIZES[class] + IN_FRONT);
        let inner = &mut *self.lock();
        let extent = &mut inner.extents[number];
        extent.free.push(buffer as u16);
        if extent.free.len() == 1 {
            inner.open[class].insert(number);
        }
        inner.idle += usize::from(extent.is_idle());
    }
}

/// A file that another process has left, or still writes, to be read.
#[derive(Debug)]
pub struct Found {
    file: File,
    start: NonNull<u8>,
    len: usize,
}

impl Found {
    /// Maps `file`; `None` for one that is empty.
    ///
    /// # Errors
    /// It is not a file of ours, or cannot be mapped.
    pub fn open(file: File) -> io::Result<Option<Found>> {
        let len = owned_by_us(&file)? as usize;
        if len == 0 {
            return Ok(None);
        }
        // SAFETY: a fresh mapping of a file of this length. Only its owner can write it, and never makes it shorter.
        let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, &file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(Some(Found { file, start, len }))
    }

    /// How many bytes it has, holes included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies what is there at the moment. Says whether all of it lies within the file.
    pub fn copy(&self, from: usize, to: &mut [u8]) -> bool {
        let fits = from.checked_add(to.len()).is_some_and(|end| end <= self.len);
        if fits {
            // SAFETY: the range lies within the mapping. Whoever may write it meanwhile is another process: what is had is some
            // bytes, and those who need to know which ask the label before and after.
            unsafe {
                std::ptr::copy_nonoverlapping(self.start.as_ptr().add(from), to.as_mut_ptr(), to.len())
            };
        }
        fits
    }

    /// What the label at this place says at the moment.
    fn label(&self, at: usize) -> Option<Labelled> {
        let fits = at.is_multiple_of(align_of::<Label>()) && at.checked_add(Label::SIZE)? <= self.len;
        // SAFETY: it lies within the mapping, which begins with a page; a label is made of atomics.
        fits.then(|| unsafe { &*self.start.as_ptr().add(at).cast::<Label>() }.read())?
    }

    /// Copies bytes of a buffer, from `skip` on, which its label is about and that begin `at` this place. `false` if it says something
    /// else by now: they may be any bytes then.
    pub fn copy_labelled(&self, labelled: &Labelled, at: usize, skip: usize, to: &mut [u8]) -> bool {
        let label = at.checked_sub(labelled.start as usize + IN_FRONT);
        self.copy(at + skip, to)
            && label.and_then(|label| self.label(label)).is_some_and(|now| {
                // More may lie behind them.
                now.len >= labelled.len && Labelled { len: labelled.len, ..now } == *labelled
            })
    }

    /// The extents of buffers that have room.
    fn furnished(&self, layout: Layout) -> Vec<usize> {
        let end = layout.extents().min(self.len / EXTENT);
        let (mut next, mut found) = (layout.first_extent(), Vec::new());
        while next < end {
            next = match seek(&self.file, SeekFrom::Data((next * EXTENT) as u64)) {
                Ok(at) => next.max(at as usize / EXTENT),
                Err(Errno::NXIO) => break, // holes alone
                Err(_) => next,
            };
            if next < end {
                found.push(next);
            }
            next += 1;
        }
        found
    }

    /// What the labels of its buffers say, with where those bytes begin in the file. What makes no sense is left out.
    pub fn labelled(&self, layout: Layout) -> impl Iterator<Item = (Labelled, usize)> + '_ {
        self.furnished(layout)
            .into_iter()
            .filter_map(|extent| {
                let mut class = [0; 8];
                self.copy(extent * EXTENT, &mut class);
                let class = usize::try_from(u64::from_ne_bytes(class)).ok()?.checked_sub(1)?;
                (class < SIZES.len()).then_some((extent * EXTENT, class))
            })
            .flat_map(|(at, class)| (0..count(class)).map(move |number| (at + place(class, number), class)))
            .filter_map(|(at, class)| {
                let labelled = self.label(at)?;
                let end = (labelled.start as usize).checked_add(labelled.len as usize)?;
                (end <= SIZES[class]).then(|| (labelled, at + IN_FRONT + labelled.start as usize))
            })
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `open` and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{create_privately, open_privately};
    use std::path::PathBuf;

    const LAYOUT: Layout = Layout { records: 5_000, buffers: 3 << 20 };

    /// The first number of the label of each buffer in use, and its bytes.
    fn seen(found: &Found) -> Vec<(u64, Vec<u8>)> {
        let read = |(labelled, at): (Labelled, usize)| {
            let mut bytes = vec![0; labelled.len as usize];
            found.copy_labelled(&labelled, at, 0, &mut bytes).then_some((labelled.stream[0], bytes))
        };
        let mut seen: Vec<_> = found.labelled(LAYOUT).filter_map(read).collect();
        seen.sort();
        seen
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("shorthaul-arena-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_lies_in_buffers_is_found_with_its_labels() {
        let path = path("found");
        let (mut records, buffers) = Arena::create(create_privately(&path).unwrap(), LAYOUT).unwrap();
        assert!(records.store(4_990, b"at the end"));
        assert!(!records.store(4_991, b"at the end"), "beyond it");
        let mut chunks: Vec<Chunk> = SIZES.iter().map(|size| buffers.chunk(*size).unwrap()).collect();
        let labelled = |number| Labelled { stream: [number, 1], offset: 9, start: 2, len: 3 };
        for (number, chunk) in (0..).zip(&mut chunks) {
            chunk.append(b"..abc");
            chunk.label().unwrap().write(&labelled(number));
        }
        assert!(buffers.chunk(4_096).is_none(), "there is no such size");
        let seen = || {
            let found = Found::open(open_privately(&path).unwrap()).unwrap().unwrap();
            let mut end = [0; 10];
            assert!(found.copy(4_990, &mut end) && end == *b"at the end");
            seen(&found)
        };
        assert_eq!(seen(), [(0, b"abc".to_vec()), (1, b"abc".to_vec()), (2, b"abc".to_vec())]);
        chunks[1].clear();
        drop(chunks.remove(0));
        assert_eq!(seen(), [(2, b"abc".to_vec())]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_buffer_that_was_given_back_is_lent_again_and_when_all_are_lent_there_is_none() {
        let path = path("full");
        let (_, buffers) = Arena::create(create_privately(&path).unwrap(), LAYOUT).unwrap();
        let mut all = Vec::new();
        while let Some(chunk) = buffers.chunk(65_536) {
            all.push(chunk);
        }
        assert_eq!(all.len(), 3 * 15);
        assert!(buffers.chunk(2_048).is_none());
        all.pop();
        assert!(buffers.chunk(65_536).is_some());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_written_while_it_is_read_is_told_from_what_was() {
        let path = path("live");
        let (_, buffers) = Arena::create(create_privately(&path).unwrap(), LAYOUT).unwrap();
        let found = Found::open(open_privately(&path).unwrap()).unwrap().unwrap();
        assert_eq!(found.labelled(LAYOUT).count(), 0);
        let mut chunk = buffers.chunk(2_048).unwrap();
        chunk.append(b"abcdef");
        let labelled = |len| Labelled { stream: [1, 1], offset: 9, start: 0, len };
        chunk.label().unwrap().write(&labelled(3));
        let (known, at) = found.labelled(LAYOUT).next().unwrap();
        let mut bytes = [0; 3];
        assert!(found.copy_labelled(&known, at, 0, &mut bytes) && bytes == *b"abc");
        chunk.label().unwrap().write(&labelled(6));
        assert!(
            found.copy_labelled(&known, at, 1, &mut bytes[..2]) && bytes == *b"bcc",
            "it grows, those stay"
        );
        chunk.clear();
        chunk.append(b"other ");
        assert!(!found.copy_labelled(&known, at, 0, &mut bytes), "the buffer is used again");
        chunk.label().unwrap().write(&Labelled { offset: 15, ..labelled(6) });
        assert!(!found.copy_labelled(&known, at, 0, &mut bytes), "for other bytes");
        assert!(!found.copy(usize::MAX, &mut bytes) && !found.copy(LAYOUT.len() - 1, &mut bytes));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn room_that_is_not_needed_any_more_is_given_back() {
        use std::os::unix::fs::MetadataExt as _;
        const LARGE: Layout = Layout { records: 5_000, buffers: 32 << 20 };
        let path = path("shrinks");
        let (_, buffers) = Arena::create(create_privately(&path).unwrap(), LARGE).unwrap();
        let room = || std::fs::metadata(&path).unwrap().blocks() * 512;
        let mut chunks: Vec<Chunk> = (0..20 * 15).map(|_| buffers.chunk(65_536).unwrap()).collect();
        let most = room();
        assert!(most >= 20 << 20, "{most}");
        // One buffer in the midst stays in use, with a label.
        let mut kept = chunks.swap_remove(100);
        kept.append(b"kept");
        kept.label().unwrap().write(&Labelled { stream: [7, 1], offset: 9, start: 0, len: 4 });
        assert_eq!(buffers.give_room_back(), 0, "all are in use");
        drop(chunks);
        assert_eq!(buffers.give_room_back(), 0, "they were, a moment ago");
        let given: Vec<usize> = (0..6).map(|_| buffers.give_room_back() >> 20).collect();
        assert_eq!(given, [4, 4, 4, 3, 0, 0], "a little at a time, and some is kept");
        assert_eq!(most - room(), 15 << 20);
        let found = Found::open(open_privately(&path).unwrap()).unwrap().unwrap();
        let read = |(labelled, at): (Labelled, usize)| {
            let mut bytes = [0; 4];
            found.copy_labelled(&labelled, at, 0, &mut bytes).then_some((labelled.stream[0], bytes))
        };
        assert_eq!(found.labelled(LARGE).filter_map(read).collect::<Vec<_>>(), [(7, *b"kept")]);
        // What was given back is taken again, with buffers of another size.
        let again: Vec<Chunk> = (0..12 * 496).map(|_| buffers.chunk(2_048).unwrap()).collect();
        assert_eq!(found.labelled(LARGE).count(), 1, "nothing is left of what stood there");
        assert!(room() >= 16 << 20);
        drop((again, kept));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn buffers_of_one_size_make_room_for_those_of_another() {
        let path = path("sizes");
        let (_, buffers) = Arena::create(create_privately(&path).unwrap(), LAYOUT).unwrap();
        let mut chunks: Vec<Chunk> = std::iter::from_fn(|| buffers.chunk(65_536)).collect();
        // What somebody sends may look like labels of the buffers that are made of it.
        let forged = Labelled { stream: [1, 1], offset: 9, start: 0, len: 4 };
        for chunk in &mut chunks {
            let bytes = chunk.spare_mut();
            let ahead = bytes.as_ptr().align_offset(IN_FRONT);
            for at in (ahead..bytes.len() - IN_FRONT).step_by(IN_FRONT) {
                let label = Label::default();
                label.write(&forged);
                // SAFETY: a label is its words, which are copied.
                let words = unsafe { std::mem::transmute::<Label, [u8; Label::SIZE]>(label) };
                bytes[at..at + Label::SIZE].copy_from_slice(&words);
            }
        }
        drop(chunks);
        let small: Vec<Chunk> = std::iter::from_fn(|| buffers.chunk(2_048)).collect();
        assert_eq!(small.len(), 3 * 496);
        let found = Found::open(open_privately(&path).unwrap()).unwrap().unwrap();
        assert_eq!(seen(&found), []);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn whatever_the_bytes_nothing_is_found_that_lies_outside() {
        let path = path("garbled");
        let (_, buffers) = Arena::create(create_privately(&path).unwrap(), LAYOUT).unwrap();
        let chunk = buffers.chunk(2_048).unwrap();
        chunk.label().unwrap().write(&Labelled { stream: [1, 1], offset: 9, start: 2_000, len: 49 });
        let count =
            |path| Found::open(open_privately(path).unwrap()).unwrap().map(|f| f.labelled(LAYOUT).count());
        assert_eq!(count(&path), Some(0), "it says that there is a byte more than there can be");
        chunk.label().unwrap().write(&Labelled { stream: [1, 1], offset: 9, start: u32::MAX, len: u32::MAX });
        assert_eq!(count(&path), Some(0));
        let mut noise = 1_u64;
        for len in [0, 1, 70, EXTENT, EXTENT + 3, 2 * EXTENT - 1, 4 * EXTENT] {
            let bytes: Vec<u8> = (0..len)
                .map(|at| {
                    noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if at % EXTENT < 8 { u8::from(at % EXTENT == 0) } else { (noise >> 56) as u8 }
                })
                .collect();
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(count(&path), (len > 0).then_some(0));
        }
        std::fs::remove_file(path).unwrap();
    }
}
