//! `traffic = "all"` between kernels: whatever passes a gateway, whatever becomes of it, and QUIC beside TCP. Needs root, or user namespaces.
use crate::gateway::{Site, signal};
use crate::mixed::{self, PAGE_EVERY, Servers, Transport, Work};
use crate::relays::{Running, SHORTHAUL};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(20);
const ALL: &str = "traffic = \"all\"\ncontrol_group = 0.0\n[[bottleneck]]\nname = \"link\"\n";

/// A socket at the client, and one at the server that it is connected to.
fn sockets(site: &Site, v6: bool) -> [UdpSocket; 2] {
    let bind = |host: &str| {
        let host = site.lab.host(host);
        let here: IpAddr = if v6 { host.address_v6().into() } else { host.address_v4().into() };
        let socket = host.run(|| UdpSocket::bind(SocketAddr::new(here, 0))).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        socket
    };
    let [client, server] = ["client", "server"].map(bind);
    client.connect(server.local_addr().unwrap()).unwrap();
    [client, server]
}

/// Sends a datagram there and back until it comes, as it was.
fn echo([client, server]: &[UdpSocket; 2], length: usize) {
    let datagram: Vec<u8> = (0..length).map(|place| place as u8).collect();
    let mut buffer = vec![0; 65_536];
    let deadline = Instant::now() + TIMEOUT;
    loop {
        assert!(Instant::now() < deadline, "a datagram of {length} bytes does not come back");
        client.send(&datagram).unwrap();
        let Ok((got, from)) = server.recv_from(&mut buffer) else { continue };
        server.send_to(&buffer[..got], from).unwrap();
        let back = client.recv(&mut buffer);
        if back.is_ok_and(|got| buffer[..got] == datagram) {
            return;
        }
    }
}

/// What of a gateway is to be seen in the routing of its host.
fn traces(site: &Site) -> Vec<String> {
    let ask = |arguments: &[&str]| {
        let said = site.lab.host("gateway").run(|| Command::new("ip").args(arguments).output()).unwrap();
        String::from_utf8_lossy(&said.stdout).into_owned()
    };
    let listed =
        [&["rule", "show"][..], &["-6", "rule", "show"], &["link", "show"], &["address", "show"]].map(ask);
    let ours = |line: &&str| line.contains("iif to-") || line.contains("sh-default");
    listed.iter().flat_map(|text| text.lines().filter(ours).map(str::to_owned)).collect()
}

#[test]
fn datagrams_of_all_sizes_have_their_turns_and_outlive_the_gateway() {
    let site = Site::new("all-traffic", &format!("attach = \"rules\"\n{ALL}"));
    let mut gateway = site.start();
    let pairs = [false, true].map(|v6| sockets(&site, v6));
    for pair in &pairs {
        // Nothing measures the link yet: they pass. Beside TCP they have turns.
        echo(pair, 1200);
    }
    let (mut client, mut server) = site.connect();
    crate::gateway::transfer(&mut server, &mut client, 1 << 20, || {
        for pair in &pairs {
            [0, 1200, 4000, 40_000].into_iter().for_each(|length| echo(pair, length));
        }
    });
    let counters = site.ask(&["--counters"]);
    let bytes = |name: &str| counters[name].as_u64().unwrap();
    assert!(bytes("bytes_shaped") > 80_000, "{counters}");
    assert!(bytes("bytes_untouched") > 2400 && bytes("shaped_dropped") == 0, "{counters}");

    // In a crash nothing is lost but what it had in its hands, and no rule stays.
    assert!(traces(&site).iter().any(|rule| rule.contains("iif to-server") && !rule.contains("ipproto")));
    signal(&gateway, "KILL");
    pairs.iter().for_each(|pair| echo(pair, 4000));
    gateway.child.wait().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while !traces(&site).is_empty() {
        assert!(Instant::now() < deadline, "it left {:?}", traces(&site));
        std::thread::yield_now();
    }
    pairs.iter().for_each(|pair| echo(pair, 4000));

    let mut next = site.start();
    pairs.iter().for_each(|pair| echo(pair, 1200));
    drop((client, server));
    signal(&next, "TERM");
    assert!(next.child.wait().unwrap().success());
    assert_eq!(traces(&site), Vec::<String>::new());
    pairs.iter().for_each(|pair| echo(pair, 1200));
}

#[test]
fn whatever_is_not_tcp_keeps_its_promises_in_the_scheduler() {
    let file = std::env::temp_dir().join(format!("shorthaul-all-{}.toml", std::process::id()));
    std::fs::write(&file, format!("{ALL}rate = \"500 Mbit/s\"\n")).unwrap();
    let mut command = Command::new(SHORTHAUL);
    command.args(["conformance", "--fault", "none", "--gateway-option=--config"]);
    command.arg(format!("--gateway-option={}", file.display()));
    for case in ["udp-passes", "fragments-pass", "ping-passes", "port-unreachable-passes"] {
        command.args(["--only", case]);
    }
    let said = command.output().unwrap();
    std::fs::remove_file(file).unwrap();
    let report = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success() && report.contains("8 passed, 0 failed"), "{report}");
}

#[test]
fn quic_and_tcp_have_half_of_the_link_each_and_every_byte_is_right() {
    let lab = mixed::lab();
    let folder = std::env::temp_dir().join(format!("shorthaul-quic-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let config = folder.join("gateway.toml");
    std::fs::write(&config, format!("access = [\"to-phone\"]\nwan = [\"to-server\"]\n{ALL}")).unwrap();
    let mut command = Command::new(SHORTHAUL);
    command.arg("gateway").arg("--config").arg(&config).arg("--run-dir").arg(&folder).stderr(Stdio::null());
    let gateway = Running::start_in(lab.host("gateway"), &mut command, 1);
    let servers = Servers::start(&lab);
    let work =
        Work { bulk: &[Transport::Tcp, Transport::Quic], pages: Transport::Quic, lasts: 5 * PAGE_EVERY };
    let seen = mixed::run(&lab, &servers, &work);
    drop(gateway);
    // Whoever still holds a file there is no concern of this test.
    let _ = std::fs::remove_dir_all(&folder);
    let [tcp, quic] = seen.bulk[..] else { panic!("two downloads") };
    // Where QUIC passes as it comes it has three quarters or more. Other tests run beside.
    let share = tcp / (tcp + quic);
    assert!((0.35..0.65).contains(&share) && tcp + quic > 8.0, "{seen:?}");
    // It is 9 to 27 ms where nothing runs beside, and 58 to 60 where it is full.
    assert!(seen.queue <= 50.0 + seen.late, "the link's queue of 60 ms is full: {seen:?}");
    assert!(!seen.pages.is_empty() && mixed::mean(&seen.pages) < 1.5, "{seen:?}");
}
