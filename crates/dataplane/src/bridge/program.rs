//! The programs at the two ports of a bridge, and at the gateway's two devices.
//!
//! A *header* is what a frame begins with: whom it is for, whom it is from, what it carries. The program at a port remembers the latest of
//! each pair of addresses, and takes it off with the frame; the program at a device puts it back in front of what the gateway says in the
//! name of the same sender. So each end sees the hardware addresses that it saw before.
use shorthaul_os::bpf::Helper::{ChangeHead, LoadBytes, MapLookup, MapUpdate, Redirect, StoreBytes};
use shorthaul_os::bpf::Operation::{Add, And, Move, ShiftLeft};
use shorthaul_os::bpf::Register::{Frame, R0, R1, R2, R3, R4, R5, R6, R7, R8};
use shorthaul_os::bpf::Size::{Byte, Double, Half, Word};
use shorthaul_os::bpf::{Assembler, DROP, Helper, Instruction, Label, NEXT, Register, Size};
use shorthaul_types::PortId;

/// Bytes of a key of the headers: two addresses, the side that the frame came in by, the version of IP.
pub(crate) const HEADER_KEY: u32 = 40;
/// Of a header: an Ethernet header, and zeros.
pub(super) const HEADER: u32 = 16;
/// Of a key of the stations: a hardware address, and zeros.
pub(super) const STATION_KEY: u32 = 8;
/// Of what is known of a station: its side.
pub(super) const STATION: u32 = 4;

/// Which of the counters has the packets that had no header.
pub(crate) const WITHOUT_HEADER: usize = 0;
/// Which has those whose source may not be where they came in.
pub(crate) const SOURCE_ELSEWHERE: usize = 1;

/// `__sk_buff`: the kind of a frame, by whom it is for; the protocol; whether there was a VLAN tag.
pub(crate) const PACKET_KIND: i16 = 4;
pub(crate) const PROTOCOL: i16 = 16;
pub(crate) const VLAN: i16 = 20;
/// It is not for this port's own hardware address (`PACKET_OTHERHOST`).
const FOR_ANOTHER: u32 = 3;

pub(crate) const ETHERNET: i32 = 14;
pub(crate) const IPV4: u32 = (0x0800_u16.to_be()) as u32;
pub(crate) const IPV6: u32 = (0x86dd_u16.to_be()) as u32;
pub(crate) const ICMP: u32 = 1;
const TCP: u32 = 6;
const FRAGMENT: u32 = 44;
pub(crate) const ICMPV6: u32 = 58;
/// Extension headers behind which TCP may stand: hop-by-hop options, routing, destination options.
const EXTENSIONS: [u32; 3] = [0, 43, 60];
/// Errors among the messages of ICMP; those of ICMPv6 are all below 128.
const ICMP_ERRORS: [u32; 5] = [3, 4, 5, 11, 12];
const ICMPV6_INFORMATION: u32 = 128;
/// Echo requests and replies are 128 and 129; what follows is neighbour and listener discovery.
const ICMPV6_DISCOVERY: u32 = 130;

// The stack, from its end down.
/// The Ethernet header: 14 bytes, and two zeros.
pub(crate) const ETHERNET_AT: i16 = -16;
const SOURCE_MAC: i16 = ETHERNET_AT + 6;
/// The key of the headers: source, destination, side, version.
pub(crate) const KEY: i16 = ETHERNET_AT - HEADER_KEY as i16;
pub(crate) const KEY_DESTINATION: i16 = KEY + 16;
pub(crate) const KEY_SIDE: i16 = KEY + 32;
pub(crate) const KEY_VERSION: i16 = KEY + 36;
const STATION_AT: i16 = KEY - STATION_KEY as i16;
/// A number.
pub(crate) const SCRATCH: i16 = STATION_AT - 8;
/// The IP header, 40 bytes at most.
pub(crate) const IP: i16 = SCRATCH - 40;

/// What the programs are written for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maps {
    /// Headers, by pairs of addresses.
    pub headers: i32,
    /// Sides, by hardware addresses.
    pub stations: i32,
    /// Counters.
    pub counters: i32,
}

/// Which frames a port's program takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taking {
    /// The side of the port.
    pub port: PortId,
    /// The gateway's device for what comes in by it, by its index.
    pub device: u32,
    /// All of IP, not TCP and the errors about it alone.
    pub all: bool,
    /// The bridge's own hardware address: what is for that is the host's.
    pub bridge: [u8; 6],
}

/// Programs that look at packets of IP, instruction by instruction. R6 is the packet.
pub(crate) struct Writer {
    pub assembler: Assembler,
}

impl Writer {
    pub fn new() -> Self {
        let mut writer = Writer { assembler: Assembler::new() };
        writer.put(Instruction::with_register(Move, R6, R1));
        writer
    }

    pub fn put(&mut self, instruction: Instruction) {
        self.assembler.extend([instruction]);
    }

    pub fn number(&mut self, to: Register, number: i32) {
        self.put(Instruction::number(to, number));
    }

    pub fn load(&mut self, size: Size, to: Register, at: i16) {
        self.put(Instruction::load(size, to, Frame, at));
    }

    pub fn store(&mut self, size: Size, at: i16, from: Register) {
        self.put(Instruction::store(size, Frame, at, from));
    }

    pub fn store_number(&mut self, size: Size, at: i16, number: u32) {
        self.put(Instruction::store_number(size, Frame, at, number as i32));
    }

    /// A register points to the stack.
    pub fn point(&mut self, to: Register, at: i16) {
        self.put(Instruction::with_register(Move, to, Frame));
        self.put(Instruction::number(R0, i32::from(at)));
        self.put(Instruction::with_register(Add, to, R0));
    }

    pub fn call(&mut self, helper: Helper) {
        self.put(Instruction::call(helper));
    }

    pub fn go(&mut self, to: Label) {
        self.assembler.jump(to, Instruction::skip(0));
    }

    pub fn go_if(&mut self, of: Register, number: u32, to: Label) {
        self.assembler.jump(to, Instruction::skip_if(of, number, 0));
    }

    pub fn go_unless(&mut self, of: Register, number: u32, to: Label) {
        self.assembler.jump(to, Instruction::skip_unless(of, number, 0));
    }

    pub fn go_if_none(&mut self, of: Register, to: Label) {
        self.assembler.jump(to, Instruction::skip_if_none(of, 0));
    }

    /// Copies from the packet to the stack.
    pub fn copy(&mut self, from: i32, to: i16, length: i32, short: Label) {
        self.number(R2, from);
        self.copy_from_r2(to, length, short);
    }

    pub fn copy_from_r2(&mut self, to: i16, length: i32, short: Label) {
        self.put(Instruction::with_register(Move, R1, R6));
        self.point(R3, to);
        self.number(R4, length);
        self.call(LoadBytes);
        self.go_unless(R0, 0, short);
    }

    pub fn look_up(&mut self, map: i32, key: i16) {
        self.point(R2, key);
        self.assembler.extend(Instruction::load_map(R1, map));
        self.call(MapLookup);
    }

    pub fn update(&mut self, map: i32, key: i16, value: i16) {
        self.point(R2, key);
        self.point(R3, value);
        self.assembler.extend(Instruction::load_map(R1, map));
        self.number(R4, 0);
        self.call(MapUpdate);
    }

    /// The key of a station becomes a hardware address of the frame.
    fn name_station(&mut self, address: i16) {
        for part in [0, 2, 4] {
            self.load(Half, R0, address + part);
            self.store(Half, STATION_AT + part, R0);
        }
        self.store_number(Half, STATION_AT + 6, 0);
    }

    pub fn clear_key(&mut self) {
        for part in 0..HEADER_KEY as i16 / 8 {
            self.store_number(Double, KEY + part * 8, 0);
        }
    }

    /// The key has the addresses of the IPv4 header.
    pub fn key_of_v4(&mut self) {
        self.load(Word, R0, IP + 12);
        self.store(Word, KEY, R0);
        self.load(Word, R0, IP + 16);
        self.store(Word, KEY_DESTINATION, R0);
        self.store_number(Word, KEY_VERSION, 4);
    }

    /// The key has the addresses of the IPv6 header.
    pub fn key_of_v6(&mut self) {
        for part in [0, 8, 16, 24] {
            self.load(Double, R0, IP + 8 + part);
            self.store(Double, KEY + part, R0);
        }
        self.store_number(Word, KEY_VERSION, 6);
    }

    /// The key is that of packets the other way.
    pub fn turn_key(&mut self, side: u32) {
        for half in [0, 8] {
            self.load(Double, R1, KEY + half);
            self.load(Double, R2, KEY_DESTINATION + half);
            self.store(Double, KEY + half, R2);
            self.store(Double, KEY_DESTINATION + half, R1);
        }
        self.store_number(Word, KEY_SIDE, side);
    }

    /// The Ethernet header of the stack becomes the one that R0 points to.
    pub fn take_header(&mut self) {
        for half in [0, 8] {
            self.put(Instruction::load(Double, R1, R0, half));
            self.store(Double, ETHERNET_AT + half, R1);
        }
    }

    /// It becomes that of a frame back.
    pub fn take_header_turned(&mut self) {
        self.store_number(Half, ETHERNET_AT + 14, 0);
        for (from, to) in [(0, 6), (2, 8), (4, 10), (6, 0), (8, 2), (10, 4), (12, 12)] {
            self.put(Instruction::load(Half, R1, R0, from));
            self.store(Half, ETHERNET_AT + to, R1);
        }
    }

    /// The packet leaves by another interface.
    pub fn redirect(&mut self, interface: u32) {
        self.number(R1, interface as i32);
        self.number(R2, 0);
        self.call(Redirect);
        self.put(Instruction::exit());
    }

    pub fn answer(&mut self, number: i32) {
        self.number(R0, number);
        self.put(Instruction::exit());
    }
}

/// The program at a port: it takes what the gateway has to see to its device, and leaves all else to the bridge.
pub(super) fn at_port(maps: Maps, taking: Taking) -> Vec<Instruction> {
    let mut w = Writer::new();
    let [pass, take, v4, v6] = [(); 4].map(|()| w.assembler.label());
    let side = u32::from(taking.port.0);
    w.store_number(Double, ETHERNET_AT + 8, 0);
    w.copy(0, ETHERNET_AT, ETHERNET, pass);
    // For many: discovery of neighbours and what else has to reach all.
    w.load(Byte, R0, ETHERNET_AT);
    w.assembler.jump(pass, Instruction::skip_if_any(R0, 1, 0));
    learn_station(&mut w, maps.stations, side);
    // With a tag, it is another network's.
    w.put(Instruction::load(Word, R0, R6, VLAN));
    w.go_unless(R0, 0, pass);
    w.put(Instruction::load(Word, R0, R6, PACKET_KIND));
    w.go_unless(R0, FOR_ANOTHER, pass);
    pass_what_is_for_the_host(&mut w, taking.bridge, pass);
    // A switch may show us what is between two of its own.
    let beyond = w.assembler.label();
    w.name_station(ETHERNET_AT);
    w.look_up(maps.stations, STATION_AT);
    w.go_if_none(R0, beyond);
    w.put(Instruction::load(Word, R1, R0, 0));
    w.go_if(R1, side, pass);
    w.assembler.place(beyond);
    w.clear_key();
    w.store_number(Word, KEY_SIDE, side);
    w.put(Instruction::load(Word, R8, R6, PROTOCOL));
    w.go_if(R8, IPV4, v4);
    w.go_if(R8, IPV6, v6);
    w.go(pass);
    w.assembler.place(v4);
    take_v4(&mut w, taking.all, take, pass);
    w.assembler.place(v6);
    take_v6(&mut w, taking.all, take, pass);
    w.assembler.place(take);
    remember_header(&mut w, maps.headers);
    w.redirect(taking.device);
    w.assembler.place(pass);
    w.answer(NEXT);
    w.assembler.finish()
}

/// Notes at which side the sender is.
fn learn_station(w: &mut Writer, stations: i32, side: u32) {
    let [new, known] = [(); 2].map(|()| w.assembler.label());
    w.name_station(SOURCE_MAC);
    w.look_up(stations, STATION_AT);
    w.go_if_none(R0, new);
    w.put(Instruction::load(Word, R1, R0, 0));
    w.go_if(R1, side, known);
    w.assembler.place(new);
    w.store_number(Word, SCRATCH, side);
    w.update(stations, STATION_AT, SCRATCH);
    w.assembler.place(known);
}

fn pass_what_is_for_the_host(w: &mut Writer, bridge: [u8; 6], pass: Label) {
    let another = w.assembler.label();
    let [a, b, c, d, e, f] = bridge;
    for (pair, at) in [[a, b], [c, d], [e, f]].into_iter().zip([0, 2, 4]) {
        w.load(Half, R0, ETHERNET_AT + at);
        w.go_unless(R0, u32::from(u16::from_ne_bytes(pair)), another);
    }
    w.go(pass);
    w.assembler.place(another);
}

pub(crate) fn take_v4(w: &mut Writer, all: bool, take: Label, pass: Label) {
    w.copy(ETHERNET, IP, 20, pass);
    if !all {
        let chosen = w.assembler.label();
        w.load(Byte, R7, IP + 9);
        w.go_if(R7, TCP, chosen);
        w.go_unless(R7, ICMP, pass);
        go_if_error_v4(w, chosen, pass);
        w.assembler.place(chosen);
    }
    w.key_of_v4();
    w.go(take);
}

/// Goes on at `error` with an ICMP error about a packet of IPv4, and at `other` with any other ICMP message. Its IP header is on the stack.
pub(crate) fn go_if_error_v4(w: &mut Writer, error: Label, other: Label) {
    // What an error is about stands in its first fragment.
    w.load(Half, R0, IP + 6);
    let offset = u32::from(0x1fff_u16.to_be());
    w.assembler.jump(other, Instruction::skip_if_any(R0, offset, 0));
    w.load(Byte, R2, IP);
    w.put(Instruction::with_number(And, R2, 0xf));
    w.put(Instruction::with_number(ShiftLeft, R2, 2));
    w.put(Instruction::with_number(Add, R2, ETHERNET as u32));
    w.copy_from_r2(SCRATCH, 1, other);
    w.load(Byte, R0, SCRATCH);
    for message in ICMP_ERRORS {
        w.go_if(R0, message, error);
    }
    w.go(other);
}

/// The same of ICMPv6, without extension headers in front.
pub(crate) fn go_if_error_v6(w: &mut Writer, error: Label, other: Label) {
    w.copy(ETHERNET + 40, SCRATCH, 1, other);
    w.load(Byte, R0, SCRATCH);
    w.assembler.jump(other, Instruction::skip_if_at_least(R0, ICMPV6_INFORMATION, 0));
    w.go(error);
}

pub(crate) fn take_v6(w: &mut Writer, all: bool, take: Label, pass: Label) {
    let [chosen, message, fragment] = [(); 3].map(|()| w.assembler.label());
    w.copy(ETHERNET, IP, 40, pass);
    // Between neighbours (RFC 4291 §2.5.6).
    for address in [IP + 8, IP + 24] {
        w.load(Half, R0, address);
        w.put(Instruction::with_number(And, R0, u32::from(0xffc0_u16.to_be())));
        w.go_if(R0, u32::from(0xfe80_u16.to_be()), pass);
    }
    w.load(Byte, R7, IP + 6);
    w.go_if(R7, ICMPV6, message);
    if all {
        w.go(chosen);
    } else {
        w.go_if(R7, TCP, chosen);
        for header in EXTENSIONS {
            w.go_if(R7, header, chosen);
        }
        w.go_if(R7, FRAGMENT, fragment);
        w.go(pass);
        w.assembler.place(fragment);
        w.copy(ETHERNET + 40, SCRATCH, 1, pass);
        w.load(Byte, R0, SCRATCH);
        w.go_if(R0, TCP, chosen);
        for header in EXTENSIONS {
            w.go_if(R0, header, chosen);
        }
        w.go(pass);
    }
    w.assembler.place(message);
    w.copy(ETHERNET + 40, SCRATCH, 1, pass);
    w.load(Byte, R0, SCRATCH);
    let first_passed = if all { ICMPV6_DISCOVERY } else { ICMPV6_INFORMATION };
    w.assembler.jump(pass, Instruction::skip_if_at_least(R0, first_passed, 0));
    w.assembler.place(chosen);
    w.key_of_v6();
    w.go(take);
}

/// Remembers the frame's header, unless it is the one that is remembered.
fn remember_header(w: &mut Writer, headers: i32) {
    let [new, known] = [(); 2].map(|()| w.assembler.label());
    w.look_up(headers, KEY);
    w.go_if_none(R0, new);
    for half in [0, 8] {
        let same = w.assembler.label();
        w.put(Instruction::load(Double, R1, R0, half));
        w.load(Double, R2, ETHERNET_AT + half);
        w.assembler.jump(same, Instruction::skip_if_equal(R1, R2, 0));
        w.go(new);
        w.assembler.place(same);
    }
    w.go(known);
    w.assembler.place(new);
    w.update(headers, KEY, ETHERNET_AT);
    w.assembler.place(known);
}

/// The program at the gateway's device of a side: what the gateway writes there leaves by the port of this side, as the frame of whoever
/// it speaks for.
pub(super) fn at_device(maps: Maps, port: PortId, interface: u32) -> Vec<Instruction> {
    let mut w = Writer::new();
    let [v4, v6, find, found, lost, put] = [(); 6].map(|()| w.assembler.label());
    let side = u32::from(port.0);
    w.clear_key();
    // Who is spoken for is at the other side.
    w.store_number(Word, KEY_SIDE, side ^ 1);
    w.put(Instruction::load(Word, R8, R6, PROTOCOL));
    w.go_if(R8, IPV4, v4);
    w.go_if(R8, IPV6, v6);
    w.go(lost);
    w.assembler.place(v4);
    w.copy(0, IP, 20, lost);
    w.key_of_v4();
    w.go(find);
    w.assembler.place(v6);
    w.copy(0, IP, 40, lost);
    w.key_of_v6();
    w.assembler.place(find);
    w.look_up(maps.headers, KEY);
    let other_way = w.assembler.label();
    w.go_if_none(R0, other_way);
    w.go(found);
    // It was never heard. What its peer sends to it leads back.
    w.assembler.place(other_way);
    w.turn_key(side);
    w.look_up(maps.headers, KEY);
    w.go_if_none(R0, lost);
    w.take_header_turned();
    w.go(put);
    w.assembler.place(found);
    w.take_header();
    w.assembler.place(put);
    put_header(&mut w, lost);
    w.redirect(interface);
    w.assembler.place(lost);
    lose(&mut w, maps.counters, WITHOUT_HEADER);
    w.assembler.finish()
}

/// The packet gets the Ethernet header of the stack in front.
pub(crate) fn put_header(w: &mut Writer, lost: Label) {
    w.put(Instruction::with_register(Move, R1, R6));
    w.number(R2, ETHERNET);
    w.number(R3, 0);
    w.call(ChangeHead);
    w.go_unless(R0, 0, lost);
    w.put(Instruction::with_register(Move, R1, R6));
    w.number(R2, 0);
    w.point(R3, ETHERNET_AT);
    w.number(R4, ETHERNET);
    w.number(R5, 0);
    w.call(StoreBytes);
    w.go_unless(R0, 0, lost);
}

/// The packet is dropped, and counted.
pub(crate) fn lose(w: &mut Writer, counters: i32, counter: usize) {
    w.assembler.extend(Instruction::load_value(R1, counters));
    w.number(R0, 1);
    w.put(Instruction::add_to_memory(R1, 8 * counter as i16, R0));
    w.answer(DROP);
}
