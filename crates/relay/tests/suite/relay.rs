//! A relay between sockets of this host: what goes in comes out, and what breaks on one side breaks on
//! the other.
use shorthaul_relay::{
    Echo, Forwarding, MeasureError, MeasureOptions, Node, NodeConfig, NodeHandle, ProxyVersion, RelayConfig,
    measure,
};
use shorthaul_types::Bytes;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

const PIPELINED: Forwarding = Forwarding::Pipelined { wait_windows: 0 };

fn config(to: SocketAddr, forwarding: Forwarding) -> NodeConfig {
    let relay = RelayConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        to: to.into(),
        forwarding,
        buffer: Some(Bytes(256 << 10)),
        send_proxy: None,
    };
    NodeConfig {
        relays: vec![relay],
        congestion: Some("reno".into()),
        threads: Some(1),
        ..NodeConfig::default()
    }
}

fn run(config: NodeConfig) -> (SocketAddr, NodeHandle) {
    let node = Node::bind(config).expect("a node");
    let (address, handle) = (node.relays()[0].listen, node.handle());
    thread::spawn(move || node.run());
    (address, handle)
}

fn start(to: SocketAddr, forwarding: Forwarding) -> (SocketAddr, NodeHandle) {
    run(config(to, forwarding))
}

fn through(forwarding: Forwarding) -> (TcpStream, TcpStream, NodeHandle) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, stats) = start(server.local_addr().unwrap(), forwarding);
    let near = TcpStream::connect(address).unwrap();
    let (far, _) = server.accept().unwrap();
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    }
    (near, far, stats)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn read_all(mut socket: &TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).map(|_| bytes)
}

#[test]
fn both_directions_arrive_whole_and_each_closes_by_itself() {
    for forwarding in [PIPELINED, Forwarding::Pipelined { wait_windows: 16 }, Forwarding::Store] {
        let (mut near, mut far, stats) = through(forwarding);
        let (there, back) = (pattern(3_000_000), pattern(1_000_001));
        thread::scope(|scope| {
            let sending = near.try_clone().unwrap();
            let (there, back) = (&there, &back);
            scope.spawn(move || {
                (&sending).write_all(there).unwrap();
                sending.shutdown(Shutdown::Write).unwrap();
            });
            assert!(read_all(&far).unwrap() == *there, "{forwarding:?}");
            // The other half is open still (half-close), and only now does anything go back.
            scope.spawn(move || {
                far.write_all(back).unwrap();
                far.shutdown(Shutdown::Write).unwrap();
            });
            let mut heard = Vec::new();
            near.read_to_end(&mut heard).unwrap();
            assert!(heard == *back, "{forwarding:?}");
        });
        let snapshot = stats.snapshot();
        assert_eq!((snapshot.bytes_up, snapshot.bytes_down), (there.len() as u64, back.len() as u64));
    }
}

#[test]
fn a_reset_on_one_side_is_a_reset_on_the_other() {
    for near_breaks in [true, false] {
        let (near, far, _) = through(PIPELINED);
        let (breaks, other) = if near_breaks { (near, far) } else { (far, near) };
        socket2::SockRef::from(&breaks).set_linger(Some(Duration::ZERO)).unwrap();
        drop(breaks);
        let error = read_all(&other).expect_err("it must not look like an end");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "near breaks: {near_breaks}");
    }
}

#[test]
fn a_target_that_refuses_is_a_reset() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (address, stats) = start(closed, PIPELINED);
    let near = TcpStream::connect(address).unwrap();
    near.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(read_all(&near).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    let snapshot = stats.snapshot();
    assert_eq!((snapshot.sessions_finished, snapshot.sessions_refused["connection_refused"]), (0, 1));
}

#[test]
fn a_target_is_told_who_the_client_is() {
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = config(server.local_addr().unwrap(), PIPELINED);
        config.relays[0].send_proxy = Some(version);
        let (address, _) = run(config);
        let near = TcpStream::connect(address).unwrap();
        (&near).write_all(b"data").unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        let (far, _) = server.accept().unwrap();
        let expected = shorthaul_relay::ProxyHeader {
            source: near.local_addr().unwrap(),
            destination: server.local_addr().unwrap(),
        };
        assert_eq!(read_all(&far).unwrap(), [expected.to_bytes(version), b"data".to_vec()].concat());
    }
}

#[test]
fn two_nodes_do_not_share_a_port() {
    let to = "127.0.0.1:9".parse().unwrap();
    let first = Node::bind(config(to, PIPELINED)).unwrap();
    let mut second = config(to, PIPELINED);
    second.relays[0].listen = first.relays()[0].listen;
    let error = Node::bind(second).map(drop).unwrap_err().to_string();
    assert!(error.contains("cannot accept connections"), "{error}");
}

#[test]
fn a_congestion_control_that_is_not_there_is_named() {
    let to = "127.0.0.1:9".parse().unwrap();
    let config = NodeConfig { congestion: Some("no-such".into()), ..config(to, PIPELINED) };
    let error = Node::bind(config).map(drop).unwrap_err().to_string();
    assert!(error.contains("`no-such`") && error.contains("tcp_allowed_congestion_control"), "{error}");
}

#[test]
fn an_echo_is_measured() {
    let echo = Echo::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = echo.address().unwrap();
    thread::spawn(move || echo.run());
    let options = MeasureOptions { amount: Bytes(2_000_000), ..MeasureOptions::default() };
    let measured = measure(&address.to_string(), &options).unwrap();
    assert!(measured.min_rtt > Duration::ZERO && measured.min_rtt <= measured.median_rtt, "{measured:?}");
    assert_eq!((measured.loss, measured.sent), (0.0, Bytes(2_000_000)), "{measured:?}");
    assert!(measured.segments > 10 && measured.rate.bits_per_sec() > 10_000_000, "{measured:?}");
}

#[test]
fn whoever_is_no_echo_is_told_apart() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for socket in server.incoming() {
            let _ = socket.unwrap().write_all(b"220 mail.example.org ready\r\n");
        }
    });
    let options = MeasureOptions { timeout: Duration::from_secs(5), ..MeasureOptions::default() };
    let error = measure(&address, &options).unwrap_err();
    assert!(matches!(error, MeasureError::NoEcho { at: 0, .. }), "{error}");
    let error = measure("127.0.0.1:1", &options).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1") && error.contains("shorthaul node --echo"), "{error}");
}
