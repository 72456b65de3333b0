//! Some nodes on this host, and clients that use them.
use shorthaul_relay::request::{Request, SetUp};
use shorthaul_relay::{
    Client, ClientOptions, Credentials, Endpoint, FixedRoute, Forwarding, Identity, LinkOptions, Links,
    LocalConfig, LocalProxy, MoveOptions, NameService, NetworkSecret, Node, NodeConfig, NodeHandle,
    OpenError, Protection, Route, RouteProvider, Service, Session, Settings, Signature, Snapshot,
};
use shorthaul_types::Bytes;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Longer than anything here takes, however busy the host is.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The secret of a test's network; another for another number.
pub fn secret(number: u8) -> PathBuf {
    let path = std::env::temp_dir().join(format!("shorthaul-test-{}-{number}", std::process::id()));
    let text: String = (0..32).map(|_| format!("{number:02x}")).collect();
    // Tests that run at the same time write the same, and a file is never seen half written.
    let own = path.with_extension(format!("{:?}", thread::current().id()));
    std::fs::write(&own, text).unwrap();
    std::fs::rename(&own, &path).unwrap();
    path
}

/// The head of a request, signed with the secret of the test's network.
pub fn signed(request: &Request, node: SocketAddr) -> String {
    // A node believes nothing that was signed in the millisecond in which it began.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(2) {
        thread::yield_now();
    }
    let key = NetworkSecret::read(&secret(1)).unwrap().signing_key();
    let signature = Signature::sign(&key, "", request.signed_part(Some(node)).as_bytes());
    String::from_utf8(request.to_head(Some(node), Some(&format!("Shorthaul {signature}")))).unwrap()
}

/// All that comes until the end.
pub fn read_all(mut socket: &TcpStream) -> io::Result<Vec<u8>> {
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).map(|_| bytes)
}

/// Nodes called `node1` and so on, and what clients of them need.
pub struct Place {
    pub nodes: Vec<NodeHandle>,
    pub addresses: Vec<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    protection: Protection,
    runtime: Runtime,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes, {:?}", self.nodes.len(), self.protection)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.nodes.iter().for_each(NodeHandle::stop);
    }
}

impl Place {
    pub fn new(nodes: usize, protection: Protection) -> Place {
        Place::with(nodes, protection, |_| {})
    }

    pub fn with(nodes: usize, protection: Protection, change: impl Fn(&mut NodeConfig)) -> Place {
        let (mut handles, mut addresses, mut metrics) = (Vec::new(), Vec::new(), None);
        for number in 1..=nodes {
            let local = "127.0.0.0/8".parse().unwrap();
            let mut config = NodeConfig {
                listen: vec!["127.0.0.1:0".parse().unwrap()],
                name: Some(format!("node{number}")),
                secret: Some(secret(1)),
                protection: Some(protection),
                threads: Some(1),
                drain: Duration::ZERO,
                more: Settings { allow: vec![local], allow_destinations: vec![local], ..Settings::default() },
                ..NodeConfig::default()
            };
            change(&mut config);
            let node = Node::bind(config).unwrap();
            addresses.push(node.addresses()[0]);
            metrics = node.metrics();
            handles.push(node.handle());
            thread::spawn(move || node.run());
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Place { nodes: handles, addresses, metrics, protection, runtime }
    }

    pub fn hops(&self) -> Vec<Endpoint> {
        self.addresses.iter().map(|address| Endpoint::from(*address)).collect()
    }

    fn links(&self, credentials: Credentials, identity: Identity, timeout: Duration) -> Arc<Links> {
        self.links_keeping(0, credentials, identity, timeout)
    }

    /// Which keep so many connections ready to each node.
    pub fn links_keeping(
        &self,
        ready: usize,
        credentials: Credentials,
        identity: Identity,
        timeout: Duration,
    ) -> Arc<Links> {
        let options = LinkOptions {
            name: "client".into(),
            protection: self.protection,
            identity,
            credentials,
            congestion: None,
            paced: false,
            timeout,
            ready,
            names: NameService::System,
            gone_after: Duration::from_secs(600),
        };
        Arc::new(Links::new(options).unwrap())
    }

    fn client(&self, routes: FixedRoute, set_up: SetUp) -> Client {
        let secret = NetworkSecret::read(&secret(1)).unwrap();
        let identity = secret.identity(&[]).unwrap();
        Client::new(ClientOptions {
            routes: Arc::new(routes),
            links: self.links(Credentials::Secret(secret), identity, TIMEOUT),
            set_up,
            forwarding: Forwarding::Pipelined { wait_windows: 0 },
            buffer: Some(Bytes(128 << 10)),
            moves: Some(MoveOptions::default()),
            patience: Duration::ZERO,
        })
    }

    /// A connection that leads to a target by way of all nodes.
    pub fn forward(&self, target: SocketAddr, set_up: SetUp) -> TcpStream {
        self.forward_saying(target, set_up, "")
    }

    /// The same, where the client has said something before anybody listens to it.
    pub fn forward_saying(&self, target: SocketAddr, set_up: SetUp, words: &str) -> TcpStream {
        let client = self.client(FixedRoute::only(Route::via(self.hops())), set_up);
        let service = Service::Forward(target.into());
        let listen = "127.0.0.1:0".parse().unwrap();
        let proxy = LocalProxy::bind(client, vec![LocalConfig { listen, service }], Vec::new()).unwrap();
        let address = proxy.addresses()[0];
        let mut near = TcpStream::connect(address).unwrap();
        near.write_all(words.as_bytes()).unwrap();
        self.runtime.spawn(proxy.run());
        near.set_read_timeout(Some(TIMEOUT)).unwrap();
        near
    }

    pub fn open(&self, target: SocketAddr) -> Result<Session, OpenError> {
        self.open_by(Route::via(self.hops()), target)
    }

    pub fn open_by(&self, route: Route, target: SocketAddr) -> Result<Session, OpenError> {
        self.runtime.block_on(self.client(FixedRoute::only(route), SetUp::Parallel).open(&target.into()))
    }

    pub fn open_or_direct(&self, route: Route, target: SocketAddr) -> Result<Session, OpenError> {
        self.runtime.block_on(self.client(FixedRoute::or_direct(route), SetUp::Parallel).open(&target.into()))
    }

    /// As somebody who has no certificate, but trusts those of the network.
    pub fn open_as(&self, credentials: Credentials, target: SocketAddr) -> Result<Session, OpenError> {
        let authority = NetworkSecret::read(&secret(1)).unwrap().authority_pem().unwrap();
        let file = std::env::temp_dir().join(format!("shorthaul-authority-{}", std::process::id()));
        std::fs::write(&file, authority).unwrap();
        let identity = Identity::from_files(None, Some(&file)).unwrap();
        self.open_with(credentials, identity, target)
    }

    pub fn open_as_member_of(
        &self,
        secret: &std::path::Path,
        target: SocketAddr,
    ) -> Result<Session, OpenError> {
        let secret = NetworkSecret::read(secret).unwrap();
        let identity = secret.identity(&[]).unwrap();
        self.open_with(Credentials::Secret(secret), identity, target)
    }

    pub fn open_with(
        &self,
        credentials: Credentials,
        identity: Identity,
        target: SocketAddr,
    ) -> Result<Session, OpenError> {
        let client = Client::new(ClientOptions {
            routes: Arc::new(FixedRoute::only(Route::via(self.hops()))),
            links: self.links(credentials, identity, TIMEOUT),
            set_up: SetUp::Parallel,
            forwarding: Forwarding::Pipelined { wait_windows: 0 },
            buffer: None,
            moves: Some(MoveOptions::default()),
            patience: Duration::ZERO,
        });
        self.runtime.block_on(client.open(&target.into()))
    }

    /// By ways that somebody else knows.
    pub fn open_on(
        &self,
        routes: Arc<dyn RouteProvider>,
        credentials: Credentials,
        identity: Identity,
        target: SocketAddr,
    ) -> Result<Session, OpenError> {
        let client = Client::new(ClientOptions {
            routes,
            links: self.links(credentials, identity, TIMEOUT),
            set_up: SetUp::Sequential,
            forwarding: Forwarding::Pipelined { wait_windows: 0 },
            buffer: None,
            moves: Some(MoveOptions::default()),
            patience: Duration::ZERO,
        });
        self.run(client.open(&target.into()))
    }

    /// A connection that leads to a target by way of all nodes, as somebody else.
    pub fn forward_as(&self, credentials: Credentials, identity: Identity, target: SocketAddr) -> TcpStream {
        let client = Client::new(ClientOptions {
            routes: Arc::new(FixedRoute::only(Route::via(self.hops()))),
            links: self.links(credentials, identity, TIMEOUT),
            set_up: SetUp::Sequential,
            forwarding: Forwarding::Pipelined { wait_windows: 0 },
            buffer: None,
            moves: None,
            patience: Duration::ZERO,
        });
        let service = Service::Forward(target.into());
        let listen = "127.0.0.1:0".parse().unwrap();
        let proxy = LocalProxy::bind(client, vec![LocalConfig { listen, service }], Vec::new()).unwrap();
        let near = TcpStream::connect(proxy.addresses()[0]).unwrap();
        self.runtime.spawn(proxy.run());
        near.set_read_timeout(Some(TIMEOUT)).unwrap();
        near
    }

    /// A client that waits for so long.
    pub fn patient_client(&self, route: Route, timeout: Duration) -> Client {
        let secret = NetworkSecret::read(&secret(1)).unwrap();
        let identity = secret.identity(&[]).unwrap();
        Client::new(ClientOptions {
            routes: Arc::new(FixedRoute::only(route)),
            links: self.links(Credentials::Secret(secret), identity, timeout),
            set_up: SetUp::Sequential,
            forwarding: Forwarding::Pipelined { wait_windows: 0 },
            buffer: None,
            moves: Some(MoveOptions::default()),
            patience: Duration::ZERO,
        })
    }

    /// A member that opens sessions by way of all nodes, and keeps connections to them ready as `shorthaul proxy` does.
    pub fn ready_client(&self) -> Client {
        let secret = NetworkSecret::read(&secret(1)).unwrap();
        let identity = secret.identity(&[]).unwrap();
        self.client_with(&self.links_keeping(2, Credentials::Secret(secret), identity, TIMEOUT))
    }

    /// One that opens sessions by way of all nodes with these connections.
    pub fn client_with(&self, links: &Arc<Links>) -> Client {
        Client::new(ClientOptions {
            routes: Arc::new(FixedRoute::only(Route::via(self.hops()))),
            links: Arc::clone(links),
            set_up: SetUp::Sequential,
            forwarding: Forwarding::Pipelined { wait_windows: 0 },
            buffer: None,
            moves: None,
            patience: Duration::ZERO,
        })
    }

    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub fn spawn<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) {
        self.runtime.spawn(future);
    }

    pub fn connect(&self, node: usize) -> TcpStream {
        let socket = TcpStream::connect(self.addresses[node]).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.set_write_timeout(Some(TIMEOUT)).unwrap();
        socket
    }

    /// What the first node answers to some bytes: the head.
    pub fn say(&self, bytes: &str) -> String {
        self.say_to(0, bytes)
    }

    pub fn say_to(&self, node: usize, bytes: &str) -> String {
        let Ok(socket) = TcpStream::connect(self.addresses[node]) else { return String::new() };
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        // One that refuses may not read to the end.
        let _ = (&socket).write_all(bytes.as_bytes());
        head(&socket)
    }

    /// A session by plain bytes.
    pub fn ask(&self, bytes: &str) -> TcpStream {
        let socket = self.ask_without_answer(bytes);
        let answer = head(&socket);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        socket
    }

    pub fn ask_without_answer(&self, bytes: &str) -> TcpStream {
        let socket = self.connect(0);
        (&socket).write_all(bytes.as_bytes()).unwrap();
        socket
    }

    /// Waits until the first node says so.
    pub fn until(&self, what: &str, is_so: impl Fn(&Snapshot) -> bool) {
        let since = Instant::now();
        while !is_so(&self.nodes[0].snapshot()) {
            assert!(since.elapsed() < TIMEOUT, "never: {what}: {:?}", self.nodes[0].snapshot());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn head(mut socket: &TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") && matches!(socket.read(&mut byte), Ok(1)) {
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}
