//! The programs at the access interfaces, and at the gateway's two devices.
//!
//! What comes in by an access interface is taken before the host sees it, and what the host has leave by it when the host is done with it.
//! A program at the one device gives what the gateway says toward the rest of the world to the host, as if it had come in by the
//! access interface: the host's firewall, address translation and routes are asked about it, once. A program at the other device has what
//! the gateway says toward the access side leave by the interface.
//!
//! The latest *header* of each pair of addresses and direction is remembered: the Ethernet header, the interface, and with which mark
//! and priority the host had it leave.
use super::whereabouts::{Place, check_source, find_unknown, follow, go_unless_there};
use crate::bridge::program::{
    ETHERNET, ETHERNET_AT, HEADER_KEY, ICMP, ICMPV6, IP, IPV4, IPV6, KEY, KEY_DESTINATION, KEY_SIDE,
    KEY_VERSION, PACKET_KIND, PROTOCOL, SOURCE_ELSEWHERE, VLAN, WITHOUT_HEADER, Writer, go_if_error_v4,
    go_if_error_v6, lose, put_header, take_v4, take_v6,
};
use shorthaul_os::bpf::Helper::{ChangeKind, Redirect, RedirectNeighbour};
use shorthaul_os::bpf::Operation::Move;
use shorthaul_os::bpf::Register::{R0, R1, R2, R3, R4, R6, R7, R8};
use shorthaul_os::bpf::Size::{Byte, Double, Word};
use shorthaul_os::bpf::{AddressSet, AddressSetPlace, Instruction, Label, NEXT, Register};
use shorthaul_proxy::Gateway;

/// Of what is remembered: an Ethernet header and two zeros, the index of the interface, mark, priority, zeros.
pub(super) const REMEMBERED: u32 = 32;
pub(super) const INTERFACE: i16 = 16;
const MARK_OF: i16 = 20;
const PRIORITY_OF: i16 = 24;

/// `__sk_buff`: the mark; the priority; by which interface it came in, 0 if it was made here; the last two words of what
/// programs tell each other.
const MARK: i16 = 8;
const PRIORITY: i16 = 32;
const CAME_IN_BY: i16 = 36;
const TOLD: [i16; 2] = [60, 64];
/// What [`own()`] tells the next programs: random, for a driver may have left something there.
const IS_OWN: [i32; 2] = [0x1f6b_3ac9, 0x52d1_074e];
/// It is for this interface's own hardware address (`PACKET_HOST`).
const FOR_US: u32 = 0;
/// `BPF_F_INGRESS`.
const COMES_IN: i32 = 1;

/// What is remembered, while it is made: below what programs at the ports of bridges have on the stack.
pub(super) const NEW: i16 = IP - REMEMBERED as i16;
const _: () = assert!(HEADER_KEY as i16 == ETHERNET_AT - KEY);

/// The mark of what the gateway gives the host, until the host sees it. What the host's own rules have to do with it, they never meet.
const OURS: i32 = 0x7368_6f72;

/// What the programs are written for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maps {
    /// Headers, by pairs of addresses.
    pub headers: i32,
    /// The host's addresses.
    pub local: AddressSetPlace,
    /// Counters.
    pub counters: i32,
    /// Which access interfaces are there: the index of each, or 0; then of each whether `rp_filter` is strict, 0 or 1.
    pub there: i32,
}

/// The gateway's devices, by their indices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Devices {
    /// For what comes from the access side, and what goes there.
    pub access: u32,
    /// For what comes from the rest of the world, and what goes there.
    pub wan: u32,
}

/// The first program at an access interface, for what comes in: what the gateway gives the host gets its mark off, and is not taken again.
///
/// It is one of its own, for it stays when nothing is taken any more; and the next program may be a predecessor's, which must not take it
/// either.
pub(super) fn own() -> Vec<Instruction> {
    let mut w = Writer::new();
    let other = w.assembler.label();
    w.load_packet(R0, MARK);
    w.go_unless(R0, OURS as u32, other);
    w.number(R1, 0);
    w.store_packet(MARK, R1);
    for (at, number) in TOLD.into_iter().zip(IS_OWN) {
        w.number(R1, number);
        w.store_packet(at, R1);
    }
    // A bridge has the addresses of its ports beside its own.
    w.put(Instruction::with_register(Move, R1, R6));
    w.number(R2, FOR_US as i32);
    w.call(ChangeKind);
    w.assembler.place(other);
    w.answer(NEXT);
    w.assembler.finish()
}

/// The program at the access interface of this number, for what comes in: TCP for others, and the errors about it, go to the gateway, if their
/// source may speak there.
pub(super) fn coming_in(maps: Maps, places: &[Place], here: usize, devices: Devices) -> Vec<Instruction> {
    let mut w = Writer::new();
    let [pass, take, strange, refused] = [(); 4].map(|()| w.assembler.label());
    w.load_packet(R0, TOLD[0]);
    w.go_unless(R0, IS_OWN[0] as u32, strange);
    w.load_packet(R0, TOLD[1]);
    w.go_if(R0, IS_OWN[1] as u32, pass);
    w.assembler.place(strange);
    w.load_packet(R0, PACKET_KIND);
    w.go_unless(R0, FOR_US, pass);
    look_at(&mut w, (Gateway::ACCESS.0, false), take, pass);
    w.assembler.place(take);
    AddressSet::look_up(&mut w.assembler, maps.local, KEY_DESTINATION, pass);
    describe(&mut w, places[here].index, false);
    check_source(&mut w, maps, places, here, refused);
    remember(&mut w, maps.headers);
    w.redirect(devices.access);
    w.assembler.place(refused);
    lose(&mut w, maps.counters, SOURCE_ELSEWHERE);
    w.assembler.place(pass);
    w.answer(NEXT);
    w.assembler.finish()
}

/// The program at the access interface of this number, for what the host has leave: TCP of others, and the errors about it, go to the gateway; or `all` of
/// others. What has come in by an `access` interface stays on this side.
pub(super) fn leaving(
    maps: Maps,
    places: &[Place],
    here: usize,
    devices: Devices,
    all: bool,
) -> Vec<Instruction> {
    let mut w = Writer::new();
    let [pass, take, v4, other, chosen] = [(); 5].map(|()| w.assembler.label());
    w.load_packet(R0, CAME_IN_BY);
    for index in places.iter().map(|place| place.index).chain([devices.access]) {
        w.go_if(R0, index, pass);
    }
    look_at(&mut w, (Gateway::WAN.0, all), take, pass);
    w.assembler.place(take);
    // The host's own errors about a connection of others are the gateway's to know. What else it says in its own name is its own.
    w.load(Word, R0, KEY_VERSION);
    w.go_if(R0, 4, v4);
    w.load(Byte, R0, IP + 6);
    w.go_unless(R0, ICMPV6, other);
    go_if_error_v6(&mut w, chosen, other);
    w.assembler.place(v4);
    w.load(Byte, R0, IP + 9);
    w.go_unless(R0, ICMP, other);
    go_if_error_v4(&mut w, chosen, other);
    w.assembler.place(other);
    AddressSet::look_up(&mut w.assembler, maps.local, KEY, pass);
    w.assembler.place(chosen);
    describe(&mut w, places[here].index, true);
    remember(&mut w, maps.headers);
    w.redirect(devices.wan);
    w.assembler.place(pass);
    w.answer(NEXT);
    w.assembler.finish()
}

/// Goes on at `take` with the key of what is to be taken, its IP header on the stack.
fn look_at(w: &mut Writer, (side, all): (u8, bool), take: Label, pass: Label) {
    let [v4, v6] = [(); 2].map(|()| w.assembler.label());
    w.store_number(Double, ETHERNET_AT + 8, 0);
    w.copy(0, ETHERNET_AT, ETHERNET, pass);
    // For many.
    w.load(Byte, R0, ETHERNET_AT);
    w.assembler.jump(pass, Instruction::skip_if_any(R0, 1, 0));
    // With a tag, it is another network's.
    w.load_packet(R0, VLAN);
    w.go_unless(R0, 0, pass);
    w.clear_key();
    w.store_number(Word, KEY_SIDE, u32::from(side));
    w.load_packet(R8, PROTOCOL);
    w.go_if(R8, IPV4, v4);
    w.go_if(R8, IPV6, v6);
    w.go(pass);
    w.assembler.place(v4);
    take_v4(w, all, take, pass);
    w.assembler.place(v6);
    take_v6(w, all, take, pass);
}

/// What is to be remembered of the packet gets its place on the stack.
fn describe(w: &mut Writer, interface: u32, with_mark: bool) {
    for half in [0, 8] {
        w.load(Double, R1, ETHERNET_AT + half);
        w.store(Double, NEW + half, R1);
    }
    w.store_number(Word, NEW + INTERFACE, interface);
    for at in [MARK_OF, PRIORITY_OF, 28] {
        w.store_number(Word, NEW + at, 0);
    }
    if with_mark {
        for (from, to) in [(MARK, MARK_OF), (PRIORITY, PRIORITY_OF)] {
            w.load_packet(R1, from);
            w.store(Word, NEW + to, R1);
        }
    }
}

/// Remembers that, unless it is what is remembered.
fn remember(w: &mut Writer, headers: i32) {
    let [new, known] = [(); 2].map(|()| w.assembler.label());
    w.look_up(headers, KEY);
    w.go_if_none(R0, new);
    // In its place: connections of one pair may have different marks.
    for part in [0, 8, 16, 24] {
        let same = w.assembler.label();
        w.put(Instruction::load(Double, R1, R0, part));
        w.load(Double, R2, NEW + part);
        w.assembler.jump(same, Instruction::skip_if_equal(R1, R2, 0));
        w.put(Instruction::store(Double, R0, part, R2));
        w.assembler.place(same);
    }
    w.go(known);
    w.assembler.place(new);
    w.update(headers, KEY, NEW);
    w.assembler.place(known);
}

/// The program at the gateway's device toward the rest of the world: the host sees what the gateway writes there as come in by the access
/// interface, from whomever it speaks for.
pub(super) fn to_the_host(maps: Maps, places: &[Place]) -> Vec<Instruction> {
    at_device(maps, places, (Gateway::WAN.0, Gateway::ACCESS.0))
}

/// The program at the gateway's device toward the access side: what the gateway writes there leaves by the access interface, as what the
/// host has sent last from there.
pub(super) fn to_access(maps: Maps, places: &[Place]) -> Vec<Instruction> {
    at_device(maps, places, (Gateway::ACCESS.0, Gateway::WAN.0))
}

/// Who is spoken for is at the side `of`.
fn at_device(maps: Maps, places: &[Place], (toward, of): (u8, u8)) -> Vec<Instruction> {
    let mut w = Writer::new();
    let to_access = toward == Gateway::ACCESS.0;
    let [v4, v6, find, found, other_way, put, moved, nobody, unknown, lost] =
        [(); 10].map(|()| w.assembler.label());
    w.clear_key();
    w.store_number(Word, KEY_SIDE, u32::from(of));
    w.load_packet(R8, PROTOCOL);
    w.go_if(R8, IPV4, v4);
    w.go_if(R8, IPV6, v6);
    w.go(unknown);
    w.assembler.place(v4);
    w.copy(0, IP, 20, unknown);
    w.key_of_v4();
    w.go(find);
    w.assembler.place(v6);
    w.copy(0, IP, 40, unknown);
    w.key_of_v6();
    w.assembler.place(find);
    // The one on the access side, in a key of this way and of the other way.
    let [host, host_turned] = if to_access { [KEY_DESTINATION, KEY] } else { [KEY, KEY_DESTINATION] };
    w.look_up(maps.headers, KEY);
    w.go_if_none(R0, other_way);
    w.go(found);
    // It was never heard, or where there is no interface any more. What its peer sends to it leads back.
    w.assembler.place(other_way);
    w.turn_key(u32::from(toward));
    w.look_up(maps.headers, KEY);
    w.go_if_none(R0, nobody);
    w.put(Instruction::load(Word, R7, R0, INTERFACE));
    w.take_header_turned();
    go_unless_there(&mut w, maps, places, nobody);
    follow(&mut w, places, host_turned, !to_access, moved);
    w.go(put);
    w.assembler.place(found);
    w.put(Instruction::load(Word, R7, R0, INTERFACE));
    w.take_header();
    if to_access {
        for (from, to) in [(MARK_OF, MARK), (PRIORITY_OF, PRIORITY)] {
            w.put(Instruction::load(Word, R1, R0, from));
            w.store_packet(to, R1);
        }
    }
    go_unless_there(&mut w, maps, places, other_way);
    follow(&mut w, places, host, !to_access, moved);
    w.assembler.place(put);
    put_header(&mut w, lost);
    if !to_access {
        w.number(R1, OURS);
        w.store_packet(MARK, R1);
    }
    w.put(Instruction::with_register(Move, R1, R7));
    w.number(R2, if to_access { 0 } else { COMES_IN });
    w.call(Redirect);
    w.put(Instruction::exit());
    w.assembler.place(nobody);
    find_unknown(&mut w, places, host_turned, moved);
    // Nobody of this pair was heard since the headers were lost with a process. The host routes it, as it would with rules.
    w.assembler.place(unknown);
    w.answer(NEXT);
    match (places.len(), to_access) {
        // What nothing leads to is refused.
        (0 | 1, _) => {}
        (_, true) => {
            w.assembler.place(moved);
            // The header in front is taken off again: its neighbour there is another one.
            put_header(&mut w, lost);
            w.put(Instruction::with_register(Move, R1, R7));
            for register in [R2, R3, R4] {
                w.number(register, 0);
            }
            w.call(RedirectNeighbour);
            w.put(Instruction::exit());
        }
        (_, false) => {
            w.assembler.place(moved);
            w.go(put);
        }
    }
    w.assembler.place(lost);
    lose(&mut w, maps.counters, WITHOUT_HEADER);
    w.assembler.finish()
}

impl Writer {
    /// A register becomes a word of what the kernel says of the packet.
    fn load_packet(&mut self, to: Register, at: i16) {
        self.put(Instruction::load(Word, to, R6, at));
    }

    /// It says something else from now on.
    fn store_packet(&mut self, at: i16, from: Register) {
        self.put(Instruction::store(Word, R6, at, from));
    }
}
