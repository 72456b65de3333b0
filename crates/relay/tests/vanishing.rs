//! Alone in its process: it waits for times, and other tests would take the processors.
//!
//! Ends that vanish without a word, and a client that has another address from one moment to the next, on emulated links. Needs root, or user
//! namespaces.
use shorthaul_lab::{Host, Lab, LinkDescription, Topology};
use shorthaul_link::LinkConfig;
use shorthaul_os::Netlink;
use shorthaul_os::netlink::{NextHop, Route as KernelRoute};
use shorthaul_relay::request::SetUp;
use shorthaul_relay::{
    Client, ClientOptions, Credentials, Endpoint, FixedRoute, Forwarding, Identity, LinkOptions, Links,
    LocalConfig, LocalProxy, MoveOptions, NameService, Node, NodeConfig, NodeHandle, Protection, Route,
    Service, Settings,
};
use shorthaul_types::Seed;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Longer than anything here takes, however busy the host is.
const TIMEOUT: Duration = Duration::from_secs(60);
const GONE_AFTER: Duration = Duration::from_secs(2);

/// `client` – `node` – `server`, each 5 ms from the next, and a node.
struct Site {
    lab: Lab,
    node: NodeHandle,
    address: SocketAddr,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.node.stop();
    }
}

impl Site {
    fn new() -> Site {
        let mut topology = Topology::new(Seed(1));
        let link = LinkConfig { delay: Duration::from_millis(5), ..LinkConfig::default() };
        topology.add_link(LinkDescription::symmetric("client", "node", link.clone()));
        topology.add_link(LinkDescription::symmetric("node", "server", link));
        let lab = Lab::start(&topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}"));
        let everywhere = vec!["0.0.0.0/0".parse().unwrap()];
        let config = NodeConfig {
            listen: vec!["0.0.0.0:0".parse().unwrap()],
            protection: Some(Protection::Plain),
            gone_after: GONE_AFTER,
            more: Settings {
                allow: everywhere.clone(),
                allow_destinations: everywhere,
                ..Settings::default()
            },
            ..NodeConfig::default()
        };
        let (node, port) = lab.host("node").run(|| {
            let node = Node::bind(config).unwrap();
            let (handle, port) = (node.handle(), node.addresses()[0].port());
            thread::spawn(move || node.run());
            (handle, port)
        });
        let address = SocketAddr::new(toward(lab.host("node"), "client").into(), port);
        Site { lab, node, address }
    }

    /// A server's socket that listens.
    fn listen(&self) -> (TcpListener, SocketAddr) {
        let server = self.lab.host("server");
        let listener = server.run(|| TcpListener::bind("0.0.0.0:0")).unwrap();
        let target = SocketAddr::new(server.address_v4().into(), listener.local_addr().unwrap().port());
        (listener, target)
    }

    /// A session: the client's end, and the server's.
    fn session(&self) -> [TcpStream; 2] {
        let (server, target) = self.listen();
        let mut near = self.lab.host("client").run(|| TcpStream::connect(self.address)).unwrap();
        near.set_read_timeout(Some(TIMEOUT)).unwrap();
        write!(near, "CONNECT {target} HTTP/1.1\r\n\r\n").unwrap();
        let (far, _) = server.accept().unwrap();
        far.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            near.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        [near, far]
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Duration {
        let since = Instant::now();
        while !is_so() {
            assert!(since.elapsed() < TIMEOUT, "never: {what}; {:?}", self.node.snapshot());
            thread::sleep(Duration::from_millis(5));
        }
        since.elapsed()
    }
}

/// The address of a host on its link to a neighbour.
fn toward(host: &Host, peer: &str) -> Ipv4Addr {
    let name = host.interface_to(peer).expect("a link");
    host.interfaces().iter().find(|one| one.name == name).expect("an interface").v4.addr()
}

/// Nothing leaves a host any more for an address, and nothing tells anybody.
fn fall_silent(host: &Host, toward: IpAddr) {
    let nowhere = || Netlink::open()?.add_route(&KernelRoute::new(toward.into(), NextHop::Blackhole));
    host.run(nowhere).unwrap();
}

/// Sends for as long as somebody takes it; why nobody does any more.
fn send_for_ever(mut to: TcpStream) -> JoinHandle<io::ErrorKind> {
    thread::spawn(move || {
        loop {
            if let Err(error) = to.write_all(&[0; 65_536]) {
                return error.kind();
            }
        }
    })
}

#[test]
fn sessions_of_which_an_end_vanishes_end() {
    for vanishes in ["client", "server"] {
        let site = Site::new();
        // One on which nothing moves, and one in the midst of bytes toward the end that vanishes.
        let idle = site.session();
        let [near, far] = site.session();
        let (gone, stays) = if vanishes == "client" { (near, far) } else { (far, near) };
        let sending = send_for_ever(stays);
        (&gone).read_exact(&mut vec![0; 3_000_000]).unwrap();
        let silent = site.lab.host(vanishes);
        fall_silent(silent, toward(site.lab.host("node"), vanishes).into());
        let took = site.until("both are gone", || site.node.snapshot().sessions_gone == 2);
        println!("the {vanishes} vanishes: both sessions are gone after {took:.1?}");
        // Asked after a second, five times a second apart, is the longest that the kernel takes; half of the time more until it is looked at.
        assert!(took < GONE_AFTER * 5, "{took:?}");
        site.until("they count no more", || site.node.snapshot().sessions == 0);
        let reset = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        assert!(reset.contains(&sending.join().unwrap()), "the end that is there hears of it");
        drop(idle);
    }
}

/// Does what is typed in a host.
fn ip(host: &Host, line: &str) {
    let mut command = Command::new("ip");
    command.args(line.split_whitespace()).stdin(Stdio::null());
    assert!(host.spawn(&mut command).unwrap().wait().unwrap().success(), "ip {line}");
}

#[test]
fn a_session_goes_on_when_its_client_has_another_address() {
    const LEN: usize = 8_000_000;
    let site = Site::new();
    let (client, node) = (site.lab.host("client"), site.lab.host("node"));
    let (server, target) = site.listen();
    let links = LinkOptions {
        name: "client".into(),
        protection: Protection::Plain,
        identity: Identity::from_files(None, None).unwrap(),
        credentials: Credentials::None,
        congestion: None,
        paced: false,
        timeout: Duration::from_secs(10),
        ready: 0,
        names: NameService::System,
        gone_after: Duration::from_secs(600),
    };
    let quiet = Duration::from_millis(500);
    let options = ClientOptions {
        routes: Arc::new(FixedRoute::only(Route::via(vec![Endpoint::from(site.address)]))),
        links: Arc::new(Links::new(links).unwrap()),
        set_up: SetUp::Sequential,
        forwarding: Forwarding::Pipelined { wait_windows: 0 },
        buffer: None,
        moves: Some(MoveOptions { quiet, ..MoveOptions::default() }),
        patience: Duration::ZERO,
    };
    let mut near = client.run(|| {
        let listen = "127.0.0.1:0".parse().unwrap();
        let ports = vec![LocalConfig { listen, service: Service::Forward(target.into()) }];
        let proxy = LocalProxy::bind(Client::new(options), ports, Vec::new()).unwrap();
        let address = proxy.addresses()[0];
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(proxy.run())
        });
        TcpStream::connect(address).unwrap()
    });
    near.set_read_timeout(Some(TIMEOUT)).unwrap();
    let pattern: Vec<u8> = (0..LEN).map(|at| (at / 251 + at) as u8).collect();
    let (mut far, _) = server.accept().unwrap();
    let there = pattern.clone();
    let sending = thread::spawn(move || far.write_all(&there).map(|()| far));
    let mut heard = vec![0; LEN / 2];
    near.read_exact(&mut heard).unwrap();
    // As a telephone that comes from one network into another.
    let (name, old) = (client.interface_to("node").unwrap(), toward(client, "node"));
    let old = client.interfaces().iter().find(|one| one.v4.addr() == old).unwrap().v4;
    ip(node, &format!("addr add 192.168.77.2/24 dev {}", node.interface_to("client").unwrap()));
    ip(client, &format!("addr del {old} dev {name}"));
    ip(client, &format!("addr add 192.168.77.1/24 dev {name}"));
    ip(client, &format!("route add {}/32 via 192.168.77.2", site.address.ip()));
    let since = Instant::now();
    let took = site.until("the session comes by another way", || site.node.snapshot().sessions_moved > 0);
    let mut rest = vec![0; LEN - heard.len()];
    near.read_exact(&mut rest).unwrap();
    heard.append(&mut rest);
    assert!(heard == pattern, "it is something else");
    println!(
        "it came from another address after {took:.2?}, and all was there after {:.2?}",
        since.elapsed()
    );
    // Both directions, to their ends.
    drop(sending.join().unwrap().unwrap());
    assert_eq!(near.read(&mut [0]).unwrap(), 0);
    drop(near);
    site.until("it has finished", || site.node.snapshot().sessions_finished == 1);
}
