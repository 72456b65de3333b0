//! What programs tell this process (`BPF_MAP_TYPE_RINGBUF`).
use super::map::{RING, Shape, create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What is before each message: its length and two flags, and where it is.
const HEADER: usize = 8;
/// Of a length: the message is still being written; it is none after all.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// Messages of `N` bytes from programs, in the order in which they were sent. It is read without a privilege; a descriptor of it can be read
/// from when there is one. Where it is full, programs are told so, and the message is lost.
#[derive(Debug)]
pub struct Ring<const N: usize> {
    descriptor: OwnedFd,
    /// How far this process has read: a page of its own.
    read: NonNull<AtomicU64>,
    /// How far programs have written, in a page; then the messages, twice one behind the other, so that none is cut.
    written: NonNull<AtomicU64>,
    size: usize,
    /// Bytes of a page, the unit of all that is mapped: 4 KiB, or 16 or 64 on some machines.
    page: usize,
}

impl<const N: usize> Ring<N> {
    /// An empty one with room for so many bytes, a power of two, or a page if that is more; each message takes eight more than it has.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(size: usize) -> io::Result<Ring<N>> {
        let page = page_size();
        let size = size.max(page);
        let descriptor = create(Shape { kind: RING, key: 0, value: 0, entries: size as u32, flags: 0 })?;
        let map = |length, protection, at| {
            // SAFETY: a new mapping, which nothing else refers to.
            let start =
                unsafe { mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, &descriptor, at) }?;
            NonNull::new(start.cast::<AtomicU64>()).ok_or_else(|| io::Error::other("mmap returned null"))
        };
        let read = map(page, ProtFlags::READ | ProtFlags::WRITE, 0)?;
        match map(page + 2 * size, ProtFlags::READ, page as u64) {
            Ok(written) => Ok(Ring { descriptor, read, written, size, page }),
            Err(error) => {
                // SAFETY: the mapping is ours, and nothing refers to it.
                let _ = unsafe { munmap(read.as_ptr().cast(), page) };
                Err(error)
            }
        }
    }

    /// The next message, if there is one.
    pub fn read(&mut self) -> Option<[u8; N]> {
        // SAFETY: both mappings are as long as this lives, and begin with a number that is aligned to a page.
        let (read, written) = unsafe { (self.read.as_ref(), self.written.as_ref()) };
        loop {
            let at = read.load(Ordering::Relaxed);
            if at >= written.load(Ordering::Acquire) {
                return None;
            }
            // SAFETY: programs have written a message's header up to `written`, aligned to eight bytes, and it lies within the first of both
            // mappings of the messages.
            let header = unsafe {
                self.written.as_ptr().cast::<u8>().add(self.page + (at as usize & (self.size - 1)))
            };
            // SAFETY: the same; the kernel changes this number at once.
            let length = unsafe { &*header.cast::<AtomicU32>() }.load(Ordering::Acquire);
            if length & BUSY != 0 {
                return None;
            }
            let bytes = (length & !DISCARDED) as usize;
            let mut message = [0; N];
            if bytes >= N {
                // SAFETY: the message follows its header, has so many bytes, and is nobody's to change until `read` goes on.
                unsafe { std::ptr::copy_nonoverlapping(header.add(HEADER), message.as_mut_ptr(), N) };
            }
            read.store(at + (bytes + HEADER).next_multiple_of(8) as u64, Ordering::Release);
            if length & DISCARDED == 0 && bytes >= N {
                return Some(message);
            }
        }
    }

    /// What [`super::Instruction::load_map`] wants. The program keeps the ring.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl<const N: usize> AsFd for Ring<N> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

// SAFETY: the mappings are this value's alone; what the kernel changes in them are numbers, each at once.
unsafe impl<const N: usize> Send for Ring<N> {}

impl<const N: usize> Drop for Ring<N> {
    fn drop(&mut self) {
        // SAFETY: the mappings are ours, and nothing refers to them any more.
        unsafe {
            let _ = munmap(self.read.as_ptr().cast(), self.page);
            let _ = munmap(self.written.as_ptr().cast(), self.page + 2 * self.size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Assembler, Helper, Instruction, Operation, Program, Register, Size};
    use super::*;
    use crate::poll::wait_readable;
    use std::time::Duration;

    /// A program that sends a number of eight bytes.
    fn sends(ring: &Ring<8>, number: u64) -> Program {
        use Register::{Frame, R0, R1, R2, R3, R4};
        let mut program = Assembler::new();
        program.extend(Instruction::load_number(R0, number));
        program.extend([
            Instruction::store(Size::Double, Frame, -8, R0),
            Instruction::with_register(Operation::Move, R2, Frame),
            Instruction::number(R0, -8),
            Instruction::with_register(Operation::Add, R2, R0),
        ]);
        program.extend(Instruction::load_map(R1, ring.descriptor()));
        program.extend([
            Instruction::number(R3, 8),
            Instruction::number(R4, 0),
            Instruction::call(Helper::RingOutput),
            Instruction::exit(),
        ]);
        Program::load_for_frames(&program.finish()).unwrap()
    }

    #[test]
    fn what_programs_send_comes_in_its_order_and_what_has_no_room_does_not() {
        let mut ring = match Ring::<8>::create(1) {
            Ok(ring) => ring,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(ring.read(), None);
        let programs = [1, 2, 3].map(|number| sends(&ring, number));
        let is_sent = |program: &Program| program.run_frame(&[0; 64]).unwrap() == 0;
        // More often than it has room at once: it goes round.
        for _ in 0..400 {
            assert!(programs.iter().all(is_sent));
            assert_eq!(wait_readable([ring.as_fd()], Some(Duration::ZERO)).unwrap(), [true]);
            let seen = [(); 4].map(|()| ring.read().map(u64::from_ne_bytes));
            assert_eq!(seen, [Some(1), Some(2), Some(3), None]);
        }
        // Each takes sixteen bytes, and the smallest ring has a page.
        let most = page_size() / 16;
        let sent = (0..2 * most).filter(|_| is_sent(&programs[0])).count();
        assert!((most / 2..=most).contains(&sent), "{sent} of {most}");
        let mut seen = 0;
        while ring.read().is_some() {
            seen += 1;
        }
        assert_eq!(seen, sent);
    }
}
