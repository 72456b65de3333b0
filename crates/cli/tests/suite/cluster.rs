//! Several gateways behind a switch that leads each mobile host through one of them (AGG-11), as the documentation sets
//! them up: `docs/gateway.md`. Needs root, or user namespaces, and `nft`.
use crate::program::program;
use crate::relays::{Running, SHORTHAUL};
use shorthaul_lab::{Lab, LinkDescription, Topology};
use shorthaul_link::LinkConfig;
use shorthaul_types::Seed;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
const PORT: u16 = 8080;
const PHONES: [&str; 4] = ["phone-1", "phone-2", "phone-3", "phone-4"];
const GATEWAYS: [&str; 2] = ["gw-1", "gw-2"];
/// One toward the phones, one toward the server.
const SWITCHES: [&str; 2] = ["radio", "core"];
/// What a connection downloads at a time.
const PIECE: u32 = 200_000;

fn lab() -> Lab {
    let delay = |ms| LinkConfig { delay: Duration::from_millis(ms), ..LinkConfig::default() };
    let mut topology = Topology::new(Seed(1));
    for phone in PHONES {
        topology.add_link(LinkDescription::symmetric(phone, SWITCHES[0], delay(5)));
    }
    for gateway in GATEWAYS {
        topology.add_link(LinkDescription::symmetric(SWITCHES[0], gateway, delay(1)));
        topology.add_link(LinkDescription::symmetric(gateway, SWITCHES[1], delay(1)));
    }
    topology.add_link(LinkDescription::symmetric(SWITCHES[1], "server", delay(5)));
    Lab::start(&topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}"))
}

fn in_host(lab: &Lab, host: &str, name: &str, arguments: &[&str], input: &str) {
    let mut command = Command::new(program(name));
    let mut child = lab.host(host).spawn(command.args(arguments).stdin(Stdio::piped())).expect("it starts");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{name} {arguments:?}\n{input}");
}

/// A table for each gateway, by which whatever has its mark goes to it.
fn lead_marked_packets(lab: &Lab) {
    for switch in SWITCHES {
        for (number, gateway) in (1..).zip(GATEWAYS) {
            let name = format!("to-{switch}");
            let port = lab.host(gateway).interfaces().iter().find(|port| port.name == name).unwrap();
            let table = (100 + number).to_string();
            for (family, via) in [("-4", port.v4.addr().to_string()), ("-6", port.v6.addr().to_string())] {
                let ip =
                    |arguments: &[&str]| in_host(lab, switch, "ip", &[&[family], arguments].concat(), "");
                ip(&["route", "add", "default", "via", &via, "table", &table]);
                ip(&["rule", "add", "fwmark", &number.to_string(), "lookup", &table]);
            }
        }
    }
}

/// The mark of a mobile host's packets, in both directions, is a hash of its address.
fn share_among(lab: &Lab, gateways: std::ops::RangeInclusive<usize>) {
    let (first, count) = (gateways.start(), gateways.clone().count());
    for (switch, from_phones) in SWITCHES.into_iter().zip([true, false]) {
        let host = lab.host(switch);
        let end = if from_phones { "saddr" } else { "daddr" };
        let mut rules = String::from("table inet cluster\ndelete table inet cluster\n");
        rules += "table inet cluster {\n chain share {\n  type filter hook prerouting priority mangle\n";
        for port in host.interfaces().iter().filter(|port| !port.name.starts_with("to-gw")) {
            for ip in ["ip", "ip6"] {
                let _ = writeln!(
                    rules,
                    "  iifname \"{}\" meta mark set jhash {ip} {end} mod {count} seed 0x5 offset {first}",
                    port.name
                );
            }
        }
        in_host(lab, switch, "nft", &["-f", "-"], &(rules + " }\n}\n"));
    }
}

struct Gateways {
    folder: PathBuf,
    running: Vec<Running>,
}

impl Gateways {
    fn start(lab: &Lab) -> Gateways {
        let folder = std::env::temp_dir().join(format!("shorthaul-cluster-{}", std::process::id()));
        let running = GATEWAYS.map(|gateway| {
            let folder = folder.join(gateway);
            std::fs::create_dir_all(&folder).unwrap();
            let mut command = Command::new(SHORTHAUL);
            command.args(["gateway", "--access", "to-radio", "--wan", "to-core", "--aggregate", "auto"]);
            command.args(["--control-group", "0", "--run-dir"]).arg(&folder);
            Running::start_in(lab.host(gateway), &mut command, 1)
        });
        Gateways { folder, running: running.into() }
    }

    /// How many flows of each mobile address go through it.
    fn flows(&self, gateway: usize) -> BTreeMap<IpAddr, usize> {
        let run_dir = self.folder.join(GATEWAYS[gateway - 1]);
        let said =
            Command::new(SHORTHAUL).args(["flows", "--json", "--run-dir"]).arg(run_dir).output().unwrap();
        let flows: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        let mut counts = BTreeMap::new();
        for flow in flows.as_array().unwrap() {
            assert_eq!(flow["state"], "split", "{flow}");
            let client: SocketAddr = flow["client"].as_str().unwrap().parse().unwrap();
            *counts.entry(client.ip()).or_default() += 1;
        }
        counts
    }
}

impl Drop for Gateways {
    fn drop(&mut self) {
        self.running.clear();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A connection of a phone, with what it has downloaded.
struct Download {
    socket: TcpStream,
    taken: u32,
}

impl Download {
    fn open(lab: &Lab, phone: &str, server: IpAddr) -> Download {
        let socket = lab.host(phone).run(|| TcpStream::connect((server, PORT))).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        Download { socket, taken: 0 }
    }

    fn piece(&mut self) {
        self.socket.write_all(&[1]).unwrap();
        let mut bytes = vec![0; PIECE as usize];
        self.socket.read_exact(&mut bytes).unwrap();
        assert!(
            (self.taken..).zip(&bytes).all(|(at, byte)| *byte == byte_at(at)),
            "other bytes than were sent"
        );
        self.taken += PIECE;
    }
}

const fn byte_at(at: u32) -> u8 {
    (at % 251) as u8
}

/// Sends a piece for each byte that arrives.
fn serve(listener: TcpListener) {
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            std::thread::spawn(move || {
                let mut at = 0;
                while connection.read(&mut [0]).is_ok_and(|bytes| bytes == 1) {
                    let piece: Vec<u8> = (at..at + PIECE).map(byte_at).collect();
                    at += PIECE;
                    if connection.write_all(&piece).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

#[test]
fn each_mobile_host_has_one_of_several_gateways_and_one_can_be_taken_away() {
    let lab = lab();
    lead_marked_packets(&lab);
    share_among(&lab, 1..=2);
    let mut gateways = Gateways::start(&lab);
    serve(lab.host("server").run(|| TcpListener::bind(("::", PORT))).unwrap());
    let servers: [IpAddr; 2] =
        [lab.host("server").address_v4().into(), lab.host("server").address_v6().into()];
    let mut downloads = Vec::new();
    for phone in PHONES {
        for server in servers {
            downloads.extend((0..3).map(|_| Download::open(&lab, phone, server)));
        }
    }
    downloads.iter_mut().for_each(Download::piece);

    let through = [gateways.flows(1), gateways.flows(2)];
    assert!(through.iter().all(|flows| !flows.is_empty()), "one does all the work: {through:?}");
    let addresses: BTreeSet<&IpAddr> = through.iter().flat_map(BTreeMap::keys).collect();
    assert_eq!(addresses.len(), 2 * PHONES.len(), "an IPv4 and an IPv6 address of each: {through:?}");
    for flows in &through {
        assert!(flows.values().all(|count| *count == 3), "a host's flows go through both: {through:?}");
    }

    // The first is told to stop, and steps out of its flows; they go on, first through it, then through the other one.
    let first = &mut gateways.running[0].child;
    assert!(Command::new("kill").arg(first.id().to_string()).status().unwrap().success());
    assert!(first.wait().unwrap().success());
    downloads.iter_mut().for_each(Download::piece);
    share_among(&lab, 2..=2);
    downloads.iter_mut().for_each(Download::piece);
    // What begins now is split by the one that is left.
    let mut more: Vec<_> = PHONES.map(|phone| Download::open(&lab, phone, servers[0])).into();
    more.iter_mut().for_each(Download::piece);
    let left = gateways.flows(2);
    for phone in PHONES {
        let address = IpAddr::from(lab.host(phone).address_v4());
        let before = through[1].get(&address).copied().unwrap_or(0);
        assert_eq!(left.get(&address), Some(&(before + 1)), "{phone}: {left:?}");
    }
}
