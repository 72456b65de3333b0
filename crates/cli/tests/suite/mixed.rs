//! QUIC (quinn) and the kernel's TCP side by side through a network: downloads and pages whose every byte is compared.
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use shorthaul_lab::{Lab, LinkDescription, LinkKind, Topology};
use shorthaul_link::{LinkConfig, QueueLimit, Rate};
use shorthaul_types::{BitRate, Seed};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// What carries a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Quic,
}

/// What runs at once, for so long: downloads without an end, and every 1.5 s a page of four objects of 60 kB.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub bulk: &'static [Transport],
    pub pages: Transport,
    pub lasts: Duration,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Of each download, in Mbit/s.
    pub bulk: Vec<f64>,
    /// How long each object of a page took, in seconds.
    pub pages: Vec<f64>,
    /// What waited for the bottleneck, in milliseconds: 95 of 100 looks saw no more.
    pub queue: f64,
    /// How late the bottleneck's emulation was at the 99th percentile, in milliseconds.
    pub late: f64,
}

pub const OBJECT: u64 = 60_000;
const OBJECTS: usize = 4;
pub const PAGE_EVERY: Duration = Duration::from_millis(1500);
/// How often the bottleneck is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LONGEST_PAGE: Duration = Duration::from_secs(30);
const NAME: &str = "server";

/// A phone behind 20 Mbit/s and 30 ms, whose queue holds 60 ms, and a gateway and a server on the other side.
pub fn lab() -> Lab {
    let way = || LinkConfig {
        rate: Rate::Fixed(BitRate::from_bits_per_sec(20_000_000)),
        delay: Duration::from_millis(15),
        queue: QueueLimit::Bytes(150_000),
        ..LinkConfig::default()
    };
    let mut topology = Topology::new(Seed(1));
    let link = LinkKind::Emulated { up: way(), down: way() };
    topology.add_link(LinkDescription::new(["phone", "gateway"], link));
    topology.add_link(LinkDescription::direct("gateway", "server"));
    Lab::start(&topology).unwrap_or_else(|error| panic!("this needs a lab: {error}"))
}

/// The byte at this place of whatever is served.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn fill(at: u64, buffer: &mut [u8]) {
    for (byte_there, place) in buffer.iter_mut().zip(at..) {
        *byte_there = byte(place);
    }
}

/// Whether these are the bytes that were asked for.
fn check(at: u64, bytes: &[u8]) {
    assert!(bytes.iter().zip(at..).all(|(it, place)| *it == byte(place)), "other bytes, from {at} on");
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Servers that send as many bytes as they are asked for: eight bytes of a request.
pub struct Servers {
    tcp: SocketAddr,
    quic: SocketAddr,
    roots: Arc<RootCertStore>,
    listener: TcpListener,
    endpoint: Endpoint,
    threads: Vec<JoinHandle<()>>,
}

impl Servers {
    pub fn start(lab: &Lab) -> Servers {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let here = IpAddr::from(lab.host("server").address_v4());
        let listener = lab.host("server").run(|| TcpListener::bind(any)).unwrap();
        let socket = lab.host("server").run(|| UdpSocket::bind(any)).unwrap();
        let port = |address: std::io::Result<SocketAddr>| SocketAddr::new(here, address.unwrap().port());
        let (tcp, quic) = (port(listener.local_addr()), port(socket.local_addr()));
        let own = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let certificate = own.cert.der().clone();
        let config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let runtime = runtime();
        let endpoint = {
            let _inside = runtime.enter();
            Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime)).unwrap()
        };
        let (accepting, serving) = (listener.try_clone().unwrap(), endpoint.clone());
        let threads = vec![
            std::thread::spawn(move || {
                while let Ok((stream, _)) = accepting.accept() {
                    std::thread::spawn(move || answer(stream));
                }
            }),
            std::thread::spawn(move || runtime.block_on(serve(serving))),
        ];
        Servers { tcp, quic, roots: Arc::new(roots), listener, endpoint, threads }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.endpoint.close(0_u32.into(), b"");
        let _ = socket2::SockRef::from(&self.listener).shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Over TCP. Whoever asked may have gone.
fn answer(mut stream: TcpStream) {
    let mut amount = [0; 8];
    let Ok(()) = stream.read_exact(&mut amount) else { return };
    let (amount, mut at, mut buffer) = (u64::from_be_bytes(amount), 0, vec![0; 16 << 10]);
    while at < amount {
        let length = (amount - at).min(buffer.len() as u64) as usize;
        fill(at, &mut buffer[..length]);
        let Ok(()) = stream.write_all(&buffer[..length]) else { return };
        at += length as u64;
    }
}

/// Over QUIC.
async fn serve(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            while let Ok((mut to, mut from)) = connection.accept_bi().await {
                let mut amount = [0; 8];
                let Ok(()) = from.read_exact(&mut amount).await else { return };
                let (amount, mut at, mut buffer) = (u64::from_be_bytes(amount), 0, vec![0; 16 << 10]);
                while at < amount {
                    let length = (amount - at).min(buffer.len() as u64) as usize;
                    fill(at, &mut buffer[..length]);
                    let Ok(()) = to.write_all(&buffer[..length]).await else { return };
                    at += length as u64;
                }
                let _ = to.finish();
            }
        });
    }
}

impl Servers {
    /// Asks for `amount` bytes, in the calling thread's host, until then at most. Returns how many came, and after how long the last.
    fn fetch(&self, by: Transport, amount: u64, until: Instant) -> (u64, Duration) {
        match by {
            Transport::Tcp => self.fetch_by_tcp(amount, until),
            Transport::Quic => runtime().block_on(self.fetch_by_quic(amount, until)),
        }
    }

    fn fetch_by_tcp(&self, amount: u64, until: Instant) -> (u64, Duration) {
        let began = Instant::now();
        let mut stream = TcpStream::connect(self.tcp).unwrap();
        stream.write_all(&amount.to_be_bytes()).unwrap();
        let (mut at, mut buffer) = (0, vec![0; 64 << 10]);
        while at < amount {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
                break;
            }
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(length) => {
                    check(at, &buffer[..length]);
                    at += length as u64;
                }
            }
        }
        (at, began.elapsed())
    }

    async fn fetch_by_quic(&self, amount: u64, until: Instant) -> (u64, Duration) {
        let began = Instant::now();
        let mut endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into()).unwrap();
        endpoint.set_default_client_config(
            ClientConfig::with_root_certificates(Arc::clone(&self.roots)).unwrap(),
        );
        let connection = endpoint.connect(self.quic, NAME).unwrap().await.unwrap();
        let (mut to, mut from) = connection.open_bi().await.unwrap();
        to.write_all(&amount.to_be_bytes()).await.unwrap();
        let mut at = 0;
        while at < amount {
            let chunk = tokio::time::timeout_at(until.into(), from.read_chunk(64 << 10, true)).await;
            let Ok(Ok(Some(chunk))) = chunk else { break };
            check(at, &chunk.bytes);
            at += chunk.bytes.len() as u64;
        }
        let took = began.elapsed();
        connection.close(0_u32.into(), b"");
        // It would drain for three timeouts; but what says that it is over has left long before.
        let _ = tokio::time::timeout(Duration::from_millis(50), endpoint.wait_idle()).await;
        (at, took)
    }
}

/// Does the work through the lab.
pub fn run(lab: &Lab, servers: &Servers, work: &Work) -> Seen {
    let phone = lab.host("phone");
    let until = Instant::now() + work.lasts;
    let (ended, watching) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let bottleneck = &lab.links()[0];
        let watched = scope.spawn(move || {
            let began = Instant::now();
            let mut looks = Vec::new();
            while watching.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                looks.push((began.elapsed(), bottleneck.report().unwrap().down));
            }
            looks
        });
        let bulk: Vec<_> = work
            .bulk
            .iter()
            .map(|by| {
                let fetch = move || servers.fetch(*by, u64::MAX, until).0 as f64;
                scope.spawn(move || phone.run(fetch) * 8e-6 / work.lasts.as_secs_f64())
            })
            .collect();
        let mut pages = Vec::new();
        // The downloads have found their rates before the first page.
        let mut at = Instant::now() + 2 * PAGE_EVERY;
        while at + PAGE_EVERY <= until {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            let object = || {
                let (got, took) = servers.fetch(work.pages, OBJECT, Instant::now() + LONGEST_PAGE);
                assert_eq!(got, OBJECT, "of an object of a page, by {:?}", work.pages);
                took.as_secs_f64()
            };
            let objects: Vec<_> = (0..OBJECTS).map(|_| scope.spawn(move || phone.run(object))).collect();
            pages.extend(objects.into_iter().map(|object| object.join().unwrap()));
            at += PAGE_EVERY;
        }
        let bulk = bulk.into_iter().map(|download| download.join().unwrap()).collect();
        drop(ended);
        let looks = watched.join().unwrap();
        let late = looks.last().map_or(Duration::ZERO, |(_, link)| link.lateness.p99);
        let settled = looks.iter().filter(|(at, _)| *at > 2 * PAGE_EVERY);
        let mut queue: Vec<_> = settled.map(|(_, link)| link.queue_delay).collect();
        queue.sort_unstable();
        let queue = queue.get(queue.len() * 95 / 100).copied().unwrap_or_default();
        Seen { bulk, pages, queue: queue.as_secs_f64() * 1e3, late: late.as_secs_f64() * 1e3 }
    })
}

/// The mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
