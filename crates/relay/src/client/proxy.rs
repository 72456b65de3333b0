use super::{Client, Early, http, socks};
use crate::accept::{Shortage, accept};
use crate::answer::{Answer, Failure, HopStatus};
use crate::giving_back::GivingBack;
use crate::links::Links;
use crate::pump::Forwarding;
use crate::request::{self, Method};
use crate::route::Endpoint;
use crate::socket::{Leg, Socket, is_for_ipv6_alone, remedy};
use ipnet::IpNet;
use socket2::{Domain, Protocol, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// How long a client may take to say where it wants to go.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long the first words of a client are waited for that is told nothing: most speak as soon as they are
/// connected, and what they say by then goes right behind the request.
const FIRST_WORDS: Duration = Duration::from_millis(1);
/// What is taken of them.
const FIRST_WORDS_MOST: usize = 16 << 10;

/// How often it is looked whether sessions are over.
const LOOK: Duration = Duration::from_millis(200);

/// What a local port is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// The client says where to: SOCKS 4a or 5, HTTP `CONNECT` or plain HTTP, whichever it speaks.
    Proxy,
    /// Always there.
    Forward(Endpoint),
    /// Where the connection was going before the firewall redirected it here.
    Transparent,
}

/// A local port.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// Where.
    pub listen: SocketAddr,
    /// What for.
    pub service: Service,
}

/// Why there is no local port.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The address cannot be had.
    #[error("cannot accept connections at {address}: {error}{}", remedy(error))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// Everybody could use it.
    #[error("{0} can be reached from elsewhere: use 127.0.0.1, or say with `--allow` who may use it")]
    Open(SocketAddr),
}

/// Local ports that lead into the network.
pub struct LocalProxy {
    client: Client,
    allow: Vec<IpNet>,
    listeners: Vec<(TcpListener, Service)>,
}

impl LocalProxy {
    /// Begins to listen. Besides this host itself, `allow` may use the ports.
    ///
    /// # Errors
    /// An address cannot be had, or is open to everybody.
    pub fn bind(
        client: Client,
        ports: Vec<LocalConfig>,
        allow: Vec<IpNet>,
    ) -> Result<LocalProxy, LocalError> {
        let all: Vec<SocketAddr> = ports.iter().map(|port| port.listen).collect();
        let mut listeners = Vec::new();
        for LocalConfig { listen: address, service } in ports {
            if !address.ip().is_loopback() && allow.is_empty() {
                return Err(LocalError::Open(address));
            }
            let listen = || -> io::Result<TcpListener> {
                let kind = Type::STREAM.nonblocking();
                let socket = socket2::Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
                socket.set_reuse_address(true)?;
                if is_for_ipv6_alone(address, &all) {
                    socket.set_only_v6(true)?;
                }
                socket.set_tcp_nodelay(true)?;
                socket.set_linger(Some(Duration::ZERO))?; // what is accepted inherits it
                socket.bind(&address.into())?;
                socket.listen(1024)?;
                Ok(socket.into())
            };
            listeners.push((listen().map_err(|error| LocalError::Listen { address, error })?, service));
        }
        Ok(LocalProxy { client, allow, listeners })
    }

    /// Where it listens, in the order in which it was told to.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|(listener, _)| listener.local_addr().ok()).collect()
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// A socket is of no use.
    pub async fn run(self) -> io::Result<()> {
        let (client, allow) = (Arc::new(self.client), Arc::new(self.allow));
        // What goes on beside, and ends with this.
        let mut beside = tokio::task::JoinSet::new();
        beside.spawn(Arc::clone(&client.options.links).maintain());
        let mut accepting = tokio::task::JoinSet::new();
        let (shortage, sessions) = (Arc::new(Shortage::default()), Arc::<AtomicU64>::default());
        beside.spawn(give_back(Arc::clone(&sessions)));
        for (listener, service) in self.listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let (client, allow, shortage) = (Arc::clone(&client), Arc::clone(&allow), Arc::clone(&shortage));
            let sessions = Arc::clone(&sessions);
            accepting.spawn(async move {
                loop {
                    let (stream, peer) = accept(&listener, &shortage).await;
                    let known = |range: &IpNet| range.contains(&peer.ip().to_canonical());
                    // What this host's own programs send elsewhere, and the firewall redirects, keeps the address
                    // that it comes from; but nobody else reaches the loopback.
                    let is_here = |local: SocketAddr| local.ip().to_canonical().is_loopback();
                    if is_here(peer) || stream.local_addr().is_ok_and(is_here) || allow.iter().any(known) {
                        let local = Local { socket: Socket(Arc::new(stream)), peer };
                        let serving = local.serve(Arc::clone(&client), service.clone());
                        let open = Open::one_more(&sessions);
                        tokio::spawn(async move {
                            serving.await;
                            drop(open);
                        });
                    }
                }
            });
        }
        // None ends unless something is wrong with all of them.
        accepting.join_next().await.map_or(Ok(()), |ended| ended.map_err(io::Error::other))
    }
}

/// Counts as long as a client's connection is open.
struct Open(Arc<AtomicU64>);

impl Open {
    fn one_more(sessions: &Arc<AtomicU64>) -> Open {
        sessions.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(sessions))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gives back the memory of sessions that are over, for ever.
async fn give_back(sessions: Arc<AtomicU64>) {
    let mut giving_back = GivingBack::default();
    loop {
        tokio::time::sleep(LOOK).await;
        giving_back.look(sessions.load(Ordering::Relaxed));
    }
}

/// What a client wants.
enum Wanted {
    /// A connection to a target, told of in this manner; and what it said behind that.
    Session(Endpoint, Manner, Vec<u8>),
    /// Pages, by plain HTTP, of which this was said already.
    Pages(Vec<u8>),
}

/// How a client is told of success and failure.
#[derive(Clone, Copy)]
enum Manner {
    Socks,
    Socks4,
    Http,
    /// Its connection is all that it has.
    Nothing,
}

struct Local {
    socket: Socket,
    peer: SocketAddr,
}

impl Local {
    async fn serve(mut self, client: Arc<Client>, service: Service) {
        let wanted = match service {
            Service::Forward(target) => Ok((target, Manner::Nothing, Vec::new())),
            Service::Transparent => self.redirected().map(|target| (target, Manner::Nothing, Vec::new())),
            Service::Proxy => match tokio::time::timeout(TIMEOUT, self.negotiate()).await {
                Ok(Ok(Wanted::Session(target, manner, early))) => Ok((target, manner, early)),
                Ok(Ok(Wanted::Pages(said))) => {
                    return http::serve(client, self.socket, self.peer, said).await;
                }
                Ok(Err(error)) => Err(error),
                Err(_) => return,
            },
        };
        // One that does not say what it wants is reset.
        let Ok((target, manner, mut early)) = wanted else { return };
        if matches!(manner, Manner::Nothing) {
            early = self.first_words().await;
        }
        let mut take = || std::mem::take(&mut early);
        match client.open_with(&target, Some(self.peer), &mut Early::new(&mut take)).await {
            Ok(session) => {
                tracing::info!(%target, route = %session.route, took = ?session.took, "session");
                let head = match manner {
                    Manner::Socks => socks::reply(0).to_vec(),
                    Manner::Socks4 => socks::reply_4(socks::GRANTED_4).to_vec(),
                    Manner::Http => Answer { status: 200, hops: session.hops.clone() }.to_head(),
                    Manner::Nothing => Vec::new(),
                };
                let pipelined = Forwarding::Pipelined { wait_windows: 0 };
                if let Err(error) = session.carry(self.socket, &head, pipelined).await {
                    tracing::debug!(%target, %error, "a session broke");
                }
            }
            Err(error) => {
                tracing::warn!("{error}");
                let failure = error.failure();
                match manner {
                    Manner::Socks => self.close_with(&socks::reply(socks::code_of(failure))).await,
                    Manner::Socks4 => self.close_with(&socks::reply_4(socks::REFUSED_4)).await,
                    Manner::Http => {
                        let hops = error.attempts.into_iter().map(|(_, refusal)| *refusal.hop).collect();
                        self.close_with(&Answer { status: failure.status(), hops }.to_head()).await;
                    }
                    Manner::Nothing => {}
                }
            }
        }
    }

    /// What a client says at once; nothing, if it waits for the other side to begin.
    async fn first_words(&self) -> Vec<u8> {
        let mut words = vec![0; FIRST_WORDS_MOST];
        let ready = tokio::time::timeout(FIRST_WORDS, self.socket.0.readable()).await;
        // Whatever else is wrong with it, or its end, is found again by whoever reads next.
        let len = if ready.is_ok() { self.socket.0.try_read(&mut words).unwrap_or(0) } else { 0 };
        words.truncate(len);
        words
    }

    fn redirected(&self) -> io::Result<Endpoint> {
        let target = shorthaul_os::socket::original_destination(&self.socket)?;
        // Whoever connects to the port itself would be led in a circle.
        if Some(target) == self.socket.0.local_addr().ok() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(target.into())
    }

    /// What a client wants, and what it said behind that.
    async fn negotiate(&mut self) -> io::Result<Wanted> {
        let mut bytes = Vec::new();
        self.more(&mut bytes).await?;
        match bytes.first() {
            Some(&socks::VERSION) => {}
            Some(&socks::VERSION_4) => return self.negotiate_socks_4(bytes).await,
            _ => return self.negotiate_http(bytes).await,
        }
        loop {
            match socks::greeting(&bytes) {
                socks::Read::There(true, len) => {
                    bytes.drain(..len);
                    break;
                }
                socks::Read::Partial => self.more(&mut bytes).await?,
                socks::Read::There(false, _) | socks::Read::Wrong(_) => {
                    self.close_with(&socks::NO_METHOD).await;
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
        }
        self.socket.write_all(&socks::WELCOME).await?;
        loop {
            match socks::request(&bytes) {
                socks::Read::There(target, len) => {
                    return Ok(Wanted::Session(target, Manner::Socks, bytes.split_off(len)));
                }
                socks::Read::Partial => self.more(&mut bytes).await?,
                socks::Read::Wrong(code) => {
                    self.close_with(&socks::reply(code)).await;
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
        }
    }

    async fn negotiate_socks_4(&mut self, mut bytes: Vec<u8>) -> io::Result<Wanted> {
        loop {
            match socks::request_4(&bytes) {
                socks::Read::There(target, len) => {
                    return Ok(Wanted::Session(target, Manner::Socks4, bytes.split_off(len)));
                }
                socks::Read::Partial => self.more(&mut bytes).await?,
                socks::Read::Wrong(code) => {
                    self.close_with(&socks::reply_4(code)).await;
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
        }
    }

    async fn negotiate_http(&mut self, mut bytes: Vec<u8>) -> io::Result<Wanted> {
        const CONNECT: &[u8] = b"CONNECT ";
        loop {
            let seen = bytes.len().min(CONNECT.len());
            if bytes[..seen] != CONNECT[..seen] {
                return Ok(Wanted::Pages(bytes));
            }
            let wrong = match request::read(&bytes) {
                Ok(Some(read)) if read.request.method == Method::Connect => {
                    return Ok(Wanted::Session(read.request.target, Manner::Http, bytes.split_off(read.len)));
                }
                Ok(None) => {
                    self.more(&mut bytes).await?;
                    continue;
                }
                Ok(Some(_)) => "only CONNECT is for here".to_owned(),
                Err(error) => error.to_string(),
            };
            let error = Some(Failure::RequestError);
            let hop = HopStatus { node: "proxy".into(), error, details: Some(wrong), ..HopStatus::default() };
            self.close_with(&Answer { status: 400, hops: vec![hop] }.to_head()).await;
            return Err(io::ErrorKind::InvalidData.into());
        }
    }

    async fn more(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.reserve(1024);
        match self.socket.read_buf(bytes).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Says something last, so that it arrives.
    async fn close_with(&self, bytes: &[u8]) {
        let (mut source, mut sink) = Leg::plain(self.socket.clone()).into_halves();
        let told = async {
            sink.write_all(bytes).await?;
            sink.shutdown().await
        };
        if told.await.is_ok() && self.socket.end_well().is_ok() {
            Links::linger(&mut source).await;
        }
    }
}
