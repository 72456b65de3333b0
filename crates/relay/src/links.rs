//! Connections onward, to targets and to nodes. `asking` is what is said on one to a node, `ready` those that are kept ready,
//! `dead` nodes that do not answer, `names` addresses of names, `tuning` what the kernel is asked for.
mod asking;
mod dead;
mod names;
mod ready;
mod tuning;

use crate::account::Account;
use crate::answer::{Failure, Refusal};
use crate::authority::{Holder, as_compared};
use crate::policy::DestinationPolicy;
use crate::pump::with_scratch;
use crate::route::Endpoint;
use crate::secret::{Identity, NetworkSecret, SecretError};
use crate::socket::{Leg, Socket, Source};
use crate::validity::Validity;
use dead::Dead;
pub use names::NameService;
use names::Names;
use ready::ReadyLegs;
use ring::hmac;
use shorthaul_types::Bytes;
use socket2::{Domain, Protocol, SockRef, Type};
use std::collections::HashSet;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::Context;
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls;
pub use tuning::{keep_alive, set_buffer, size_buffer};

/// The longest that a connection to a node may take: two retransmissions of a SYN. One that does not answer is remembered.
pub const NODE_ANSWERS: Duration = Duration::from_secs(5);
/// How often a node is tried again that ends a connection in the TLS handshake, before anything was said: one that has too many connections of
/// this host for the moment does so. And how long after the first time; twice as long each time.
const TURNED_AWAY: (u32, Duration) = (5, Duration::from_millis(50));
/// How long a name's second address waits for the first.
const NEXT_ADDRESS: Duration = Duration::from_secs(3);
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
    signing: RwLock<Option<(String, hmac::Key)>>,
    ready: ReadyLegs,
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

/// Who we are by TLS, and whom we believe.
struct TlsConfig {
    client: Arc<rustls::ClientConfig>,
    /// When our own certificate is good.
    own: Option<Validity>,
}

impl std::fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsConfig")
    }
}

impl TlsConfig {
    fn of(identity: &Identity) -> Result<TlsConfig, SecretError> {
        Ok(TlsConfig { client: identity.client()?, own: identity.validity() })
    }
}

impl Links {
    /// Makes what connections have in common.
    ///
    /// # Errors
    /// The identity is none.
    pub fn new(options: LinkOptions) -> Result<Links, LinkError> {
        let tls = RwLock::new(TlsConfig::of(&options.identity)?);
        let signing = match &options.credentials {
            Credentials::None => None,
            Credentials::Secret(secret) => Some((String::new(), secret.signing_key())),
            Credentials::Token { user, token } => {
                Some((user.clone(), hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes())))
            }
        };
        let signing = RwLock::new(signing);
        let names = Names::new(options.names)?;
        Ok(Links {
            options,
            tls,
            revoked: RwLock::default(),
            policy: RwLock::default(),
            signing,
            ready: ReadyLegs::default(),
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
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = TlsConfig::of(identity)?;
        // Those that are ready are of who we were.
        self.ready.close_all();
        Ok(())
    }

    /// What we say over plain TCP is signed by this secret from now on.
    pub fn set_signing(&self, secret: &NetworkSecret) {
        let signing = Some((String::new(), secret.signing_key()));
        *self.signing.write().unwrap_or_else(PoisonError::into_inner) = signing;
    }

    /// Nodes whose certificates have these serial numbers or names are not believed from now on.
    pub fn set_revoked(&self, revoked: &[String]) {
        let revoked = revoked.iter().map(|one| as_compared(one)).collect();
        *self.revoked.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(revoked);
        // Those that are ready may be of them.
        self.ready.close_all();
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
        // One that is connected to, and does not answer, has connections that are ready.
        if let Some(refusal) = self.dead.refusal(to) {
            return Err(refusal);
        }
        if let Some(leg) = self.take_ready(to) {
            return Ok(leg);
        }
        let (mut left, mut wait) = TURNED_AWAY;
        let connected = loop {
            match self.connect_node(to, asker).await {
                Err(refusal) if refusal.failure == Failure::ConnectionTerminated && left > 0 => {
                    tokio::time::sleep(wait).await;
                    (left, wait) = (left - 1, wait * 2);
                }
                connected => break connected,
            }
        };
        let leg = match connected {
            Ok(leg) => leg,
            Err(refusal) => {
                if self.dead.on_failure(to, &refusal, asker) {
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
        let refuse = |failure, details: String| Refusal::at(self.name(), failure, details).toward(to);
        let (config, own) = {
            let tls = self.tls.read().unwrap_or_else(PoisonError::into_inner);
            (Arc::clone(&tls.client), tls.own)
        };
        // The node would say so, too, but only behind the handshake.
        let fault = own.and_then(|own| own.fault(OffsetDateTime::now_utc()));
        if let Some(fault) = fault.filter(|_| self.options.protection == Protection::Tls) {
            return Err(refuse(Failure::TlsCertificate, format!("our certificate {fault}")));
        }
        let connecting = self.connect(to, None, NamedBy::Anybody(asker));
        let socket = tokio::time::timeout(NODE_ANSWERS, connecting)
            .await
            .unwrap_or_else(|_| Err(Refusal::at(self.name(), Failure::ConnectionTimeout, "").toward(to)))?;
        if self.options.protection == Protection::Plain {
            return Ok(Leg::plain(socket));
        }
        let name = self.options.identity.name_of(to.host());
        let name =
            name.ok_or_else(|| refuse(Failure::Tls, "no certificate could be for this name".into()))?;
        let shaking = TlsConnector::from(config).connect(name, socket.clone());
        match tokio::time::timeout(self.options.timeout, shaking).await {
            Ok(Ok(tls)) => {
                let leg = Leg::tls(socket, tls.into());
                let revoked = Arc::clone(&self.revoked.read().unwrap_or_else(PoisonError::into_inner));
                let is_revoked = |one: Holder| {
                    revoked.contains(&one.serial) || revoked.contains(&one.name.to_ascii_lowercase())
                };
                // Of whom nobody can say who it is, nobody can say that it is not revoked either.
                if !revoked.is_empty() && leg.holder().is_none_or(is_revoked) {
                    return Err(refuse(Failure::TlsCertificate, "its certificate was revoked".into()));
                }
                Ok(leg)
            }
            Ok(Err(error)) => {
                let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                if inner.is_some() {
                    // What TLS says last tells the other side why: a reset would overtake it.
                    let _ = socket.end_well();
                }
                match inner.and_then(|inner| self.unbelieved(inner)) {
                    Some(why) => Err(refuse(Failure::TlsCertificate, why)),
                    // Somebody who dies meanwhile says nothing of TLS.
                    None if inner.is_none() && failure_of(&error) == Failure::ConnectionTerminated => {
                        Err(refuse(Failure::ConnectionTerminated, words_of(&error)))
                    }
                    None => {
                        tracing::debug!(%to, %error, "no TLS");
                        Err(refuse(Failure::Tls, inner.map_or_else(|| words_of(&error), words_of_tls)))
                    }
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
                other => {
                    tracing::debug!(?other, "a certificate is not good");
                    "its certificate is not good".into()
                }
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

    /// Reads from a source until it ends, or for a while, so that closing it does not reset what was
    /// sent to the other side and is still on its way (RFC 9112 §9.6).
    pub(crate) async fn linger(source: &mut Source) {
        // By what all sessions of a thread have: bytes of its own would be a part of every session, also of those that never linger.
        let mut some = |cx: &mut Context<'_>| {
            with_scratch(|scratch| {
                let mut buffer = ReadBuf::new(scratch);
                let read = Pin::new(&mut *source).poll_read(cx, &mut buffer);
                read.map(|read| read.is_ok() && !buffer.filled().is_empty())
            })
        };
        let drain = async { while poll_fn(&mut some).await {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), drain).await;
    }
}

/// What an error of the TLS library means, in words of ours.
fn words_of_tls(error: &rustls::Error) -> String {
    use rustls::Error::{AlertReceived, InappropriateHandshakeMessage, InappropriateMessage};
    use rustls::Error::{InvalidMessage, PeerIncompatible};
    match error {
        InvalidMessage(_) | InappropriateMessage { .. } | InappropriateHandshakeMessage { .. } => {
            "what it says is no TLS: is it a node, and does it have a secret or a certificate?".into()
        }
        PeerIncompatible(_) => "it has no TLS 1.3, or none of our ciphers".into(),
        AlertReceived(_) => "it ended the handshake".into(),
        _ => "the handshake failed".into(),
    }
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
