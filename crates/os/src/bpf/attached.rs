//! Programs that see each frame that comes in by an interface, before the host does, or that the host has leave by it (tcx, Linux 6.6).
use super::{Attributes, Program, bpf, descriptor};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

const LINK_CREATE: libc::c_int = 28;
/// `BPF_TCX_INGRESS`.
const INGRESS: u32 = 46;
/// `BPF_TCX_EGRESS`.
const EGRESS: u32 = 47;
/// `BPF_F_BEFORE`: with nothing to be before, it is before all.
const FIRST: u32 = 1 << 3;

/// What a program returns so that the packet is the next program's, and then the host's.
pub const NEXT: i32 = -1;
/// What it returns so that the packet is dropped.
pub const DROP: i32 = 2;

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    kind: u32,
    flags: u32,
    relative: u32,
    zero: u32,
    revision: u64,
}

// SAFETY: plain numbers without padding.
unsafe impl Attributes for LinkCreate {}

/// A program at an interface. It is taken away with this value, and so, whatever becomes of it, with the process.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

impl Attached {
    /// Has a [frame program](Program::load_for_frames) see what comes in by an interface, given by its index, before all other programs.
    ///
    /// # Errors
    /// The kernel's: before Linux 6.6, `EINVAL`.
    pub fn at_ingress(interface: u32, program: &Program) -> io::Result<Attached> {
        Attached::first_at(INGRESS, interface, program)
    }

    /// The same of what the host has leave by it, before it waits in the interface's queue.
    ///
    /// # Errors
    /// The same.
    pub fn at_egress(interface: u32, program: &Program) -> io::Result<Attached> {
        Attached::first_at(EGRESS, interface, program)
    }

    fn first_at(kind: u32, interface: u32, program: &Program) -> io::Result<Attached> {
        let mut attributes = LinkCreate {
            program: program.as_fd().as_raw_fd() as u32,
            interface,
            kind,
            flags: FIRST,
            relative: 0,
            zero: 0,
            revision: 0,
        };
        Ok(Attached { _link: descriptor(bpf(LINK_CREATE, &mut attributes)?) })
    }
}
