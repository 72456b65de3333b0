//! A node is killed while a thousand sessions go through it.
use crate::relays::Network;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const SESSIONS: usize = 1000;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Accepts connections, and hands over their sockets.
fn server() -> (SocketAddr, mpsc::Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    socket2::SockRef::from(&listener).listen(2048).unwrap();
    let address = listener.local_addr().unwrap();
    let (send, sockets) = mpsc::channel();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            if send.send(socket).is_err() {
                return;
            }
        }
    });
    (address, sockets)
}

/// A session by way of some nodes, from the first of them on.
fn open(by: &[SocketAddr], target: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(by[0]).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let via: Vec<String> = by[1..].iter().map(SocketAddr::to_string).collect();
    let via = if via.is_empty() { String::new() } else { format!("Shorthaul-Via: {}\r\n", via.join(", ")) };
    socket.write_all(format!("CONNECT {target} HTTP/1.1\r\n{via}\r\n").as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    socket
}

#[test]
fn whoever_is_affected_is_told_and_others_go_on() {
    for killed in 0..3 {
        let mut network =
            Network::start(&format!("faults{killed}"), 3, &["--links", "plain", "--allow", "127.0.0.0/8"]);
        let by: Vec<SocketAddr> = network.nodes.iter().map(|node| node.addresses[0]).collect();
        let (target, accepted) = server();
        // One at each node first: what is only had once is not what sessions leave behind.
        for node in &by {
            drop(open(&[*node], target));
        }
        drop(open(&by, target));
        let memory = |network: &Network, at: usize| network.nodes[at].memory();
        let before: Vec<u64> = (0..3).map(|at| memory(&network, at)).collect();
        let mut affected: Vec<TcpStream> = (0..SESSIONS).map(|_| open(&by, target)).collect();
        let others: Vec<usize> = (0..3).filter(|at| *at != killed).collect();
        let mut unaffected: Vec<TcpStream> = others.iter().map(|at| open(&[by[*at]], target)).collect();
        // Some are in the middle of something, in both directions.
        let mut far: Vec<TcpStream> = accepted.try_iter().collect();
        for (at, socket) in affected.iter_mut().enumerate() {
            if at % 3 == 0 {
                socket.write_all(b"some").unwrap();
            }
        }
        let since = Instant::now();
        network.nodes[killed].child.kill().unwrap();
        for socket in &mut affected {
            let mut bytes = Vec::new();
            let error = socket.read_to_end(&mut bytes).expect_err("a clean end of what was cut off");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        let took = since.elapsed();
        assert!(took < Duration::from_secs(30), "the clients were told after {took:?}");
        // Those that do not go through it go on.
        for socket in &mut unaffected {
            socket.write_all(b"ping").unwrap();
        }
        far.extend(accepted.try_iter());
        let mut pinged = 0;
        for socket in &mut far {
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let mut bytes = [0; 4];
            pinged += usize::from(matches!(socket.read_exact(&mut bytes), Ok(()) if &bytes == b"ping"));
            if pinged == unaffected.len() {
                break;
            }
        }
        assert_eq!(pinged, unaffected.len());
        // New ones are told where it fails.
        if killed > 0 {
            let mut socket = TcpStream::connect(by[0]).unwrap();
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            let head = format!("CONNECT {target} HTTP/1.1\r\nShorthaul-Via: {}, {}\r\n\r\n", by[1], by[2]);
            socket.write_all(head.as_bytes()).unwrap();
            let mut answer = String::new();
            socket.read_to_string(&mut answer).unwrap();
            let failed = format!("\"node{killed}\";next-hop=\"{}\";error=", by[killed]);
            assert!(answer.starts_with("HTTP/1.1 502") && answer.contains(&failed), "{answer}");
        }
        // And memory is what it was, but for what the allocator keeps.
        drop((affected, unaffected, far));
        for at in others {
            let since = Instant::now();
            while memory(&network, at) > before[at] + 8 * 1024 {
                let now = memory(&network, at);
                assert!(since.elapsed() < TIMEOUT, "node{} had {} KiB and has {now}", at + 1, before[at]);
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}
