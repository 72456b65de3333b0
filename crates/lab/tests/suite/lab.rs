//! Labs, live. They need root, or a host that allows user namespaces; without, they fail and say why.
use shorthaul_lab::workload::{Amount, Content, Family, Sender, Transfer, TransferError};
use shorthaul_lab::{HostDescription, Lab, LinkDescription, LinkKind, Topology};
use shorthaul_link::{Direction, LinkConfig, LossModel, QueueLimit, Rate};
use shorthaul_types::{BitRate, Bytes, Seed};
use std::io::Write as _;
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn start(topology: &Topology) -> Lab {
    Lab::start(topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}"))
}

fn delay(millis: u64) -> LinkConfig {
    LinkConfig { delay: Duration::from_millis(millis), ..LinkConfig::default() }
}

/// `client` and `server`, with `both` between them.
fn pair(both: LinkConfig) -> Topology {
    let mut topology = Topology::new(Seed(3));
    topology.add_link(LinkDescription::symmetric("client", "server", both));
    topology
}

#[test]
fn hosts_reach_each_other_by_name_across_routers() {
    // client - first - second - server, through both kinds of link
    let mut topology = Topology::new(Seed(1));
    topology.add_link(LinkDescription::symmetric("client", "first", delay(1)));
    topology.add_link(LinkDescription::direct("first", "second"));
    topology.add_link(LinkDescription::symmetric("second", "server", delay(1)));
    let lab = start(&topology);
    let server = lab.host("server");
    let bind = |address| server.run(|| TcpListener::bind(address)).expect("binding in the server");
    for listener in [bind("0.0.0.0:0"), bind("[::]:0")] {
        let address = listener.local_addr().expect("an address");
        let met = std::thread::scope(|scope| {
            let accepting = scope.spawn(|| listener.accept().map(|(_, peer)| peer));
            let connecting = lab.host("client").run(|| {
                let wanted =
                    ("server", address.port()).to_socket_addrs()?.find(|a| a.is_ipv4() == address.is_ipv4());
                TcpStream::connect(wanted.expect("the server has an address of each family"))
            });
            let local = connecting.expect("connecting").local_addr().expect("an address");
            (accepting.join().expect("no panic").expect("accepting"), local)
        });
        assert_eq!(met.0, met.1, "nothing translates addresses on the way");
    }
}

#[test]
fn a_host_sees_its_own_network_and_files_only() {
    let mut topology = pair(delay(0));
    topology.hosts.insert(
        "server".into(),
        HostDescription {
            congestion: Some("reno".into()),
            sysctl: [("net.ipv4.tcp_fin_timeout".to_owned(), "7".to_owned())].into(),
            ..HostDescription::default()
        },
    );
    let lab = start(&topology);
    let output = |host: &str, command: &str| {
        let mut shell = Command::new("sh");
        let child =
            lab.host(host).spawn(shell.args(["-c", command]).stdout(Stdio::piped())).expect("spawning sh");
        let output = child.wait_with_output().expect("waiting for sh");
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(output("client", "ls /sys/class/net"), "lo\nto-server\n");
    assert_eq!(output("client", "cat /proc/sys/net/ipv4/tcp_congestion_control"), "cubic\n");
    assert_eq!(output("server", "cat /proc/sys/net/ipv4/tcp_congestion_control"), "reno\n");
    assert_eq!(output("server", "cat /proc/sys/net/ipv4/tcp_fin_timeout"), "7\n");
    assert_eq!(output("client", "cat /proc/sys/net/ipv4/tcp_no_metrics_save"), "1\n");
    assert!(output("client", "cat /etc/hosts").contains("10.1.0.2 server"));
    assert!(!std::fs::read_to_string("/etc/hosts").unwrap_or_default().contains("10.1.0.2 server"));
    // A process finds itself under its own number.
    assert!(output("client", "test -d /proc/$$ && echo there").contains("there"));
}

#[test]
fn packets_take_as_long_as_the_link_says() {
    let lab = start(&pair(delay(40)));
    let transfer = Transfer { amount: Amount::Bytes(Bytes(10)), ..Transfer::default() };
    for family in [Family::V4, Family::V6] {
        let transfer = Transfer { family, ..transfer.clone() };
        let report = transfer.run(lab.host("client"), lab.host("server")).expect("a transfer");
        // A round trip for the handshake, and one for request and answer.
        assert!(report.connected >= Duration::from_millis(80), "{report:?}");
        assert!(report.first_byte >= Duration::from_millis(160), "{report:?}");
        assert_eq!(report.received, Bytes(10));
    }
}

#[test]
fn transfers_arrive_whole_over_a_bad_link() {
    let bad = LinkConfig {
        rate: Rate::Fixed(BitRate::from_bits_per_sec(50_000_000)),
        queue: QueueLimit::Packets(50),
        loss: LossModel::Bernoulli { probability: 0.01 },
        duplicate: 0.01,
        ..delay(2)
    };
    let lab = start(&pair(bad));
    let (client, server) = (lab.host("client"), lab.host("server"));
    for sender in [Sender::Server, Sender::Client] {
        for family in [Family::V4, Family::V6] {
            let transfer =
                Transfer { sender, family, amount: Amount::Bytes(Bytes(2_000_001)), ..Transfer::default() };
            let report = transfer.with_congestion("reno").run(client, server).expect("a transfer");
            assert_eq!(report.received, Bytes(2_000_001));
            assert_eq!(report.arrivals.iter().map(|bytes| bytes.0).sum::<u64>(), 2_000_001);
            assert!(report.retransmits() > 0, "at 1 % loss something must be repeated: {report:?}");
            assert!(report.completed > report.first_byte && report.first_byte > report.connected);
        }
    }
    let report = lab.link("server", "client").report().expect("an emulated link");
    for way in [report.up, report.down] {
        assert!(way.link.dropped.loss > 0 && way.link.duplicated > 0, "{way:?}");
        assert_eq!(way.lateness.count, way.link.delivered);
        assert_eq!(way.refused, 0);
    }
    assert_eq!(report.missed, 0);
}

#[test]
fn a_transfer_fails_in_time_and_says_why() {
    let lab = start(&pair(delay(1)));
    let (client, server) = (lab.host("client"), lab.host("server"));
    let error =
        Transfer::default().with_congestion("no-such").run(client, server).expect_err("no such control");
    assert!(matches!(error, TransferError::Congestion { .. }), "{error}");
    assert!(error.to_string().contains("no-such"), "{error}");

    let dead = LinkConfig { loss: LossModel::Bernoulli { probability: 1.0 }, ..delay(1) };
    lab.link("client", "server").reconfigure(Direction::Down, dead).expect("a new configuration");
    let hopeless = Transfer { limit: Duration::from_millis(300), ..Transfer::default() };
    let start = Instant::now();
    let error = hopeless.run(client, server).expect_err("nothing comes back");
    assert!(matches!(error, TransferError::Socket { doing: "connecting", .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10), "it must not wait for ever");
    let report = lab.link("client", "server").report().expect("a report");
    assert!(report.down.link.dropped.loss > 0 && report.down.link.delivered == 0, "{report:?}");
}

#[test]
fn loss_is_the_same_in_every_run() {
    // UDP, so that nothing but the numbers of the packets decides.
    let survivors = || {
        let lossy = LinkConfig { loss: LossModel::Bernoulli { probability: 0.2 }, ..delay(5) };
        let lab = start(&pair(lossy));
        let (client, server) = (lab.host("client"), lab.host("server"));
        let receiver = server.run(|| UdpSocket::bind((server.address_v4(), 0))).expect("a socket");
        let sender = client.run(|| UdpSocket::bind((client.address_v4(), 0))).expect("a socket");
        sender.connect(receiver.local_addr().expect("an address")).expect("connecting");
        receiver.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        for number in 0..200u8 {
            sender.send(&[number]).expect("sending");
        }
        let mut arrived = Vec::new();
        let mut byte = [0];
        while receiver.recv(&mut byte).is_ok() {
            arrived.push(byte[0]);
        }
        (arrived, lab.link("client", "server").report().expect("a report").up.link)
    };
    let (first, stats) = survivors();
    assert!((100..=190).contains(&first.len()), "{} of 200 at 20 % loss", first.len());
    assert!(first.is_sorted());
    assert_eq!(stats.dropped.total(), stats.offered - stats.delivered);
    let (second, _) = survivors();
    assert_eq!(first, second);
}

#[test]
fn a_recording_shows_what_passed_and_what_did_not() {
    let lossy = LinkConfig { loss: LossModel::Bernoulli { probability: 0.05 }, ..delay(1) };
    let lab = start(&pair(lossy));
    let link = lab.link("client", "server");
    let file = std::env::temp_dir().join(format!("shorthaul-lab-test-{}.pcapng", std::process::id()));
    link.record("client", &file).expect("recording");
    let before = link.report().expect("a report");
    let transfer = Transfer { sender: Sender::Client, ..Transfer::default() };
    transfer.run(lab.host("client"), lab.host("server")).expect("a transfer");
    link.stop_recording().expect("the recording is written");
    let report = link.report().expect("a report");
    let bytes = std::fs::read(&file).expect("the recording");
    std::fs::remove_file(&file).expect("removing the recording");

    let (mut packets, mut lost) = (0, 0);
    for record in shorthaul_wire::pcapng::Reader::new(&bytes) {
        let record = record.expect("a sound recording");
        packets += 1;
        lost += u64::from(record.comment.contains("loss"));
        let datagram = shorthaul_wire::Datagram {
            bytes: shorthaul_wire::Payload::copy_of(record.bytes),
            offload: shorthaul_wire::Offload::default(),
        };
        // Checks the checksums, too.
        assert!(shorthaul_wire::parse(datagram).is_ok(), "packet {packets}");
    }
    assert_eq!((report.up.not_captured, report.down.not_captured), (0, 0));
    assert!(lost > 0);
    let passed = report.up.link.offered - before.up.link.offered + report.down.link.delivered
        - before.down.link.delivered;
    assert!(packets <= passed && packets > 500, "{packets} recorded, {passed} passed");
}

#[test]
fn links_can_be_changed_while_they_run() {
    let lab = start(&pair(delay(1)));
    let link = lab.link("client", "server");
    let once = Transfer { amount: Amount::Bytes(Bytes(1)), ..Transfer::default() };
    let connected = || once.run(lab.host("client"), lab.host("server")).expect("a transfer").connected;
    connected();
    link.reconfigure(Direction::Down, delay(60)).expect("a new configuration");
    assert!(connected() >= Duration::from_millis(61));
    let senseless = LinkConfig { duplicate: 7.0, ..LinkConfig::default() };
    let error = link.reconfigure(Direction::Up, senseless).expect_err("a probability of 7");
    assert!(error.to_string().contains("client-server") && error.to_string().contains('7'), "{error}");
}

#[test]
fn a_direct_link_has_no_emulator() {
    let mut topology = Topology::new(Seed(1));
    topology.add_link(LinkDescription::direct("client", "server").with_mtu(9000));
    let lab = start(&topology);
    let transfer = Transfer { amount: Amount::Bytes(Bytes(50_000_000)), ..Transfer::default() };
    let report = transfer.run(lab.host("client"), lab.host("server")).expect("a transfer");
    assert_eq!(report.received, Bytes(50_000_000));
    let error = lab.link("client", "server").report().expect_err("there is no emulator");
    assert!(error.to_string().contains("not emulated"), "{error}");
    assert!(matches!(topology.links[0].kind, LinkKind::Direct));
}

#[test]
fn services_run_beside_and_are_awaited() {
    let mut topology = pair(delay(1));
    topology.host("server").run.push("exec iperf3 --server --one-off >/dev/null".into());
    let mut lab = start(&topology);
    let [service] = lab.services() else { panic!("one service is to run") };
    assert!(service.await_listening(Duration::from_secs(10)), "iperf3 must be installed for this test");
    lab.host("client").run(|| TcpStream::connect(("server", 5201))).expect("connecting to iperf3");
}

#[test]
fn several_labs_live_side_by_side() {
    let labs: Vec<Lab> = (0..3).map(|_| start(&pair(delay(1)))).collect();
    std::thread::scope(|scope| {
        for lab in &labs {
            scope.spawn(|| {
                let report =
                    Transfer::default().run(lab.host("client"), lab.host("server")).expect("a transfer");
                assert_eq!(report.received, Bytes(1_000_000));
            });
        }
    });
}

#[test]
fn a_transfer_that_has_its_time_only_says_how_much_came() {
    let link = LinkConfig {
        rate: Rate::Fixed(BitRate::from_bits_per_sec(8_000_000)),
        queue: QueueLimit::Packets(100),
        ..delay(5)
    };
    let lab = start(&pair(link));
    let within = |bytes, millis| Transfer {
        amount: Amount::Within { bytes: Bytes(bytes), time: Duration::from_millis(millis) },
        ..Transfer::default()
    };
    let run = |transfer: Transfer| {
        transfer.run(lab.host("client"), lab.host("server")).unwrap_or_else(|error| panic!("{error}"))
    };
    let report = run(within(5_000_000, 500));
    // half a second of 1 MB/s, without headers and the start
    assert!((200_000..500_000).contains(&report.received.0), "{}", report.received);
    assert_eq!(report.completed, Duration::from_millis(500));
    let report = run(within(100_000, 5_000));
    assert_eq!(report.received, Bytes(100_000));
    assert!(report.completed < Duration::from_secs(5), "{:?}", report.completed);
    assert!(report.connected <= report.accepted && report.accepted <= report.first_byte, "{report:?}");
}

#[test]
fn pacing_keeps_the_queue_short() {
    // A first window of ten segments at once leaves nine of them in the queue of a slow link.
    let link = LinkConfig {
        rate: Rate::Fixed(BitRate::from_bits_per_sec(50_000_000)),
        queue: QueueLimit::Packets(1000),
        ..delay(50)
    };
    let longest = |paced| {
        let lab = start(&pair(link.clone()));
        let paced = shorthaul_lab::workload::Ends { client: false, server: paced };
        let transfer = Transfer { amount: Amount::Bytes(Bytes(300_000)), paced, ..Transfer::default() };
        transfer.run(lab.host("client"), lab.host("server")).unwrap_or_else(|error| panic!("{error}"));
        let report = lab.link("client", "server").report().expect("the link is there");
        report.down.link.max_queue
    };
    let (burst, paced) = (longest(false), longest(true));
    assert!(paced < burst, "{paced} packets paced, {burst} at once");
}

#[test]
fn a_client_of_another_kind_is_checked_like_any_other() {
    let lab = start(&pair(delay(1)));
    let transfer = Transfer {
        sender: Sender::Client,
        amount: Amount::Bytes(Bytes(300_000)),
        limit: Duration::from_secs(20),
        seed: Seed(4),
        ..Transfer::default()
    };
    let send = |change: usize| {
        let mut bytes = vec![0; 300_000];
        Content::new(Seed(4)).fill(0, &mut bytes);
        bytes[200_000] ^= change as u8;
        let client = lab.host("client");
        transfer.receive_from(lab.host("server"), move |address| {
            client.run(|| TcpStream::connect(address)?.write_all(&bytes)).is_ok()
        })
    };
    let (report, _) = send(0);
    assert_eq!(report.expect("all of it arrives").received, Bytes(300_000));
    let (report, _) = send(1);
    assert!(matches!(report, Err(TransferError::Corrupted { at: 200_000 })), "{report:?}");
}
