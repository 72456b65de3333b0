//! A gateway on a router with two access interfaces: hosts that move between them, interfaces that go, and hosts that speak in the name of
//! others. Needs root, as `attach` does.
use crate::attach::{ATTACHED, FIREWALL, MASQUERADE, mounted, nft};
use crate::bridge::{Frames, exchange, ip, is_privileged};
use crate::gateway::Site;
use crate::relays::Running;
use shorthaul_lab::{Host, Lab, LinkDescription, Topology};
use shorthaul_os::TcpInfo;
use shorthaul_types::Seed;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(20);
/// More than the client's buffer takes, less than the gateway's.
const HELD: usize = 180_000;
/// Where the client is, by whichever cable.
const CLIENT: [&str; 2] = ["10.50.0.1", "fd50::1"];

fn start(site: &Site, access: [&str; 2]) -> Running {
    let mut command = site.command();
    for name in access {
        command.args(["--access", name]);
    }
    Running::start_in(
        site.lab.host("gateway"),
        command.args(["--wan", "to-server"]).stderr(Stdio::piped()),
        1,
    )
}

fn site(name: &str, links: &[[&str; 2]]) -> Option<Site> {
    if !is_privileged() {
        return None;
    }
    let mut topology = Topology::new(Seed(1));
    for [one, other] in links {
        topology.add_link(LinkDescription::direct(one, other));
    }
    let lab = Lab::start(&topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}"));
    Some(mounted(&format!("places-{name}"), ATTACHED, lab))
}

/// Waits until all that a socket was given is acknowledged.
fn until_acknowledged(socket: &TcpStream, site: &Site) {
    let begun = Instant::now();
    loop {
        let info = TcpInfo::of(socket).unwrap();
        if (info.unacked, info.unsent.0) == (0, 0) {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "{info:?} {}", site.ask(&[]));
        std::thread::yield_now();
    }
}

fn strict(router: &Host, interfaces: &[&str]) {
    router.run(|| {
        for name in interfaces {
            std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "1").unwrap();
        }
    });
}

/// A second cable between the client and the router, `other` at both. It is there as long as the process that is returned.
fn second_cable(site: &Site) -> Child {
    let [client, router] = ["client", "gateway"].map(|name| site.lab.host(name));
    let stays = client.spawn(Command::new("sleep").arg("600")).unwrap();
    ip(router, &format!("link add other type veth peer name other netns {}", stays.id()));
    for (host, last) in [(router, 1), (client, 2)] {
        ip(host, "link set other up");
        ip(host, &format!("addr add 10.51.0.{last}/24 dev other"));
        ip(host, &format!("addr add fd51::{last}/64 dev other nodad"));
    }
    stays
}

/// All routes between the client's own addresses and the world lead by a cable, `other` or the first one.
fn lead_by(site: &Site, interface: &str) {
    let [client, router] = ["client", "gateway"].map(|name| site.lab.host(name));
    let own = |host: &Host, peer: &str| {
        let interface = host.interfaces().iter().find(|interface| interface.name == peer).unwrap();
        [interface.v4.addr().to_string(), interface.v6.addr().to_string()]
    };
    let ends = match interface {
        "other" => [["10.51.0.1", "fd51::1"], ["10.51.0.2", "fd51::2"]].map(|end| end.map(str::to_owned)),
        _ => [own(router, "to-client"), own(client, "to-gateway")],
    };
    let at_client = if interface == "other" { "other" } else { "to-gateway" };
    let [of_router, of_client] = ends;
    let server = site.lab.host("server");
    let servers = [server.address_v4().to_string(), server.address_v6().to_string()];
    for (number, family) in ["-4", "-6"].into_iter().enumerate() {
        ip(
            router,
            &format!("{family} route replace {} via {} dev {interface}", CLIENT[number], of_client[number]),
        );
        let server = &servers[number];
        ip(client, &format!("{family} route replace {server} via {} dev {at_client}", of_router[number]));
    }
}

fn connect(site: &Site, from: Option<IpAddr>, to: IpAddr) -> (TcpStream, TcpStream) {
    let listener = site.lab.host("server").run(|| TcpListener::bind((to, 0))).unwrap();
    let to = listener.local_addr().unwrap();
    let connect = || {
        let client = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        if let Some(from) = from {
            client.bind(&SocketAddr::new(from, 0).into())?;
        }
        client.connect_timeout(&to.into(), TIMEOUT).map(|()| TcpStream::from(client))
    };
    let client = site.lab.host("client").run(connect).unwrap();
    let (server, _) = listener.accept().unwrap();
    for end in [&client, &server] {
        end.set_read_timeout(Some(TIMEOUT)).unwrap();
        end.set_write_timeout(Some(TIMEOUT)).unwrap();
    }
    (client, server)
}

/// What is held for a client that moves reaches it, though its server is silent; what it says then passes, too.
fn follows(name: &str, moving: impl Fn(&Host, &Host)) {
    let Some(site) = site(name, &[["client", "gateway"], ["gateway", "server"]]) else { return };
    let [client, router, server] = ["client", "gateway", "server"].map(|name| site.lab.host(name));
    let mut stays = second_cable(&site);
    strict(router, &["to-client", "other"]);
    for address in CLIENT {
        ip(client, &format!("addr add {address} dev lo"));
    }
    let toward_server = router.interfaces().iter().find(|interface| interface.name == "to-server").unwrap();
    ip(server, &format!("-6 route add {} via {}", CLIENT[1], toward_server.v6.addr()));
    lead_by(&site, "other");
    nft(&site, MASQUERADE);
    nft(&site, FIREWALL);
    nft(
        &site,
        "table inet guard {\n chain pass {\n iifname other oifname to-server ct state new accept\n }\n}\n",
    );
    let _gateway = start(&site, ["to-client", "other"]);
    let addresses: [IpAddr; 2] = [server.address_v4().into(), server.address_v6().into()];
    let pairs: Vec<_> = addresses
        .into_iter()
        .zip(CLIENT)
        .map(|(address, from)| {
            let (client, mut server) = connect(&site, Some(from.parse().unwrap()), address);
            server.write_all(&vec![7; HELD]).unwrap_or_else(|error| panic!("{error}: {}", site.ask(&[])));
            until_acknowledged(&server, &site);
            (client, server)
        })
        .collect();
    let states = site.ask(&[]);
    assert!(states.as_array().unwrap().iter().all(|flow| flow["state"] == "split"), "{states}");
    moving(client, router);
    lead_by(&site, "to-client");
    // From now on the server is not heard.
    ip(server, "link set to-gateway down");
    for (client, _) in &pairs {
        let mut got = vec![0; HELD];
        (&*client).read_exact(&mut got).unwrap_or_else(|error| panic!("{error}: {}", site.ask(&[])));
        assert!(got.iter().all(|byte| *byte == 7));
    }
    ip(server, "link set to-gateway up");
    stays.kill().unwrap();
    stays.wait().unwrap();
}

#[test]
fn what_is_held_follows_a_client_to_another_access_interface() {
    // The old cable is out: what is sent there arrives nowhere.
    follows("moves", |client, _| ip(client, "link set other down"));
}

#[test]
fn what_is_held_follows_a_client_whose_interface_is_gone() {
    follows("gone", |_, router| ip(router, "link del other"));
}

#[test]
fn a_client_may_be_heard_at_one_interface_and_sent_to_at_another_where_the_host_lets_it() {
    let Some(site) = site("asymmetric", &[["client", "gateway"], ["gateway", "server"]]) else { return };
    let [client, router, server] = ["client", "gateway", "server"].map(|name| site.lab.host(name));
    let mut stays = second_cable(&site);
    for address in CLIENT {
        ip(client, &format!("addr add {address} dev lo"));
    }
    let toward_server = router.interfaces().iter().find(|interface| interface.name == "to-server").unwrap();
    for (address, via) in
        CLIENT.iter().zip([toward_server.v4.addr().to_string(), toward_server.v6.addr().to_string()])
    {
        let family = if address.contains(':') { "-6" } else { "-4" };
        ip(server, &format!("{family} route add {address} via {via}"));
    }
    lead_by(&site, "other");
    let _gateway = start(&site, ["to-client", "other"]);
    let addresses: [IpAddr; 2] = [server.address_v4().into(), server.address_v6().into()];
    let pairs = addresses.into_iter().zip(CLIENT);
    let pairs: Vec<_> = pairs.map(|(to, from)| connect(&site, Some(from.parse().unwrap()), to)).collect();
    // The client sends by the first cable from now on; the router's routes to it stay.
    let routes = CLIENT.map(|address| {
        format!(
            "route replace {address} via {} dev other",
            if address.contains(':') { "fd51::2" } else { "10.51.0.2" }
        )
    });
    lead_by(&site, "to-client");
    for (family, route) in ["-4", "-6"].into_iter().zip(routes) {
        ip(router, &format!("{family} {route}"));
    }
    for pair in &pairs {
        exchange(pair, 1 << 20);
    }
    let states = site.ask(&[]);
    assert!(states.as_array().unwrap().iter().all(|flow| flow["state"] == "split"), "{states}");
    let mut frames = Frames::seen_at(client, None);
    exchange(&pairs[0], 1 << 10);
    // What the router's routes say holds: its cable's hardware address is the receiver's.
    let other = client.run(|| std::fs::read_to_string("/sys/class/net/other/address").unwrap());
    let other = other.trim().replace(':', "");
    let frame = frames.until(|frame| frame.len() > 50 && &frame[24..28] == "0800" && &frame[46..48] == "06");
    assert!(frame.starts_with(&other), "{frame} is not for {other}");
    stays.kill().unwrap();
    stays.wait().unwrap();
}

/// A segment of TCP over IPv4.
fn segment(from: SocketAddr, to: SocketAddr, [seq, ack]: [u32; 2], payload: &[u8]) -> Vec<u8> {
    let octets = |address: SocketAddr| match address.ip() {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => panic!("{address}"),
    };
    let length = (40 + payload.len()) as u16;
    let ip =
        [&[0x45, 0][..], &length.to_be_bytes(), &[0, 0, 0x40, 0, 64, 6, 0, 0], &octets(from), &octets(to)]
            .concat();
    let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    let mut tcp =
        [&ports[..], &seq.to_be_bytes(), &ack.to_be_bytes(), &[0x50, 0x18, 1, 0, 0, 0, 0, 0], payload]
            .concat();
    let pseudo = [&octets(from)[..], &octets(to), &[0, 6], &(length - 20).to_be_bytes()].concat();
    let sum = [&pseudo, &tcp].into_iter().flat_map(|part| part.chunks(2)).fold(0_u32, |sum, two| {
        sum + u32::from(u16::from_be_bytes([two[0], two.get(1).copied().unwrap_or(0)]))
    });
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    [ip, tcp].concat()
}

#[test]
fn who_speaks_in_the_name_of_others_from_another_access_interface_is_not_heard() {
    let links = [["client", "gateway"], ["other", "gateway"], ["gateway", "server"]];
    let Some(site) = site("forged", &links) else { return };
    let [client, other, router] = ["client", "other", "gateway"].map(|name| site.lab.host(name));
    strict(router, &["to-client", "to-other"]);
    let _gateway = start(&site, ["to-client", "to-other"]);
    let server = site.lab.host("server").address_v4();
    let mut frames = Frames::seen_at(client, None);
    let (mut near, mut far) = connect(&site, None, server.into());
    let mut got = [0; 5];
    far.write_all(b"hello").unwrap();
    near.read_exact(&mut got).unwrap();
    // The server's last segment has the numbers of both.
    let frame = frames.until(|frame| frame.len() == 2 * 71 && frame.ends_with("68656c6c6f"));
    let number = |at: usize| u32::from_str_radix(&frame[2 * at..2 * at + 8], 16).unwrap();
    let (of_server, of_client) = (number(38).wrapping_add(5), number(42));
    let raw = other.run(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255)))).unwrap();
    let forge = |from: SocketAddr, to: SocketAddr, numbers| {
        let packet = segment(from, to, numbers, b"FORGED");
        // The first of a host is asked about.
        for _ in 0..3 {
            raw.send_to(&packet, &SocketAddr::new(to.ip(), 0).into()).unwrap();
        }
    };
    let [at_client, at_server] = [&near, &far].map(|end| end.local_addr().unwrap());
    forge(at_client, at_server, [of_client, of_server]);
    forge(at_server, at_client, [of_server, of_client]);
    let dropped = || site.ask(&["--counters"])["dropped_source_elsewhere"].as_u64().unwrap();
    let begun = Instant::now();
    while dropped() < 6 {
        assert!(begun.elapsed() < TIMEOUT, "{} of 6 were dropped", dropped());
    }
    // What both of them say themselves comes behind that.
    near.write_all(b"right").unwrap();
    far.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"right", "the server heard a forgery");
    far.write_all(b"right").unwrap();
    near.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"right", "the client heard a forgery");
}
