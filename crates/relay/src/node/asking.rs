//! What a client wants: from its first byte until its request was admitted.
use super::Shared;
use super::admission::{Grant, RequestOrigin};
use super::refusals::Asker;
use super::session::{refuse, refuse_with};
use super::strangers::Waiting;
use super::tls::Shown;
use crate::account::{Account, Share};
use crate::answer::{Answer, Failure, Refusal};
use crate::links::Links;
use crate::proxy_header::{self, Beginning, ProxyHeader};
use crate::request::{self, Method, ReadRequest, Request};
use crate::socket::{Leg, Socket};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_rustls::rustls;

/// What begins a TLS handshake (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 22;

/// Announcements that come by one connection, at most.
const MOST_ANNOUNCED: u32 = 256;

/// Why there was no session, and nobody to tell.
pub(super) struct Abandoned;

/// A request that was admitted.
pub(super) struct Asked {
    /// The client's side.
    pub leg: Leg,
    /// What it wants.
    pub request: Request,
    /// What it sent behind that.
    pub early: Vec<u8>,
    /// By what it was let in.
    pub grant: Grant,
    /// Where the session comes from.
    pub client: SocketAddr,
}

/// Until when a request has to be there.
#[derive(Clone, Copy, Debug)]
enum Patience {
    /// All of it, of those who are not known.
    Until(Instant),
    /// Of those who are: it may begin late.
    Long,
}

impl Patience {
    /// With nothing of it there yet.
    fn for_first(self, shared: &Shared) -> Duration {
        match self {
            Patience::Until(then) => then.saturating_duration_since(Instant::now()),
            Patience::Long => shared.config.silence,
        }
    }

    /// With some of it there.
    fn for_more(self, shared: &Shared, begun: Instant) -> Duration {
        match self {
            Patience::Until(then) => then.saturating_duration_since(Instant::now()),
            Patience::Long => shared.config.request_deadline.saturating_sub(begun.elapsed()),
        }
    }
}

/// What a connection takes of those that somebody who is let in may have before anything is asked.
struct Idle {
    _of_account: Share,
    _of_all: OwnedSemaphorePermit,
}

impl Shared {
    /// One more of an account, unless there are too many.
    fn idle(&self, account: &Arc<Account>) -> Option<Idle> {
        let of_account = account.wait(self.config.all_idle as u64 / 4)?;
        let of_all = Arc::clone(&self.idle).try_acquire_owned().ok()?;
        Some(Idle { _of_account: of_account, _of_all: of_all })
    }

    /// Who the other side of a connection has shown to be.
    fn shown(&self, leg: &Leg) -> Shown {
        self.tls().map_or(Shown::Nobody, |tls| tls.shown(leg))
    }
}

/// Reads what the client wants. Nothing is said to those who say nothing that makes sense; `None` if the
/// client was told why not, or has gone.
pub(super) async fn ask(
    shared: &Arc<Shared>,
    socket: Socket,
    peer: SocketAddr,
    waiting: &mut Option<Waiting>,
) -> Result<Option<Asked>, Abandoned> {
    let until = Instant::now() + shared.config.request_deadline;
    let mut client = peer;
    let is_proxy = shared.admission().is_proxy(peer.ip());
    if is_proxy {
        let read = timeout(shared.config.request_deadline, read_proxy_header(&socket)).await;
        client = read.map_err(|_| Abandoned)?.map_err(|_| Abandoned)?.map_or(peer, |header| header.source);
    }
    let admission = shared.admission();
    let is_neighbour = admission.is_neighbour(client.ip());
    let idle = if is_neighbour { shared.idle(&admission.neighbours()) } else { None };
    // What a proxy passes on is charged to who it says that it is from, not to itself; and what neighbours may not have, to where it
    // comes from.
    if waiting.is_none() && idle.is_none() && !admission.is_proxy(client.ip()) {
        *waiting = shared.strangers.on_connection(client.ip(), Instant::now());
        if waiting.is_none() {
            shared.on_stranger(client);
            return Ok(None);
        }
    }
    let is_known = idle.is_some() || shared.strangers.is_known(client.ip(), Instant::now());
    let patience = if is_known { Patience::Long } else { Patience::Until(until) };
    let leg = unless_sent_away(waiting, shake_hands(shared, socket, client, patience)).await?;
    let Some(leg) = leg else { return Ok(None) };
    let shown = shared.tls().map_or(Shown::Nobody, |tls| tls.shown_at_first(&leg));
    let granted = shared.admission().by_certificate(&shown).ok();
    // Who has a certificate may keep connections ready.
    if let Some(_idle) = granted.and_then(|grant| shared.idle(&grant.account)) {
        waiting.iter_mut().for_each(Waiting::stay);
        return ask_within(shared, leg, client, Patience::Long).await;
    }
    unless_sent_away(waiting, ask_within(shared, leg, client, patience)).await
}

/// Does something for a connection as long as nobody else needs its place.
async fn unless_sent_away<T>(
    waiting: &mut Option<Waiting>,
    work: impl Future<Output = Result<T, Abandoned>>,
) -> Result<T, Abandoned> {
    match waiting {
        None => work.await,
        Some(one) => tokio::select! {
            done = work => done,
            () = one.sent_away() => Err(Abandoned),
        },
    }
}

/// TLS has said why its client is not believed: a reset would overtake that.
async fn tell_unbelieved(leg: Leg) {
    let socket = leg.socket().clone();
    let (mut source, mut sink) = leg.into_halves();
    if sink.shutdown().await.is_ok() && socket.end_well().is_ok() {
        Links::linger(&mut source).await;
    }
}

/// TLS, if that is what the client begins with; `None` if it has closed.
async fn shake_hands(
    shared: &Shared,
    socket: Socket,
    client: SocketAddr,
    patience: Patience,
) -> Result<Option<Leg>, Abandoned> {
    let mut leg = Leg::plain(socket.clone());
    if let Some(tls) = shared.tls() {
        let mut first = [0; 1];
        match timeout(patience.for_first(shared), socket.0.peek(&mut first)).await {
            Ok(Ok(0)) => return Ok(None),
            Ok(Ok(_)) if first[0] == TLS_HANDSHAKE => {
                let left = patience.for_more(shared, Instant::now());
                let shaking = timeout(left, tls.acceptor.accept(socket.clone())).await;
                match shaking.map_err(|_| Abandoned)? {
                    Ok(shaken) => leg = Leg::tls(socket, shaken.into()),
                    Err(error) => {
                        if let Some(why) = unbelieved(&error) {
                            shared.log_refused(Asker::at(client), Failure::TlsCertificate.name(), why);
                            tell_unbelieved(leg).await;
                        }
                        return Err(Abandoned);
                    }
                }
            }
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return Err(Abandoned),
        }
    }
    Ok(Some(leg))
}

/// Who does not believe whom, if that is what went wrong in a handshake.
fn unbelieved(error: &io::Error) -> Option<&'static str> {
    use rustls::AlertDescription::{BadCertificate, DecryptError, UnknownCA};
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(_) => {
            Some("its certificate is not believed: another secret or authority, or its time is over")
        }
        rustls::Error::AlertReceived(UnknownCA | DecryptError | BadCertificate) => {
            Some("it does not believe this node: it has another secret or authority")
        }
        _ => None,
    }
}

async fn ask_within(
    shared: &Arc<Shared>,
    mut leg: Leg,
    client: SocketAddr,
    mut patience: Patience,
) -> Result<Option<Asked>, Abandoned> {
    let mut bytes: Vec<u8> = Vec::new();
    let local = leg.socket().0.local_addr().map_err(|_| Abandoned)?;
    // How many, and until when what they are for may come.
    let mut announced: (u32, Option<Instant>) = (0, None);
    loop {
        let read = match read_request(shared, &mut leg, &mut bytes, patience).await {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(None),
            Err(None) => return Err(Abandoned),
            Err(Some(error)) => {
                let refusal = Refusal::at(&shared.name, Failure::RequestError, error);
                refuse(shared, leg, refusal, Asker::at(client)).await;
                return Ok(None);
            }
        };
        // By the settings and the authorities of this moment: the connection may be older.
        let way = RequestOrigin { peer: client, local, is_tls: leg.is_tls(), shown: shared.shown(&leg) };
        let admitted = shared.admission().admit(&read, &way, &shared.config.reached_by, &shared.seen);
        let ReadRequest { request, len, .. } = read;
        let rest = bytes.split_off(len);
        let grant = match admitted {
            Ok(grant) => grant,
            Err(denial) => {
                let refusal = denial.refusal(&shared.name);
                let status = if denial.asks { 407 } else { refusal.failure.status() };
                let asker = Asker { target: Some(&request.target), ..Asker::at(client) };
                refuse_with(shared, leg, refusal, status, asker).await;
                return Ok(None);
            }
        };
        shared.strangers.on_known(client.ip(), Instant::now());
        match request.method {
            Method::Connect | Method::Session => {
                // Only those who are nodes themselves are believed where a session came from.
                let client = request.client.filter(|_| grant.is_node()).unwrap_or(client);
                return Ok(Some(Asked { leg, request, early: rest, grant, client }));
            }
            Method::Prepare => {
                bytes = rest;
                announced.0 += 1;
                if announced.0 > MOST_ANNOUNCED {
                    return Err(Abandoned);
                }
                // Once and for all: no announcement puts it off.
                let until = announced.1.get_or_insert_with(|| Instant::now() + shared.config.silence);
                patience = Patience::Until(*until);
                shared.prepare(request, &grant.account);
                let answer = Answer { status: 204, hops: Vec::new() }.to_head();
                let told = async {
                    leg.write_all(&answer).await?;
                    leg.flush().await
                };
                let told = timeout(shared.config.request_deadline, told).await;
                told.map_err(|_| Abandoned)?.map_err(|_| Abandoned)?;
            }
        }
    }
}

async fn read_proxy_header(socket: &Socket) -> io::Result<Option<ProxyHeader>> {
    let mut bytes = [0; 600];
    loop {
        // Only looked at, so that what is behind it stays for whoever reads next.
        let seen = socket.0.peek(&mut bytes).await?;
        match proxy_header::read(&bytes[..seen]) {
            Beginning::Header(header, len) => {
                let mut socket = socket.clone();
                socket.read_exact(&mut bytes[..len]).await?;
                return Ok(header);
            }
            // What has been seen stays readable, so there is no event to wait for.
            Beginning::Partial if seen > 0 => tokio::time::sleep(Duration::from_millis(5)).await,
            Beginning::Partial | Beginning::Wrong => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// `Ok(None)`: the client has closed without having asked. `Err(None)`: it took too long, or broke.
async fn read_request(
    shared: &Shared,
    leg: &mut Leg,
    bytes: &mut Vec<u8>,
    patience: Patience,
) -> Result<Option<ReadRequest>, Option<request::RequestError>> {
    let mut begun: Option<Instant> = (!bytes.is_empty()).then(Instant::now);
    loop {
        if !bytes.is_empty()
            && let Some(read) = request::read(bytes)?
        {
            return Ok(Some(read));
        }
        let wait = match begun {
            None => patience.for_first(shared),
            Some(since) => patience.for_more(shared, since),
        };
        bytes.reserve(1024);
        match timeout(wait, leg.read_buf(bytes)).await {
            Ok(Ok(0)) if bytes.is_empty() => return Ok(None),
            Ok(Ok(1..)) => begun = begun.or_else(|| Some(Instant::now())),
            Ok(Ok(0) | Err(_)) | Err(_) => return Err(None),
        }
    }
}
