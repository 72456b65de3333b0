//! `shorthaul proxy --transparent`: connections that the firewall of an emulated host redirects. Needs root, or
//! user namespaces, and `nft`.
use crate::program::program;
use crate::relays::SHORTHAUL;
use shorthaul_lab::{Lab, LinkDescription, Topology};
use shorthaul_link::LinkConfig;
use shorthaul_types::Seed;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
const PORT: u16 = 8080;

/// A process in a host that has said that it is ready.
struct Running {
    child: Child,
    said: Option<BufReader<ChildStderr>>,
}

impl Running {
    fn start(lab: &Lab, host: &str, arguments: &[&str], ports: usize) -> Running {
        let mut command = Command::new(SHORTHAUL);
        command.args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = lab.host(host).spawn(&mut command).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..ports {
            assert!(lines.next().unwrap().unwrap().starts_with("ready"));
        }
        let said = child.stderr.take().map(BufReader::new);
        Running { child, said }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lab() -> Lab {
    let delay = LinkConfig { delay: Duration::from_millis(1), ..LinkConfig::default() };
    let mut topology = Topology::new(Seed(1));
    for pair in ["client", "node", "server"].windows(2) {
        topology.add_link(LinkDescription::symmetric(pair[0], pair[1], delay.clone()));
    }
    Lab::start(&topology).unwrap_or_else(|error| panic!("this test needs a lab: {error}"))
}

/// Redirects what the client's own programs send to the server, as the documentation says.
fn redirect(lab: &Lab) {
    let rules = format!(
        "table inet divert {{\n chain output {{\n type nat hook output priority -100;\n \
         ip daddr {} tcp dport {PORT} redirect to :1081\n ip6 daddr {} tcp dport {PORT} redirect to :1081\n }}\n}}\n",
        lab.host("server").address_v4(),
        lab.host("server").address_v6()
    );
    let mut nft = Command::new(program("nft"));
    nft.args(["-f", "-"]).stdin(Stdio::piped());
    let mut nft = lab.host("client").spawn(&mut nft).expect("it starts");
    nft.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
    assert!(nft.wait().unwrap().success(), "{rules}");
}

fn connect(lab: &Lab, to: IpAddr) -> TcpStream {
    let socket = lab.host("client").run(|| TcpStream::connect((to, PORT))).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

#[test]
fn a_redirected_connection_goes_by_the_node_to_where_it_was_going() {
    let lab = lab();
    redirect(&lab);
    let [v4, v6]: [IpAddr; 2] =
        [lab.host("server").address_v4().into(), lab.host("server").address_v6().into()];
    let node = SocketAddr::new(lab.host("node").address_v4().into(), 7080);
    let listen = ["node", "--listen", "0.0.0.0:7080", "--allow", "10.0.0.0/8"];
    let open = ["--allow-destination", "10.0.0.0/8", "--allow-destination", "fd00::/8"];
    let mut relay = Running::start(&lab, "node", &[&listen[..], &open].concat(), 1);
    let by = node.to_string();
    let local = [
        "proxy",
        "--transparent",
        "127.0.0.1:1081",
        "--transparent",
        "[::1]:1081",
        "--via",
        &by,
        "--or-direct",
    ];
    let mut proxy = Running::start(&lab, "client", &local, 2);
    let server = lab.host("server").run(|| TcpListener::bind(("::", PORT))).unwrap();
    for to in [v4, v6] {
        let mut near = connect(&lab, to);
        near.write_all(b"there").unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        let (mut far, from) = server.accept().unwrap();
        let own = lab.host("node").interfaces().iter().any(|interface| {
            [IpAddr::from(interface.v4.addr()), interface.v6.addr().into()]
                .contains(&from.ip().to_canonical())
        });
        assert!(own, "it comes from {from}, which is not the node");
        let mut heard = String::new();
        far.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "there");
        far.write_all(b"and back").unwrap();
        drop(far);
        heard.clear();
        near.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "and back");
    }
    // What refuses, refuses.
    drop(server);
    let mut near = connect(&lab, v4);
    assert!(near.read(&mut [0]).is_err(), "a refusal looks like an end");
    // Whoever connects to the port itself is led nowhere.
    let itself = lab.host("client").run(|| TcpStream::connect("127.0.0.1:1081")).unwrap();
    assert!((&itself).read(&mut [0]).is_err(), "it was led somewhere");
    // The node is gone, and the rule leads what goes directly back to the proxy: that ends, and the reason is given.
    relay.child.kill().unwrap();
    relay.child.wait().unwrap();
    let mut near = connect(&lab, v4);
    assert!(near.read(&mut [0]).is_err(), "there is no way, and it looks like an end");
    proxy.child.kill().unwrap();
    let mut said = String::new();
    proxy.said.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("leads in a circle"), "the proxy does not say why: {said}");
}
