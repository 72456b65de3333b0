//! Small programs that the kernel runs for each packet (eBPF, RFC 9669; bpf(2)).
//!
//! Reading order: [`Instruction`]s, the [`Assembler`], [`Program`]s of them; what programs remember ([`RecentMap`], [`Counters`]) and
//! are told ([`AddressSet`], [`Numbers`]), and what they tell ([`Ring`]); a program [`Attached`] to an interface.
mod addresses;
mod assembler;
mod attached;
mod instruction;
mod map;
mod ring;

pub use addresses::{AddressSet, AddressSetPlace};
pub use assembler::{Assembler, Label};
pub use attached::{Attached, DROP, NEXT};
pub use instruction::{Helper, Instruction, Operation, Register, Size};
pub use map::{Counters, Numbers, RecentMap};
pub use ring::Ring;

use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

const LOAD: libc::c_int = 5;
const TEST_RUN: libc::c_int = 10;
/// The kind of program that a packet is given to, beginning with its IP header where a TUN device asks.
const SOCKET_FILTER: u32 = 1;
/// The kind that is given frames at an interface (`BPF_PROG_TYPE_SCHED_CLS`).
const FRAMES: u32 = 3;
/// Room for what the kernel says of a program that it refuses.
const LOG: usize = 1 << 16;
/// The length of an Ethernet header, which a test's packet has in front.
const ETHERNET: usize = 14;

/// A program that the kernel has accepted. It is kept as long as something has it.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// What bpf(2) is told of a program to load; the rest of its structure is zero.
#[repr(C)]
struct Load {
    kind: u32,
    instructions: u32,
    first: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
}

/// What it is told of a program to try out.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    returned: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}

/// What bpf(2) is told.
///
/// # Safety
/// It is the beginning of `union bpf_attr`, has no padding, and what it points to is there as long as it is used.
unsafe trait Attributes {}

// SAFETY: plain numbers without padding; `Program`'s functions keep alive what they point to.
unsafe impl Attributes for Load {}
// SAFETY: the same.
unsafe impl Attributes for TestRun {}

/// bpf(2), which rustix does not have.
fn bpf<T: Attributes>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes a structure of this size, and what it points to, which its maker keeps alive.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>() as libc::c_uint)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// What a command has made.
fn descriptor(made: libc::c_long) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor, and nobody else knows of it. It is closed on exec.
    unsafe { OwnedFd::from_raw_fd(made as libc::c_int) }
}

impl Program {
    /// Has the kernel check a program that is given packets. It takes CAP_BPF, unless the host lets everybody
    /// (`kernel.unprivileged_bpf_disabled`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn load(instructions: &[Instruction]) -> io::Result<Program> {
        Program::load_as(SOCKET_FILTER, instructions)
    }

    /// The same of a program that is given frames at an interface, or packets at one that has no link layer. It takes CAP_BPF and
    /// CAP_NET_ADMIN.
    ///
    /// # Errors
    /// The kernel's.
    pub fn load_for_frames(instructions: &[Instruction]) -> io::Result<Program> {
        Program::load_as(FRAMES, instructions)
    }

    fn load_as(kind: u32, instructions: &[Instruction]) -> io::Result<Program> {
        let mut attributes = Load {
            kind,
            instructions: u32::try_from(instructions.len()).map_err(|_| Errno::TOOBIG)?,
            first: instructions.as_ptr() as u64,
            license: c"Apache-2.0".as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel: 0,
            flags: 0,
            name: *b"shorthaul\0\0\0\0\0\0\0",
        };
        match bpf(LOAD, &mut attributes) {
            Ok(loaded) => Ok(Program(descriptor(loaded))),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && kind == SOCKET_FILTER => {
                Err(error)
            }
            Err(error) => {
                // Once more, to hear why.
                let mut log = vec![0_u8; LOG];
                (attributes.log_level, attributes.log_size) = (1, LOG as u32);
                attributes.log = log.as_mut_ptr() as u64;
                let again = bpf(LOAD, &mut attributes);
                let text = String::from_utf8_lossy(&log);
                let said =
                    text.trim_end_matches('\0').lines().rev().find(|line| !line.starts_with("processed"));
                match (again, said) {
                    (Ok(loaded), _) => Ok(Program(descriptor(loaded))),
                    (Err(_), Some(why)) => Err(io::Error::new(error.kind(), format!("{error}: {why}"))),
                    (Err(_), None) => Err(error),
                }
            }
        }
    }

    /// What it returns for a packet, which begins with its IP header: to try it out.
    ///
    /// # Errors
    /// The kernel's.
    pub fn run(&self, packet: &[u8]) -> io::Result<u32> {
        let mut frame = vec![0; ETHERNET];
        let protocol: [u8; 2] =
            if packet.first().is_some_and(|byte| byte >> 4 == 6) { [0x86, 0xdd] } else { [8, 0] };
        frame[ETHERNET - 2..].copy_from_slice(&protocol);
        frame.extend_from_slice(packet);
        self.run_frame(&frame)
    }

    /// The same for a frame, of a program that is given frames.
    ///
    /// # Errors
    /// The kernel's.
    pub fn run_frame(&self, frame: &[u8]) -> io::Result<u32> {
        let mut attributes = TestRun {
            program: self.0.as_raw_fd() as u32,
            size_in: frame.len() as u32,
            data_in: frame.as_ptr() as u64,
            repeat: 1,
            ..TestRun::default()
        };
        bpf(TEST_RUN, &mut attributes)?;
        Ok(attributes.returned)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation::{Add, And, Move, Multiply, Or, ShiftLeft, ShiftRight};
    use Register::{R0, R1, R2, R6, R7};

    /// What cannot be loaded on this host, for want of a privilege, is not tried.
    fn loaded(instructions: &[Instruction]) -> Option<Program> {
        match Program::load(instructions) {
            Ok(program) => Some(program),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn each_instruction_does_what_it_says() {
        let mut packet = [0; 40];
        packet[0] = 0x45;
        packet[12..16].copy_from_slice(&[10, 1, 2, 3]);
        let start = Instruction::with_register(Move, R6, R1);
        let [low, high] = Instruction::load_number(R2, 0xffff_ffff_0000_0000);
        let word = Instruction::load_word(12);
        let keep = Instruction::with_register(Move, R7, R0);
        let give = Instruction::with_register(Move, R0, R7);
        let exit = Instruction::exit();
        let number = Instruction::with_number;
        for (program, expected) in [
            (vec![start, Instruction::load_byte(0), number(ShiftRight, R0, 4), exit], 4),
            (vec![start, word, exit], 0x0a01_0203),
            (vec![start, Instruction::load_word(1000), exit], 0),
            (vec![start, word, Instruction::narrow_with_number(And, R0, 0xffff_ff00), exit], 0x0a01_0200),
            (vec![start, word, keep, number(Multiply, R7, 2), number(Add, R7, 1), give, exit], 0x1402_0407),
            (vec![start, word, number(ShiftLeft, R0, 32), number(ShiftRight, R0, 40), exit], 0x000a_0102),
            (
                vec![
                    start,
                    word,
                    low,
                    high,
                    Instruction::with_register(And, R0, R2),
                    Instruction::with_number(Or, R0, 5),
                    exit,
                ],
                5,
            ),
            (vec![start, word, Instruction::skip_unless(R0, 0x0a01_0203, 1), number(Move, R0, 9), exit], 9),
            (vec![start, word, Instruction::skip_unless(R0, 7, 1), number(Move, R0, 9), exit], 0x0a01_0203),
            // What nothing leads to is refused: so there is a way to each instruction.
            (
                vec![
                    start,
                    word,
                    Instruction::skip_unless(R0, 0x0a01_0203, 1),
                    Instruction::skip(1),
                    number(Move, R0, 9),
                    exit,
                ],
                0x0a01_0203,
            ),
            (
                vec![start, word, keep, Instruction::skip_unless_equal(R0, R7, 1), number(Move, R0, 9), exit],
                9,
            ),
        ] {
            let Some(loaded) = loaded(&program) else { return };
            assert_eq!(loaded.run(&packet).unwrap(), expected, "{program:?}");
        }
    }

    #[test]
    fn a_program_that_may_not_end_is_refused() {
        let endless = [Instruction::with_number(Move, R0, 0), Instruction::skip(-1), Instruction::exit()];
        assert!(Program::load(&endless).is_err());
    }
}
