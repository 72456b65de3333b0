//! A file in memory: what is stored into it outlives the process, without a system call a store.
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::ptr::NonNull;

/// A file mapped shared and writable, at its length when it was mapped.
#[derive(Debug)]
pub struct JournalMap {
    start: NonNull<u8>,
    len: usize,
}

impl JournalMap {
    /// Maps the first `len` bytes of `file`, which is empty, growing it to that length with zeros.
    ///
    /// # Errors
    /// There is no room for so many bytes, now: later stores cannot fail.
    pub fn new(file: &mut File, len: usize) -> io::Result<Self> {
        reserve(file, len as u64)?;
        // SAFETY: a fresh mapping of a file that is at least `len` bytes long.
        let start = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, file, 0)
        }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(JournalMap { start, len })
    }

    /// Stores `bytes` at `offset`. What would lie beyond the end is not stored; says whether it was.
    pub fn store(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let fits = offset.checked_add(bytes.len()).is_some_and(|end| end <= self.len);
        if fits {
            // SAFETY: the range lies within the mapping, which only this value writes.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len());
            }
        }
        fits
    }
}

/// Reserves room, since a store without it would end the process (SIGBUS).
fn reserve(file: &mut File, len: u64) -> io::Result<()> {
    match fallocate(&mut *file, FallocateFlags::empty(), 0, len) {
        // The file system cannot reserve: zeros that are written have room, too.
        Err(Errno::OPNOTSUPP) => {
            file.rewind()?;
            io::copy(&mut io::repeat(0).take(len), file).map(drop)
        }
        done => Ok(done?),
    }
}

impl Drop for JournalMap {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
