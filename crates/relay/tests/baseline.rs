//! What a thousand sessions leave behind. Alone in its process: what it counts is the process's.
use shorthaul_relay::{Forwarding, Node, NodeConfig, NodeHandle, RelayConfig};
use socket2::SockRef;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const SESSIONS: usize = 1000;
/// Longer than anything here takes, however busy the host is.
const TIMEOUT: Duration = Duration::from_secs(60);

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn own_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < TIMEOUT, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// All of them open at once, with bytes both ways; then half of them end well, and half break.
fn sessions(relay: SocketAddr, server: &TcpListener, node: &NodeHandle) {
    let ended = || node.snapshot().sessions_finished + node.snapshot().sessions_broken;
    let before = ended();
    let mut open = Vec::new();
    for _ in 0..SESSIONS {
        let near = TcpStream::connect(relay).unwrap();
        let far = server.accept().unwrap().0;
        near.set_read_timeout(Some(TIMEOUT)).unwrap();
        far.set_read_timeout(Some(TIMEOUT)).unwrap();
        open.push([near, far]);
    }
    let mut heard = vec![0; 40_000];
    for [near, far] in &mut open {
        near.write_all(&[1; 40_000]).unwrap();
        far.read_exact(&mut heard).unwrap();
        far.write_all(&[2; 10]).unwrap();
        near.read_exact(&mut heard[..10]).unwrap();
    }
    for (at, [mut near, mut far]) in open.into_iter().enumerate() {
        if at % 2 == 0 {
            near.shutdown(Shutdown::Write).unwrap();
            assert_eq!(far.read(&mut heard).unwrap(), 0);
            drop(far);
            assert_eq!(near.read(&mut heard).unwrap(), 0);
        } else {
            SockRef::from(&near).set_linger(Some(Duration::ZERO)).unwrap();
            drop(near);
            far.read(&mut heard).unwrap_err();
        }
    }
    until("all have ended", || ended() == before + SESSIONS as u64 && node.snapshot().sessions == 0);
}

#[test]
fn a_thousand_sessions_leave_nothing() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let relay = RelayConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        to: server.local_addr().unwrap().into(),
        forwarding: Forwarding::Pipelined { wait_windows: 0 },
        buffer: None,
        send_proxy: None,
    };
    let config = NodeConfig { relays: vec![relay], threads: Some(1), ..NodeConfig::default() };
    let node = Node::bind(config).unwrap();
    let (relay, handle) = (node.relays()[0].listen, node.handle());
    thread::spawn(move || node.run());
    // The first ones make what is kept: pipes and buffers.
    sessions(relay, &server, &handle);
    let (open, memory) = (descriptors(), own_memory_kib());
    for _ in 0..3 {
        sessions(relay, &server, &handle);
    }
    until("all descriptors are closed", || descriptors() <= open);
    // Were a tenth of the smallest thing kept of each session, it would be more.
    until("the memory is given back", || own_memory_kib() < memory + 1024);
    handle.stop();
}
