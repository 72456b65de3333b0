//! Addresses that programs are told apart by, and that change while the programs run.
use super::map::Shared;
use super::{Assembler, Instruction, Label, Operation, Register, Size};
use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Places of addresses with the same hash.
const SLOTS: usize = 8;
/// Bits of a hash.
const BITS: u32 = 9;
/// Numbers of eight bytes in an address.
const PARTS: usize = 2;

/// A set of addresses that programs look into. It is changed by writing to memory: that takes no system call, and no privilege.
///
/// A hash says where an address may be. Where more have the same than there is room for, the rest is not in the set: of 512 addresses that is one in
/// two thousand sets, whoever chose them, for nobody knows the hash.
#[derive(Debug)]
pub struct AddressSet {
    shared: Arc<Shared>,
    /// The first of its numbers.
    first: usize,
    hash: Hash,
}

/// Both halves one after the other, each multiplied with an odd number that is drawn for each process, and its upper half folded into the lower one. (Without that, a sum of
/// products is as regular as what it is made of: of 200 addresses whose halves have one sum nine had the same hash in every seventh set.)
#[derive(Clone, Copy, Debug)]
struct Hash([u64; PARTS]);

impl Hash {
    fn draw() -> Hash {
        let random = RandomState::new();
        Hash(std::array::from_fn(|number| random.hash_one(number) | 1))
    }

    /// As a program finds it.
    fn of(self, [low, high]: [u64; PARTS]) -> usize {
        let Hash([first, second]) = self;
        let folded = |sum: u64| sum ^ sum >> 32;
        let sum = folded(low.wrapping_mul(first)).wrapping_add(high);
        (folded(sum.wrapping_mul(second)).wrapping_mul(first) >> (64 - BITS)) as usize
    }
}

/// Where programs find an [`AddressSet`].
#[derive(Clone, Copy, Debug)]
pub struct AddressSetPlace {
    descriptor: RawFd,
    /// In bytes.
    offset: u32,
    hash: Hash,
}

impl AddressSet {
    /// Of eight bytes, which a set takes.
    const NUMBERS: usize = (1 << BITS) * SLOTS * PARTS;

    /// An empty set.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create() -> io::Result<AddressSet> {
        let shared = Arc::new(Shared::create(Self::NUMBERS, true)?);
        Ok(AddressSet { shared, first: 0, hash: Hash::draw() })
    }

    /// As many empty sets, which are one map: a program has 64 maps at most.
    ///
    /// # Errors
    /// The kernel's, of more than 64 perhaps.
    pub fn create_several(count: usize) -> io::Result<Vec<AddressSet>> {
        let shared = Arc::new(Shared::create(count.max(1) * Self::NUMBERS, true)?);
        let hash = Hash::draw();
        let set = |number| AddressSet { shared: Arc::clone(&shared), first: number * Self::NUMBERS, hash };
        Ok((0..count).map(set).collect())
    }

    /// These are in the set from now on, and no others. What stays is in it all the while. Says how many found no room.
    pub fn set(&self, addresses: &[IpAddr]) -> usize {
        let mut wanted: BTreeSet<[u64; PARTS]> = addresses.iter().map(|address| parts(*address)).collect();
        let places = (0..(1 << BITS) * SLOTS).map(|place| place * PARTS);
        for place in places {
            let there = [place, place + 1].map(|number| self.number(number).load(Ordering::Relaxed));
            if there != [0; PARTS] && !wanted.remove(&there) {
                self.put(place, [0; PARTS]);
            }
        }
        let mut without_room = 0;
        for parts in wanted {
            let first = self.hash.of(parts) * SLOTS * PARTS;
            let mut places = (0..SLOTS).map(|slot| first + slot * PARTS);
            let is_free = |place: &usize| {
                [*place, place + 1].iter().all(|&number| self.number(number).load(Ordering::Relaxed) == 0)
            };
            match places.find(is_free) {
                Some(place) => self.put(place, parts),
                None => without_room += 1,
            }
        }
        without_room
    }

    fn put(&self, place: usize, parts: [u64; PARTS]) {
        for (number, part) in parts.into_iter().enumerate() {
            self.number(place + number).store(part, Ordering::Relaxed);
        }
    }

    fn number(&self, number: usize) -> &AtomicU64 {
        self.shared.get(self.first + number)
    }

    /// What [`AddressSet::look_up`] wants. The program keeps the set.
    pub fn place(&self) -> AddressSetPlace {
        let offset = (self.first * size_of::<u64>()) as u32;
        AddressSetPlace { descriptor: self.shared.descriptor(), offset, hash: self.hash }
    }

    /// Instructions that go on at `found` if the address on the stack, of 16 bytes (an IPv4 address, and zeros), is in the set. They
    /// spoil R0 to R4.
    pub fn look_up(program: &mut Assembler, set: AddressSetPlace, at: i16, found: Label) {
        use Register::{Frame, R0, R1, R2, R3, R4};
        let Hash([first, second]) = set.hash;
        program.extend([
            Instruction::load(Size::Double, R3, Frame, at),
            Instruction::load(Size::Double, R4, Frame, at + 8),
        ]);
        program.extend(Instruction::load_number(R0, first));
        program.extend(Instruction::load_number(R1, second));
        let folded = [
            Instruction::with_register(Operation::Move, R2, R0),
            Instruction::with_number(Operation::ShiftRight, R2, 32),
            Instruction::with_register(Operation::Xor, R0, R2),
        ];
        program.extend([Instruction::with_register(Operation::Multiply, R0, R3)]);
        program.extend(folded);
        program.extend([
            Instruction::with_register(Operation::Add, R0, R4),
            Instruction::with_register(Operation::Multiply, R0, R1),
        ]);
        program.extend(folded);
        program.extend(Instruction::load_number(R1, first));
        program.extend([
            Instruction::with_register(Operation::Multiply, R0, R1),
            Instruction::with_number(Operation::ShiftRight, R0, 64 - BITS),
            Instruction::with_number(Operation::Multiply, R0, (SLOTS * PARTS * size_of::<u64>()) as u32),
        ]);
        program.extend(Instruction::load_value_at(R1, set.descriptor, set.offset));
        program.extend([Instruction::with_register(Operation::Add, R1, R0)]);
        for slot in 0..SLOTS {
            let [equal, other] = [(); 2].map(|()| program.label());
            let place = (slot * PARTS * size_of::<u64>()) as i16;
            program.extend([Instruction::load(Size::Double, R2, R1, place)]);
            program.jump(equal, Instruction::skip_if_equal(R2, R3, 0));
            program.jump(other, Instruction::skip(0));
            program.place(equal);
            program.extend([Instruction::load(Size::Double, R2, R1, place + 8)]);
            program.jump(found, Instruction::skip_if_equal(R2, R4, 0));
            program.place(other);
        }
    }
}

/// As a program loads them.
fn parts(address: IpAddr) -> [u64; PARTS] {
    let mut octets = [0; 16];
    match address {
        IpAddr::V4(address) => octets[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => octets = address.octets(),
    }
    let [low, high] = [0, 8].map(|at| {
        let part: [u8; 8] = std::array::from_fn(|byte| octets[at + byte]);
        u64::from_ne_bytes(part)
    });
    [low, high]
}

#[cfg(test)]
mod tests {
    use super::super::{NEXT, Program};
    use super::*;

    /// Addresses of many networks that end alike, and such whose halves have one sum.
    #[test]
    fn addresses_that_are_alike_have_room() {
        let alike: [fn(u16) -> IpAddr; 4] = [
            |number| IpAddr::from([192, 168, number as u8, 1]),
            |number| IpAddr::from([10, (number >> 8) as u8, number as u8, 254]),
            |number| IpAddr::from([0xfd00, 0, 0, number, 0, 0, 0, 1]),
            |number| IpAddr::from([0xfd00, 0, 0, number, 0, 0, 0, 1000 - number]),
        ];
        for hash in (0..50).map(|_| Hash::draw()) {
            for (address, kind) in alike.iter().zip(0..) {
                let mut counts = [0; 1 << BITS];
                (0..200).for_each(|number| counts[hash.of(parts(address(number)))] += 1);
                assert!(counts.iter().all(|&count| count <= SLOTS), "{kind} {hash:?}");
            }
        }
    }

    #[test]
    fn what_is_in_the_set_is_found_and_nothing_else() {
        let [other, set] = match AddressSet::create_several(2) {
            Ok(sets) => <[AddressSet; 2]>::try_from(sets).unwrap(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            Err(error) => panic!("{error}"),
        };
        let is_in = |address: IpAddr| {
            let [low, high] = parts(address);
            let mut program = Assembler::new();
            let found = program.label();
            for (at, part) in [(-16, low), (-8, high)] {
                program.extend(Instruction::load_number(Register::R0, part));
                program.extend([Instruction::store(Size::Double, Register::Frame, at, Register::R0)]);
            }
            AddressSet::look_up(&mut program, set.place(), -16, found);
            program.extend([Instruction::number(Register::R0, NEXT), Instruction::exit()]);
            program.place(found);
            program.extend([Instruction::number(Register::R0, 7), Instruction::exit()]);
            let program = Program::load_for_frames(&program.finish()).unwrap();
            program.run_frame(&[0; 64]).unwrap() == 7
        };
        let all: Vec<IpAddr> = (0..200_u8)
            .map(|last| IpAddr::from([10, 0, last / 3, last]))
            .chain((0..50).map(|last| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last])))
            .collect();
        assert_eq!(other.set(&all), 0);
        assert_eq!(set.set(&all[100..]), 0);
        assert_eq!(set.set(&all[50..240]), 0);
        for address in &all[50..240] {
            assert!(is_in(*address), "{address}");
        }
        for address in all[..50].iter().chain(&all[240..]) {
            assert!(!is_in(*address), "{address}");
        }
    }
}
