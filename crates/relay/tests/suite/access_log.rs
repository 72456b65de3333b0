//! What a node writes of its sessions: a line for each, and how long buffers were empty and full.
use crate::place::{Place, read_all};
use shorthaul_relay::Protection;
use shorthaul_relay::request::SetUp;
use socket2::SockRef;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

/// A session up, whose application gives `bytes` in pieces, a pause behind each, to a target that reads in the same way; what the node says of the
/// buffer of that direction, in the access log and in its metrics.
fn carried(
    protection: Protection,
    moves: bool,
    bytes: usize,
    gives: (usize, Duration),
    reads: (usize, Duration),
) -> [f64; 3] {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access");
    let place = Place::with(1, protection, |config| config.access_log = Some(file.clone()));
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let near = match moves {
        true => place.forward(target, SetUp::Parallel),
        false => place.ask(&format!("CONNECT {target} HTTP/1.1\r\n\r\n")),
    };
    let (far, _) = server.accept().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut left = bytes;
            while left > 0 {
                let piece = gives.0.min(left);
                (&near).write_all(&vec![7; piece]).unwrap();
                left -= piece;
                thread::sleep(gives.1);
            }
            near.shutdown(Shutdown::Write).unwrap();
        });
        let mut room = vec![0; reads.0];
        while (&far).read(&mut room).unwrap() > 0 {
            thread::sleep(reads.1);
        }
    });
    drop(far);
    read_all(&near).unwrap();
    let since = Instant::now();
    let text = loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if text.ends_with('\n') {
            break text;
        }
        assert!(since.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
    };
    let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
    let of = |name: &str| entry["buffers"]["up"][name].as_f64().unwrap_or_else(|| panic!("{name}: {entry}"));
    let sums = place.nodes[0].snapshot().buffers_up;
    assert!((sums.drought_seconds - of("drought")).abs() < 1e-5, "{sums:?} {entry}");
    assert!((sums.overflow_seconds - of("overflow")).abs() < 1e-5, "{sums:?} {entry}");
    assert!(of("longest_drought") <= of("drought") && of("longest_overflow") <= of("overflow"), "{entry}");
    [of("watched"), of("drought"), of("overflow")]
}

#[test]
fn a_slow_reader_fills_the_buffer_and_a_slow_source_leaves_it_empty() {
    let (at_once, slow) = ((1 << 20, Duration::ZERO), (20_000, Duration::from_millis(2)));
    // The last of them is TLS from the client to the node, and frames within it; the first is moved within the kernel.
    for (protection, moves) in
        [(Protection::Plain, false), (Protection::Plain, true), (Protection::Tls, true)]
    {
        println!("{protection:?}, moves: {moves}");
        // 10 MB/s at most are read of what comes as fast as it can.
        let [watched, drought, overflow] = carried(protection, moves, 12_000_000, at_once, slow);
        assert!(watched > 0.5, "{watched} s");
        assert!(drought < 0.2 * watched, "{drought} of {watched} s");
        // What holds the source of a session back that can move is the session's window, at the client.
        assert!(moves || overflow > 0.4 * watched, "{overflow} of {watched} s");
        // 10 MB/s at most are given.
        let [watched, drought, overflow] = carried(protection, moves, 6_000_000, slow, at_once);
        assert!(watched > 0.5, "{watched} s");
        assert!(drought > 0.6 * watched && overflow < 0.1 * watched, "{drought} {overflow} of {watched} s");
    }
}

/// Waits until there are so many lines in an access log.
fn lines(file: &std::path::Path, count: usize) -> Vec<serde_json::Value> {
    let since = Instant::now();
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text.lines().count() >= count && text.ends_with('\n') {
            return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{text}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_is_open_when_a_node_stops_is_in_its_access_log() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access");
    let place = Place::with(1, Protection::Plain, |config| {
        (config.access_log, config.drain) = (Some(file.clone()), Duration::ZERO);
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    // One that can move, and one that cannot.
    let ends =
        [place.forward(target, SetUp::Parallel), place.ask(&format!("CONNECT {target} HTTP/1.1\r\n\r\n"))];
    let fars = [0; 2].map(|_| server.accept().unwrap().0);
    fars.iter().for_each(|mut far| far.write_all(&[7; 1000]).unwrap());
    ends.iter().for_each(|mut end| end.read_exact(&mut [0; 1000]).unwrap());
    place.nodes[0].stop();
    for line in lines(&file, 2) {
        assert_eq!((&line["ended"], &line["bytes_down"]), (&"stopped".into(), &1000.into()), "{line}");
    }
}

#[test]
fn every_session_has_a_line_in_the_access_log() {
    let file = std::env::temp_dir().join(format!("shorthaul-access-{}", std::process::id()));
    let moved = file.with_extension("1");
    let place = Place::with(1, Protection::Plain, |config| config.access_log = Some(file.clone()));
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let head = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
    let near = place.ask(&head);
    let client = near.local_addr().unwrap().to_string();
    let (mut far, _) = server.accept().unwrap();
    (&near).write_all(&[7; 1000]).unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&far).unwrap().len(), 1000);
    far.write_all(&[8; 10]).unwrap();
    drop(far);
    assert_eq!(read_all(&near).unwrap().len(), 10);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(place.say(&format!("CONNECT {closed} HTTP/1.1\r\n\r\n")).contains("connection_refused"));
    let written = lines(&file, 2);
    let first = &written[0];
    assert_eq!((&first["ended"], &first["client"]), (&"finished".into(), &client.into()), "{first}");
    assert_eq!((&first["bytes_up"], &first["bytes_down"]), (&1000.into(), &10.into()), "{first}");
    assert_eq!((&first["account"], &first["target"]), (&"neighbours".into(), &target.to_string().into()));
    let (set_up, seconds) = (first["set_up_seconds"].as_f64().unwrap(), first["seconds"].as_f64().unwrap());
    assert!(set_up > 0.0 && set_up <= seconds && seconds < 60.0, "{first}");
    let second = &written[1];
    assert_eq!((&second["ended"], &second["error"]), (&"refused".into(), &"connection_refused".into()));
    // Once it is moved away, another is begun.
    std::fs::rename(&file, &moved).unwrap();
    place.nodes[0].reload().unwrap();
    let near = place.ask(&head);
    let (far, _) = server.accept().unwrap();
    SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
    drop(far);
    assert!(read_all(&near).is_err());
    assert_eq!(lines(&file, 1)[0]["ended"], "broken");
    assert_eq!(lines(&moved, 2).len(), 2);
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(&moved).unwrap();
}
