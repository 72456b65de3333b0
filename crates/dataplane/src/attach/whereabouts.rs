//! At which access interface a host is: what programs know of it, what they ask, and what they are told.
//!
//! A host is where it was heard last, or is sent to, and is asked about when it is heard elsewhere: it has moved, or somebody else speaks in its name. So is
//! one on the access side in whose name the host itself has just sent something there; and one that was never heard, where `rp_filter` is strict. A
//! thread of this process has the answer from the kernel: its routes and `rp_filter` decide, as without a gateway.
use super::program::{INTERFACE, Maps, NEW};
use crate::bridge::program::{ETHERNET_AT, HEADER_KEY, KEY, KEY_DESTINATION, KEY_SIDE, KEY_VERSION, Writer};
use shorthaul_os::bpf::Helper::RingOutput;
use shorthaul_os::bpf::Register::{R0, R1, R2, R3, R4, R7, R8};
use shorthaul_os::bpf::Size::{Double, Half, Word};
use shorthaul_os::bpf::{AddressSet, AddressSetPlace, Instruction, Label};
use shorthaul_proxy::Gateway;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The side in the key of a host, which has one address: none of a packet's.
const HOST: u32 = 2;

/// Bytes of a question: two addresses as in a key, the number of the access interface, the version of IP, the interface where the
/// host was heard before.
pub(super) const QUESTION: usize = HEADER_KEY as usize + 8;
/// A host's key on the stack, or a question.
const ASKED: i16 = NEW - QUESTION as i16;
/// In a question: the interface where the host was before.
const BEFORE: i16 = HEADER_KEY as i16;

/// What programs are told of an access interface. Of a host that was never asked about, none of the sets says anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its index.
    pub index: u32,
    /// The hosts that the routes lead to by it.
    pub at: AddressSetPlace,
    /// Those that they lead to elsewhere, and that may speak here all the same.
    pub accepted: AddressSetPlace,
    /// Those that may not.
    pub refused: AddressSetPlace,
    /// Where it is asked about hosts that are heard here: nobody elsewhere can fill it.
    pub questions: i32,
}

/// A host that was heard where it was not known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// Its address.
    pub source: IpAddr,
    /// To whom it spoke.
    pub destination: IpAddr,
    /// The number of the access interface.
    pub place: usize,
    /// The index of the interface where it was before: 0 if on the other side, the one where it was heard now if nowhere.
    pub before: u32,
}

impl Question {
    pub fn read(bytes: &[u8; QUESTION]) -> Question {
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let address = |at: usize| -> IpAddr {
            match word(36) {
                4 => Ipv4Addr::from(std::array::from_fn::<u8, 4, _>(|byte| bytes[at + byte])).into(),
                _ => Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|byte| bytes[at + byte])).into(),
            }
        };
        Question { source: address(0), destination: address(16), place: word(32) as usize, before: word(40) }
    }
}

/// Goes on behind itself with what its source may say here. What it may not say goes to `refused`. The key on the stack is the packet's, and
/// what is to be remembered of it is there.
pub(super) fn check_source(w: &mut Writer, maps: Maps, places: &[Place], here: usize, refused: Label) {
    let Place { index, at, accepted, refused: not_here, questions } = places[here];
    let [unspoken, doubt, sure, known] = [(); 4].map(|()| w.assembler.label());
    // What `rp_filter` says here of what comes by IPv4. The kernel has none for IPv6.
    let go_unless_strict = |w: &mut Writer, lenient: Label| {
        w.load(Word, R0, KEY_VERSION);
        w.go_unless(R0, 4, lenient);
        w.assembler.extend(Instruction::load_value(R1, maps.there));
        w.put(Instruction::load(Double, R0, R1, 8 * (places.len() + here) as i16));
        w.go_unless(R0, 1, lenient);
    };
    w.store_number(Double, ASKED + BEFORE, 0);
    key_of_host(w);
    // Has the host sent something in its name to the one that it speaks to?
    w.store_number(Word, KEY_SIDE, u32::from(Gateway::WAN.0));
    w.look_up(maps.headers, KEY);
    w.store_number(Word, KEY_SIDE, u32::from(Gateway::ACCESS.0));
    w.go_if_none(R0, unspoken);
    w.go(doubt);
    w.assembler.place(unspoken);
    if places.len() < 2 {
        w.go(known);
    } else {
        let [first, nowhere, moved] = [(); 3].map(|()| w.assembler.label());
        w.look_up(maps.headers, ASKED);
        w.go_if_none(R0, first);
        w.put(Instruction::load(Word, R1, R0, INTERFACE));
        w.go_if(R1, index, known);
        w.go(moved);
        // It was not heard yet. Where the host sends what it is answered, it is known to be.
        w.assembler.place(first);
        w.turn_key(u32::from(Gateway::WAN.0));
        w.look_up(maps.headers, KEY);
        w.turn_key(u32::from(Gateway::ACCESS.0));
        w.go_if_none(R0, nowhere);
        w.put(Instruction::load(Word, R1, R0, INTERFACE));
        w.go_if(R1, index, sure);
        w.go(moved);
        // It is here, until the kernel says that it is not: whoever speaks in its name before it does shall not keep it from being heard.
        w.assembler.place(nowhere);
        go_unless_strict(w, sure);
        w.number(R1, index as i32);
        w.assembler.place(moved);
        w.store(Word, ASKED + BEFORE, R1);
    }
    w.assembler.place(doubt);
    for (set, label) in [(at, sure), (accepted, known), (not_here, refused)] {
        AddressSet::look_up(&mut w.assembler, set, KEY, label);
    }
    ask(w, questions, here);
    // Until there is an answer, what comes from where nobody was expected is sent once more where `rp_filter` is strict.
    w.load(Word, R1, ASKED + BEFORE);
    w.go_if(R1, index, known);
    go_unless_strict(w, known);
    w.go(refused);
    w.assembler.place(sure);
    if places.len() > 1 {
        w.update(maps.headers, ASKED, NEW);
    }
    w.assembler.place(known);
}

/// The key of the packet's source.
fn key_of_host(w: &mut Writer) {
    for half in [0, 8] {
        w.load(Double, R1, KEY + half);
        w.store(Double, ASKED + half, R1);
        w.store_number(Double, ASKED + 16 + half, 0);
    }
    w.store_number(Word, ASKED + 32, HOST);
    w.load(Word, R1, KEY_VERSION);
    w.store(Word, ASKED + 36, R1);
}

/// Asks about the source. Should there be no room, the next packet asks again.
fn ask(w: &mut Writer, questions: i32, here: usize) {
    for half in [0, 8] {
        w.load(Double, R1, KEY_DESTINATION + half);
        w.store(Double, ASKED + 16 + half, R1);
    }
    w.store_number(Word, ASKED + 32, here as u32);
    w.point(R2, ASKED);
    w.assembler.extend(Instruction::load_map(R1, questions));
    w.number(R3, QUESTION as i32);
    w.number(R4, 0);
    w.call(RingOutput);
}

/// Goes on at `absent` if R7 is no access interface that is there.
pub(super) fn go_unless_there(w: &mut Writer, maps: Maps, places: &[Place], absent: Label) {
    let there = w.assembler.label();
    w.assembler.extend(Instruction::load_value(R1, maps.there));
    for number in 0..places.len() as i16 {
        w.put(Instruction::load(Double, R2, R1, 8 * number));
        w.assembler.jump(there, Instruction::skip_if_equal(R2, R7, 0));
    }
    w.go(absent);
    w.assembler.place(there);
}

/// R7, the access interface of a packet that the gateway has written, becomes another one where the routes lead to its host there, and goes
/// on at `moved`. What the host sees come in (`is_seen`) keeps its interface unless it would be refused. The host's address is on the
/// stack.
pub(super) fn follow(w: &mut Writer, places: &[Place], host: i16, is_seen: bool, moved: Label) {
    if places.len() < 2 {
        return;
    }
    let [stays, goes] = [(); 2].map(|()| w.assembler.label());
    for place in places {
        let other = w.assembler.label();
        w.go_unless(R7, place.index, other);
        if is_seen {
            AddressSet::look_up(&mut w.assembler, place.refused, host, goes);
            w.go(stays);
        } else {
            AddressSet::look_up(&mut w.assembler, place.at, host, stays);
            w.go(goes);
        }
        w.assembler.place(other);
    }
    w.assembler.place(goes);
    find(w, places, host, moved);
    w.assembler.place(stays);
}

/// R7 becomes the access interface by which the routes lead to a host of whom no header is known, and goes on at `moved`. The Ethernet header
/// on the stack is one for nobody.
pub(super) fn find_unknown(w: &mut Writer, places: &[Place], host: i16, moved: Label) {
    if places.len() < 2 {
        return;
    }
    for half in [0, 8] {
        w.store_number(Double, ETHERNET_AT + half, 0);
    }
    w.store(Half, ETHERNET_AT + 12, R8);
    find(w, places, host, moved);
}

fn find(w: &mut Writer, places: &[Place], host: i16, moved: Label) {
    for place in places {
        let [found, other] = [(); 2].map(|()| w.assembler.label());
        AddressSet::look_up(&mut w.assembler, place.at, host, found);
        w.go(other);
        w.assembler.place(found);
        w.number(R7, place.index as i32);
        w.go(moved);
        w.assembler.place(other);
    }
}
