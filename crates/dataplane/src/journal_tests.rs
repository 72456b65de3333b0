use super::*;
use shorthaul_proxy::{Gateway, GatewayConfig};
use shorthaul_testkit::packets;
use shorthaul_types::{PortId, SeqNum};
use shorthaul_wire::{Machine, Packet, TcpFlags, TcpHeader, TcpOptions, TcpSegment, TxBatch};
use std::mem::forget; // whoever is killed drops nothing
use std::net::IpAddr;
use std::sync::Arc;

const MEMORY: Bytes = Bytes(1 << 20);
/// Where the usual records begin, and how much room each has.
const CELLS: usize = 128;
const CELL: usize = 128;

fn path(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("shorthaul-journal-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn left(path: &Path, now: u64) -> Vec<Inherited> {
    Former::open(path).unwrap().left(Time::from_secs(now), None, &Alive::default())
}

fn journal(path: &Path, now: u64) -> Journal {
    Journal::create(path, 4, MEMORY, Time::from_secs(now)).unwrap()
}

/// A gateway with a connection of which the server sends and the client acknowledges nothing.
struct Scene {
    gateway: Gateway,
    /// The client and the server.
    ends: [(IpAddr, u16); 2],
    now: Time,
    sent: u32,
}

impl Scene {
    fn new() -> Scene {
        Scene::between([[10, 0, 0, 1].into(), [10, 0, 0, 2].into()])
    }

    fn between([client, server]: [IpAddr; 2]) -> Scene {
        let mut scene = Scene {
            gateway: Gateway::new(GatewayConfig::default()),
            ends: [(client, 5000), (server, 80)],
            now: Time::from_secs(1),
            sent: 1,
        };
        let options = TcpOptions { mss: Some(1_460), ..TcpOptions::default() };
        for (from, flags, seq, ack) in
            [(0, TcpFlags::SYN, 0, 0), (1, TcpFlags::SYN | TcpFlags::ACK, 0, 1), (0, TcpFlags::ACK, 1, 1)]
        {
            let header = TcpHeader { flags, seq: SeqNum(seq), ack: SeqNum(ack), ..TcpHeader::default() };
            let options = if seq == 0 { options.clone() } else { TcpOptions::default() };
            scene.say(from, TcpHeader { options, ..header }, None);
        }
        scene
    }

    fn say(&mut self, from: u8, header: TcpHeader, payload: Option<Payload>) {
        let [client, server] = self.ends;
        let (near, far) = if from == 0 { (client, server) } else { (server, client) };
        let header = TcpHeader { src_port: near.1, dst_port: far.1, window: 60_000, ..header };
        let payload = payload.map(Into::into).unwrap_or_default();
        let packet = Packet::tcp(packets::ip(near.0, far.0), TcpSegment { header, payload, gso_size: None });
        self.gateway.handle_packet(self.now, PortId(from), packet);
    }

    /// The server sends this.
    fn data(&mut self, payload: Payload) {
        let header = TcpHeader {
            flags: TcpFlags::ACK,
            seq: SeqNum(self.sent),
            ack: SeqNum(1),
            ..TcpHeader::default()
        };
        self.sent += payload.len() as u32;
        self.say(1, header, Some(payload));
    }

    /// The client acknowledges this many bytes.
    fn acknowledge(&mut self, bytes: u32) {
        let header = TcpHeader {
            flags: TcpFlags::ACK,
            seq: SeqNum(1),
            ack: SeqNum(1 + bytes),
            ..TcpHeader::default()
        };
        self.say(0, header, None);
    }

    fn turn(&mut self, journal: &mut Journal) {
        let mut out = TxBatch::new();
        while self.gateway.poll_transmit(self.now, &mut out) {}
        self.gateway.save(journal);
    }
}

/// Bytes that differ from place to place.
fn stream(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| (at % 251) as u8).collect()
}

/// Bytes as a device hands them over: in a buffer of the journal's file, behind headers.
fn received(journal: &Journal, bytes: &[u8], capacity: usize) -> Payload {
    let mut chunk = journal.buffers().chunk(capacity).unwrap();
    chunk.append(&[0xee; 52]);
    chunk.append(bytes);
    Payload::new(Arc::new(chunk), 52..52 + bytes.len())
}

#[test]
fn what_is_held_is_left_to_the_next_one_wherever_it_lies() {
    let path = path("held");
    let mut journal = journal(&path, 100);
    assert_eq!(left(&path, 100), []);
    journal.put_in_place().unwrap();
    let mut scene = Scene::new();
    scene.turn(&mut journal);
    let held = |now| {
        let left = left(&path, now);
        assert_eq!(left.len(), 1);
        (left[0].held[1].start, left[0].held[1].bytes())
    };
    assert_eq!(held(101), (1, Vec::new()));
    // In buffers of the file of each size, on the heap, and small ones that are gathered on their way.
    let mut sent = 0;
    for (len, capacity) in
        [(1_400, 2_048), (10_000, 16_384), (20_000, 65_536), (1_000, 0), (10, 2_048), (9, 0)]
    {
        let bytes = stream(sent, len);
        let payload =
            if capacity > 0 { received(&journal, &bytes, capacity) } else { Payload::copy_of(&bytes) };
        scene.data(payload);
        scene.turn(&mut journal);
        sent += len;
        assert!(held(101) == (1, stream(0, sent)), "after {len} bytes");
    }
    scene.acknowledge(1_400);
    scene.turn(&mut journal);
    assert!(held(101) == (1_401, stream(1_400, sent - 1_400)));
    // What is acknowledged goes before the next record is there.
    scene.acknowledge(11_400);
    drop(received(&journal, &[1; 100], 2_048));
    assert!(held(101) == (11_401, stream(11_400, sent - 11_400)));
    for acknowledged in [11_400, 20_000, 30_000, sent as u32] {
        scene.turn(&mut journal);
        scene.acknowledge(acknowledged);
    }
    scene.turn(&mut journal);
    assert!(held(101) == (1 + sent as u64, Vec::new()), "{} bytes are held", held(101).1.len());
    assert_eq!(journal.without_room(), (0, 0));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_next_gateway_goes_on_and_leaves_as_much_itself() {
    let path = path("next");
    let mut first = journal(&path, 100);
    first.put_in_place().unwrap();
    let mut scene = Scene::new();
    scene.data(received(&first, &stream(0, 30_000), 65_536));
    scene.turn(&mut first);
    forget(first);
    for crash in 1..4 {
        let inherited = left(&path, 100 + crash);
        assert!(inherited[0].held[1].bytes() == stream(0, 30_000), "crash {crash}");
        // Another crash, before it has taken its predecessor's place.
        let mut next = journal(&path, 100 + crash);
        forget(std::mem::replace(&mut scene.gateway, Gateway::new(GatewayConfig::default())));
        scene.gateway.adopt(scene.now, &inherited[0]);
        assert!(left(&path, 100 + crash) == inherited);
        scene.gateway.save(&mut next);
        next.put_in_place().unwrap();
        forget(next);
    }
    std::fs::remove_file(path).unwrap();
}

/// The next one copies what is held while the first one goes on: at the end it has to copy only what came since, and holds that without
/// another copy.
#[test]
fn what_is_copied_ahead_is_not_copied_again() {
    let path = path("ahead");
    let mut first = journal(&path, 100);
    first.put_in_place().unwrap();
    let mut scene = Scene::new();
    let mut sent = 0;
    let mut more = |scene: &mut Scene, journal: &mut Journal, len: usize| {
        scene.data(received(journal, &stream(sent, len), 16_384));
        scene.turn(journal);
        sent += len;
    };
    more(&mut scene, &mut first, 10_000);
    more(&mut scene, &mut first, 5_000);
    let now = Time::from_secs(101);
    let mut next = journal(&path, 101);
    let buffers = next.buffers();
    let mut former = Former::open(&path).unwrap();
    assert_eq!(former.copy_ahead(now, Some(&buffers), &Alive::default()), 15_000);
    assert_eq!(former.copy_ahead(now, Some(&buffers), &Alive::default()), 0);
    more(&mut scene, &mut first, 7_000);
    scene.acknowledge(10_000);
    scene.turn(&mut first);
    assert_eq!(former.copy_ahead(now, Some(&buffers), &Alive::default()), 7_000);
    more(&mut scene, &mut first, 5_000);
    let inherited = former.left(now, Some(&buffers), &Alive::default());
    assert_eq!((inherited[0].held[1].start, inherited[0].held[1].bytes()), (10_001, stream(10_000, 17_000)));
    let in_file = inherited[0].held[1].pieces.iter().all(|piece| piece.label().is_some());
    assert!(in_file, "they lie in the next one's file already");
    forget(std::mem::replace(&mut scene.gateway, Gateway::new(GatewayConfig::default())));
    scene.gateway.adopt(scene.now, &inherited[0]);
    scene.gateway.save(&mut next);
    assert!(next.copies.is_empty(), "and are not copied within it");
    next.put_in_place().unwrap();
    assert!(left(&path, 102)[0].held == inherited[0].held);
    std::fs::remove_file(path).unwrap();
}

/// A file system of its own, of this many KiB, if that can be had here: as root, or where users may make namespaces.
fn small_file_system(name: &str, kib: u64) -> Option<PathBuf> {
    let place = std::env::temp_dir().join(format!("shorthaul-small-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"])
        .arg(&place)
        .status();
    match mounted {
        Ok(status) if status.success() => Some(place),
        _ => {
            println!("not tried: no file system can be mounted here");
            std::fs::remove_dir(&place).unwrap();
            None
        }
    }
}

/// Where the run directory is full, the gateway serves on, counts what a crash would lose, and a crash loses it with an answer.
#[test]
fn a_full_run_directory_is_counted_and_what_a_crash_loses_is_known() {
    let Some(place) = small_file_system("full", 4 << 10) else { return };
    let path = place.join("gw.custody");
    let mut journal = journal(&path, 100);
    journal.put_in_place().unwrap();
    let mut scene = Scene::new();
    scene.turn(&mut journal);
    std::fs::write(place.join("other"), vec![1; 4 << 20]).unwrap_err();
    scene.data(Payload::copy_of(&stream(0, 10_000)));
    scene.turn(&mut journal);
    assert_eq!(journal.without_room(), (10_000, 0));
    scene.acknowledge(0);
    scene.turn(&mut journal);
    assert_eq!(journal.without_room(), (10_000, 0), "they were told again, and count once");
    let inherited = left(&path, 101);
    assert_eq!(
        (inherited[0].held[1].start, inherited[0].record.held(1)),
        (10_001, 1..10_001),
        "they are missed"
    );
    // There is room again: what comes now is kept, and a second later room is asked for again.
    std::fs::remove_file(place.join("other")).unwrap();
    journal.note_alive(Time::from_secs(102));
    scene.data(Payload::copy_of(&stream(10_000, 500)));
    scene.turn(&mut journal);
    assert_eq!(journal.without_room(), (10_000, 0));
    assert_eq!(left(&path, 103)[0].held[1].bytes(), stream(0, 10_500), "what had none has room as well");
    assert_eq!(scene.gateway.unkept().count(), 0);
    drop(journal);
    // From the start, it says so.
    std::fs::write(place.join("other"), vec![1; 4 << 20]).unwrap_err();
    let error =
        Journal::create(&place.join("next.custody"), 4, MEMORY, Time::ZERO).err().unwrap().to_string();
    assert!(error.contains("custody = false") && error.contains("--run-dir"), "{error}");
    assert!(!place.join("next.custody.new").exists());
    // Its mappings are the process's for good.
    let unmounted = std::process::Command::new("umount").arg("-l").arg(&place).status().unwrap();
    assert!(unmounted.success());
    std::fs::remove_dir(place).unwrap();
}

/// There is room for how flows stand before they are split, or they are not.
#[test]
fn records_have_room_before_they_are_needed() {
    let Some(place) = small_file_system("records", 6 << 10) else { return };
    let path = place.join("gw.custody");
    let mut journal = Journal::create(&path, 65_536, MEMORY, Time::from_secs(100)).unwrap();
    // Of usual records, and one is always free.
    let in_extents = |extents: usize| (((extents << 20) - CELLS) / CELL) as u32 - 1;
    assert_eq!(journal.make_room(0), in_extents(1));
    std::fs::write(place.join("other"), vec![1; 6 << 20]).unwrap_err();
    assert_eq!(journal.make_room(10_000), in_extents(1), "there is no more");
    std::fs::remove_file(place.join("other")).unwrap();
    assert_eq!(journal.make_room(10_000), in_extents(1), "it is not asked for all the time");
    journal.note_alive(Time::from_secs(102));
    assert_eq!(journal.make_room(10_000), in_extents(2));
    assert!(journal.make_room(65_000) < 65_000);
    let unmounted = std::process::Command::new("umount").arg("-l").arg(&place).status().unwrap();
    assert!(unmounted.success());
    std::fs::remove_dir(place).unwrap();
}

/// Nobody knows of a new flow whether its record will be a long one.
#[test]
fn where_long_records_have_no_room_there_is_none_for_new_flows() {
    let Some(place) = small_file_system("long", 2 << 10) else { return };
    let path = place.join("gw.custody");
    let mut journal = Journal::create(&path, 65_536, MEMORY, Time::from_secs(100)).unwrap();
    assert_eq!(journal.make_room(0), 0);
    let unmounted = std::process::Command::new("umount").arg("-l").arg(&place).status().unwrap();
    assert!(unmounted.success());
    std::fs::remove_dir(place).unwrap();
}

#[test]
fn a_flow_of_ipv6_is_left_as_well() {
    let path = path("ipv6");
    let mut journal = journal(&path, 100);
    journal.put_in_place().unwrap();
    let mut scene = Scene::between(["2001:db8::1".parse().unwrap(), "2001:db8:ffff::2".parse().unwrap()]);
    let mut sent = 0;
    for len in [0, 5_000, 60_000] {
        if len > 0 {
            scene.data(Payload::copy_of(&stream(sent, len)));
        }
        scene.turn(&mut journal);
        sent += len;
        let left = left(&path, 101);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].record.flow().src, scene.ends[0].into());
        assert!(left[0].held[1].bytes() == stream(0, sent), "{sent} bytes");
    }
    std::fs::remove_file(path).unwrap();
}

/// A record is replaced by the next one in steps, and the process may end between any two.
#[test]
fn whoever_is_killed_while_a_record_is_written_leaves_one_that_holds() {
    use std::os::unix::fs::FileExt as _;
    let path = path("killed");
    let mut journal = journal(&path, 100);
    journal.put_in_place().unwrap();
    let mut scene = Scene::new();
    scene.turn(&mut journal);
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let cells = || {
        let mut cells = [[0; CELL]; 2];
        for (number, cell) in cells.iter_mut().enumerate() {
            file.read_exact_at(cell, (CELLS + number * CELL) as u64).unwrap();
        }
        cells
    };
    let [before, _] = cells();
    scene.data(Payload::copy_of(&stream(0, 100)));
    scene.turn(&mut journal);
    forget(journal);
    let [over, after] = cells();
    assert_eq!((over[0], &over[1..]), (0, &before[1..]));
    let held = |cells: [&[u8; CELL]; 2]| {
        for (number, cell) in cells.into_iter().enumerate() {
            file.write_all_at(cell, (CELLS + number * CELL) as u64).unwrap();
        }
        let left = left(&path, 101);
        assert_eq!(left.len(), 1);
        left[0].held[1].len()
    };
    for written in 1..=CELL {
        let mut torn = [0; CELL];
        torn[1..written].copy_from_slice(&after[1..written]);
        assert_eq!(held([&before, &torn]), 0, "{written} bytes");
    }
    assert!([0, 100].contains(&held([&before, &after])));
    assert_eq!(held([&over, &after]), 100);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_another_version_has_left_is_known_as_that() {
    use std::os::unix::fs::FileExt as _;
    let path = path("version");
    let mut journal = journal(&path, 100);
    journal.put_in_place().unwrap();
    Scene::new().turn(&mut journal);
    forget(journal);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    for (magic, is_another, flows) in
        [(b"shorthaul 6", false, 1), (b"shorthaul 5", true, 0), (b"Xhorthaul 6", false, 0)]
    {
        file.write_all_at(magic, 0).unwrap();
        assert_eq!(Former::open(&path).unwrap().is_of_another_version(), is_another);
        assert_eq!(left(&path, 101).len(), flows);
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_is_old_or_of_another_boot_or_torn_is_not_believed() {
    let path = path("old");
    let mut journal = journal(&path, 100);
    journal.put_in_place().unwrap();
    let mut scene = Scene::new();
    scene.turn(&mut journal);
    assert_eq!(left(&path, 100 + 14 * 60).len(), 1);
    assert_eq!(left(&path, 100 + 16 * 60), [], "by now, its ports may be another's");
    journal.note_alive(Time::from_secs(3_000));
    assert_eq!(left(&path, 3_000 + 14 * 60).len(), 1, "a flow may hold the same bytes for hours");
    scene.data(Payload::copy_of(&stream(0, 100)));
    scene.turn(&mut journal);
    forget(journal);
    let whole = std::fs::read(&path).unwrap();
    for at in [0, 20] {
        let mut other = whole.clone();
        other[at] ^= 0x40;
        std::fs::write(&path, &other).unwrap();
        assert_eq!(left(&path, 3_001), [], "byte {at}");
    }
    let mut torn = whole.clone();
    torn[CELLS + CELL + 50] ^= 0x40;
    std::fs::write(&path, &torn).unwrap();
    assert_eq!(left(&path, 3_001), []);
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(left(&path, 3_001)[0].held[1].len(), 100);
    for len in [0, 1, 63, 64, 200, 1 << 20] {
        std::fs::write(&path, &whole[..len]).unwrap();
        assert_eq!(left(&path, 3_001), [], "{len} bytes of it");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_others_can_write_is_not_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let path = path("foreign");
    journal(&path, 100).put_in_place().unwrap();
    let nobody = 65_534;
    std::os::unix::fs::chown(&path, Some(nobody), None).unwrap_or_default();
    if std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&path).unwrap()) == nobody {
        let error = Former::open(&path).err().unwrap().to_string();
        assert!(error.contains("remove it"), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
    let target = path.with_extension("target");
    std::fs::write(&target, "").unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(Former::open(&path).is_err(), "a link is not followed");
    std::fs::remove_file(path).unwrap();
    std::fs::remove_file(target).unwrap();
}

#[test]
fn the_file_of_a_gateway_that_never_begins_goes_with_it() {
    let path = path("refused");
    let new = beside(&path);
    let refused = journal(&path, 100);
    assert!(new.exists());
    drop(refused);
    assert!(!new.exists());
    let mut begun = journal(&path, 100);
    begun.put_in_place().unwrap();
    drop(begun);
    assert!(path.exists(), "what a crash leaves stays");
    std::fs::remove_file(path).unwrap();
}
