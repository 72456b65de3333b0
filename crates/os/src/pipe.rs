//! Pipes of which only the kernel sees the bytes (`splice(2)`).
use rustix::io::retry_on_intr;
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice as splice_once,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A pipe of which only the kernel sees the bytes.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    size: usize,
}

impl Pipe {
    /// A pipe that holds up to `size` bytes, or what the kernel lets it hold.
    pub fn new(size: usize) -> io::Result<Pipe> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let size = fcntl_setpipe_size(&write, size).or_else(|_| fcntl_getpipe_size(&write))?;
        Ok(Pipe { read, write, size })
    }

    /// What it holds.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Moves up to `most` bytes of what there is of `from` into the empty pipe; 0 at the end. It does
    /// not wait for more.
    pub fn fill(&self, from: &impl AsFd, most: usize) -> io::Result<usize> {
        splice(from, &self.write, self.size.min(most))
    }

    /// Moves up to `bytes` out of the pipe into `to`, as many as there is room for.
    pub fn empty(&self, to: &impl AsFd, bytes: usize) -> io::Result<usize> {
        splice(&self.read, to, bytes)
    }
}

fn splice(from: &impl AsFd, to: &impl AsFd, bytes: usize) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    Ok(retry_on_intr(|| splice_once(from, None, to, None, bytes, flags))?)
}
