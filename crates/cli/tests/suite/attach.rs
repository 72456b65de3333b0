//! A gateway on a router that has a firewall, address translation and policy routing, which are as they would be without it. Needs root:
//! programs at interfaces are not for user namespaces, and where they cannot be loaded nothing is tried.
use crate::bridge::{Frames, exchange, ip, is_privileged};
use crate::gateway::{Site, signal, status_of_threads, transfer};
use crate::program::program;
use shorthaul_lab::{Lab, LinkDescription, Topology};
use shorthaul_types::Seed;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
/// More than the ends' own buffers take.
const MUCH: usize = 8 << 20;
pub const ATTACHED: &str = "attach = \"interface\"\n";
pub const MASQUERADE: &str = "table ip nat {\n chain post {\n type nat hook postrouting priority 100;\n oifname to-server masquerade\n }\n}\n";
pub const FIREWALL: &str = "table inet guard {\n chain pass {\n type filter hook forward priority 0; policy drop;\n \
                        iifname to-client oifname to-server ct state new accept\n ct state established,related accept\n }\n}\n";

fn site(name: &str, config: &str) -> Option<Site> {
    if !is_privileged() {
        return None;
    }
    // Emulated links have no Ethernet.
    let mut topology = Topology::new(Seed(1));
    topology.add_link(LinkDescription::direct("client", "gateway"));
    topology.add_link(LinkDescription::direct("gateway", "server"));
    let lab = Lab::start(&topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}"));
    Some(mounted(&format!("attach-{name}"), config, lab))
}

/// A gateway in a lab. Programs of a lab have mounts of their own: what one mounts, the next one does not see.
pub fn mounted(name: &str, config: &str, lab: Lab) -> Site {
    let mount = || Command::new("mount").args(["-t", "bpf", "bpf", "/sys/fs/bpf"]).status().unwrap();
    assert!(lab.host("gateway").run(mount).success());
    Site::in_lab(name, config, lab)
}

/// Rules of the router's firewall.
pub fn nft(site: &Site, rules: &str) {
    let mut nft = Command::new(program("nft"));
    let mut nft = site.lab.host("gateway").spawn(nft.args(["-f", "-"]).stdin(Stdio::piped())).unwrap();
    nft.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
    assert!(nft.wait().unwrap().success(), "{rules}");
}

/// Connections of both versions, from the client to the server, and whom the server sees.
fn connect(site: &Site) -> Vec<((TcpStream, TcpStream), IpAddr)> {
    let server = site.lab.host("server");
    let addresses: [IpAddr; 2] = [server.address_v4().into(), server.address_v6().into()];
    let connect = |address: IpAddr| {
        let listener = server.run(|| TcpListener::bind((address, 0))).unwrap();
        let to = listener.local_addr().unwrap();
        let client = site.lab.host("client").run(|| TcpStream::connect_timeout(&to, TIMEOUT)).unwrap();
        let (server, from) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(TIMEOUT)).unwrap();
            end.set_write_timeout(Some(TIMEOUT)).unwrap();
        }
        ((client, server), from.ip())
    };
    addresses.into_iter().map(connect).collect()
}

fn states(site: &Site) -> Vec<String> {
    let flows = site.ask(&[]);
    flows.as_array().unwrap().iter().map(|flow| flow["state"].as_str().unwrap().to_owned()).collect()
}

/// Connections are split, and have their bytes; the server sees the client at these addresses.
fn splits(site: &Site, seen: [IpAddr; 2]) {
    for ((pair, from), expected) in connect(site).into_iter().zip(seen) {
        assert_eq!(from, expected);
        exchange(&pair, MUCH);
        assert!(states(site).contains(&"split".to_owned()), "{:?}", states(site));
    }
    assert_eq!(site.ask(&["--counters"])["dropped_without_header"], 0);
}

fn client(site: &Site) -> [IpAddr; 2] {
    let client = site.lab.host("client");
    [client.address_v4().into(), client.address_v6().into()]
}

/// The router's addresses toward the server, and toward the client.
fn router(site: &Site, toward: &str) -> [IpAddr; 2] {
    let router = site.lab.host("gateway");
    let interface = router.interfaces().iter().find(|interface| interface.name == toward).unwrap();
    [interface.v4.addr().into(), interface.v6.addr().into()]
}

#[test]
fn a_router_that_masquerades_and_drops_by_names_of_interfaces_goes_on_to() {
    let Some(site) = site("masquerade", ATTACHED) else { return };
    nft(&site, MASQUERADE);
    nft(&site, FIREWALL);
    let mut gateway = site.start();
    let seen = [router(&site, "to-server")[0], client(&site)[1]];
    splits(&site, seen);
    // Who comes from the other side is not let in, as before.
    let listener = site.lab.host("client").run(|| TcpListener::bind((client(&site)[1], 0))).unwrap();
    let to = listener.local_addr().unwrap();
    let strange = site.lab.host("server").run(|| TcpStream::connect_timeout(&to, Duration::from_secs(1)));
    assert!(strange.is_err(), "the firewall let it in");
    // What is under way goes on when the gateway is gone, and comes back, however it went.
    let (mut near, mut far) = connect(&site).remove(0).0;
    transfer(&mut far, &mut near, MUCH, || {
        gateway.child.kill().unwrap();
        gateway.child.wait().unwrap();
        gateway = site.start();
    });
    transfer(&mut near, &mut far, MUCH, || {
        let old = std::mem::replace(&mut gateway, {
            let mut next = site.command();
            next.arg("--take-over").stderr(Stdio::piped());
            crate::relays::Running::start_in(site.lab.host("gateway"), &mut next, 1)
        });
        drop(old);
    });
    signal(&gateway, "TERM");
    exchange(&(near, far), MUCH);
    assert!(gateway.child.wait().unwrap().success());
}

#[test]
fn a_policy_rule_ahead_of_all_leads_where_it_leads_without_a_gateway() {
    let Some(site) = site("policy-rule", ATTACHED) else { return };
    let router = site.lab.host("gateway");
    for (family, address) in ["-4", "-6"].into_iter().zip(client(&site)) {
        ip(router, &format!("{family} rule add from {address} lookup main priority 100"));
    }
    let _gateway = site.start();
    splits(&site, client(&site));
}

#[test]
fn a_router_with_a_gateway_is_one_router() {
    let Some(site) = site("one-router", ATTACHED) else { return };
    let hops = |expected: &str, expected_states: &[&str]| {
        let mut at_server = Frames::seen_at(site.lab.host("server"), None);
        let mut at_client = Frames::seen_at(site.lab.host("client"), None);
        let pairs = connect(&site);
        exchange(&pairs[0].0, 1 << 16);
        if !expected_states.is_empty() {
            assert_eq!(states(&site), expected_states);
        }
        let is_tcp = |frame: &str| frame.len() > 50 && &frame[24..28] == "0800" && &frame[46..48] == "06";
        for frames in [&mut at_server, &mut at_client] {
            let frame = frames.until(is_tcp);
            assert_eq!(&frame[44..46], expected, "{frame}");
        }
    };
    hops("3f", &[]);
    let _gateway = site.start();
    hops("3f", &["split"; 2]);
}

#[test]
fn the_routers_own_connections_do_not_meet_the_gateway() {
    let Some(site) = site("own", ATTACHED) else { return };
    let gateway = site.start();
    let (host, client_host) = (site.lab.host("gateway"), site.lab.host("client"));
    let timeout = |(near, far): (TcpStream, TcpStream)| {
        for end in [&near, &far] {
            end.set_read_timeout(Some(TIMEOUT)).unwrap();
        }
        exchange(&(near, far), 1 << 20);
    };
    // Whichever address of the router's is meant; and one that it has from now on.
    ip(host, "addr add 10.99.0.1/32 dev to-server");
    std::thread::sleep(Duration::from_millis(200));
    let toward = [router(&site, "to-client"), router(&site, "to-server")].concat();
    for address in toward.into_iter().chain([IpAddr::from([10, 99, 0, 1])]) {
        if address == IpAddr::from([10, 99, 0, 1]) {
            let router = router(&site, "to-client")[0];
            ip(client_host, &format!("route add 10.99.0.1/32 via {router}"));
        }
        let listener = host.run(|| TcpListener::bind((address, 0))).unwrap();
        let to = listener.local_addr().unwrap();
        let near = client_host.run(|| TcpStream::connect_timeout(&to, TIMEOUT)).unwrap();
        timeout((near, listener.accept().unwrap().0));
    }
    for address in client(&site) {
        let listener = client_host.run(|| TcpListener::bind((address, 0))).unwrap();
        let to = listener.local_addr().unwrap();
        let near = host.run(|| TcpStream::connect_timeout(&to, TIMEOUT)).unwrap();
        timeout((near, listener.accept().unwrap().0));
    }
    // What the host says by the devices themselves, to routers for multicast, is none of them.
    let counters = site.ask(&["--counters"]);
    assert_eq!(counters["packets_in"], counters["passed-extension-headers"], "{counters}");
    // Who learns of addresses has no more privileges than the others.
    let threads = status_of_threads(gateway.child.id(), &["CapEff", "Seccomp"]);
    assert!(threads.iter().any(|(name, _)| name == "addresses"), "{threads:?}");
    for (thread, values) in &threads {
        assert_eq!(values, &["0000000000000000", "2"], "{thread}");
    }
}

/// What the gateway would do there.
fn check(site: &Site, more: &[&str]) -> String {
    let mut command = site.command();
    command.args(more).arg("--check");
    let said = site.lab.host("gateway").run(|| command.output().unwrap());
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn left_to_itself_it_goes_by_rules_unless_something_does_not_go_with_them() {
    let Some(site) = site("left", "") else { return };
    let said = check(&site, &[]);
    assert!(said.contains("rules 7001") && !said.contains("programs at"), "{said}");
    nft(&site, MASQUERADE);
    let said = check(&site, &[]);
    assert!(said.contains("programs at to-client") && !said.contains("warning"), "{said}");
    // Who may not load programs goes by rules, and says why; or not at all, if they were asked for.
    let host = site.lab.host("gateway");
    let without = |more: &[&str]| {
        let gateway = site.command();
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set", "-bpf,-sys_admin"])
            .arg(gateway.get_program())
            .args(gateway.get_args());
        command.args(more).arg("--check");
        let said = host.run(|| command.output().unwrap());
        (said.status.success(), String::from_utf8([said.stdout, said.stderr].concat()).unwrap())
    };
    let (is_possible, said) = without(&[]);
    assert!(
        is_possible && said.contains("rules 7001") && said.contains("programs cannot be attached"),
        "{said}"
    );
    assert!(said.contains("CAP_BPF"), "{said}");
    let (is_possible, said) = without(&["--attach", "interface"]);
    assert!(!is_possible && said.contains("CAP_BPF") && said.contains("attach = \"rules\""), "{said}");
    // The same where an interface is none for them.
    ip(host, "link add br0 type bridge");
    ip(host, "link set to-client master br0");
    let said = check(&site, &[]);
    assert!(said.contains("rules 7001") && said.contains("`to-client` is a part of `br0`"), "{said}");
}

#[test]
fn rules_are_the_way_where_they_are_asked_for_and_what_does_not_go_with_them_is_told() {
    let Some(site) = site("by-rules", "attach = \"rules\"\n") else { return };
    nft(&site, MASQUERADE);
    nft(&site, FIREWALL);
    let check = |more: &[&str]| check(&site, more);
    let said = check(&[]);
    for words in ["warning", "masquerade", "sh-gw-e", "rules 7001"] {
        assert!(said.contains(words), "{said}");
    }
    let said = check(&["--attach", "interface"]);
    assert!(said.contains("programs at to-client") && !said.contains("warning"), "{said}");
    // A second gateway there is refused, whichever way the first one goes.
    let mut command = site.command();
    let mut first = site
        .lab
        .host("gateway")
        .spawn(command.args(["--attach", "interface"]).stdout(Stdio::piped()))
        .unwrap();
    let mut line = String::new();
    BufReader::new(first.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("ready"), "{line}");
    // Neither on its side, nor on the other one.
    let [same, turned] = [&[][..], &["--access", "to-server", "--wan", "to-client"]].map(|more| {
        let mut second = site.command();
        second.args(["--name", "other", "--check"]).args(more);
        let said = site.lab.host("gateway").run(|| second.output().unwrap());
        String::from_utf8_lossy(&said.stderr).into_owned()
    });
    first.kill().unwrap();
    first.wait().unwrap();
    for said in [same, turned] {
        assert!(said.contains("another gateway's already"), "{said}");
    }
}

#[test]
fn with_all_traffic_the_gateway_hears_the_errors_of_its_own_host() {
    let config = format!("{ATTACHED}traffic = \"all\"\n[to_wan]\nblack_hole_probing = false\n");
    let Some(site) = site("own-errors", &config) else { return };
    let _gateway = site.start();
    let host = site.lab.host("gateway");
    let servers = site.lab.host("server");
    let routes = [servers.address_v4().to_string(), servers.address_v6().to_string()];
    let pairs = connect(&site);
    // The host's next hop takes less from now on, and the host says so.
    for (family, server) in ["-4", "-6"].into_iter().zip(routes) {
        ip(host, &format!("{family} route add {server} dev to-server mtu 1300"));
    }
    for (pair, _) in &pairs {
        exchange(pair, 1 << 20);
    }
}
