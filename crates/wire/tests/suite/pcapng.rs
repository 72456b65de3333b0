//! Recordings written, read, broken and read again.
use crate::packets::offload;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use shorthaul_types::Time;
use shorthaul_wire::Offload;
use shorthaul_wire::pcapng::{LINK_TYPE_RAW, PacketInfo, ReadError, ReadErrorKind, Reader, Record, Writer};

fn recorded(packets: &[(bool, u64, Vec<u8>, String)]) -> Vec<u8> {
    let mut writer = Writer::new();
    let interfaces = [writer.add_interface("edge"), writer.add_interface("wan0")];
    let mut file = Vec::new();
    for (wan, nanos, bytes, comment) in packets {
        let info =
            PacketInfo { interface: interfaces[usize::from(*wan)], at: Time::from_nanos(*nanos), comment };
        let (front, back) = bytes.split_at(bytes.len() / 2);
        writer.packet(&info, [front, back]);
        file.extend_from_slice(writer.buffered());
        writer.clear();
    }
    file.extend_from_slice(writer.buffered());
    file
}

fn packets() -> impl Strategy<Value = Vec<(bool, u64, Vec<u8>, String)>> {
    vec((any::<bool>(), any::<u64>(), vec(any::<u8>(), 0..200), "\\PC{0,20}"), 0..8)
}

/// The contents of a block in the byte order of `u16`'s and `u32`'s writers.
struct Blocks {
    bytes: Vec<u8>,
    big: bool,
}

impl Blocks {
    fn new(big: bool) -> Self {
        Blocks { bytes: Vec::new(), big }
    }

    fn u16(mut self, value: u16) -> Self {
        self.bytes.extend(if self.big { value.to_be_bytes() } else { value.to_le_bytes() });
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.bytes.extend(if self.big { value.to_be_bytes() } else { value.to_le_bytes() });
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn block(self, kind: u32, body: impl FnOnce(Blocks) -> Blocks) -> Self {
        let body = body(Blocks::new(self.big)).bytes;
        let len = body.len() as u32 + 12;
        self.u32(kind).u32(len).raw(&body).u32(len)
    }

    fn section(self) -> Self {
        self.block(0x0a0d_0d0a, |body| body.u32(0x1a2b_3c4d).u16(1).u16(0).u32(u32::MAX).u32(u32::MAX))
    }

    /// An Ethernet interface with these option bytes.
    fn interface(self, options: impl FnOnce(Blocks) -> Blocks) -> Self {
        self.block(1, |body| options(body.u16(1).u16(0).u32(262_144)))
    }

    /// A packet of three bytes, recorded with `ticks`.
    fn packet(self, interface: u32, ticks: u64) -> Self {
        self.block(6, |body| {
            body.u32(interface).u32((ticks >> 32) as u32).u32(ticks as u32).u32(3).u32(60).raw(b"abc\0")
        })
    }
}

/// The nanoseconds that a packet with `ticks` is read with.
fn nanos(ticks: u64, options: impl FnOnce(Blocks) -> Blocks) -> u64 {
    let file = Blocks::new(false).section().interface(options).packet(0, ticks).bytes;
    Reader::new(&file).next().unwrap().unwrap().at.as_nanos()
}

proptest! {
    #[test]
    fn what_is_written_is_read(packets in packets()) {
        let file = recorded(&packets);
        let mut reader = Reader::new(&file);
        let records: Vec<Record<'_>> = reader.by_ref().map(Result::unwrap).collect();
        let expected: Vec<_> = packets
            .iter()
            .map(|(wan, nanos, bytes, comment)| Record {
                interface: u32::from(*wan),
                at: Time::from_nanos(*nanos),
                bytes,
                original_len: bytes.len() as u32,
                comment,
            })
            .collect();
        prop_assert_eq!(records, expected);
        let interfaces: Vec<_> = reader.interfaces().iter().map(|i| (i.name, i.link_type)).collect();
        prop_assert_eq!(interfaces, [("edge", LINK_TYPE_RAW), ("wan0", LINK_TYPE_RAW)]);
    }

    #[test]
    fn a_recording_cut_off_is_read_up_to_there(packets in packets(), len: Index) {
        let file = recorded(&packets);
        let len = len.index(file.len());
        let mut reader = Reader::new(&file[..len]);
        let read = reader.by_ref().take_while(Result::is_ok).count();
        let whole = Reader::new(&file).take_while(|record| {
            let end = record.unwrap().bytes.as_ptr_range().end as usize - file.as_ptr() as usize;
            end <= len
        });
        prop_assert!(read <= whole.count());
        prop_assert!(reader.next().is_none());
    }

    #[test]
    fn broken_recordings_do_no_harm(packets in packets(), edits in vec((any::<Index>(), any::<u8>()), 1..6)) {
        let mut file = recorded(&packets);
        for (at, value) in edits {
            let at = at.index(file.len());
            file[at] = value;
        }
        prop_assert!(Reader::new(&file).count() <= packets.len() + 1);
    }

    #[test]
    fn arbitrary_blocks_do_no_harm(big: bool, blocks in vec((0u32..8, vec(any::<u8>(), 0..60)), 0..8)) {
        let mut file = Blocks::new(big).section();
        for (kind, mut body) in blocks {
            body.resize(body.len().next_multiple_of(4), 0);
            file = file.block(kind, |block| block.raw(&body));
        }
        for record in Reader::new(&file.bytes).flatten() {
            prop_assert!(record.bytes.len() <= file.bytes.len());
        }
    }

    #[test]
    fn an_offload_survives_a_comment(offload in offload()) {
        prop_assert_eq!(offload.to_string().parse::<Offload>(), Ok(offload));
    }
}

#[test]
fn a_recording_is_what_the_format_says() {
    let packet = (false, 0x0102_0304_0506_0708, b"abcde".to_vec(), "hi".to_string());
    let file = recorded(&[packet]);
    let options = |body: Blocks, name: &[u8; 4]| {
        body.u16(2).u16(4).raw(name).u16(9).u16(1).raw(&[9, 0, 0, 0]).u16(0).u16(0)
    };
    let expected = Blocks::new(false)
        .section()
        .block(1, |body| options(body.u16(101).u16(0).u32(0), b"edge"))
        .block(1, |body| options(body.u16(101).u16(0).u32(0), b"wan0"))
        .block(6, |body| {
            let body = body.u32(0).u32(0x0102_0304).u32(0x0506_0708).u32(5).u32(5).raw(b"abcde\0\0\0");
            body.u16(1).u16(2).raw(b"hi\0\0").u16(0).u16(0)
        });
    assert_eq!(file, expected.bytes);
}

#[test]
fn both_byte_orders_are_read_in_one_file() {
    let mut file = Vec::new();
    for big in [true, false] {
        let name = |body: Blocks| body.u16(2).u16(3).raw(b"if0\0");
        file.extend(Blocks::new(big).section().block(9, |body| body).interface(name).packet(0, 5).bytes);
    }
    let mut reader = Reader::new(&file);
    for _ in 0..2 {
        let record = reader.next().unwrap().unwrap();
        assert_eq!((record.bytes, record.original_len, record.comment), (b"abc".as_slice(), 60, ""));
        assert_eq!(record.at, Time::from_micros(5), "without the option, times are microseconds");
        assert_eq!((reader.interfaces()[0].name, reader.interfaces()[0].link_type), ("if0", 1));
        assert_eq!(reader.interfaces().len(), 1, "interfaces are those of their section");
    }
    assert_eq!(reader.next(), None);
}

#[test]
fn times_are_nanoseconds_whatever_their_resolution() {
    let resolution = |value: u8| move |body: Blocks| body.u16(9).u16(1).raw(&[value, 0, 0, 0]);
    assert_eq!(nanos(7, resolution(0)), 7_000_000_000);
    assert_eq!(nanos(7, resolution(3)), 7_000_000);
    assert_eq!(nanos(7_999, resolution(12)), 7);
    assert_eq!(nanos(u64::MAX, resolution(127)), 0);
    assert_eq!(nanos(u64::MAX, resolution(0)), Time::MAX.as_nanos());
    assert_eq!(nanos(3, resolution(0x80 | 1)), 1_500_000_000);
    assert_eq!(nanos(u64::MAX, resolution(0xff)), 0);
    let offset = |secs: i64| {
        move |body: Blocks| body.u16(14).u16(8).raw(&secs.to_le_bytes()).u16(9).u16(1).raw(&[9, 0, 0, 0])
    };
    assert_eq!(nanos(3, offset(2)), 2_000_000_003);
    assert_eq!(nanos(3, offset(-2)), 0);
    assert_eq!(nanos(u64::MAX, offset(i64::MAX)), Time::MAX.as_nanos());
    assert_eq!(nanos(u64::MAX, offset(i64::MIN)), 0);
}

#[test]
fn mistakes_are_named_with_their_place() {
    let error = |file: &[u8]| Reader::new(file).find_map(Result::err);
    let good = || Blocks::new(false).section().interface(|body| body);
    let start = good().bytes.len();
    let at_block = |kind| Some(ReadError { at: start, kind });
    assert_eq!(error(&good().packet(0, 0).bytes), None);
    assert_eq!(error(&[]), None);
    assert_eq!(error(&[0xd4, 0xc3, 0xb2, 0xa1]), Some(ReadError { at: 0, kind: ReadErrorKind::NotPcapng }));
    assert_eq!(error(&good().packet(1, 0).bytes), at_block(ReadErrorKind::UnknownInterface(1)));
    assert_eq!(error(&good().packet(0, 0).bytes[..start + 30]), at_block(ReadErrorKind::Truncated));
    assert_eq!(error(&good().block(6, |body| body).bytes), at_block(ReadErrorKind::Content));
    assert_eq!(error(&good().interface(|body| body.u16(2).u16(99)).bytes), at_block(ReadErrorKind::Content));
    for len in [0, 11, 13] {
        assert_eq!(error(&good().u32(6).u32(len).raw(&[0; 8]).bytes), at_block(ReadErrorKind::BlockLength));
    }
    assert_eq!(error(&good().u32(6).u32(16).u32(0).u32(20).bytes), at_block(ReadErrorKind::BlockLength));
    let future = good().block(0x0a0d_0d0a, |body| body.u32(0x1a2b_3c4d).u16(2).u16(0).raw(&[0; 8]));
    assert_eq!(error(&future.bytes), at_block(ReadErrorKind::Version(2)));
    let text = error(&good().packet(1, 0).bytes).unwrap().to_string();
    assert!(text.contains(&format!("byte {start}")) && text.contains("interface 1"), "{text}");
}

#[test]
fn a_word_that_is_no_offload_is_named() {
    for text in ["gso=0/52", "partial=20", "verified gso", "partial=99999+1", "x"] {
        let error = text.parse::<Offload>().unwrap_err().to_string();
        assert!(error.contains(text.split(' ').next_back().unwrap()), "{error}");
    }
}
