//! Connections onward: to targets, to nodes, and those that are kept ready.
mod dead;
mod names;

use crate::account::Account;
use crate::answer::{self, Answer, Failure, Refusal};
use crate::authority::Holder;
use crate::policy::DestinationPolicy;
use crate::request::{MAX_HEAD, Request};
use crate::route::Endpoint;
use crate::secret::{Identity, NetworkSecret, SecretError};
use crate::sign::Signature;
use crate::socket::{Leg, Socket, Source};
use dead::Dead;
pub use names::NameService;
use names::Names;
use ring::hmac;
use shorthaul_types::Bytes;
use socket2::{Domain, Protocol, SockRef, TcpKeepalive, Type};
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls;

/// A connection that is kept ready is used up to this age; nodes wait longer for a request.
const READY_FOR: Duration = Duration::from_secs(40);
/// Nodes that were not asked for longer are no longer kept ready for.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// Most nodes that connections are kept ready to; of more, those that were asked longest ago are forgotten. Whoever
/// asks names them.
const REMEMBERED_MOST: usize = 64;
/// The longest that a connection to a node may take: two retransmissions of a SYN. One that does not answer is remembered.
const NODE_ANSWERS: Duration = Duration::from_secs(5);
/// How long a name's second address waits for the first.
const NEXT_ADDRESS: Duration = Duration::from_secs(3);
/// What is received within a host and not read yet, of one connection. With 64 of them, half and twice as much
/// were slower, a quarter much slower (docs/relay.md); the kernel alone grows to tens of megabytes.
const WITHIN_HOST: usize = 512 << 10;

/// How what goes between nodes is kept from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// TLS 1.3 around everything.
    Tls,
    /// None: requests are signed, what is relayed can be read and changed on the way. It is what
    /// applications that have TLS of their own need, and the kernel can then move the bytes.
    Plain,
}

/// How we say who we are.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// Not at all; by address or by certificate.
    None,
    /// As a member of a network.
    Secret(NetworkSecret),
    /// As a user.
    Token {
        /// The name.
        user: String,
        /// What proves it.
        token: String,
    },
}

/// How connections onward are made.
#[derive(Debug)]
pub struct LinkOptions {
    /// Who we are in what is said of failures.
    pub name: String,
    /// What is between us and a node.
    pub protection: Protection,
    /// Who we are by TLS, and whom we believe.
    pub identity: Identity,
    /// Who we are by what we say.
    pub credentials: Credentials,
    /// The kernel's congestion control.
    pub congestion: Option<String>,
    /// Whether the kernel paces what is sent.
    pub paced: bool,
    /// The longest that it may take to connect, name, TCP and TLS together, and to be answered.
    pub timeout: Duration,
    /// Connections that are kept ready to each node that was asked lately.
    pub ready: usize,
    /// Who looks names up.
    pub names: NameService,
    /// How long a peer may leave unanswered what the kernel asks it before it counts as gone.
    pub gone_after: Duration,
}

/// Why there are no links.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The identity is none.
    #[error(transparent)]
    Identity(#[from] SecretError),
    /// Names could not be looked up.
    #[error("cannot look names up as /etc/resolv.conf says: {0}")]
    Names(String),
}

/// Who says where to connect to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NamedBy<'a> {
    /// The one whose host it is: everything is allowed.
    Operator,
    /// Whoever may ask: what the policy allows is allowed. Names are looked up within the limits of the account, if one asks.
    Anybody(Option<&'a Arc<Account>>),
}

/// Connects onward.
#[derive(Debug)]
pub struct Links {
    options: LinkOptions,
    tls: RwLock<TlsConfig>,
    /// Certificates that are not believed any more, by serial number or name.
    revoked: RwLock<Arc<HashSet<String>>>,
    policy: RwLock<Option<Arc<DestinationPolicy>>>,
    signing: Option<(String, hmac::Key)>,
    ready: Mutex<HashMap<Endpoint, Ready>>,
    dead: Dead,
    names: Names,
    local: LocalAddresses,
}

/// The addresses of this host's interfaces, as of a short while ago.
#[derive(Debug, Default)]
struct LocalAddresses(Mutex<Option<(Instant, Vec<IpAddr>)>>);

impl LocalAddresses {
    /// How old the list may be.
    const AGE: Duration = Duration::from_secs(5);

    fn contain(&self, address: IpAddr) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|(since, _)| since.elapsed() > Self::AGE)
            && let Ok(addresses) = shorthaul_os::netlink::local_addresses()
        {
            *known = Some((Instant::now(), addresses));
        }
        known.as_ref().is_some_and(|(_, addresses)| addresses.contains(&address))
    }
}

struct TlsConfig(Arc<rustls::ClientConfig>);

impl std::fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsConfig")
    }
}

#[derive(Debug)]
struct Ready {
    asked: Instant,
    legs: Vec<(Instant, Leg)>,
}

impl Links {
    /// Makes what connections have in common.
    ///
    /// # Errors
    /// The identity is none.
    pub fn new(options: LinkOptions) -> Result<Links, LinkError> {
        let tls = RwLock::new(TlsConfig(options.identity.client()?));
        let signing = match &options.credentials {
            Credentials::None => None,
            Credentials::Secret(secret) => Some((String::new(), secret.signing_key())),
            Credentials::Token { user, token } => {
                Some((user.clone(), hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes())))
            }
        };
        let names = Names::new(options.names)?;
        Ok(Links {
            options,
            tls,
            revoked: RwLock::default(),
            policy: RwLock::default(),
            signing,
            ready: Mutex::default(),
            dead: Dead::default(),
            names,
            local: LocalAddresses::default(),
        })
    }

    /// Who we are in what is said of failures.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// The longest that a step may take.
    pub fn timeout(&self) -> Duration {
        self.options.timeout
    }

    /// Only allowed addresses are connected to from now on.
    pub fn set_policy(&self, policy: DestinationPolicy) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(policy));
    }

    /// Whether an address is one that others may have connected to.
    pub fn allows(&self, to: SocketAddr) -> bool {
        let policy = self.policy.read().unwrap_or_else(PoisonError::into_inner).clone();
        policy.is_none_or(|policy| policy.check(to, |address| self.local.contain(address)).is_ok())
    }

    /// We are somebody else by TLS from now on, or believe others. Connections that are open go on.
    ///
    /// # Errors
    /// The identity is none.
    pub fn set_identity(&self, identity: &Identity) -> Result<(), LinkError> {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = TlsConfig(identity.client()?);
        Ok(())
    }

    /// Nodes whose certificates have these serial numbers or names are not believed from now on.
    pub fn set_revoked(&self, revoked: HashSet<String>) {
        *self.revoked.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(revoked);
        // Those that are ready may be of them.
        self.ready
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values_mut()
            .for_each(|one| one.legs.clear());
    }

    /// Reads again how names are looked up. What cannot be read stays as it was.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn reload_names(&self) -> Result<(), LinkError> {
        self.names.reload()
    }

    /// Connects to a node or to the end of a route.
    pub(crate) async fn connect(
        &self,
        to: &Endpoint,
        buffer: Option<Bytes>,
        named: NamedBy<'_>,
    ) -> Result<Socket, Refusal> {
        let connecting = self.connect_without_limit(to, buffer, named);
        match tokio::time::timeout(self.options.timeout, connecting).await {
            Ok(connected) => connected,
            Err(_) => {
                let waited = format!("no answer within {} s", self.options.timeout.as_secs_f32());
                Err(Refusal::at(self.name(), Failure::ConnectionTimeout, waited).toward(to))
            }
        }
    }

    async fn connect_without_limit(
        &self,
        to: &Endpoint,
        buffer: Option<Bytes>,
        named: NamedBy<'_>,
    ) -> Result<Socket, Refusal> {
        let (policy, asker) = match named {
            NamedBy::Operator => (None, None),
            NamedBy::Anybody(asker) => {
                (self.policy.read().unwrap_or_else(PoisonError::into_inner).clone(), asker)
            }
        };
        let refuse = |failure, details: String| Refusal::at(self.name(), failure, details).toward(to);
        let addresses: Vec<SocketAddr> = match to.address() {
            Some(address) => vec![address],
            None => {
                let _share = match asker.map(|account| account.look_up()) {
                    Some(None) => {
                        let why = "too many names are being looked up for this account already";
                        return Err(refuse(Failure::ConnectionLimit, why.into()));
                    }
                    share => share,
                };
                match self.names.look_up(to.host(), to.port()).await {
                    Ok(addresses) => addresses,
                    Err(error) => return Err(refuse(Failure::Dns, error)),
                }
            }
        };
        let count = addresses.len();
        let mut last = refuse(Failure::Dns, "it has no address".into());
        for (at, address) in addresses.into_iter().enumerate() {
            // Here and nowhere else, and the connection goes to this very address.
            let is_local = |address| self.local.contain(address);
            if let Some(Err(reason)) = policy.as_ref().map(|policy| policy.check(address, is_local)) {
                // What another address answered says more.
                if matches!(last.failure, Failure::Dns | Failure::DestinationProhibited) {
                    last = refuse(Failure::DestinationProhibited, reason);
                }
                continue;
            }
            let timeout = if at + 1 < count { NEXT_ADDRESS } else { self.options.timeout };
            match tokio::time::timeout(timeout, self.open(address, buffer)).await {
                Ok(Ok(socket)) => return Ok(socket),
                Ok(Err(error)) => last = refuse(failure_of(&error), words_of(&error)),
                Err(_) => last = refuse(Failure::ConnectionTimeout, format!("{address} does not answer")),
            }
        }
        Err(last)
    }

    async fn open(&self, address: SocketAddr, buffer: Option<Bytes>) -> io::Result<Socket> {
        let socket = socket2::Socket::new(
            Domain::for_address(address),
            Type::STREAM.nonblocking(),
            Some(Protocol::TCP),
        )?;
        socket.set_tcp_nodelay(true)?;
        keep_alive(&SockRef::from(&socket), self.options.gone_after)?;
        if let Some(name) = &self.options.congestion {
            socket.set_tcp_congestion(name.as_bytes())?;
        }
        if self.options.paced {
            shorthaul_os::socket::set_paced(&socket)?;
        }
        // Before the handshake, so that the window scale fits.
        size_buffer(&SockRef::from(&socket), buffer, address.ip());
        let connected = TcpSocket::from_std_stream(socket.into()).connect(address).await?;
        let socket = Socket(Arc::new(connected));
        socket.end_with_reset()?;
        Ok(socket)
    }

    /// A connection to a node: one that is ready, or a new one.
    /// Names are looked up within the limits of the account that wants it.
    pub(crate) async fn node(
        self: &Arc<Self>,
        to: &Endpoint,
        asker: Option<&Arc<Account>>,
    ) -> Result<Leg, Refusal> {
        if let Some(leg) = self.take_ready(to) {
            return Ok(leg);
        }
        if let Some(refusal) = self.dead.refusal(to) {
            return Err(refusal);
        }
        let leg = match self.connect_node(to, asker).await {
            Ok(leg) => leg,
            Err(refusal) => {
                if self.dead.on_failure(to, &refusal) {
                    tokio::spawn(dead::ask_again(Arc::clone(self), to.clone()));
                }
                return Err(refusal);
            }
        };
        // Only one that is a node is worth keeping ready for.
        if self.options.ready > 0 {
            let (links, to) = (Arc::clone(self), to.clone());
            tokio::spawn(async move { links.keep_ready(&to).await });
        }
        Ok(leg)
    }

    async fn connect_node(&self, to: &Endpoint, asker: Option<&Arc<Account>>) -> Result<Leg, Refusal> {
        let connecting = self.connect(to, None, NamedBy::Anybody(asker));
        let socket = tokio::time::timeout(NODE_ANSWERS, connecting)
            .await
            .unwrap_or_else(|_| Err(Refusal::at(self.name(), Failure::ConnectionTimeout, "").toward(to)))?;
        if self.options.protection == Protection::Plain {
            return Ok(Leg::plain(socket));
        }
        let refuse = |failure, details: String| Refusal::at(self.name(), failure, details).toward(to);
        let name = self.options.identity.name_of(to.host());
        let name =
            name.ok_or_else(|| refuse(Failure::Tls, "no certificate could be for this name".into()))?;
        let config = Arc::clone(&self.tls.read().unwrap_or_else(PoisonError::into_inner).0);
        let shaking = TlsConnector::from(config).connect(name, socket.clone());
        match tokio::time::timeout(self.options.timeout, shaking).await {
            Ok(Ok(tls)) => {
                let leg = Leg::tls(socket, tls.into());
                let revoked = Arc::clone(&self.revoked.read().unwrap_or_else(PoisonError::into_inner));
                let is_revoked = |one: Holder| revoked.contains(&one.serial) || revoked.contains(&one.name);
                if !revoked.is_empty() && leg.holder().is_some_and(is_revoked) {
                    return Err(refuse(Failure::TlsCertificate, "its certificate was revoked".into()));
                }
                Ok(leg)
            }
            Ok(Err(error)) => {
                let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                match inner.and_then(|inner| self.unbelieved(inner)) {
                    Some(why) => Err(refuse(Failure::TlsCertificate, why)),
                    // Somebody who dies meanwhile says nothing of TLS.
                    None if inner.is_none() && failure_of(&error) == Failure::ConnectionTerminated => {
                        Err(refuse(Failure::ConnectionTerminated, words_of(&error)))
                    }
                    None => Err(refuse(Failure::Tls, error.to_string())),
                }
            }
            Err(_) => Err(refuse(Failure::ConnectionTimeout, "TLS was not answered".into())),
        }
    }

    /// Why one of the two sides does not believe the other, if that is what went wrong.
    fn unbelieved(&self, error: &rustls::Error) -> Option<String> {
        use rustls::{AlertDescription as Alert, CertificateError as Certificate};
        let by_secret = self.options.identity.is_member();
        match error {
            rustls::Error::InvalidCertificate(why) => Some(match why {
                Certificate::UnknownIssuer | Certificate::BadSignature if by_secret => {
                    "the secret differs".into()
                }
                Certificate::UnknownIssuer | Certificate::BadSignature => {
                    "its certificate is of another authority".into()
                }
                Certificate::Expired | Certificate::ExpiredContext { .. } => {
                    "its certificate has expired: compare the clocks, too".into()
                }
                Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
                    "its certificate is of the future: compare the clocks".into()
                }
                Certificate::Revoked => "its certificate was revoked".into(),
                Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                    "its certificate is for other names: see --name and --reached-by of the node".into()
                }
                other => format!("its certificate is not good: {other:?}"),
            }),
            rustls::Error::AlertReceived(alert) => match alert {
                Alert::UnknownCA | Alert::DecryptError | Alert::BadCertificate if by_secret => {
                    Some("it does not believe us: the secret differs".into())
                }
                Alert::UnknownCA | Alert::DecryptError | Alert::BadCertificate => {
                    Some("it does not believe our certificate".into())
                }
                Alert::CertificateExpired => Some("our certificate has expired".into()),
                Alert::CertificateRevoked => Some("our certificate was revoked".into()),
                Alert::CertificateRequired => Some("it wants a certificate of ours".into()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The head of a request for the node at the other end of a leg.
    pub(crate) fn head(&self, leg: &Leg, request: &Request) -> io::Result<Vec<u8>> {
        if leg.is_tls() {
            return Ok(match &self.options.credentials {
                Credentials::Token { token, .. } => request.to_head(None, Some(&format!("Bearer {token}"))),
                _ => request.to_head(None, None),
            });
        }
        let Some((user, key)) = &self.signing else { return Ok(request.to_head(None, None)) };
        let node = leg.socket().0.peer_addr()?;
        let signature = Signature::sign(key, user, request.signed_part(Some(node)).as_bytes());
        Ok(request.to_head(Some(node), Some(&format!("Shorthaul {signature}"))))
    }

    /// Asks the node at the other end, with the first bytes of the session behind the request.
    pub(crate) async fn ask(
        &self,
        leg: &mut Leg,
        to: &Endpoint,
        request: &Request,
        early: &[u8],
    ) -> Result<(), Refusal> {
        let ask = async {
            let mut bytes = self.head(leg, request)?;
            bytes.extend_from_slice(early);
            leg.write_all(&bytes).await?;
            leg.flush().await
        };
        let failed =
            |error: io::Error| Refusal::at(self.name(), failure_of(&error), words_of(&error)).toward(to);
        ask.await.map_err(failed)
    }

    /// Reads what a node answers, and what of the session came right behind it.
    pub(crate) async fn answer<R: AsyncRead + Unpin>(
        &self,
        from: &mut R,
        to: &Endpoint,
    ) -> Result<(Answer, Vec<u8>), Refusal> {
        let refuse = |failure, details: String| Refusal::at(self.name(), failure, details).toward(to);
        let read = async {
            let mut bytes = Vec::with_capacity(512);
            loop {
                match from.read_buf(&mut bytes).await {
                    Ok(0) => {
                        return Err(refuse(
                            Failure::ConnectionTerminated,
                            "it closed before it answered".into(),
                        ));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                        return Err(match inner.and_then(|inner| self.unbelieved(inner)) {
                            Some(why) => refuse(Failure::TlsCertificate, why),
                            None => refuse(Failure::ConnectionTerminated, words_of(&error)),
                        });
                    }
                }
                match answer::read(&bytes) {
                    Ok(Some((answer, len))) => return Ok((answer, bytes.split_off(len))),
                    Ok(None) if bytes.len() <= MAX_HEAD => {}
                    Ok(None) => return Err(refuse(Failure::Internal, "its answer has no end".into())),
                    Err(error) => return Err(refuse(Failure::Internal, error.to_string())),
                }
            }
        };
        // A chain behind it has to connect as well, each part with the same timeout.
        match tokio::time::timeout(self.options.timeout * 2, read).await {
            Ok(read) => read,
            Err(_) => Err(refuse(Failure::ConnectionTimeout, "it did not answer".into())),
        }
    }

    /// Reads what a node answers, which is a session or why there is none.
    pub(crate) async fn answered(
        &self,
        from: &mut Leg,
        first: &Endpoint,
    ) -> Result<(Answer, Vec<u8>), Refusal> {
        let (answer, rest) = self.answer(from, first).await?;
        if answer.is_success() { Ok((answer, rest)) } else { Err(answer.into_refusal(first)) }
    }

    /// Tells a node of a session that is about to come, so that its way on is there when it does. That
    /// this fails is no harm: the session finds its way by itself.
    pub(crate) async fn prepare(self: &Arc<Self>, at: &Endpoint, request: &Request) {
        let told = async {
            let mut leg = self.node(at, None).await?;
            self.ask(&mut leg, at, request, &[]).await?;
            let (mut source, sink) = leg.into_halves();
            let answered = self.answer(&mut source, at).await;
            drop(sink);
            answered.map(|(answer, _)| answer.status)
        };
        match told.await {
            Ok(status) => tracing::debug!(%at, status, "told of a session"),
            Err(refusal) => tracing::debug!(%at, %refusal, "not told of a session"),
        }
    }

    fn take_ready(self: &Arc<Self>, to: &Endpoint) -> Option<Leg> {
        let now = Instant::now();
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = ready.get_mut(to)?;
        entry.asked = now;
        let is_dead = self.dead.refusal(to).is_some();
        let taken = loop {
            match entry.legs.pop() {
                Some((since, mut leg)) => {
                    if now - since < READY_FOR && is_silent(&mut leg) {
                        break Some(leg);
                    }
                }
                None => break None,
            }
        };
        drop(ready);
        if !is_dead {
            let (links, to) = (Arc::clone(self), to.clone());
            tokio::spawn(async move { links.fill(&to).await });
        }
        taken
    }

    /// Keeps connections ready to a node from now on.
    pub async fn keep_ready(self: &Arc<Self>, to: &Endpoint) {
        {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            if !ready.contains_key(to) {
                if ready.len() >= REMEMBERED_MOST {
                    let longest_ago = ready.iter().min_by_key(|(_, entry)| entry.asked);
                    let longest_ago = longest_ago.map(|(node, _)| node.clone());
                    longest_ago.and_then(|node| ready.remove(&node));
                }
                ready.insert(to.clone(), Ready { asked: Instant::now(), legs: Vec::new() });
            }
        }
        self.fill(to).await;
    }

    async fn fill(self: &Arc<Self>, to: &Endpoint) {
        loop {
            {
                let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
                if ready.get(to).is_none_or(|entry| entry.legs.len() >= self.options.ready) {
                    return;
                }
            }
            let Ok(leg) = self.connect_node(to, None).await else { return };
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            match ready.get_mut(to) {
                Some(entry) if entry.legs.len() < self.options.ready => {
                    entry.legs.push((Instant::now(), leg))
                }
                _ => return,
            }
        }
    }

    /// Replaces what has become too old, for ever.
    pub async fn maintain(self: Arc<Self>) {
        loop {
            tokio::time::sleep(READY_FOR / 4).await;
            let now = Instant::now();
            let wanted: Vec<Endpoint> = {
                let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
                ready.retain(|_, entry| now - entry.asked < REMEMBERED_FOR);
                for entry in ready.values_mut() {
                    entry.legs.retain_mut(|(since, leg)| now - *since < READY_FOR / 2 && is_silent(leg));
                }
                ready.keys().cloned().collect()
            };
            // All at the same time: one that has gone keeps nobody waiting.
            for node in wanted {
                let links = Arc::clone(&self);
                tokio::spawn(async move { links.fill(&node).await });
            }
        }
    }

    /// Reads from a source until it ends, or for a while, so that closing it does not reset what was
    /// sent to the other side and is still on its way (RFC 9112 §9.6).
    pub(crate) async fn linger(source: &mut Source) {
        let mut nothing = [0; 4096];
        let drain = async { while matches!(source.read(&mut nothing).await, Ok(1..)) {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), drain).await;
    }
}

/// Whether a connection that nobody uses is still open, with nothing said on it.
fn is_silent(leg: &mut Leg) -> bool {
    let mut byte = [0; 1];
    let mut cx = Context::from_waker(Waker::noop());
    matches!(Pin::new(leg).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)), Poll::Pending)
}

/// Asks the kernel to hold this much of a direction; half on each of the sockets that it passes. A kernel
/// that allows less gives less.
pub fn set_buffer(socket: &SockRef<'_>, buffer: Bytes) {
    // The kernel doubles what it is asked for, to have room for its own accounts (socket(7)).
    let quarter = usize::try_from(buffer.0 / 4).unwrap_or(usize::MAX).clamp(2048, 1 << 30);
    let _ = (socket.set_recv_buffer_size(quarter * 2), socket.set_send_buffer_size(quarter * 2));
}

/// The buffer that was asked for; without one, the kernel sizes it by what comes, as paths need. Within a host
/// that only fills memory: the buffers of a few flows grow beyond all caches, and copying into them takes
/// longer. So there it has a bound, for a socket at, or toward, an address of the loopback interface.
pub fn size_buffer(socket: &SockRef<'_>, buffer: Option<Bytes>, address: IpAddr) {
    match buffer {
        Some(buffer) => set_buffer(socket, buffer),
        None if address.to_canonical().is_loopback() => {
            let _ = socket.set_recv_buffer_size(WITHIN_HOST);
        }
        None => {}
    }
}

/// Has the kernel ask a peer that is silent whether it is there still: it has gone if it says nothing within this time.
pub fn keep_alive(socket: &SockRef<'_>, gone_after: Duration) -> io::Result<()> {
    let asked = TcpKeepalive::new()
        .with_time((gone_after / 2).max(Duration::from_secs(1)))
        .with_interval((gone_after / 10).max(Duration::from_secs(1)))
        .with_retries(5);
    socket.set_tcp_keepalive(&asked)
}

/// What an error of the kernel says beyond what it means.
fn words_of(error: &io::Error) -> String {
    if error.raw_os_error().is_some() && failure_of(error) != Failure::Internal {
        return String::new();
    }
    let words = error.to_string();
    words.split(" (os error").next().unwrap_or_default().to_owned()
}

/// What an error of the kernel means to the one who asked.
pub fn failure_of(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure::ConnectionRefused,
        io::ErrorKind::TimedOut => Failure::ConnectionTimeout,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Failure::Unroutable,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => Failure::ConnectionTerminated,
        _ => Failure::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_within_the_host_needs_no_great_buffer() {
        let sized = |buffer: Option<Bytes>, address: &str| {
            let socket = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            size_buffer(&SockRef::from(&socket), buffer, address.parse().unwrap());
            socket.recv_buffer_size().unwrap()
        };
        let untouched = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let by_kernel = untouched.recv_buffer_size().unwrap();
        assert_eq!(sized(None, "192.0.2.1"), by_kernel);
        let bounded = sized(None, "127.0.0.1");
        // The kernel doubles it, and may allow less.
        assert!(bounded != by_kernel && bounded <= 2 * WITHIN_HOST, "{bounded}");
        assert_eq!(sized(None, "::1"), bounded);
        assert_eq!(sized(None, "::ffff:127.0.0.1"), bounded);
        let asked = sized(Some(Bytes(64 << 10)), "127.0.0.1");
        assert_eq!(asked, sized(Some(Bytes(64 << 10)), "192.0.2.1"), "what is asked for goes before");
        assert!(asked < bounded);
    }

    #[tokio::test]
    async fn only_so_many_nodes_are_kept_ready_for() {
        let links = Links::new(LinkOptions {
            name: "test".into(),
            protection: Protection::Plain,
            identity: Identity::from_files(None, None).unwrap(),
            credentials: Credentials::None,
            congestion: None,
            paced: false,
            timeout: Duration::from_secs(10),
            ready: 1,
            names: NameService::System,
            gone_after: Duration::from_secs(600),
        });
        let links = Arc::new(links.unwrap());
        let kept = |links: &Links| links.ready.lock().unwrap().keys().cloned().collect::<Vec<_>>();
        // Nobody listens there, so that nothing is opened.
        let nodes: Vec<Endpoint> =
            (1..=100).map(|port| format!("127.0.0.1:{port}").parse().unwrap()).collect();
        for node in &nodes {
            links.keep_ready(node).await;
        }
        let kept = kept(&links);
        assert_eq!(kept.len(), REMEMBERED_MOST);
        assert!(kept.contains(&nodes[99]) && !kept.contains(&nodes[0]), "{kept:?}");
    }
}
