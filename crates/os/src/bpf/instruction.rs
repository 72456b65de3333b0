//! The instructions of RFC 9669 that our programs have.

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Register {
    /// What a program returns, what is loaded from the packet, and what a helper returns.
    R0 = 0,
    /// What a program is called with; loads from the packet, and helpers, spoil it.
    R1 = 1,
    /// Loads from the packet, and helpers, spoil it.
    R2 = 2,
    /// Loads from the packet, and helpers, spoil it.
    R3 = 3,
    /// Loads from the packet, and helpers, spoil it.
    R4 = 4,
    /// Loads from the packet, and helpers, spoil it.
    R5 = 5,
    /// Where loads from the packet expect what the program was called with.
    R6 = 6,
    /// Keeps what it has.
    R7 = 7,
    /// Keeps what it has.
    R8 = 8,
    /// Where the stack ends: 512 bytes below it are the program's.
    Frame = 10,
}

/// How much is loaded or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Size {
    /// A byte.
    Byte = 0x10,
    /// Two.
    Half = 0x08,
    /// Four.
    Word = 0x00,
    /// Eight.
    Double = 0x18,
}

/// What the kernel does for a program (bpf-helpers(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// `(map, key)`: where the value is, or 0.
    MapLookup = 1,
    /// `(map, key, value, flags)`.
    MapUpdate = 2,
    /// `(packet, at, from, length, flags)`: writes into the packet.
    StoreBytes = 9,
    /// `(interface, flags)`: the packet leaves by another interface; what it returns is what the program is to return.
    Redirect = 23,
    /// `(packet, at, to, length)`: copies from the packet.
    LoadBytes = 26,
    /// `(packet, kind)`: whom it is for: 0 is this host, by its hardware address.
    ChangeKind = 32,
    /// `(packet, length, flags)`: room in front of a packet without a link layer, for that of another interface.
    ChangeHead = 43,
    /// `(ring, message, length, flags)`: sends a message to whoever reads the ring.
    RingOutput = 130,
    /// `(interface, 0, 0, flags)`: the packet leaves by another interface, to the neighbour there that it is for; its Ethernet header is the
    /// kernel's to write. What it returns is what the program is to return.
    RedirectNeighbour = 152,
}

/// One instruction, as the kernel reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    code: u8,
    registers: u8,
    pub(super) offset: i16,
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
    /// Exclusive disjunction of bits.
    Xor = 0xa0,
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

    /// A register becomes a number, which may be less than zero.
    pub const fn number(to: Register, number: i32) -> Self {
        Instruction::new(0xb7, to, 0, 0, number)
    }

    /// A register becomes what is in memory at this distance from where another points.
    pub const fn load(size: Size, to: Register, from: Register, at: i16) -> Self {
        Instruction::new(0x61 | size as u8, to, from as u8, at, 0)
    }

    /// A register is written to memory at this distance from where another points.
    pub const fn store(size: Size, to: Register, at: i16, from: Register) -> Self {
        Instruction::new(0x63 | size as u8, to, from as u8, at, 0)
    }

    /// A number is written there.
    pub const fn store_number(size: Size, to: Register, at: i16, number: i32) -> Self {
        Instruction::new(0x62 | size as u8, to, 0, at, number)
    }

    /// A register is added to the eight bytes there, whoever else does the same.
    pub const fn add_to_memory(to: Register, at: i16, from: Register) -> Self {
        Instruction::new(0xdb, to, from as u8, at, 0)
    }

    /// A register becomes what helpers know a map by: two instructions.
    pub const fn load_map(to: Register, descriptor: i32) -> [Self; 2] {
        Instruction::load_from_map(to, 1, descriptor)
    }

    /// A register becomes where the first value of a map of numbered places is: two instructions.
    pub const fn load_value(to: Register, descriptor: i32) -> [Self; 2] {
        Instruction::load_from_map(to, 2, descriptor)
    }

    /// The same of this many bytes further.
    pub const fn load_value_at(to: Register, descriptor: i32, offset: u32) -> [Self; 2] {
        let [load, rest] = Instruction::load_value(to, descriptor);
        [load, Instruction { immediate: offset as i32, ..rest }]
    }

    const fn load_from_map(to: Register, what: u8, descriptor: i32) -> [Self; 2] {
        let rest = Instruction { code: 0, registers: 0, offset: 0, immediate: 0 };
        [Instruction::new(0x18, to, what, 0, descriptor), rest]
    }

    /// Calls a helper with what is in R1 to R5; what it returns is in R0.
    pub const fn call(helper: Helper) -> Self {
        Instruction::new(0x85, Register::R0, 0, 0, helper as i32)
    }

    /// Goes on this many instructions further if the lower 32 bits of a register are this number.
    pub const fn skip_if(of: Register, number: u32, skipped: i16) -> Self {
        Instruction::new(0x16, of, 0, skipped, number as i32)
    }

    /// The same if they have any bit of this number.
    pub const fn skip_if_any(of: Register, bits: u32, skipped: i16) -> Self {
        Instruction::new(0x46, of, 0, skipped, bits as i32)
    }

    /// The same if they are at least this number.
    pub const fn skip_if_at_least(of: Register, number: u32, skipped: i16) -> Self {
        Instruction::new(0x36, of, 0, skipped, number as i32)
    }

    /// The same if all 64 bits are zero, as those of a pointer to nothing.
    pub const fn skip_if_none(of: Register, skipped: i16) -> Self {
        Instruction::new(0x15, of, 0, skipped, 0)
    }

    /// The same if all 64 bits of two registers are equal.
    pub const fn skip_if_equal(a: Register, b: Register, skipped: i16) -> Self {
        Instruction::new(0x1d, a, b as u8, skipped, 0)
    }
}
