//! What programs remember (bpf(2), "eBPF maps").
use super::{Attributes, bpf, descriptor};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const CREATE: libc::c_int = 0;
const PIN: libc::c_int = 6;
const GET_PINNED: libc::c_int = 7;
const INFO: libc::c_int = 15;

pub(super) const RING: u32 = 27;
const ARRAY: u32 = 2;
const LRU_HASH: u32 = 9;
/// `BPF_F_MMAPABLE`.
const MAPPABLE: u32 = 1 << 10;

/// How a map is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Shape {
    pub kind: u32,
    pub key: u32,
    pub value: u32,
    pub entries: u32,
    pub flags: u32,
}

#[repr(C)]
struct Create {
    shape: Shape,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct Pinned {
    path: u64,
    descriptor: u32,
    flags: u32,
}

#[repr(C)]
struct AskInfo {
    descriptor: u32,
    length: u32,
    info: u64,
}

/// The beginning of `struct bpf_map_info`.
#[repr(C)]
#[derive(Default)]
struct Info {
    kind: u32,
    id: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

// SAFETY: all are plain numbers without padding; what they point to lives as long as the call.
unsafe impl Attributes for Create {}
// SAFETY: the same.
unsafe impl Attributes for Pinned {}
// SAFETY: the same.
unsafe impl Attributes for AskInfo {}

pub(super) fn create(shape: Shape) -> io::Result<OwnedFd> {
    let mut attributes = Create { shape, inner: 0, node: 0, name: *b"shorthaul\0\0\0\0\0\0\0" };
    Ok(descriptor(bpf(CREATE, &mut attributes)?))
}

/// A map from keys to values of fixed lengths. Where it is full, what was not used for the longest time makes room.
#[derive(Debug)]
pub struct RecentMap(OwnedFd);

impl RecentMap {
    /// An empty map of keys and values with these numbers of bytes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(key: u32, value: u32, entries: u32) -> io::Result<RecentMap> {
        create(Shape { kind: LRU_HASH, key, value, entries, flags: 0 }).map(RecentMap)
    }

    /// The map that is kept at `path`, a name on a bpffs without a dot, if it has such keys and values, whatever room it has; otherwise a new one,
    /// which is kept there from now on. It outlives all processes until the name is removed.
    ///
    /// # Errors
    /// The kernel's; that of something else that has the name.
    pub fn kept_at(path: &Path, key: u32, value: u32, entries: u32) -> io::Result<RecentMap> {
        let wanted = Shape { kind: LRU_HASH, key, value, entries, flags: 0 };
        let name = CString::new(path.as_os_str().as_bytes())?;
        let mut pinned = Pinned { path: name.as_ptr() as u64, descriptor: 0, flags: 0 };
        match bpf(GET_PINNED, &mut pinned) {
            Ok(found) => {
                let found = descriptor(found);
                let found_shape = shape(&found)?;
                if (Shape { entries, ..found_shape }) == wanted {
                    return Ok(RecentMap(found));
                }
                // One of another version of this program.
                std::fs::remove_file(path)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let made = create(wanted)?;
        let mut pinned = Pinned { path: name.as_ptr() as u64, descriptor: made.as_raw_fd() as u32, flags: 0 };
        bpf(PIN, &mut pinned)?;
        Ok(RecentMap(made))
    }

    /// What [`super::Instruction::load_map`] wants. The program keeps the map.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for RecentMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn shape(of: &OwnedFd) -> io::Result<Shape> {
    let mut info = Info::default();
    let mut ask = AskInfo {
        descriptor: of.as_raw_fd() as u32,
        length: size_of::<Info>() as u32,
        info: (&raw mut info) as u64,
    };
    bpf(INFO, &mut ask)?;
    let Info { kind, key, value, entries, flags, .. } = info;
    Ok(Shape { kind, key, value, entries, flags })
}

/// Numbers that programs have, and that this process has too, without a system call.
#[derive(Debug)]
pub(super) struct Shared {
    descriptor: OwnedFd,
    start: NonNull<AtomicU64>,
    /// How many there are.
    count: usize,
    /// Bytes of memory: whole pages.
    length: usize,
}

impl Shared {
    const PAGE: usize = 4096;

    /// As many, at zero. They are written only where that is said.
    pub fn create(count: usize, is_written: bool) -> io::Result<Shared> {
        let value = (count * size_of::<u64>()) as u32;
        let descriptor = create(Shape { kind: ARRAY, key: 4, value, entries: 1, flags: MAPPABLE })?;
        let protection = if is_written { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let length = (count * size_of::<u64>()).next_multiple_of(Self::PAGE);
        // SAFETY: a new mapping, which nothing else refers to.
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, &descriptor, 0) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(Shared { descriptor, start, count, length })
    }

    /// They are numbered from 0.
    pub fn get(&self, number: usize) -> &AtomicU64 {
        assert!(number < self.count, "there is no such number");
        // SAFETY: the mapping is as long as this lives, aligned to a page, and has this many. Programs change them by single instructions.
        unsafe { self.start.add(number).as_ref() }
    }

    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

// SAFETY: all that is done with the memory is to load and store numbers, each at once.
unsafe impl Send for Shared {}
// SAFETY: the same.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Counters that programs add to, and that are read without a system call.
#[derive(Debug)]
pub struct Counters(Shared);

impl Counters {
    /// How many there are.
    pub const COUNT: usize = 16;

    /// As many as there are, at zero.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create() -> io::Result<Counters> {
        Shared::create(Self::COUNT, false).map(Counters)
    }

    /// What a counter has; of those there are [`Self::COUNT`], and 0 is the first.
    pub fn get(&self, number: usize) -> u64 {
        self.0.get(number).load(Ordering::Relaxed)
    }

    /// What [`super::Instruction::load_value`] wants; a counter is eight bytes further than the one before.
    pub fn descriptor(&self) -> RawFd {
        self.0.descriptor()
    }
}

/// Numbers that this process writes, and that programs read. That takes no system call, and no privilege.
#[derive(Debug)]
pub struct Numbers(Shared);

impl Numbers {
    /// As many, at zero.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(count: usize) -> io::Result<Numbers> {
        Shared::create(count, true).map(Numbers)
    }

    /// Programs read this from now on. They are numbered from 0.
    ///
    /// # Panics
    /// There is no such number.
    pub fn set(&self, number: usize, value: u64) {
        self.0.get(number).store(value, Ordering::Relaxed);
    }

    /// What [`super::Instruction::load_value`] wants; a number is eight bytes further than the one before.
    pub fn descriptor(&self) -> RawFd {
        self.0.descriptor()
    }
}
