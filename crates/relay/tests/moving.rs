//! Alone in its process: it counts the process's descriptors.
//!
//! What can go wrong while bytes are moved between two sockets: a direction that ends while the other is
//! full, a break while bytes are held, a receiver that does not read, a target that connects late.
use shorthaul_relay::{Forwarding, Node, NodeConfig, NodeHandle, RelayConfig};
use shorthaul_types::Bytes;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything here takes, however busy the host is.
const TIMEOUT: Duration = Duration::from_secs(60);

fn relay_to(to: SocketAddr, change: impl Fn(&mut NodeConfig)) -> (SocketAddr, NodeHandle) {
    let relay = RelayConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        to: to.into(),
        forwarding: Forwarding::Pipelined { wait_windows: 0 },
        buffer: None,
        send_proxy: None,
    };
    let mut config = NodeConfig { relays: vec![relay], threads: Some(1), ..NodeConfig::default() };
    change(&mut config);
    let node = Node::bind(config).unwrap();
    let (address, handle) = (node.relays()[0].listen, node.handle());
    thread::spawn(move || node.run());
    (address, handle)
}

/// A relay, and the target that it leads to.
struct RelayedTarget {
    server: TcpListener,
    relay: SocketAddr,
    node: NodeHandle,
}

impl RelayedTarget {
    fn new() -> RelayedTarget {
        RelayedTarget::with(|_| {})
    }

    fn with(change: impl Fn(&mut NodeConfig)) -> RelayedTarget {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let (relay, node) = relay_to(server.local_addr().unwrap(), change);
        RelayedTarget { server, relay, node }
    }

    /// Both ends of a session: the client's and the target's.
    fn session(&self) -> [TcpStream; 2] {
        let near = TcpStream::connect(self.relay).unwrap();
        let ends = [near, self.server.accept().unwrap().0];
        for end in &ends {
            end.set_read_timeout(Some(TIMEOUT)).unwrap();
            end.set_write_timeout(Some(TIMEOUT)).unwrap();
        }
        ends
    }
}

impl Drop for RelayedTarget {
    fn drop(&mut self) {
        self.node.stop();
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn read_all(mut socket: &TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).map(|_| bytes)
}

/// Writes until nothing more is taken, so that all that is between the two ends is full.
fn fill(mut socket: &TcpStream) -> usize {
    socket.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut taken = 0;
    loop {
        match socket.write(&[7; 65_536]) {
            Ok(more) => taken += more,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "after {taken} bytes");
                return taken;
            }
        }
        assert!(taken < 512 << 20, "more than any buffer is taken");
    }
}

fn reset(socket: TcpStream) {
    SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_direction_ends_while_the_other_is_full() {
    let way = RelayedTarget::new();
    for near_ends in [true, false] {
        let [near, far] = way.session();
        let (ends, other) = if near_ends { (near, far) } else { (far, near) };
        let (short, long) = (pattern(100_001), pattern(30_000_000));
        thread::scope(|scope| {
            let (sending, long) = (&other, &long);
            scope.spawn(move || {
                let mut sending = sending;
                sending.write_all(long).unwrap();
                sending.shutdown(Shutdown::Write).unwrap();
            });
            // Nothing of the long one is read before the short one has come to its end.
            (&ends).write_all(&short).unwrap();
            ends.shutdown(Shutdown::Write).unwrap();
            assert!(read_all(&other).unwrap() == short, "near ends: {near_ends}");
            assert!(read_all(&ends).unwrap() == *long, "near ends: {near_ends}");
        });
    }
}

#[test]
fn messages_of_every_size_arrive_whole() {
    let way = RelayedTarget::new();
    let [near, far] = way.session();
    near.set_nodelay(true).unwrap();
    // Around what is read at once, what a pipe holds, and what a segment holds.
    let sizes = [1, 2, 1447, 4096, 16_383, 16_384, 16_385, 65_536, 262_143, 262_144, 262_145, 3_000_000, 5];
    for size in sizes {
        let sent = pattern(size);
        let mut heard = vec![0; size];
        thread::scope(|scope| {
            let (near, sent) = (&near, &sent);
            scope.spawn(move || {
                let mut near = near;
                near.write_all(sent).unwrap();
            });
            (&far).read_exact(&mut heard).unwrap();
        });
        assert!(heard == sent, "{size}");
        // And back, so that each comes alone.
        (&far).write_all(&sent[..1]).unwrap();
        (&near).read_exact(&mut heard[..1]).unwrap();
    }
}

#[test]
fn a_break_while_bytes_are_held_is_a_reset_and_spoils_no_other_session() {
    let way = RelayedTarget::new();
    for (near_sends, sender_breaks) in [(true, true), (true, false), (false, true), (false, false)] {
        let [near, far] = way.session();
        let (sender, receiver) = if near_sends { (near, far) } else { (far, near) };
        assert!(fill(&sender) > 65_536);
        if sender_breaks {
            reset(sender);
            let error = read_all(&receiver).expect_err("it must not look like an end");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "near sends: {near_sends}");
        } else {
            reset(receiver);
            let error = read_all(&sender).expect_err("it must not look like an end");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "near sends: {near_sends}");
        }
        // What was held must not come out here.
        let [mut near, far] = way.session();
        let sent = pattern(1_000_000);
        thread::scope(|scope| {
            let sent = &sent;
            scope.spawn(move || {
                near.write_all(sent).unwrap();
                near.shutdown(Shutdown::Write).unwrap();
                assert_eq!(read_all(&near).unwrap(), b"");
            });
            assert!(read_all(&far).unwrap() == *sent);
            drop(far);
        });
    }
}

#[test]
fn a_receiver_that_does_not_read_stops_its_sender_alone() {
    let way = RelayedTarget::new();
    let [mut stuck, mut far] = way.session();
    let taken = fill(&stuck);
    // The other direction of the same session goes on.
    let sent = pattern(3_000_000);
    thread::scope(|scope| {
        let (sent, far) = (&sent, &far);
        scope.spawn(move || {
            let mut far = far;
            far.write_all(sent).unwrap();
        });
        let mut heard = vec![0; sent.len()];
        stuck.read_exact(&mut heard).unwrap();
        assert!(heard == *sent);
    });
    // And so does this one, once it is read.
    let mut heard = vec![0; taken];
    far.read_exact(&mut heard).unwrap();
    assert!(heard.iter().all(|byte| *byte == 7));
    stuck.write_all(b"on").unwrap();
    far.read_exact(&mut heard[..2]).unwrap();
    assert_eq!(&heard[..2], b"on");
}

#[test]
fn more_receivers_that_do_not_read_than_there_are_pipes() {
    // Small buffers are soon full.
    let way = RelayedTarget::with(|config| config.relays[0].buffer = Some(Bytes(16 << 10)));
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    SockRef::from(&way.server).set_recv_buffer_size(4096).unwrap();
    let stuck: Vec<[TcpStream; 2]> = (0..300)
        .map(|_| {
            let [near, far] = way.session();
            near.set_nonblocking(true).unwrap();
            SockRef::from(&near).set_send_buffer_size(4096).unwrap();
            [near, far]
        })
        .collect();
    let before = open();
    let mut taken = vec![0usize; stuck.len()];
    let mut moved_at = Instant::now();
    while moved_at.elapsed() < Duration::from_millis(300) {
        for ([near, _], taken) in stuck.iter().zip(&mut taken) {
            if let Ok(more) = (&mut &*near).write(&[7; 65_536]) {
                *taken += more;
                moved_at = Instant::now();
            }
        }
    }
    assert!(open() <= before + 2 * 256 + 64, "{} descriptors for pipes", open() - before);
    // Those that have a pipe, and those that have none, lose nothing.
    for ([near, mut far], taken) in stuck.into_iter().zip(taken) {
        near.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::with_capacity(taken);
        far.read_to_end(&mut heard).unwrap();
        assert!(heard.len() == taken && heard.iter().all(|byte| *byte == 7), "{taken}");
    }
}

#[test]
fn a_target_that_connects_late_hears_all_that_was_said() {
    // Of a queue of one, the first connection takes the place, and the next waits until it is accepted.
    let server = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    server.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    server.listen(0).unwrap();
    let server = TcpListener::from(server);
    let address = server.local_addr().unwrap();
    let first = TcpStream::connect(address).unwrap();
    let (relay, node) = relay_to(address, |_| {});
    let near = TcpStream::connect(relay).unwrap();
    let sent = pattern(300_000);
    (&near).write_all(&sent).unwrap();
    near.shutdown(Shutdown::Write).unwrap();
    let since = Instant::now();
    while node.snapshot().sessions == 0 {
        assert!(since.elapsed() < TIMEOUT, "the relay took no session");
        thread::yield_now();
    }
    let mut accepted = server.accept().unwrap().0;
    assert_eq!(accepted.peer_addr().unwrap(), first.local_addr().unwrap());
    accepted = server.accept().unwrap().0;
    accepted.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert!(read_all(&accepted).unwrap() == sent);
    accepted.write_all(b"at last").unwrap();
    drop(accepted);
    near.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(read_all(&near).unwrap(), b"at last");
    node.stop();
}

#[test]
fn connections_of_one_sender_are_shared_by_all_threads() {
    let way = RelayedTarget::with(|config| config.threads = None);
    let mut open: Vec<[TcpStream; 2]> = (0..64).map(|_| way.session()).collect();
    let mut byte = [0];
    for (at, [near, far]) in open.iter_mut().enumerate() {
        near.write_all(&[at as u8]).unwrap();
        far.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [at as u8]);
        far.write_all(&[!byte[0]]).unwrap();
        near.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [!(at as u8)]);
    }
    for [near, far] in open {
        near.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&far).unwrap(), b"");
        drop(far);
        assert_eq!(read_all(&near).unwrap(), b"");
    }
    let since = Instant::now();
    while way.node.snapshot().sessions_finished < 64 {
        assert!(since.elapsed() < TIMEOUT, "{:?}", way.node.snapshot());
        thread::yield_now();
    }
}
