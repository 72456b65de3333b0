//! A file in memory: what is stored into it outlives the process, without a system call a store. Records lie in it at fixed
//! places, and packet buffers, each with a label beside it.
use crate::files::owned_by_us;
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use shorthaul_wire::{Chunk, Label, Labelled, Lender, Lent};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes of the pieces in which room is taken from the file system.
const EXTENT: usize = 1 << 20;
/// Sizes of packet buffers, in bytes.
const SIZES: [usize; 3] = [2_048, 16_384, 65_536];
/// In front of each buffer; the first bytes of it are its label.
const IN_FRONT: usize = 64;

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

/// Where the buffers of `size` bytes lie in an extent.
fn places(size: usize) -> impl Iterator<Item = usize> {
    let stride = size + IN_FRONT;
    (0..(EXTENT - IN_FRONT) / stride).map(move |number| IN_FRONT + number * stride)
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
    /// Offsets of free buffers, by size.
    free: [Vec<usize>; SIZES.len()],
    /// The next extent that has no room yet.
    next: usize,
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
        let inner = Mutex::new(Inner { file, free: Default::default(), next: layout.first_extent() });
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

    fn find(&self, class: usize) -> Option<usize> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(free) = inner.free[class].pop() {
            return Some(free);
        }
        let extent = inner.next;
        if extent >= self.layout.extents() || !self.reserve(&inner.file, extent) {
            return None;
        }
        inner.next += 1;
        self.copy(extent * EXTENT, &(class as u64 + 1).to_ne_bytes());
        let all = places(SIZES[class]).map(|place| extent * EXTENT + place);
        inner.free[class].extend(all);
        inner.free[class].reverse();
        inner.free[class].pop()
    }
}

impl Records {
    /// Stores `bytes` at `offset`, in one go as seen by whoever finds the file when this process was ended: before everything that
    /// is stored later. Says whether there is room.
    pub fn store(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let Some(end) = offset.checked_add(bytes.len()).filter(|end| *end <= self.arena.layout.records)
        else {
            return false;
        };
        for extent in offset / EXTENT..end.div_ceil(EXTENT) {
            if !self.reserved[extent] {
                let inner = self.arena.inner.lock().unwrap_or_else(PoisonError::into_inner);
                self.reserved[extent] = self.arena.reserve(&inner.file, extent);
            }
            if !self.reserved[extent] {
                return false;
            }
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
}

impl Lender for Arena {
    fn give_back(&self, bytes: &'static mut [u8]) {
        let Some(class) = SIZES.iter().position(|size| *size == bytes.len()) else { return };
        let offset = bytes.as_ptr() as usize - self.start.as_ptr() as usize - IN_FRONT;
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).free[class].push(offset);
    }
}

/// A file that a process has left which has ended, or does nothing meanwhile, to be read.
#[derive(Debug)]
pub struct Found {
    start: NonNull<u8>,
    len: usize,
}

impl Found {
    /// Maps `file`, which nobody writes while it is read; `None` for one that is empty.
    ///
    /// # Errors
    /// It is not a file of ours, or cannot be mapped.
    pub fn open(file: &File) -> io::Result<Option<Found>> {
        let len = owned_by_us(file)? as usize;
        if len == 0 {
            return Ok(None);
        }
        // SAFETY: a fresh mapping of a file of this length. Only its owner can write it, who has ended, or does nothing
        // until this process has read it.
        let start = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(Some(Found { start, len }))
    }

    /// All that is in it.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long, and lives as long as this value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// What the labels of its buffers say, with where those bytes are in the file. What makes no sense is left out.
    pub fn labelled(&self, layout: Layout) -> impl Iterator<Item = (Labelled, Range<usize>)> + '_ {
        let bytes = self.bytes();
        let extents = layout.first_extent()..layout.extents().min(bytes.len() / EXTENT);
        extents
            .map(|extent| extent * EXTENT)
            // Extents get room in order: behind the first without any there are only holes.
            .map_while(move |at| {
                let class = u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?);
                Some((at, *SIZES.get(usize::try_from(class).ok()?.checked_sub(1)?)?))
            })
            .flat_map(|(at, size)| places(size).map(move |place| (at + place, size)))
            .filter_map(move |(at, size)| {
                let labelled = Label::find(bytes.get(at..)?.first_chunk()?)?;
                let end = (labelled.start as usize).checked_add(labelled.len as usize)?;
                let from = at + IN_FRONT + labelled.start as usize;
                (end <= size).then(|| (labelled, from..at + IN_FRONT + end))
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
            let found = Found::open(&open_privately(&path).unwrap()).unwrap().unwrap();
            assert_eq!(&found.bytes()[4_990..5_000], b"at the end");
            let mut seen: Vec<(u64, Vec<u8>)> =
                found.labelled(LAYOUT).map(|(l, at)| (l.stream[0], found.bytes()[at].to_vec())).collect();
            seen.sort();
            seen
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
    fn whatever_the_bytes_nothing_is_found_that_lies_outside() {
        let path = path("garbled");
        let (_, buffers) = Arena::create(create_privately(&path).unwrap(), LAYOUT).unwrap();
        let chunk = buffers.chunk(2_048).unwrap();
        chunk.label().unwrap().write(&Labelled { stream: [1, 1], offset: 9, start: 2_000, len: 49 });
        let count =
            |path| Found::open(&open_privately(path).unwrap()).unwrap().map(|f| f.labelled(LAYOUT).count());
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
