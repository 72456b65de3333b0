//! Small programs that the kernel runs for each packet (eBPF, RFC 9669; bpf(2)).
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

const LOAD: libc::c_int = 5;
const TEST_RUN: libc::c_int = 10;
/// The kind of program that a packet is given to, beginning with its IP header where a TUN device asks.
const SOCKET_FILTER: u32 = 1;
/// The length of an Ethernet header, which a test's packet has in front.
const ETHERNET: usize = 14;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Register {
    /// What a program returns, and what is loaded from the packet.
    R0 = 0,
    /// What a program is called with; loads from the packet spoil it.
    R1 = 1,
    /// Loads from the packet spoil it.
    R2 = 2,
    /// Where loads from the packet expect what the program was called with.
    R6 = 6,
    /// Keeps what it has.
    R7 = 7,
    /// Keeps what it has.
    R8 = 8,
}

/// One instruction, as the kernel reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// What is done with a register and a number, or two registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// Addition.
    Add = 0x00,
    /// Multiplication.
    Multiply = 0x20,
    /// Disjunction of bits.
    Or = 0x40,
    /// Conjunction of bits.
    And = 0x50,
    /// A shift to the left.
    ShiftLeft = 0x60,
    /// A shift to the right, with zeros.
    ShiftRight = 0x70,
    /// The second takes the place of the first.
    Move = 0xb0,
}

impl Instruction {
    const fn new(code: u8, to: Register, from: u8, offset: i16, immediate: i32) -> Self {
        Instruction { code, registers: to as u8 | from << 4, offset, immediate }
    }

    /// R0 becomes the byte at this place of the packet. Beyond its end, the program returns 0.
    pub const fn load_byte(at: i32) -> Self {
        Instruction::new(0x30, Register::R0, 0, 0, at)
    }

    /// R0 becomes the four bytes at this place of the packet, the first the most significant. Beyond its end, the program returns 0.
    pub const fn load_word(at: i32) -> Self {
        Instruction::new(0x20, Register::R0, 0, 0, at)
    }

    /// A register becomes a number of 64 bits: two instructions.
    pub const fn load_number(to: Register, number: u64) -> [Self; 2] {
        let high = Instruction { code: 0, registers: 0, offset: 0, immediate: (number >> 32) as i32 };
        [Instruction::new(0x18, to, 0, 0, number as i32), high]
    }

    /// Of 64 bits, with a number that is no less than zero.
    pub const fn with_number(operation: Operation, to: Register, number: u32) -> Self {
        assert!(number <= i32::MAX as u32, "it would be taken for a negative number");
        Instruction::new(0x07 | operation as u8, to, 0, 0, number as i32)
    }

    /// Of 32 bits, with a number: the upper half becomes zero.
    pub const fn narrow_with_number(operation: Operation, to: Register, number: u32) -> Self {
        Instruction::new(0x04 | operation as u8, to, 0, 0, number as i32)
    }

    /// Of 64 bits, with another register.
    pub const fn with_register(operation: Operation, to: Register, from: Register) -> Self {
        Instruction::new(0x0f | operation as u8, to, from as u8, 0, 0)
    }

    /// Goes on this many instructions further if the lower 32 bits of a register are not this number.
    pub const fn skip_unless(of: Register, number: u32, skipped: i16) -> Self {
        Instruction::new(0x56, of, 0, skipped, number as i32)
    }

    /// The same where two registers differ.
    pub const fn skip_unless_equal(a: Register, b: Register, skipped: i16) -> Self {
        Instruction::new(0x5d, a, b as u8, skipped, 0)
    }

    /// Goes on this many instructions further.
    pub const fn skip(skipped: i16) -> Self {
        Instruction::new(0x05, Register::R0, 0, skipped, 0)
    }

    /// Returns what R0 has.
    pub const fn exit() -> Self {
        Instruction::new(0x95, Register::R0, 0, 0, 0)
    }
}

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

/// bpf(2), which rustix does not have.
fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes a structure of this size, and what it points to, which its makers below keep alive.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>() as libc::c_uint)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Program {
    /// Has the kernel check a program that is given packets. It takes CAP_BPF, unless the host lets everybody
    /// (`kernel.unprivileged_bpf_disabled`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn load(instructions: &[Instruction]) -> io::Result<Program> {
        let mut attributes = Load {
            kind: SOCKET_FILTER,
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
        let descriptor = bpf(LOAD, &mut attributes)?;
        // SAFETY: the kernel has just made this descriptor, and nobody else knows of it. It is closed on exec.
        Ok(Program(unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) }))
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
