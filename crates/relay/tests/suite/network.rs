//! Nodes, chains of nodes and clients between sockets of this host: what is passed on, what is refused,
//! and who is told.
use crate::place::{Place, read_all, secret, signed};
use shorthaul_relay::request::{Request, SetUp};
use shorthaul_relay::{
    Credentials, Failure, Limits, NodeConfig, Protection, ProxyVersion, Route, Settings, User,
};
use shorthaul_types::{BitRate, Bytes};
use socket2::SockRef;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Every protection, set-up and number of nodes.
fn chains() -> Vec<(Place, SetUp)> {
    let mut chains = Vec::new();
    for protection in [Protection::Plain, Protection::Tls] {
        for set_up in [SetUp::Parallel, SetUp::Sequential] {
            for nodes in 1..=3 {
                chains.push((Place::new(nodes, protection), set_up));
            }
        }
    }
    chains
}

#[test]
fn both_directions_arrive_whole_by_any_chain_and_each_closes_by_itself() {
    for (place, set_up) in chains() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let (there, back) = (pattern(3_000_000), pattern(1_000_001));
        let mut near = place.forward(server.local_addr().unwrap(), set_up);
        thread::scope(|scope| {
            let sending = near.try_clone().unwrap();
            let there = &there;
            scope.spawn(move || {
                (&sending).write_all(there).unwrap();
                sending.shutdown(Shutdown::Write).unwrap();
            });
            let (mut far, _) = server.accept().unwrap();
            assert!(read_all(&far).unwrap() == *there, "{place:?} {set_up:?}");
            let back = &back;
            scope.spawn(move || {
                far.write_all(back).unwrap();
                far.shutdown(Shutdown::Write).unwrap();
            });
            let mut heard = Vec::new();
            near.read_to_end(&mut heard).unwrap();
            assert!(heard == *back, "{place:?} {set_up:?}");
        });
    }
}

#[test]
fn a_reset_goes_through_any_chain_in_both_directions() {
    for (place, set_up) in chains() {
        for near_breaks in [true, false] {
            let server = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut near = place.forward(server.local_addr().unwrap(), set_up);
            near.write_all(b"x").unwrap();
            let (mut far, _) = server.accept().unwrap();
            far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            far.read_exact(&mut [0]).unwrap();
            let (breaks, other) = if near_breaks { (near, far) } else { (far, near) };
            SockRef::from(&breaks).set_linger(Some(Duration::ZERO)).unwrap();
            drop(breaks);
            let error = read_all(&other).expect_err("it must not look like an end");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{place:?} {near_breaks}");
        }
    }
}

#[test]
fn a_reset_after_a_half_close_is_still_a_reset() {
    for protection in [Protection::Plain, Protection::Tls] {
        let place = Place::new(2, protection);
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = place.forward(server.local_addr().unwrap(), SetUp::Parallel);
        near.shutdown(Shutdown::Write).unwrap();
        let (far, _) = server.accept().unwrap();
        assert_eq!(read_all(&far).unwrap(), b"");
        // The client is gone, and only the other direction is open, with nothing on it.
        SockRef::from(&near).set_linger(Some(Duration::ZERO)).unwrap();
        drop(near);
        let mut far = far;
        let broken = loop {
            match far.write_all(b"x") {
                Ok(()) => thread::sleep(Duration::from_millis(5)),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(broken.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe),
            "{broken}"
        );
    }
}

#[test]
fn the_hop_that_fails_is_named() {
    for protection in [Protection::Plain, Protection::Tls] {
        let place = Place::new(3, protection);
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        // The target refuses the last node.
        let error = place.open(closed).unwrap_err();
        let (_, refusal) = &error.attempts[0];
        assert_eq!(refusal.failure, Failure::ConnectionRefused, "{error}");
        assert_eq!(refusal.hop.node, "node3");
        assert_eq!(refusal.hop.next_hop, Some(closed.to_string()));
        assert_eq!(error.attempts.len(), 1, "no other way would do better: {error}");
        // There is no second node.
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut hops = place.hops();
        hops[1] = gone.into();
        let error = place.open_by(Route::via(hops), closed).unwrap_err();
        let (_, refusal) = &error.attempts[0];
        assert_eq!(
            (refusal.hop.node.as_str(), refusal.failure),
            ("node1", Failure::ConnectionRefused),
            "{error}"
        );
        assert_eq!(refusal.hop.next_hop, Some(gone.to_string()));
    }
}

#[test]
fn every_node_says_what_it_has_for_the_session() {
    let place = Place::new(3, Protection::Tls);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let session = place.open(server.local_addr().unwrap()).unwrap();
    let names: Vec<&str> = session.hops.iter().map(|hop| hop.node.as_str()).collect();
    assert_eq!(names, ["node3", "node2", "node1"]);
    for hop in &session.hops {
        assert!(hop.service_time.is_some() && hop.connect_time.is_some(), "{hop}");
        assert!(hop.buffer.is_some_and(|buffer| buffer > Bytes(0) && buffer <= Bytes(128 << 10)), "{hop}");
    }
}

#[test]
fn nodes_are_told_in_parallel() {
    let place = Place::new(3, Protection::Tls);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    thread::spawn(move || {
        let mut open: Vec<TcpStream> = Vec::new();
        loop {
            open.push(server.accept().unwrap().0);
        }
    });
    // Which of the two is first, the session or its announcement, is chance: in one of some, it is the latter.
    let prepared = || place.nodes.iter().map(|node| node.snapshot().sessions_prepared).sum::<u64>();
    let since = Instant::now();
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    while prepared() == 0 {
        assert!(since.elapsed() < Duration::from_secs(60), "nothing was ever prepared");
        drop(place.open(target.local_addr().unwrap()).unwrap());
    }
}

#[test]
fn another_way_is_taken_when_one_fails() {
    let place = Place::new(1, Protection::Plain);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let session = place.open_or_direct(Route::via(vec![gone.into()]), server.local_addr().unwrap()).unwrap();
    assert!(session.route.is_direct());
}

#[test]
fn nothing_is_relayed_for_nobody() {
    let place = Place::with(1, Protection::Plain, |config| config.more.allow.clear());
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let request = |headers: &str| place.say(&format!("CONNECT {target} HTTP/1.1\r\n{headers}\r\n"));
    assert!(request("").starts_with("HTTP/1.1 407"), "{}", request(""));
    for wrong in [
        "Proxy-Authorization: Bearer 0123456789abcdef\r\n", // good, but for everybody on the way to read
        "Proxy-Authorization: Bearer wrong\r\n",
        "Proxy-Authorization: Basic YWxpY2U6d3Jvbmc=\r\n",
        "Proxy-Authorization: Shorthaul user=, time=1, nonce=00000000000000000000000000000001, \
         mac=0000000000000000000000000000000000000000000000000000000000000000\r\n",
    ] {
        let answer = request(wrong);
        assert!(answer.starts_with("HTTP/1.1 403"), "{wrong}: {answer}");
        assert!(answer.contains("error=http_request_denied"), "{answer}");
    }
    server.set_nonblocking(true).unwrap();
    assert_eq!(server.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "something was relayed");
}

#[test]
fn a_signed_request_is_good_once_for_one_node_as_it_is() {
    let place = Place::with(2, Protection::Plain, |config| config.more.allow.clear());
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let head = signed(&Request::connect(target.into()), place.addresses[0]);
    let other = head.replace(&target.to_string(), "127.0.0.1:1");
    assert!(place.say(&other).contains("the signature is wrong"), "{}", place.say(&other));
    let added = head.replace("Host:", "Shorthaul-Buffer: 4096\r\nHost:");
    assert!(place.say(&added).contains("the signature is wrong"));
    assert!(place.say_to(1, &head).contains("was signed for"), "{}", place.say_to(1, &head));
    assert!(place.say(&head).starts_with("HTTP/1.1 200"), "{head}");
    assert!(place.say(&head).contains("was made before"), "{}", place.say(&head));
}

#[test]
fn tokens_open_sessions_over_tls() {
    let place = Place::with(1, Protection::Tls, |config| {
        let user = User { token: "0123456789abcdef".into(), sessions: Some(1), rate: None, volume: None };
        config.more.users.insert("alice".into(), user);
        config.more.allow.clear();
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let token = |token: &str| Credentials::Token { user: "alice".into(), token: token.into() };
    let session = place.open_as(token("0123456789abcdef"), target).unwrap();
    let error = place.open_as(token("0123456789abcdeX"), target).unwrap_err();
    assert_eq!(error.failure(), Failure::RequestDenied, "{error}");
    let error = place.open_as(token("0123456789abcdef"), target).unwrap_err();
    assert_eq!(error.failure(), Failure::ConnectionLimit, "one session at once: {error}");
    drop(session);
    place.until("the session has ended", |snapshot| snapshot.sessions == 0);
    place.open_as(token("0123456789abcdef"), target).unwrap();
    assert_eq!(place.nodes[0].snapshot().users["alice"].sessions_opened, 2);
}

#[test]
fn destinations_are_judged_by_the_address_that_is_connected_to() {
    let place = Place::with(1, Protection::Plain, |config| config.more.allow_destinations.clear());
    // `localhost` is a name with a loopback address, as any name can have when it is asked for again.
    for target in [
        "127.0.0.1:80",
        "localhost:80",
        "[::1]:80",
        "[::ffff:127.0.0.1]:80",
        "169.254.169.254:80",
        "10.0.0.1:80",
        "0.0.0.0:80",
    ] {
        let answer = place.say(&format!("CONNECT {target} HTTP/1.1\r\n\r\n"));
        assert!(
            answer.starts_with("HTTP/1.1 403") && answer.contains("destination_ip_prohibited"),
            "{target}: {answer}"
        );
    }
    // A next node is a destination too.
    let answer = place.say("CONNECT example.org:80 HTTP/1.1\r\nShorthaul-Via: localhost:22\r\n\r\n");
    assert!(answer.contains("destination_ip_prohibited"), "{answer}");
}

#[test]
fn a_node_is_never_open_to_everybody() {
    let public = NodeConfig { listen: vec!["0.0.0.0:0".parse().unwrap()], ..NodeConfig::default() };
    let error = shorthaul_relay::Node::bind(public.clone()).map(drop).unwrap_err().to_string();
    assert!(error.contains("--secret") && error.contains("127.0.0.1"), "{error}");
    let named = NodeConfig {
        more: Settings { allow: vec!["10.0.0.0/8".parse().unwrap()], ..Settings::default() },
        threads: Some(1),
        ..public
    };
    shorthaul_relay::Node::bind(named).map(drop).unwrap();
}

#[test]
fn slow_and_endless_requests_are_bounded() {
    let place = Place::with(1, Protection::Plain, |config| {
        config.request_deadline = Duration::from_millis(300);
        config.silence = Duration::from_millis(300);
    });
    // One byte after another, for ever.
    let slow = place.connect(0);
    let since = Instant::now();
    let mut sent = 0;
    while (&slow).write_all(b"C").is_ok() {
        sent += 1;
        assert!(since.elapsed() < Duration::from_secs(20), "{sent} bytes were waited for");
        thread::sleep(Duration::from_millis(20));
    }
    // Nothing at all.
    let silent = place.connect(0);
    assert!(read_all(&silent).map_or(true, |bytes| bytes.is_empty()));
    // More than anybody needs.
    let bomb = format!("CONNECT a:1 HTTP/1.1\r\n{}", "X-Header: value\r\n".repeat(1000));
    let answer = place.say(&bomb);
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("longer than"), "{answer}");
    place.until("both were given up", |snapshot| snapshot.connections_abandoned == 2);
    assert_eq!(place.nodes[0].snapshot().sessions, 0);
}

#[test]
fn a_peer_that_never_reads_stops_the_sender_and_harms_nobody() {
    for protection in [Protection::Plain, Protection::Tls] {
        let place = Place::new(2, protection);
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let stuck = place.forward(server.local_addr().unwrap(), SetUp::Parallel);
        let (_far, _) = server.accept().unwrap();
        stuck.set_nonblocking(true).unwrap();
        let mut taken = 0usize;
        let mut full_since = Instant::now();
        while full_since.elapsed() < Duration::from_millis(500) {
            match (&stuck).write(&[0; 65536]) {
                Ok(more) => {
                    taken += more;
                    full_since = Instant::now();
                }
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
            assert!(taken < 256 << 20, "more than any buffer is taken");
        }
        // Others go on.
        let mut near = place.forward(server.local_addr().unwrap(), SetUp::Parallel);
        let (mut far, _) = server.accept().unwrap();
        near.write_all(b"ping").unwrap();
        let mut heard = [0; 4];
        far.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"ping");
    }
}

#[test]
fn a_user_has_no_more_than_its_rate_and_volume() {
    let limits = Limits {
        rate: Some(BitRate::from_bits_per_sec(80_000_000)),
        volume: Some(Bytes(4_000_000)),
        sessions: None,
    };
    let place = Place::with(1, Protection::Plain, |config| config.more.others = limits);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = place.forward(server.local_addr().unwrap(), SetUp::Parallel);
    let (far, _) = server.accept().unwrap();
    let since = Instant::now();
    // Until it is told; what buffers take before that is their business.
    let writing = thread::spawn(move || while (&near).write_all(&[0; 65_536]).is_ok() {});
    let mut heard = Vec::new();
    let error = (&far).read_to_end(&mut heard).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert!(heard.len() <= 4_000_000, "{}", heard.len());
    // 3 MB at 10 MB/s at least, less the burst: a lower bound, that load can only lengthen.
    assert!(since.elapsed() > Duration::from_millis(200), "{:?}", since.elapsed());
    writing.join().unwrap();
    let error = place.open(server.local_addr().unwrap()).unwrap_err();
    assert_eq!(error.failure(), Failure::ConnectionLimit, "{error}");
}

#[test]
fn the_clients_address_goes_along() {
    let place = Place::new(2, Protection::Tls);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let request = Request { send_proxy: Some(ProxyVersion::V1), ..Request::connect(target.into()) };
    let plain = Place::new(1, Protection::Plain);
    let near = plain.ask(&signed(&request, plain.addresses[0]));
    let (far, _) = server.accept().unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    let heard = String::from_utf8(read_all(&far).unwrap()).unwrap();
    assert!(
        heard.starts_with(&format!("PROXY TCP4 127.0.0.1 127.0.0.1 {}", near.local_addr().unwrap().port())),
        "{heard}"
    );
    drop(place);
}

#[test]
fn an_address_that_speaks_for_others_is_believed() {
    let place = Place::with(1, Protection::Plain, |config| {
        config.more.proxies.push("127.0.0.0/8".parse().unwrap());
        config.more.allow = vec!["192.0.2.0/24".parse().unwrap()];
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let request = |source: &str| {
        format!(
            "PROXY TCP4 {source} 127.0.0.1 5 6\r\nCONNECT {} HTTP/1.1\r\n\r\n",
            server.local_addr().unwrap()
        )
    };
    assert!(place.say(&request("192.0.2.9")).starts_with("HTTP/1.1 200"));
    assert!(place.say(&request("198.51.100.9")).starts_with("HTTP/1.1 407"));
}

#[test]
fn early_data_arrives_before_the_answer_is_awaited() {
    let place = Place::new(3, Protection::Plain);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let request =
        Request { via: place.hops()[1..].to_vec(), ..Request::connect(server.local_addr().unwrap().into()) };
    let near = place.ask_without_answer(&(signed(&request, place.addresses[0]) + "early"));
    let (mut far, _) = server.accept().unwrap();
    let mut heard = [0; 5];
    far.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"early");
    drop(near);
}

#[test]
fn what_a_client_of_a_forwarded_port_says_at_once_goes_right_behind_the_request() {
    // A node that answers nothing before it has heard it.
    let node = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut place = Place::new(0, Protection::Plain);
    place.addresses = vec![node.local_addr().unwrap()];
    let mut near = place.forward_saying("192.0.2.1:80".parse().unwrap(), SetUp::Parallel, "early");
    let (mut asked, _) = node.accept().unwrap();
    asked.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"\r\n\r\n\0\0\0\x0d\0\0\0\0\0\0\0\0\0early") {
        let mut byte = [0];
        asked.read_exact(&mut byte).unwrap();
        heard.extend(byte);
    }
    assert!(heard.starts_with(b"SESSION 192.0.2.1:80 "), "{}", String::from_utf8_lossy(&heard));
    asked.write_all(b"HTTP/1.1 200 OK\r\nProxy-Status: node;received=0\r\n\r\n").unwrap();
    // It is said once. There is more room than at the beginning; what is said later follows, then the end of it.
    near.write_all(b"later").unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    let expected = b"\0\0\0\x10\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\x40\0\0\
        \0\0\0\x0d\0\0\0\0\0\0\0\0\x05later\0\0\0\x08\x02\0\0\0\0\0\0\0\x0a";
    let mut heard = vec![0; expected.len()];
    asked.read_exact(&mut heard).unwrap();
    assert_eq!(heard, expected);
}

#[test]
fn what_breaks_while_it_is_being_answered_is_no_end() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    for protection in [Protection::Plain, Protection::Tls] {
        let place = Place::new(2, protection);
        // What is heard went before the answer. Which of it and the break comes first is chance.
        for round in 0..100 {
            let near = place.forward_saying(server.local_addr().unwrap(), SetUp::Parallel, "x");
            let (mut far, _) = server.accept().unwrap();
            far.read_exact(&mut [0]).unwrap();
            SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
            drop(far);
            let error = read_all(&near).expect_err("it must not look like an end");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{protection:?}, round {round}");
        }
    }
}

#[test]
fn settings_are_read_again_and_a_node_drains() {
    let file = std::env::temp_dir().join(format!("shorthaul-settings-{}", std::process::id()));
    std::fs::write(&file, "").unwrap();
    let place = Place::with(1, Protection::Plain, |config| {
        config.more.allow.clear();
        config.settings = Some(file.clone());
        config.drain = Duration::from_secs(20);
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let head = format!("CONNECT {} HTTP/1.1\r\n\r\n", server.local_addr().unwrap());
    assert!(place.say(&head).starts_with("HTTP/1.1 407"));
    std::fs::write(&file, "allow = [\"127.0.0.0/8\"]\n").unwrap();
    place.nodes[0].reload().unwrap();
    let mut near = place.ask(&head);
    let (mut far, _) = server.accept().unwrap();
    std::fs::write(&file, "allow = 7\n").unwrap();
    assert!(place.nodes[0].reload().unwrap_err().to_string().contains("allow"));
    std::fs::remove_file(&file).unwrap();
    // New sessions are refused, the one that is open goes on.
    place.nodes[0].stop();
    let refused =
        || TcpStream::connect(place.addresses[0]).is_err() || !place.say(&head).starts_with("HTTP/1.1 200");
    let since = Instant::now();
    while !refused() {
        assert!(since.elapsed() < Duration::from_secs(20), "it still takes sessions");
    }
    near.write_all(b"on").unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&far).unwrap(), b"on");
    far.write_all(b"and on").unwrap();
    drop(far);
    assert_eq!(read_all(&near).unwrap(), b"and on");
}

#[test]
fn overload_is_a_clear_refusal() {
    let place = Place::with(1, Protection::Plain, |config| config.most_sessions = 2);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let head = format!("CONNECT {} HTTP/1.1\r\n\r\n", server.local_addr().unwrap());
    let open = [place.ask(&head), place.ask(&head)];
    let answer = place.say(&head);
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("connection_limit_reached"), "{answer}");
    assert!(place.nodes[0].snapshot().overloaded);
    for socket in open {
        SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
    }
    place.until("there is room again", |snapshot| !snapshot.overloaded);
    assert!(place.say(&head).starts_with("HTTP/1.1 200"));
}

#[test]
fn metrics_say_what_happened() {
    let place =
        Place::with(1, Protection::Plain, |config| config.metrics = Some("127.0.0.1:0".parse().unwrap()));
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = place.ask(&format!("CONNECT {} HTTP/1.1\r\n\r\n", server.local_addr().unwrap()));
    let (far, _) = server.accept().unwrap();
    (&near).write_all(&[7; 1000]).unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&far).unwrap().len(), 1000);
    drop(far);
    assert_eq!(read_all(&near).unwrap(), b"");
    place.until("the session has ended", |snapshot| snapshot.sessions_finished == 1);
    let ask = |path: &str, headers: &str| {
        let socket = TcpStream::connect(place.metrics.unwrap()).unwrap();
        (&socket).write_all(format!("GET {path} HTTP/1.1\r\n{headers}\r\n").as_bytes()).unwrap();
        String::from_utf8(read_all(&socket).unwrap()).unwrap()
    };
    let get = |path: &str| ask(path, "Host: localhost\r\n");
    let metrics = ask("/metrics", "Host: 127.0.0.1:9\r\nAccept: application/openmetrics-text\r\n");
    for line in [
        "shorthaul_sessions 0\n",
        "shorthaul_sessions_ended_total{how=\"finished\"} 1\n",
        "shorthaul_bytes_total{direction=\"up\"} 1000\n",
        "shorthaul_user_bytes_total{user=\"neighbours\"} 1000\n",
        "shorthaul_user_sessions_opened_total{user=\"neighbours\"} 1\n",
        "# TYPE shorthaul_service_time_seconds gauge\n",
        "# TYPE shorthaul_sessions_ended counter\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
    assert!(metrics.contains("application/openmetrics-text") && metrics.ends_with("# EOF\n"), "{metrics}");
    // Who does not ask for that is told in the older format, and another site's name leads nowhere.
    let older = get("/metrics");
    assert!(
        older.contains("# TYPE shorthaul_sessions_ended_total counter\n") && !older.contains("# EOF"),
        "{older}"
    );
    assert!(ask("/metrics", "Host: evil.example\r\n").starts_with("HTTP/1.1 403"));
    assert!(get("/status.json").contains("\"bytes_up\": 1000"));
    assert!(get("/other").starts_with("HTTP/1.1 404"));
}

#[test]
fn nobody_without_the_secret_is_a_node() {
    let place = Place::new(1, Protection::Tls);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    // Another network's secret: its certificate is not believed, and neither is the node's.
    let error = place.open_as_member_of(&secret(9), server.local_addr().unwrap()).unwrap_err();
    assert_eq!(error.failure(), Failure::TlsCertificate, "{error}");
}

#[test]
fn service_time_is_measured_over_tls_too() {
    let place = Place::new(1, Protection::Tls);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = place.forward(server.local_addr().unwrap(), SetUp::Parallel);
    let (mut far, _) = server.accept().unwrap();
    // The first may go along with the request. Of what passes later, the first is timed; once the next one is there, that is over.
    for _ in 0..3 {
        near.write_all(b"x").unwrap();
        far.read_exact(&mut [0]).unwrap();
    }
    let snapshot = place.nodes[0].snapshot();
    assert!(snapshot.service_time_us > snapshot.waiting_time_us, "{snapshot:?}");
}
