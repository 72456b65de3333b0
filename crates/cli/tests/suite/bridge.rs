//! A gateway as a bridge between two boxes of one network. Needs root: programs at interfaces are not for user namespaces, and where they
//! cannot be loaded nothing is tried.
use crate::gateway::{signal, transfer};
use crate::relays::{Running, SHORTHAUL};
use serde_json::Value;
use shorthaul_lab::{Host, Lab, LinkDescription, Topology};
use shorthaul_types::Seed;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);
const CLIENT: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1))];
const SERVER: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)), IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2))];
/// The sizes of what is moved: more than the ends' own buffers take.
const MUCH: usize = 16 << 20;

/// A client, a box with two interfaces and no address, a server.
struct Site {
    folder: PathBuf,
    lab: Lab,
}

/// Says that a test is not tried, for want of what takes real root.
pub fn is_privileged() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next())
        .map(str::to_owned);
    let first = map.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"];
    let is = first && uid.as_deref() == Some("0");
    if !is {
        eprintln!("not tried: programs at interfaces take root outside of user namespaces");
    }
    is
}

pub fn ip(host: &Host, arguments: &str) {
    let said = host.run(|| Command::new("ip").args(arguments.split_whitespace()).output().unwrap());
    assert!(said.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&said.stderr));
}

impl Site {
    fn new(name: &str) -> Option<Site> {
        if !is_privileged() {
            return None;
        }
        let folder = std::env::temp_dir().join(format!("shorthaul-bridge-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut topology = Topology::new(Seed(1));
        topology.add_link(LinkDescription::direct("client", "box"));
        topology.add_link(LinkDescription::direct("box", "server"));
        let lab = Lab::start(&topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}"));
        let site = Site { folder, lab };
        for interface in ["to-client", "to-server"] {
            ip(site.at_box(), &format!("addr flush dev {interface}"));
        }
        // Programs of a lab have mounts of their own: what one mounts, the next one does not see.
        let mount = || Command::new("mount").args(["-t", "bpf", "bpf", "/sys/fs/bpf"]).status().unwrap();
        assert!(site.at_box().run(mount).success());
        // Nothing here routes: without a bridge nobody reaches anybody.
        for (host, addresses) in [("client", CLIENT), ("server", SERVER)] {
            ip(site.lab.host(host), "addr flush dev to-box");
            ip(site.lab.host(host), &format!("addr add {}/24 dev to-box", addresses[0]));
            ip(site.lab.host(host), &format!("addr add {}/64 dev to-box nodad", addresses[1]));
            let number = if host == "client" { 1 } else { 2 };
            ip(site.lab.host(host), &format!("addr add fe80::{number}/64 dev to-box nodad"));
        }
        Some(site)
    }

    fn at_box(&self) -> &Host {
        self.lab.host("box")
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(SHORTHAUL);
        command.args(["gateway", "--control-group", "0", "--run-dir"]).arg(&self.folder).args(more);
        command.stderr(Stdio::piped());
        command
    }

    fn start(&self, more: &[&str]) -> Running {
        let more = [&["--bridge", "to-client,to-server"], more].concat();
        Running::start_in(self.at_box(), &mut self.command(&more), 1)
    }

    /// What a gateway says that does not start; nothing was changed.
    fn refused(&self, more: &[&str]) -> String {
        let before = self.interfaces();
        let said = self.at_box().run(|| self.command(more).output().unwrap());
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(matches!(said.status.code(), Some(1 | 2)) && text.starts_with("error: "), "{text}");
        assert_eq!(self.interfaces(), before, "{text}");
        text
    }

    /// What was configured, without what the kernel finds out by itself a moment later.
    fn interfaces(&self) -> String {
        let said = self.at_box().run(|| Command::new("ip").args(["-o", "link"]).output().unwrap());
        let text = String::from_utf8_lossy(&said.stdout);
        let found = [",LOWER_UP", "NO-CARRIER,", ",M-DOWN", " state UP", " state DOWN", " state UNKNOWN"];
        found.iter().fold(text.into_owned(), |text, found| text.replace(found, ""))
    }

    fn ask(&self, arguments: &[&str]) -> Value {
        let mut command = Command::new(SHORTHAUL);
        let said = command.args(["flows", "--json", "--run-dir"]).arg(&self.folder).args(arguments).output();
        let said = said.unwrap();
        serde_json::from_slice(&said.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&said.stderr)))
    }

    fn count(&self, name: &str) -> u64 {
        self.ask(&["--counters"])[name].as_u64().unwrap_or_else(|| panic!("no counter {name}"))
    }

    /// How many packets came in, once no more do.
    fn settled(&self) -> u64 {
        let (mut count, mut since) = (self.count("packets_in"), Instant::now());
        let begun = Instant::now();
        while since.elapsed() < Duration::from_millis(500) {
            assert!(begun.elapsed() < TIMEOUT, "packets come without end");
            let now = self.count("packets_in");
            if now != count {
                (count, since) = (now, Instant::now());
            }
        }
        count
    }

    /// The states of all flows.
    fn states(&self) -> Vec<String> {
        let flows = self.ask(&[]);
        flows.as_array().unwrap().iter().map(|flow| flow["state"].as_str().unwrap().to_owned()).collect()
    }

    fn connect(&self, to: IpAddr) -> (TcpStream, TcpStream) {
        let listener = self.lab.host("server").run(|| TcpListener::bind((to, 0))).unwrap();
        let to = listener.local_addr().unwrap();
        let client = self.lab.host("client").run(|| TcpStream::connect_timeout(&to, TIMEOUT)).unwrap();
        let (server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(TIMEOUT)).unwrap();
            end.set_write_timeout(Some(TIMEOUT)).unwrap();
        }
        (client, server)
    }

    /// A datagram there and back.
    fn datagram(&self, to: IpAddr) {
        let server = self.lab.host("server").run(|| UdpSocket::bind((to, 0))).unwrap();
        let any: SocketAddr =
            if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
        let client = self.lab.host("client").run(|| UdpSocket::bind(any)).unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(TIMEOUT)).unwrap();
        }
        client.send_to(b"there", server.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 16];
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"there");
        server.send_to(b"back", from).unwrap();
        assert_eq!(client.recv(&mut buffer).unwrap(), 4);
    }

    /// An echo of ICMP.
    fn ping(&self) {
        let script = r#"
            use Socket;
            socket(my $s, PF_INET, SOCK_RAW, 1) or die "socket: $!";
            my $body = pack("C C n n n", 8, 0, 0, 77, 1) . "shorthaul";
            my $sum = 0;
            $sum += $_ for unpack("n*", $body . "\0");
            $sum = ($sum & 0xffff) + ($sum >> 16) while $sum >> 16;
            substr($body, 2, 2) = pack("n", ~$sum & 0xffff);
            send($s, $body, 0, pack_sockaddr_in(0, inet_aton("10.77.0.2"))) or die "send: $!";
            alarm 60;
            while (recv($s, my $got, 2048, 0) || 1) {
                exit 0 if substr($got, 20, 1) eq "\0" && $got =~ /shorthaul/;
            }"#;
        let said =
            self.lab.host("client").run(|| Command::new("perl").args(["-e", script]).output().unwrap());
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }

    fn hardware_address(&self, host: &str) -> String {
        let said = self
            .lab
            .host(host)
            .run(|| Command::new("ip").args(["-o", "link", "show", "dev", "to-box"]).output().unwrap());
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let mut words = said.split_whitespace().skip_while(|word| *word != "link/ether");
        words.nth(1).unwrap().to_owned()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Bytes both ways at once, each way others.
pub fn exchange((client, server): &(TcpStream, TcpStream), length: usize) {
    let pattern = |way: usize| -> Vec<u8> { (0..length).map(|at| (at * 31 % 251 + way) as u8).collect() };
    std::thread::scope(|scope| {
        for (way, from, to) in [(1, client, server), (2, server, client)] {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let (bytes, expected) = (pattern(way), pattern(way));
            scope.spawn(move || from.write_all(&bytes).unwrap());
            scope.spawn(move || {
                let mut got = vec![0; expected.len()];
                to.read_exact(&mut got).unwrap();
                assert!(got == expected, "other bytes than were sent");
            });
        }
    });
}

/// Frames that come in by a host's interface, as lines of hexadecimal digits, of those that begin with what a filter wants.
pub struct Frames {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Frames {
    /// `tag` is that of a VLAN that they must have, which the kernel takes off before they are seen.
    pub fn seen_at(host: &Host, tag: Option<u16>) -> Frames {
        // SO_ATTACH_FILTER: the tag, if there is one, is told apart (SKF_AD_VLAN_TAG).
        let filter = match tag {
            None => String::new(),
            Some(tag) => format!(
                r#"my $code = pack("S C C L", 0x20, 0, 0, 0xfffff02c) . pack("S C C L", 0x15, 0, 1, {tag}) . pack("S C C L", 6, 0, 0, 65535) . pack("S C C L", 6, 0, 0, 0);
                setsockopt($s, 1, 26, pack("S x6 P", 4, $code)) or die "filter: $!";"#
            ),
        };
        let script = format!(
            r#"use Socket;
            socket(my $s, 17, SOCK_RAW, unpack("S", pack("n", 3))) or die "socket: $!";
            # SO_RCVBUFFORCE: what comes while nobody reads waits.
            setsockopt($s, 1, 33, pack("i", 1 << 24)) or die "buffer: $!";
            {filter}
            $| = 1;
            print "listening\n";
            while (my $from = recv($s, my $frame, 70000, 0)) {{
                # What leaves is seen, too.
                print unpack("H*", substr($frame, 0, 80)), "\n" unless unpack("C", substr($from, 10, 1)) == 4;
            }}"#
        );
        let mut command = Command::new("perl");
        let mut child = host.spawn(command.args(["-e", &script]).stdout(Stdio::piped())).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "listening");
        Frames { child, lines }
    }

    fn next(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// Waits for one.
    pub fn until(&mut self, is_it: impl Fn(&str) -> bool) -> String {
        loop {
            let frame = self.next();
            if is_it(&frame) {
                return frame;
            }
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a frame, given by hexadecimal digits, by the interface of a host.
fn send_frame(host: &Host, frame: &str) {
    let script = r#"use Socket;
        my $index = do { local @ARGV = ("/sys/class/net/to-box/ifindex"); <> };
        socket(my $s, 17, SOCK_RAW, 0) or die "socket: $!";
        send($s, pack("H*", $ENV{FRAME}), 0, pack("S n i S C C x8", 17, 3, $index, 0, 0, 6)) or die "send: $!";"#;
    let sent = host.run(|| Command::new("perl").args(["-e", script]).env("FRAME", frame).output().unwrap());
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
}

fn digits(address: &str) -> String {
    address.replace(':', "")
}

#[test]
fn a_bridge_splits_what_passes_and_the_ends_see_each_other_alone() {
    let Some(site) = Site::new("splits") else { return };
    let mut gateway = site.start(&[]);
    let [client, server] = ["client", "server"].map(|host| digits(&site.hardware_address(host)));
    let mut connections = Vec::new();
    // Of each frame of TCP: whom it is for, whom it is from, and how many routers it has passed.
    for (to, is_v4) in SERVER.into_iter().zip([true, false]) {
        let mut at_client = Frames::seen_at(site.lab.host("client"), None);
        let mut at_server = Frames::seen_at(site.lab.host("server"), None);
        let connection = site.connect(to);
        exchange(&connection, MUCH);
        connections.push(connection);
        let is_tcp = |frame: &str| match is_v4 {
            true => frame.len() > 50 && &frame[24..28] == "0800" && &frame[46..48] == "06",
            false => frame.len() > 50 && &frame[24..28] == "86dd" && &frame[40..42] == "06",
        };
        for (frames, to, from) in [(&mut at_client, &client, &server), (&mut at_server, &server, &client)] {
            for _ in 0..10 {
                let frame = frames.until(is_tcp);
                assert_eq!((&frame[..12], &frame[12..24]), (to.as_str(), from.as_str()), "{frame}");
                let hops = if is_v4 { &frame[44..46] } else { &frame[42..44] };
                assert_eq!(hops, "40", "64 hops are left of 64: {frame}");
            }
        }
    }
    assert_eq!(site.states(), ["split"; 2]);
    assert_eq!(site.count("dropped_without_header"), 0);
    let before = site.settled();
    assert!(before > 1_000, "{before} packets");
    site.datagram(SERVER[0]);
    site.datagram(SERVER[1]);
    site.ping();
    // Neighbours of neighbours: LLDP, LACP, STP; and TCP of another network.
    let tcp = "4500002800004000400600000a4d00010a4d0002303904d2000000010000000050020000000000005368";
    for (what, to, rest, tag) in [
        ("LLDP", "0180c200000e", "88cc0207040000000000010405", None),
        ("LACP", "0180c2000002", "88090101", None),
        ("STP", "0180c2000000", "0026424203000000000080", None),
        ("tagged", server.as_str(), &format!("810000070800{tcp}"), Some(7)),
    ] {
        let mut frames = Frames::seen_at(site.lab.host("server"), tag);
        send_frame(site.lab.host("client"), &format!("{to}{client}{rest}{}", "00".repeat(46)));
        let begin =
            if tag.is_some() { format!("{to}{client}0800{tcp}") } else { format!("{to}{client}{rest}") };
        println!("waiting for {what}");
        frames.until(|frame| frame.starts_with(&begin));
    }
    assert_eq!(site.count("packets_in"), before, "none of these is a matter of the gateway");
    drop(connections);
    signal(&gateway, "TERM");
    assert!(gateway.child.wait().unwrap().success());
}

#[test]
fn a_killed_gateway_is_not_missed_and_the_next_one_delivers_what_it_held() {
    let Some(site) = Site::new("killed") else { return };
    let mut gateway = site.start(&["--mode", "split"]);
    let silent = site.connect(SERVER[0]);
    exchange(&silent, 100_000);
    let (mut reader, mut writer) = site.connect(SERVER[1]);
    // The gateway has it, and the client does not hear of it any more.
    let nft = |rules: &str| {
        let host = site.lab.host("client");
        let said = host.run(|| Command::new("nft").arg(rules).output().unwrap());
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    };
    nft("table inet deaf { chain in { type filter hook input priority 0; ip6 nexthdr tcp drop; }; }");
    let bytes: Vec<u8> = (0..300_000).map(|at| (at * 7 % 253) as u8).collect();
    writer.write_all(&bytes).unwrap();
    let held = || {
        let flows = site.ask(&[]);
        let port = u64::from(writer.local_addr().unwrap().port());
        let all = flows.as_array().unwrap().clone();
        all.iter()
            .any(|flow| flow.to_string().contains(&port.to_string()) && flow.to_string().contains("300000"))
    };
    let since = Instant::now();
    while !held() {
        assert!(since.elapsed() < TIMEOUT, "the gateway does not have it: {}", site.ask(&[]));
        std::thread::yield_now();
    }
    signal(&gateway, "KILL");
    gateway.child.wait().unwrap();
    // Everything goes on at once, without it.
    let killed = Instant::now();
    let direct = site.connect(SERVER[0]);
    let pause = killed.elapsed();
    exchange(&direct, MUCH);
    exchange(&silent, MUCH);
    site.ping();
    site.datagram(SERVER[0]);
    assert!(pause < Duration::from_secs(3), "a SYN was lost twice: {pause:?}");
    // Both ends have nothing to say: the next gateway knows them all the same.
    let mut gateway = site.start(&["--mode", "split"]);
    nft("delete table inet deaf");
    let mut got = vec![0; bytes.len()];
    reader.read_exact(&mut got).unwrap();
    assert!(got == bytes, "other bytes than were sent");
    let later = site.connect(SERVER[0]);
    exchange(&later, 100_000);
    exchange(&(reader, writer), 100_000);
    assert!(site.count("flows_split") >= 1);
    assert_eq!(site.count("dropped_without_header"), 0);
    drop((direct, silent, later));
    signal(&gateway, "TERM");
    assert!(gateway.child.wait().unwrap().success());
}

#[test]
fn a_bridge_is_taken_over_and_left_without_a_byte_lost() {
    let Some(site) = Site::new("taken") else { return };
    let mut first = site.start(&["--workers", "2"]);
    let (mut client, mut server) = site.connect(SERVER[0]);
    let mut second = None;
    transfer(&mut server, &mut client, MUCH, || {
        second = Some(site.start(&["--workers", "2", "--take-over"]))
    });
    assert!(first.child.wait().unwrap().success());
    let mut second = second.unwrap();
    assert_eq!(site.states(), ["split"]);
    transfer(&mut client, &mut server, MUCH, || {});
    let more: Vec<_> = SERVER.iter().map(|to| site.connect(*to)).collect();
    for connection in &more {
        exchange(connection, 1 << 20);
    }
    assert_eq!((site.count("dropped_without_header"), site.count("dropped_handed_on")), (0, 0));
    // It steps out while bytes are on their way, and the bridge has the rest.
    transfer(&mut server, &mut client, MUCH, || signal(&second, "TERM"));
    assert!(second.child.wait().unwrap().success());
    for connection in more.iter().chain([&(client, server)]) {
        exchange(connection, 1 << 20);
    }
    site.ping();
    let remains = || {
        let all = site.interfaces();
        all.lines().filter(|line| line.contains(": sh-")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(matches!(&remains()[..], [bridge] if bridge.contains("sh-gw-b")), "{:?}", remains());
    let said = site
        .at_box()
        .run(|| site.command(&["--bridge", "to-client,to-server", "--remove"]).output().unwrap());
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(text.contains("removed: bridge sh-gw-b") && text.contains("removed: map "), "{text}");
    assert!(remains().is_empty());
}

/// The client's cable is pulled, and with it the box's interface; then there is another one of that name, as of a network card that is plugged in
/// again. Of somebody else's bridge it is a part only when somebody makes it one.
fn has_a_port_made_again(site: &Site, bridge: &str, is_own: bool) {
    let here = site.at_box();
    let mut gateway = site.start(&[]);
    let mut said = BufReader::new(gateway.child.stderr.take().unwrap()).lines();
    let mut hears = |words: &str| loop {
        let line = said.next().unwrap_or_else(|| panic!("it never said `{words}`")).unwrap();
        if line.contains(words) {
            break line;
        }
    };
    let (mut client, mut server) = site.connect(SERVER[0]);
    let mut next = None;
    transfer(&mut server, &mut client, MUCH, || {
        let hardware = site.hardware_address("client");
        ip(here, "link del to-client");
        let line = hears("any more");
        assert!(line.contains("`to-client` is no part of the bridge") && line.contains(bridge), "{line}");
        let [network, _] = site.lab.host("client").namespace_files();
        let other_end = format!("peer name to-box address {hardware} netns {}", network.display());
        ip(here, &format!("link add to-client type veth {other_end}"));
        ip(site.lab.host("client"), "link set to-box up");
        ip(site.lab.host("client"), &format!("addr add {}/24 dev to-box", CLIENT[0]));
        ip(site.lab.host("client"), &format!("addr add {}/64 dev to-box nodad", CLIENT[1]));
        ip(here, "link set to-client up");
        if !is_own {
            std::thread::sleep(Duration::from_millis(500));
            assert!(gateway.child.try_wait().unwrap().is_none(), "nobody has made it a port yet");
            ip(here, &format!("link set to-client master {bridge}"));
        }
        let line = hears("error: ");
        assert!(line.contains("`to-client` is there again") && line.contains(bridge), "{line}");
        assert_eq!(gateway.child.wait().unwrap().code(), Some(1));
        let check = || site.command(&["--bridge", "to-client,to-server", "--check"]).output().unwrap();
        let text = String::from_utf8_lossy(&here.run(check).stdout).into_owned();
        let expected = if is_own { "to-client becomes its port again" } else { "are its ports" };
        assert!(text.contains(&format!("bridge {bridge}: ")) && text.contains(expected), "{text}");
        next = Some(site.start(&[]));
    });
    let mut next = next.unwrap();
    assert_eq!((site.count("flows_resumed"), site.count("flows_lost_in_crash")), (1, 0));
    exchange(&(client, server), 1 << 20);
    exchange(&site.connect(SERVER[1]), 1 << 20);
    site.ping();
    signal(&next, "TERM");
    assert!(next.child.wait().unwrap().success());
}

#[test]
fn a_port_that_is_gone_is_told_of_and_the_next_gateway_joins_it_again() {
    let Some(site) = Site::new("again") else { return };
    has_a_port_made_again(&site, "sh-gw-b", true);
    // Both are out of it, and it is there: as somebody may leave it.
    for port in ["to-client", "to-server"] {
        ip(site.at_box(), &format!("link set {port} nomaster"));
    }
    let gateway = site.start(&[]);
    site.ping();
    signal(&gateway, "TERM");
}

#[test]
fn a_port_that_is_gone_from_somebody_elses_bridge_is_waited_for_until_it_is_one_again() {
    let Some(site) = Site::new("again-own") else { return };
    for arguments in [
        "link add br0 type bridge",
        "link set br0 up",
        "link set to-client master br0",
        "link set to-server master br0",
    ] {
        ip(site.at_box(), arguments);
    }
    has_a_port_made_again(&site, "br0", false);
}

#[test]
fn a_bridge_of_ones_own_keeps_its_address_and_its_ports_have_their_own_mtus() {
    let Some(site) = Site::new("own") else { return };
    let here = site.at_box();
    for arguments in [
        "link add br0 type bridge",
        "link set br0 up",
        "link set to-client master br0",
        "link set to-server master br0",
        "addr add 10.77.0.9/24 dev br0",
        "link set to-server mtu 1400",
    ] {
        ip(here, arguments);
    }
    ip(site.lab.host("server"), "link set to-box mtu 1400");
    let said = here.run(|| site.command(&["--bridge", "to-client,to-server", "--check"]).output().unwrap());
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(text.contains("bridge br0: to-client and to-server are its ports"), "{text}");
    let gateway = site.start(&[]);
    let listener = here.run(|| TcpListener::bind("10.77.0.9:0")).unwrap();
    let to = listener.local_addr().unwrap();
    for host in ["client", "server"] {
        let near = site.lab.host(host).run(|| TcpStream::connect_timeout(&to, TIMEOUT)).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_read_timeout(Some(TIMEOUT)).unwrap();
        exchange(&(near, far), 1 << 20);
    }
    assert_eq!(site.states(), [""; 0], "what is for the box is not the gateway's");
    // Frames of 1500 bytes would not pass to the server.
    let connection = site.connect(SERVER[0]);
    exchange(&connection, MUCH);
    assert_eq!(site.states(), ["split"]);
    signal(&gateway, "TERM");
}

#[test]
fn with_all_traffic_datagrams_pass_through_the_gateway() {
    let Some(site) = Site::new("all") else { return };
    std::fs::write(
        site.folder.join("gateway.toml"),
        "bridge = [\"to-client\", \"to-server\"]\ntraffic = \"all\"\n",
    )
    .unwrap();
    let file = site.folder.join("gateway.toml");
    let file = file.to_str().unwrap();
    let gateway = Running::start_in(site.at_box(), &mut site.command(&["--config", file]), 1);
    let before = site.count("packets_in");
    for to in SERVER {
        site.datagram(to);
    }
    site.ping();
    assert!(site.count("packets_in") >= before + 3, "answers from the server are led into the gateway");
    exchange(&site.connect(SERVER[1]), 1 << 20);
    assert_eq!(site.count("dropped_without_header"), 0);
    signal(&gateway, "TERM");
}

#[test]
fn what_cannot_be_joined_is_said_before_anything_is_changed() {
    let Some(site) = Site::new("mistakes") else { return };
    let here = site.at_box();
    let bridge = |names: &str, words: &[&str]| {
        let said = site.refused(&["--bridge", names]);
        for word in words {
            assert!(said.contains(word), "{names}: `{word}` is missing: {said}");
        }
    };
    bridge("to-client", &["--bridge", "eth0,eth1"]);
    bridge("to-client,to-client", &["bridge: `to-client` is named twice"]);
    bridge("to-client,none", &["there is no interface `none`", "to-server"]);
    bridge("to-client,lo", &["`lo` cannot be a port"]);
    ip(here, "addr add 192.0.2.1/24 dev to-server");
    bridge("to-client,to-server", &["`to-server` has the address 192.0.2.1", "ip addr flush dev to-server"]);
    ip(here, "addr flush dev to-server");
    ip(here, "link set to-client down");
    bridge("to-client,to-server", &["`to-client` is down: run `ip link set to-client up`"]);
    ip(here, "link set to-client up");
    ip(here, "link add br0 type bridge");
    ip(here, "link set to-client master br0");
    bridge("to-client,to-server", &["`to-client` is a part of `br0` already", "nomaster"]);
    ip(here, "link set to-server master br0");
    bridge("to-client,to-server", &["the bridge `br0` is down"]);
    ip(here, "link set br0 up type bridge stp_state 1");
    bridge("to-client,to-server", &["`br0` speaks STP", "stp_state 0"]);
    ip(here, "link set br0 type bridge stp_state 0");
    ip(here, "link add third type veth peer name fourth");
    ip(here, "link set third master br0");
    bridge("to-client,to-server", &["`br0` has `third` as a port, too", "ip link set third nomaster"]);
    ip(here, "link del br0");
    let said = site.refused(&["--bridge", "to-client,to-server", "--wan", "third"]);
    assert!(said.contains("--bridge") && said.contains("--wan"), "{said}");
    let said = site.refused(&["--bridge", "to-client,to-server", "--answer-probes", "no-such-key"]);
    assert!(said.contains("--answer-probes answers from addresses of this host"), "{said}");
    let said = site.refused(&["--bridge", "to-client,to-server", "--take-over"]);
    assert!(said.contains("leave out --take-over"), "{said}");
    let mut gateway = site.start(&[]);
    let said = site.refused(&["--bridge", "to-client,to-server", "--name", "other"]);
    assert!(said.contains("`to-client` is another gateway's already: `gw`"), "{said}");
    signal(&gateway, "TERM");
    assert!(gateway.child.wait().unwrap().success());
}
