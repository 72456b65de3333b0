//! TLS: a node, HAProxy and stunnel end it and pass on what is in it, by turns: the same certificate, TLS 1.3 with the same cipher.
//! Its clients are rustls' in this process, and take what they take of the processors from all alike.
use crate::load::{self, Compared};
use crate::relays::{Running, free_port, until_it_listens};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls_pki_types::ServerName;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tokio_rustls::rustls::{self, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// What all speak: what rustls and OpenSSL choose by themselves.
const CIPHER: &str = "TLS_AES_256_GCM_SHA384";
/// So many flows at once.
const FLOWS: [usize; 2] = [1, 8];
/// A record of TLS has so much at most.
const RECORD: usize = 16 << 10;

/// Files that all of them read, in a folder that vanishes.
pub struct Files {
    folder: tempfile::TempDir,
    client: Arc<ClientConfig>,
}

impl Files {
    /// An authority and a certificate of it, as a node's secret gives them: ECDSA with P-256, signed by Ed25519.
    pub fn new() -> io::Result<Files> {
        let folder = tempfile::tempdir()?;
        let other = io::Error::other::<rcgen::Error>;
        let mut params = CertificateParams::new(Vec::new()).map_err(other)?;
        params.distinguished_name.push(DnType::CommonName, "bench");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).map_err(other)?;
        let authority = params.self_signed(&key).map_err(other)?;
        let issuer = Issuer::new(params, key);
        let own = KeyPair::generate().map_err(other)?;
        let params =
            CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).map_err(other)?;
        let certificate = params.signed_by(&own, &issuer).map_err(other)?;
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("certificate.pem"), certificate.pem())?;
        std::fs::write(path("key.pem"), own.serialize_pem())?;
        std::fs::write(path("both.pem"), certificate.pem() + &own.serialize_pem())?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).map_err(io::Error::other)?;
        let mut provider = rustls::crypto::ring::default_provider();
        provider.cipher_suites.retain(|suite| format!("{:?}", suite.suite()).contains("AES_256_GCM"));
        let client = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Files { folder, client: Arc::new(client) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Who ends TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ours,
    HaProxy,
    Stunnel,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Ours, Kind::HaProxy, Kind::Stunnel];

    fn name(self) -> &'static str {
        match self {
            Kind::Ours => "shorthaul",
            Kind::HaProxy => "haproxy",
            Kind::Stunnel => "stunnel",
        }
    }

    /// It, in front of two targets: where it listens for each, and what has to be asked for there.
    fn start(self, files: &Files, targets: [SocketAddr; 2]) -> io::Result<Option<(Running, [Way; 2])>> {
        let ports = [free_port()?, free_port()?];
        let mut ways = [0, 1].map(|at| Way { address: ports[at], request: None });
        let show = |name: &str| files.path(name).display().to_string();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let mut command = match self {
            Kind::Ours => {
                for (way, target) in ways.iter_mut().zip(targets) {
                    *way = Way {
                        address: ports[0],
                        request: Some(format!("CONNECT {target} HTTP/1.1\r\n\r\n")),
                    };
                }
                let mut command = Command::new(std::env::current_exe()?);
                let config = format!("{},{},{}", ports[0], show("certificate.pem"), show("key.pem"));
                command.args(["serve", "tls", &config]);
                command
            }
            Kind::HaProxy => {
                let mut text = format!(
                    "global\n  nbthread {threads}\n  ssl-default-bind-options ssl-min-ver TLSv1.3\n  ssl-default-bind-ciphersuites {CIPHER}\n\
                     defaults\n  mode tcp\n  timeout connect 10s\n  timeout client 1h\n  timeout server 1h\n"
                );
                for (at, (from, to)) in ports.iter().zip(targets).enumerate() {
                    text += &format!(
                        "listen way{at}\n  bind {from} ssl crt {}\n  server s{at} {to}\n",
                        show("both.pem")
                    );
                }
                std::fs::write(files.path("haproxy.cfg"), text)?;
                let mut command = Command::new("haproxy");
                command.arg("-db").arg("-f").arg(files.path("haproxy.cfg"));
                command
            }
            Kind::Stunnel => {
                let mut text = format!(
                    "foreground = yes\npid =\nsyslog = no\nsocket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\nsslVersionMin = TLSv1.3\n\
                     ciphersuites = {CIPHER}\ncert = {}\nkey = {}\n",
                    show("certificate.pem"),
                    show("key.pem")
                );
                for (at, (from, to)) in ports.iter().zip(targets).enumerate() {
                    text += &format!("[way{at}]\naccept = {from}\nconnect = {to}\n");
                }
                std::fs::write(files.path("stunnel.conf"), text)?;
                let mut command = Command::new("stunnel");
                command.arg(files.path("stunnel.conf"));
                command
            }
        };
        let child = match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let running = Running::of(child, ports[0]);
        until_it_listens(ports[0])?;
        Ok(Some((running, ways)))
    }
}

/// Where one that ends TLS is asked for a target.
struct Way {
    address: SocketAddr,
    request: Option<String>,
}

impl Way {
    fn open(&self, client: &Arc<ClientConfig>) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let socket = TcpStream::connect(self.address)?;
        socket.set_nodelay(true)?;
        socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(Arc::clone(client), name).map_err(io::Error::other)?;
        tls.set_buffer_limit(Some(64 << 10));
        let mut stream = StreamOwned::new(tls, socket);
        if let Some(request) = &self.request {
            stream.write_all(request.as_bytes())?;
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte)?;
                answer.push(byte[0]);
            }
            if !answer.starts_with(b"HTTP/1.1 200") {
                return Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned()));
            }
        } else {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        let suite = stream.conn.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
        match suite {
            Some(suite) if suite.contains("AES_256_GCM") => Ok(stream),
            other => Err(io::Error::other(format!("it speaks {other:?}"))),
        }
    }
}

/// Gives without end.
fn source() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                let bytes = vec![0x55; 256 << 10];
                while socket.write_all(&bytes).is_ok() {}
            });
        }
    });
    Ok(address)
}

/// Moves bytes by some flows for some time: in, which the relay deciphers, or out.
fn moved(
    way: &Way,
    client: &Arc<ClientConfig>,
    is_out: bool,
    flows: usize,
    spell: Duration,
) -> io::Result<[u64; 2]> {
    let (over, sum) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut threads = Vec::new();
    for _ in 0..flows {
        let mut stream = way.open(client)?;
        let (over, sum) = (Arc::clone(&over), Arc::clone(&sum));
        threads.push(thread::spawn(move || {
            let mut bytes = vec![0x55; RECORD];
            while !over.load(Ordering::Relaxed) {
                let done = if is_out { stream.read(&mut bytes) } else { stream.write(&bytes) };
                match done {
                    Ok(len) if len > 0 => sum.fetch_add(len as u64, Ordering::Relaxed),
                    _ => return,
                };
            }
        }));
    }
    // The first moments are slow start.
    thread::sleep(Duration::from_millis(300));
    let before = sum.load(Ordering::Relaxed);
    thread::sleep(spell);
    let in_spell = sum.load(Ordering::Relaxed) - before;
    over.store(true, Ordering::Relaxed);
    for thread in threads {
        let _ = thread.join();
    }
    Ok([in_spell, sum.load(Ordering::Relaxed)])
}

/// What was measured of one kind once.
#[derive(Clone, Copy, Debug)]
struct Sample {
    gbit_per_s: f64,
    cpu_s_per_gb: f64,
}

impl Sample {
    fn rate(&self) -> f64 {
        self.gbit_per_s
    }

    fn cpu(&self) -> f64 {
        self.cpu_s_per_gb
    }

    /// The median of each, of what is measured at this place of the rounds.
    fn median(rounds: &[Vec<Sample>], at: usize) -> Sample {
        let of = |what: fn(&Sample) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(|round| what(&round[at])).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
        };
        Sample { gbit_per_s: of(Sample::rate), cpu_s_per_gb: of(Sample::cpu) }
    }
}

/// What there is to measure, in the order of the figures.
const KINDS: [(&str, bool, usize); 4] = [
    ("in 1", false, FLOWS[0]),
    ("in 8", false, FLOWS[1]),
    ("out 1", true, FLOWS[0]),
    ("out 8", true, FLOWS[1]),
];

/// Measures all that are installed so many times, by turns; lines of JSON.
pub fn compare(rounds: usize, spell: Duration) -> io::Result<Vec<String>> {
    let files = Files::new()?;
    let servers = load::Servers::start()?;
    let targets = [servers.sink, source()?];
    let mut all = Vec::new();
    for kind in Kind::ALL {
        match kind.start(&files, targets)? {
            Some((relay, ways)) => all.push((kind, relay, ways, Vec::new())),
            None => println!("{}: not installed, left out", kind.name()),
        }
    }
    println!("\nTLS 1.3, {CIPHER}, a certificate of P-256; in: the relay deciphers, out: it enciphers");
    for round in 0..rounds {
        if round > 0 {
            all.rotate_left(1);
        }
        for (kind, relay, ways, measured) in &mut all {
            let mut samples = Vec::new();
            for (_, is_out, flows) in KINDS {
                let before = relay.cpu();
                let [in_spell, in_all] =
                    moved(&ways[usize::from(is_out)], &files.client, is_out, flows, spell)?;
                let cpu = relay
                    .cpu()
                    .zip(before)
                    .map_or(f64::NAN, |(after, before)| (after - before).as_secs_f64());
                samples.push(Sample {
                    gbit_per_s: in_spell as f64 * 8.0 / spell.as_secs_f64() / 1e9,
                    cpu_s_per_gb: cpu / (in_all as f64 / 1e9),
                });
            }
            println!("{round} tls {:<12} {}", kind.name(), show(&samples));
            measured.push(samples);
        }
    }
    all.sort_by_key(|(kind, ..)| *kind as usize);
    println!("\nTLS, medians of {rounds}:");
    let mut lines = Vec::new();
    for (kind, .., measured) in &all {
        let medians: Vec<Sample> = (0..KINDS.len()).map(|at| Sample::median(measured, at)).collect();
        println!("{:<16} {}", kind.name(), show(&medians));
        let json = |of: fn(&Sample) -> f64| {
            medians.iter().map(|one| format!("{:.4}", of(one))).collect::<Vec<_>>().join(",")
        };
        lines.push(format!(
            "\"tls {}\":{{\"gbit_per_s\":[{}],\"cpu_s_per_gb\":[{}]}}",
            kind.name(),
            json(Sample::rate),
            json(Sample::cpu)
        ));
    }
    let of = |wanted: Kind| all.iter().find(|(kind, ..)| *kind == wanted).map(|(.., measured)| measured);
    for other in [Kind::HaProxy, Kind::Stunnel] {
        let (Some(ours), Some(theirs)) = (of(Kind::Ours), of(other)) else { continue };
        for (at, (name, ..)) in KINDS.iter().enumerate() {
            for (what, of) in [
                ("throughput", Sample::rate as fn(&Sample) -> f64),
                ("s per GB", Sample::cpu as fn(&Sample) -> f64),
            ] {
                let pairs = ours.iter().zip(theirs).map(|(ours, theirs)| of(&ours[at]) / of(&theirs[at]));
                let Some(compared) = Compared::of_ratios(pairs) else { continue };
                println!("  TLS {name} flows, {what} / {}'s: {compared}", other.name());
                lines.push(format!("\"tls {what} {name} / {}\":{}", other.name(), compared.to_json()));
            }
        }
    }
    Ok(lines)
}

fn show(samples: &[Sample]) -> String {
    let one = |((name, ..), sample): (&(&str, bool, usize), &Sample)| {
        format!("{name} {:5.2} Gbit/s {:.3} s/GB", sample.gbit_per_s, sample.cpu_s_per_gb)
    };
    KINDS.iter().zip(samples).map(one).collect::<Vec<_>>().join(", ")
}

/// A node that ends TLS, in a process of its own.
pub fn serve(config: &str) -> io::Result<()> {
    use shorthaul_relay::{Node, NodeConfig, Settings};
    let words: Vec<&str> = config.split(',').collect();
    let [listen, certificate, key] = words[..] else { return Err(io::ErrorKind::InvalidInput.into()) };
    let local = "127.0.0.0/8".parse().map_err(io::Error::other)?;
    let node = Node::bind(NodeConfig {
        listen: vec![listen.parse().map_err(io::Error::other)?],
        certificate: Some((certificate.into(), key.into())),
        more: Settings { allow: vec![local], allow_destinations: vec![local], ..Settings::default() },
        ..NodeConfig::default()
    });
    node.map_err(io::Error::other)?.run()
}
