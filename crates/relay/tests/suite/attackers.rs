//! What those can do who mean harm, or mean nothing: less than would hurt others.
use crate::place::{Place, read_all, secret};
use shorthaul_relay::{Credentials, Limits, NetworkSecret, NodeConfig, Protection, Settings, User};
use shorthaul_types::Bytes;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const TOKENS: [(&str, &str); 2] =
    [("alice", "YWxpY2U6MDEyMzQ1Njc4OWFiY2RlZg=="), ("bob", "Ym9iOmZlZGNiYTk4NzY1NDMyMTA=")];

/// Alice and Bob, whose tokens are taken over plain TCP from this host.
fn users(config: &mut NodeConfig) {
    for (name, token) in [("alice", "0123456789abcdef"), ("bob", "fedcba9876543210")] {
        let user = User { token: token.into(), sessions: None, rate: None, volume: None };
        config.more.users.insert(name.into(), user);
    }
}

fn head(target: SocketAddr, who: usize, more: &str) -> String {
    let (_, token) = TOKENS[who];
    format!("CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Basic {token}\r\n{more}\r\n")
}

/// A connection from another address of this host.
fn from(address: &str, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&format!("{address}:0").parse::<SocketAddr>().unwrap().into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

/// Whether nothing has come, and the connection is open.
fn is_open(mut socket: &TcpStream) -> bool {
    socket.set_nonblocking(true).unwrap();
    matches!(socket.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn nothing_is_stored_unless_that_is_allowed() {
    let place = Place::new(1, Protection::Plain);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let answer = place.say(&format!("CONNECT {target} HTTP/1.1\r\nShorthaul-Forward: store\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("--allow-store"), "{answer}");
}

#[test]
fn what_is_stored_has_bounds_for_each_and_comes_back() {
    let place = Place::with(1, Protection::Plain, |config| {
        users(config);
        config.stores = true;
        config.all_stored = Bytes(4 << 20);
        config.room_within = Duration::from_millis(100);
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let store = "Shorthaul-Forward: store\r\n";
    // More than a quarter of all is too much for one.
    for _ in 0..2 {
        let near = place.ask(&head(target, 0, store));
        drop(server.accept().unwrap());
        let mut sent = 0;
        let error = loop {
            match (&near).write(&[7; 65_536]) {
                Ok(more) => sent += more,
                Err(error) => break error,
            }
            assert!(sent < 64 << 20, "all of it is taken");
        };
        assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
    }
    // Of which others notice nothing.
    let mut near = place.ask(&head(target, 1, store));
    let (far, _) = server.accept().unwrap();
    near.write_all(&[8; 900_000]).unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&far).unwrap(), [8; 900_000]);
}

#[test]
fn who_has_used_up_the_room_is_not_read_until_there_is_more() {
    let place = Place::with(1, Protection::Plain, |config| {
        users(config);
        config.stores = true;
        config.all_stored = Bytes(4 << 20);
        config.room_within = Duration::from_secs(600);
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let store = |who| place.ask(&head(target, who, "Shorthaul-Forward: store\r\n"));
    let taken = || place.nodes[0].snapshot().users["alice"].bytes;
    // One session of hers has all that she may have, and would have more.
    let greedy = store(0);
    greedy.set_nonblocking(true).unwrap();
    place.until("her room is used up", |snapshot| {
        while (&greedy).write(&[7; 65_536]).is_ok() {}
        snapshot.users["alice"].bytes >= (1 << 20) - (64 << 10)
    });
    // Another waits: it breaks as little as the first one.
    let mut waits = store(0);
    let _far = server.accept().unwrap();
    let (far, _) = server.accept().unwrap();
    waits.write_all(&[8; 300_000]).unwrap();
    waits.shutdown(Shutdown::Write).unwrap();
    let before = taken();
    while (&greedy).write(&[7; 65_536]).is_ok() {}
    // Others have theirs meanwhile, which takes long enough for hers to be seen.
    let mut other = store(1);
    let (of_other, _) = server.accept().unwrap();
    other.write_all(&[9; 900_000]).unwrap();
    other.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&of_other).unwrap(), [9; 900_000]);
    assert!(taken() <= (1 << 20) && taken() - before <= 64 << 10, "{before}, then {}", taken());
    assert!(is_open(&greedy));
    // What she gives back is there for the one that waits.
    SockRef::from(&greedy).set_linger(Some(Duration::ZERO)).unwrap();
    drop(greedy);
    assert_eq!(read_all(&far).unwrap(), [8; 300_000]);
}

#[test]
fn what_is_stored_counts_when_it_is_taken() {
    let place = Place::with(1, Protection::Plain, |config| {
        config.stores = true;
        config.more.others = Limits { volume: Some(Bytes(100_000)), ..Limits::default() };
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let near = place.ask(&format!("CONNECT {target} HTTP/1.1\r\nShorthaul-Forward: store\r\n\r\n"));
    let (_far, _) = server.accept().unwrap();
    (&near).write_all(&[7; 50_000]).unwrap();
    // Nothing has gone on yet.
    place.until("it counts", |snapshot| snapshot.users["neighbours"].bytes == 50_000);
}

#[test]
fn connections_that_say_nothing_are_few_and_short() {
    let place = Place::with(1, Protection::Tls, |config| {
        config.more.allow.clear();
        config.strangers_at_once = 8;
        config.request_deadline = Duration::from_millis(1500);
        config.silence = Duration::from_secs(60);
    });
    let node = place.addresses[0];
    let began = Instant::now();
    let silent: Vec<TcpStream> = (0..50).map(|_| from("127.0.0.9", node)).collect();
    place.until("the others are sent away", |snapshot| snapshot.connections_of_strangers == 42);
    assert_eq!(silent.iter().filter(|socket| is_open(socket)).count(), 8);
    // A byte of TLS now and then is no way to stay: one deadline is over all.
    let mut slow = from("127.0.0.8", node);
    let mut byte = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".iter().cycle();
    while slow.write_all(&[*byte.next().unwrap()]).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(30), "it may stay for ever");
        thread::sleep(Duration::from_millis(50));
    }
    place.until("all are given up", |snapshot| snapshot.connections_abandoned == 9);
    // Who has a certificate comes in meanwhile, and after.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    place.open(server.local_addr().unwrap()).unwrap();
}

#[test]
fn when_too_many_wait_the_oldest_goes() {
    let place = Place::with(1, Protection::Plain, |config| {
        users(config);
        config.more.allow = vec!["127.0.0.1/32".parse().unwrap()];
        config.all_strangers = 4;
    });
    let silent: Vec<TcpStream> =
        (10..30).map(|host| from(&format!("127.0.0.{host}"), place.addresses[0])).collect();
    place.until("the oldest are sent away", |snapshot| snapshot.connections_abandoned == 16);
    let open: Vec<bool> = silent.iter().map(is_open).collect();
    assert_eq!(open.iter().filter(|open| **open).count(), 4, "{open:?}");
}

#[test]
fn behind_a_proxy_each_pays_for_itself() {
    let place = Place::with(1, Protection::Plain, |config| {
        config.more.proxies.push("127.0.0.0/8".parse().unwrap());
        config.more.allow = vec!["192.0.2.0/24".parse().unwrap()];
        config.strangers_per_second = 10;
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let request =
        |source: &str| format!("PROXY TCP4 {source} 127.0.0.1 5 6\r\nCONNECT {target} HTTP/1.1\r\n\r\n");
    for _ in 0..100 {
        let _ = place.say(&request("198.51.100.9"));
    }
    assert!(place.nodes[0].snapshot().connections_of_strangers > 50, "{:?}", place.nodes[0].snapshot());
    assert!(place.say(&request("192.0.2.9")).starts_with("HTTP/1.1 200"));
    assert!(place.say(&request("198.51.100.10")).starts_with("HTTP/1.1 407"));
}

#[test]
fn sessions_on_which_nothing_moves_end() {
    for relay in [false, true] {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        let place = Place::with(1, Protection::Plain, |config| config.idle = Duration::from_millis(400));
        let near = if relay {
            place.forward(target, shorthaul_relay::request::SetUp::Parallel)
        } else {
            place.ask(&format!("CONNECT {target} HTTP/1.1\r\n\r\n"))
        };
        let (far, _) = server.accept().unwrap();
        // One on which something moves goes on.
        for _ in 0..8 {
            (&far).write_all(b"x").unwrap();
            (&near).read_exact(&mut [0]).unwrap();
            thread::sleep(Duration::from_millis(100));
        }
        let error = read_all(&far).expect_err("it ends with a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        place.until("it counts", |snapshot| snapshot.sessions_idle == 1 && snapshot.sessions == 0);
    }
}

#[test]
fn announcements_have_the_limits_of_sessions() {
    let place = Place::with(1, Protection::Plain, |config| {
        users(config);
        config.more.others.sessions = Some(3);
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let near = place.connect(0);
    for session in 0..20 {
        let request = format!("PREPARE {target} HTTP/1.1\r\nShorthaul-Session: {session:032x}\r\n\r\n");
        (&near).write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            (&near).read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
        assert!(answer.starts_with(b"HTTP/1.1 204"));
    }
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(server.accept().unwrap());
    }
    // One that was announced takes what was connected for it, and another may be announced.
    let head = format!("CONNECT {target} HTTP/1.1\r\nShorthaul-Session: {:032x}\r\n\r\n", 0);
    drop(place.ask(&head));
    server.set_nonblocking(true).unwrap();
    assert_eq!(server.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "more than three were connected");
    assert_eq!(place.nodes[0].snapshot().sessions_prepared, 1);
}

/// The head of what comes.
fn heard(mut socket: &TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(head)
}

#[test]
fn announcements_keep_no_connection_for_ever() {
    let announce = |near: &TcpStream| {
        let mut near = near;
        near.write_all(b"PREPARE server:80 HTTP/1.1\r\n\r\n")?;
        heard(near)
    };
    let place = Place::new(1, Protection::Plain);
    let near = place.connect(0);
    let answered = (0..1000).take_while(|_| announce(&near).is_ok()).count();
    assert_eq!(answered, 256, "so many come by one");
    // However few they are, none puts off when that is over.
    let place = Place::with(1, Protection::Plain, |config| config.silence = Duration::from_millis(500));
    let (near, began) = (place.connect(0), Instant::now());
    let mut answered = 0;
    while announce(&near).is_ok() {
        answered += 1;
        assert!(began.elapsed() < Duration::from_secs(30), "it stays for ever");
        thread::sleep(Duration::from_millis(50));
    }
    assert!((1..100).contains(&answered), "{answered}");
}

#[test]
fn nodes_are_told_within_the_limits_of_the_account_and_while_the_session_is_there() {
    let place = Place::with(1, Protection::Plain, |config| {
        users(config);
        config.more.users.get_mut("alice").unwrap().sessions = Some(3);
    });
    // They take whatever comes, and say nothing.
    let nodes: Vec<TcpListener> = (0..8).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let via: Vec<String> = nodes.iter().map(|node| node.local_addr().unwrap().to_string()).collect();
    let target: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let near = place.ask_without_answer(&head(target, 0, &format!("Shorthaul-Via: {}\r\n", via.join(", "))));
    let (first, _) = nodes[0].accept().unwrap();
    assert!(heard(&first).unwrap().starts_with(b"CONNECT"));
    // Whatever was begun for hers before that has gone out when somebody else has a session.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let _of_bob = place.ask(&head(server.local_addr().unwrap(), 1, ""));
    let mut told = Vec::new();
    for node in &nodes[1..] {
        node.set_nonblocking(true).unwrap();
        told.extend(node.accept().ok().map(|(socket, _)| socket));
    }
    assert_eq!(told.len(), 2, "as many as she may have sessions besides this one");
    for socket in &told {
        socket.set_nonblocking(false).unwrap();
        assert!(heard(socket).unwrap().starts_with(b"PREPARE"));
    }
    SockRef::from(&near).set_linger(Some(Duration::ZERO)).unwrap();
    drop(near);
    let since = Instant::now();
    for socket in &told {
        assert!(!matches!(read_all(socket), Ok(more) if !more.is_empty()));
    }
    assert!(since.elapsed() < Duration::from_secs(4), "they are told no more: {:?}", since.elapsed());
}

#[test]
fn who_is_let_in_and_asks_nothing_has_few_connections() {
    fn few(config: &mut NodeConfig) {
        config.all_idle = 8;
        config.request_deadline = Duration::from_millis(300);
        config.silence = Duration::from_secs(600);
    }
    // By their address; a quarter of all are theirs, and the others are as strangers'.
    let plain = Place::with(1, Protection::Plain, few);
    let silent: Vec<TcpStream> = (0..5).map(|_| plain.connect(0)).collect();
    plain.until("three are given up", |snapshot| snapshot.connections_abandoned == 3);
    assert_eq!(silent.iter().filter(|socket| is_open(socket)).count(), 2);
    // By their certificates, from where nobody is let in by the address.
    let tls = Place::with(1, Protection::Tls, |config| {
        few(config);
        config.more.allow.clear();
    });
    let member = NetworkSecret::read(&secret(1)).unwrap();
    let identity = member.identity(&[]).unwrap();
    let links = tls.links_keeping(5, Credentials::Secret(member), identity, Duration::from_secs(60));
    tls.run(links.keep_ready(&tls.hops()[0]));
    tls.until("three are given up", |snapshot| snapshot.connections_abandoned == 3);
    assert_eq!(tls.nodes[0].snapshot().connections_accepted, 5);
}

#[test]
fn what_waits_for_clients_over_tls_is_a_part_of_their_accounts() {
    const SESSIONS: usize = 6;
    let all = 2 << 20;
    let place = Place::with(1, Protection::Tls, |config| {
        config.more.allow.clear();
        config.all_buffers = Bytes(all);
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let member = NetworkSecret::read(&secret(1)).unwrap();
    // None of them reads what it is sent.
    let mut open = Vec::new();
    for _ in 0..SESSIONS {
        let credentials = Credentials::Secret(member.clone());
        open.push(place.forward_as(credentials, member.identity(&[]).unwrap(), target));
    }
    thread::scope(|scope| {
        for _ in 0..SESSIONS {
            let (mut far, _) = server.accept().unwrap();
            far.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
            open.push(far.try_clone().unwrap());
            // Until nothing has been taken for a second.
            scope.spawn(move || while far.write(&[7; 65_536]).is_ok() {});
        }
    });
    let free = place.nodes[0].snapshot().buffer_free_bytes;
    assert!((all - all / 4..all).contains(&free), "{free} of {all} bytes are free");
}

#[test]
fn reservations_of_one_leave_some_to_others() {
    let place = Place::with(1, Protection::Plain, |config| {
        users(config);
        config.all_buffers = Bytes(64 << 20);
    });
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let buffer = "Shorthaul-Buffer: 4194304\r\n";
    let open: Vec<TcpStream> = (0..4).map(|_| place.ask(&head(target, 0, buffer))).collect();
    let refused = place.say(&head(target, 0, buffer));
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("alice has reserved"), "{refused}");
    let other = place.ask(&head(target, 1, buffer));
    drop((open, other));
}

#[test]
fn a_session_ends_with_the_token_that_it_was_opened_by() {
    let file = std::env::temp_dir().join(format!("shorthaul-tokens-{}", std::process::id()));
    let write = |names: &[(&str, &str)]| {
        let users: Vec<String> =
            names.iter().map(|(name, token)| format!("[users.{name}]\ntoken = \"{token}\"\n")).collect();
        std::fs::write(&file, users.concat()).unwrap();
    };
    write(&[("alice", "0123456789abcdef"), ("bob", "fedcba9876543210")]);
    let place = Place::with(1, Protection::Plain, |config| config.settings = Some(file.clone()));
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let alice = place.ask(&head(target, 0, ""));
    let mut bob = place.ask(&head(target, 1, ""));
    let (_far, _) = server.accept().unwrap();
    let (mut of_bob, _) = server.accept().unwrap();
    // A connection on which she has been let in already.
    let waiting = place.connect(0);
    let announce = head(target, 0, "").replace("CONNECT", "PREPARE");
    (&waiting).write_all(announce.as_bytes()).unwrap();
    let mut answer = [0; 12];
    (&waiting).read_exact(&mut answer).unwrap();
    write(&[("bob", "fedcba9876543210")]);
    let since = Instant::now();
    place.nodes[0].reload().unwrap();
    assert_eq!(read_all(&alice).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    assert_eq!(place.nodes[0].snapshot().sessions_revoked, 1);
    (&waiting).write_all(head(target, 0, "").as_bytes()).unwrap();
    let said = String::from_utf8(read_all(&waiting).unwrap()).unwrap();
    assert!(said.contains("HTTP/1.1 403"), "{said}");
    bob.write_all(b"on").unwrap();
    let mut heard = [0; 2];
    of_bob.read_exact(&mut heard).unwrap();
    // Another token ends what the old one opened.
    write(&[("bob", "another-of-sixteen")]);
    place.nodes[0].reload().unwrap();
    assert_eq!(read_all(&bob).unwrap_err().kind(), ErrorKind::ConnectionReset);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn mail_is_not_delivered_for_others() -> io::Result<()> {
    let place = Place::new(1, Protection::Plain);
    let answer = place.say("CONNECT 127.0.0.1:25 HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("port 25"), "{answer}");
    let place = Place::with(1, Protection::Plain, |config| {
        config.more = Settings { deny_ports: Some(Vec::new()), ..config.more.clone() };
    });
    let answer = place.say("CONNECT 127.0.0.1:25 HTTP/1.1\r\n\r\n");
    assert!(!answer.contains("port 25"), "{answer}");
    Ok(())
}
