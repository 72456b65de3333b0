//! docs/relay-tutorial.md, followed literally: the commands are taken from the document, and typed where it says. Each host has a public
//! address, an empty home and an ssh server, as the document supposes; the client cannot reach the server, or the web, directly.
//! Needs root, for the ssh servers of several hosts.
use crate::program::program;
use crate::relays::{Running, SHORTHAUL};
use ipnet::Ipv4Net;
use quinn::rustls;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use shorthaul_lab::{Host, Lab, Topology};
use shorthaul_os::Netlink;
use shorthaul_os::netlink::{NextHop, Route, interface_index};
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const DOCUMENT: &str = include_str!("../../../../docs/relay-tutorial.md");
const TIMEOUT: Duration = Duration::from_secs(60);
/// The hosts of the document and the web, with public addresses: 44.0.0.1 and so on.
const HOSTS: [&str; 5] = ["client", "paris", "tokyo", "server", "web"];
/// Where everybody's home is.
const HOME: &str = "/root";
const PAGE: &str = "a page";

/// The lines of the blocks of a kind below a heading.
fn blocks(heading: &str, kind: &str) -> Vec<Vec<&'static str>> {
    let section = DOCUMENT.split("\n## ").find(|section| section.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("there is no `{heading}`"));
    let fenced = section.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| Some(block.strip_prefix(kind)?.trim().lines().collect())).collect()
}

fn public(host: &str) -> Ipv4Addr {
    let at = HOSTS.iter().position(|one| *one == host).expect("a host");
    Ipv4Addr::new(44, 0, 0, at as u8 + 1)
}

/// The machines, and what is on them.
struct Site {
    lab: Lab,
    folder: PathBuf,
    services: Vec<Running>,
    ssh: Vec<Child>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.services.clear();
        for server in &mut self.ssh {
            let _ = server.kill().and_then(|()| server.wait());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Site {
    fn new() -> Site {
        let hosts: String = HOSTS.iter().map(|host| format!("[hosts.{host}]\n")).collect();
        let links: String = HOSTS
            .iter()
            .map(|host| format!("[[links]]\nbetween = [\"{host}\", \"internet\"]\nkind = \"veth\"\n"))
            .collect();
        let text = format!("{hosts}[hosts.internet]\nforward = true\n{links}");
        let lab = Lab::start(&Topology::from_toml("tutorial", &text).unwrap()).unwrap();
        let folder = std::env::temp_dir().join(format!("shorthaul-tutorial-{}", std::process::id()));
        // As it is installed: by its name, and not in a home.
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        let installed = folder.join("bin/shorthaul");
        std::fs::hard_link(SHORTHAUL, &installed)
            .or_else(|_| std::fs::copy(SHORTHAUL, &installed).map(drop))
            .unwrap();
        let mut names = String::from("127.0.0.1 localhost\n");
        for host in HOSTS {
            names += &format!("{} {host}{}\n", public(host), if host == "web" { " example.org" } else { "" });
        }
        std::fs::write(folder.join("hosts"), names).unwrap();
        let site = Site { lab, folder, services: Vec::new(), ssh: Vec::new() };
        HOSTS.iter().for_each(|host| site.settle(host));
        site
    }

    fn home(&self, host: &str) -> PathBuf {
        self.folder.join(host)
    }

    /// Gives a host its address, its way to the others, and its home.
    fn settle(&self, name: &str) {
        let (host, internet) = (self.lab.host(name), self.lab.host("internet"));
        let own: Ipv4Net = Ipv4Net::new_assert(public(name), 32);
        let link = internet.interfaces().iter().find(|one| one.name == format!("to-{name}"));
        let router = link.expect("a link").v4.addr();
        let near = host.address_v4();
        let onward = || Netlink::open()?.add_route(&Route::new(own.into(), NextHop::Router(near.into())));
        internet.run(onward).unwrap();
        let home = self.home(name);
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        let others = || -> std::io::Result<()> {
            let netlink = Netlink::open()?;
            netlink.add_address(interface_index("lo")?, own.into())?;
            let all = Ipv4Net::new_assert(public("client"), 24).trunc();
            netlink.add_route(&Route::new(all.into(), NextHop::Router(router.into())))?;
            if name == "client" {
                // Whatever arrives there has come by the relays.
                for far in ["server", "web"] {
                    let far = Ipv4Net::new_assert(public(far), 32);
                    netlink.add_route(&Route::new(far.into(), NextHop::Blackhole))?;
                }
            }
            shorthaul_os::namespace::bind(&self.folder.join("hosts"), Path::new("/etc/hosts"))?;
            shorthaul_os::namespace::bind(&home, Path::new(HOME))
        };
        host.run(others).unwrap();
    }

    /// A command in the home of a host.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        let paths = std::env::var("PATH").unwrap_or_default();
        command.args(["-c", line]).current_dir(HOME).env("HOME", HOME);
        command.env("PATH", format!("{}:{paths}:/usr/sbin:/sbin", self.folder.join("bin").display()));
        // Its authority is one that everybody knows.
        command.env("CURL_CA_BUNDLE", self.folder.join("authorities.pem"));
        command
    }

    /// What a command in a host says; it comes to its end, and well.
    fn run(&self, host: &str, line: &str) -> String {
        let mut command = self.command(line);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = self.lab.host(host).spawn(command).unwrap().wait_with_output().unwrap();
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "on {host}: {line}: {}\n{out}{err}", output.status);
        format!("{out}{err}")
    }

    /// ssh servers where the document supposes some, and the client's key.
    fn start_ssh(&mut self) {
        let keygen = program("ssh-keygen");
        std::fs::create_dir_all("/run/sshd").unwrap(); // Debian's unit makes it
        let client = self.home("client").join(".ssh");
        let make = |file: &Path| {
            let mut command = Command::new(&keygen);
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file);
            assert!(command.status().unwrap().success());
        };
        make(&client.join("id_ed25519"));
        std::fs::write(
            client.join("config"),
            "Host *\n  StrictHostKeyChecking accept-new\n  BatchMode yes\n",
        )
        .unwrap();
        for name in ["paris", "tokyo", "server"] {
            let keys = self.home(name).join(".ssh");
            make(&keys.join("host"));
            std::fs::copy(client.join("id_ed25519.pub"), keys.join("authorized_keys")).unwrap();
            let mut server = self.command(&format!(
                "exec {} -D -e -f /dev/null -o UsePAM=no -o StrictModes=no -o PidFile=none -o SetEnv=PATH=$PATH \
                 -o 'Subsystem=sftp internal-sftp' \
                 -o HostKey={HOME}/.ssh/host -o AuthorizedKeysFile={HOME}/.ssh/authorized_keys",
                program("sshd").display()
            ));
            let server = server.stdin(Stdio::null()).stderr(Stdio::null());
            self.ssh.push(self.lab.host(name).spawn(server).unwrap());
            until_it_listens(self.lab.host(name), 22);
        }
    }

    /// https and http for `example.org`, and an iperf3 server.
    fn start_servers(&mut self) {
        let own = rcgen::generate_simple_self_signed(["example.org".to_owned()]).unwrap();
        std::fs::write(self.folder.join("authorities.pem"), own.cert.pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key.into())
            .unwrap();
        let config = Arc::new(config);
        let web = self.lab.host("web");
        for port in [80, 443] {
            let listener = web.run(|| TcpListener::bind(("0.0.0.0", port))).unwrap();
            let config = Arc::clone(&config);
            thread::spawn(move || {
                for socket in listener.incoming().flatten() {
                    let config = Arc::clone(&config);
                    thread::spawn(move || match port {
                        443 => {
                            let connection = rustls::ServerConnection::new(config).unwrap();
                            answer(rustls::StreamOwned::new(connection, socket))
                        }
                        _ => answer(socket),
                    });
                }
            });
        }
        let mut iperf3 = self.command("exec iperf3 -s");
        let iperf3 = iperf3.stdin(Stdio::null()).stdout(Stdio::null());
        self.ssh.push(self.lab.host("server").spawn(iperf3).unwrap());
        until_it_listens(self.lab.host("server"), 5201);
    }

    /// Types a line. What serves goes on, as in a terminal of its own, or behind `&`.
    fn type_in(&mut self, host: &str, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().take(2).collect();
        if !matches!(words[..], ["shorthaul", "node" | "proxy"]) {
            return self.run(host, line);
        }
        let line = line.strip_suffix('&').unwrap_or(line);
        let mut command = self.command(&format!("exec {line}"));
        self.services.push(Running::start_in(self.lab.host(host), &mut command, 1));
        String::new()
    }
}

/// A page for whoever asks.
fn answer(mut stream: impl std::io::Read + std::io::Write) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", PAGE.len());
    let _ = stream.write_all((head + PAGE).as_bytes()).and_then(|()| stream.flush());
}

fn until_it_listens(host: &Host, port: u16) {
    let since = Instant::now();
    while host.run(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port))).is_err() {
        assert!(since.elapsed() < TIMEOUT, "nothing listens at port {port} of {}", host.name());
        thread::sleep(Duration::from_millis(20));
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[test]
fn the_tutorial_works_as_it_is_typed() {
    assert!(
        is_root(),
        "this test needs root: the tutorial's hosts have ssh servers, and those start as root alone"
    );
    let mut site = Site::new();
    site.start_ssh();
    site.start_servers();
    let big: Vec<u8> =
        (0..2_000_000u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    std::fs::write(site.home("client").join("big"), &big).unwrap();
    let [lines] = &blocks("On three machines", "sh")[..] else { panic!("there is to be one block") };
    let (mut host, mut said, mut typed) = ("", Vec::new(), 0);
    for line in lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()) {
        match line.strip_prefix("# on ") {
            Some(rest) => {
                let name = rest.trim_start_matches("the ").split([':', ' ', ',']).next().unwrap();
                host = HOSTS.iter().find(|one| **one == name).unwrap_or_else(|| panic!("which host: {line}"));
            }
            None if line.starts_with('#') => {}
            None => {
                typed += 1;
                said.push((line, site.type_in(host, line)));
            }
        }
    }
    assert!(typed >= 10, "only {typed} lines: {lines:#?}");
    let of = |part: &str| {
        let found = said.iter().find(|(line, _)| line.contains(part));
        found.unwrap_or_else(|| panic!("no line has `{part}`: {lines:#?}")).1.as_str()
    };
    let verbose = of("--verbose");
    assert!(verbose.contains("paris") && verbose.contains("tokyo"), "{verbose}");
    assert!(of("iperf3").contains("receiver"), "{}", of("iperf3"));
    assert!(std::fs::read(site.home("server").join("big")).unwrap() == big);
    assert!(of("curl").contains(PAGE), "{}", of("curl"));
    assert_eq!(std::fs::read_to_string(site.home("client").join("index.html")).unwrap(), PAGE);
}

#[test]
fn without_machines_it_works_as_it_is_typed_too() {
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let shorthaul = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], "shorthaul", "{line}");
        let mut command = Command::new(SHORTHAUL);
        command.args(&words[1..]).current_dir(top).stdin(Stdio::null());
        command
    };
    let [run, once] = &blocks("Without machines", "sh")[..] else { panic!("there are to be two blocks") };
    let [shown] = &blocks("Without machines", "text")[..] else { panic!("there is to be one text") };
    let mut lab = shorthaul(run[0]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(lab.stdout.take().unwrap()).lines() {
        lines.push(line.unwrap());
        if lines.last().is_some_and(|line| line.starts_with("ready")) {
            break;
        }
    }
    // What it says to type is what the document shows, but for its number.
    for line in shown {
        let (program, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (_, host) = program.rsplit_once('/').unwrap();
        let (command, about) = rest.split_once("   ").unwrap();
        let (command, about) = (command.trim().trim_end_matches("..."), about.trim());
        let fits = |said: &&String| {
            said.contains(&format!("/{host}")) && said.contains(command) && said.contains(about)
        };
        let said = lines.iter().find(fits).unwrap_or_else(|| panic!("`{line}` is not in {lines:#?}"));
        if command == "iperf3 -c 127.0.0.1" {
            let typed = said.split("   ").next().unwrap();
            let output = Command::new("sh").args(["-c", typed]).output().unwrap();
            let out = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && out.contains("receiver"), "{typed}: {out}");
        }
    }
    let interrupted = Command::new("kill").args(["-s", "INT", &lab.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    assert!(lab.wait().unwrap().success());
    let output = shorthaul(once[0]).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && out.contains("receiver"), "{}: {out}", once[0]);
}
