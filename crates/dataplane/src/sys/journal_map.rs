//! A file in memory: what is stored into it outlives the process, without a system call a store.
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// A file mapped shared and writable, at its length when it was mapped.
#[derive(Debug)]
pub struct JournalMap {
    start: NonNull<u8>,
    len: usize,
}

impl JournalMap {
    /// Maps the first `len` bytes of `file`, growing it to that length with zeros.
    ///
    /// # Errors
    /// There is no room for so many bytes, now: later stores cannot fail.
    pub fn new(file: &File, len: usize) -> io::Result<Self> {
        // Room is reserved, since a store without it would end the process (SIGBUS).
        // SAFETY: posix_fallocate takes a descriptor and numbers.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len as libc::off_t) } {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        // SAFETY: a fresh mapping of a file that is at least `len` bytes long; the result is checked.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
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

impl Drop for JournalMap {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
