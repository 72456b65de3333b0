//! One connection from a client: from its first byte to the end of its session.
use super::NodeConfig;
use super::Shared;
use super::access::Entry;
use super::admission::{Grant, Proof, RequestOrigin};
use super::metrics::Outlived;
use super::strangers::Waiting;
use crate::account::{Account, Share};
use crate::answer::{Answer, Failure, HopStatus, Refusal};
use crate::links::{Links, NamedBy, set_buffer};
use crate::proxy_header::{self, Beginning, ProxyHeader};
use crate::pump::{Broken, Forwarding, Meter, direction};
use crate::request::{self, Method, ReadRequest, Request, SessionId, SetUp};
use crate::route::Endpoint;
use crate::socket::{Leg, Socket};
use ring::rand::SecureRandom as _;
use shorthaul_os::TcpInfo;
use shorthaul_types::Bytes;
use socket2::SockRef;
use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Less than this is no buffer for a direction.
const LEAST_BUFFER: u64 = 4096;
/// What begins a TLS handshake (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 22;

/// The other side of a session.
#[derive(Debug)]
pub enum Far {
    /// The end of the route.
    Target(Socket),
    /// The next node, which has not been asked yet.
    Node(Leg),
}

/// Connects to what comes next on the route of a request.
pub async fn connect_next(
    shared: &Shared,
    request: &Request,
    account: &Arc<Account>,
) -> Result<Far, Refusal> {
    if request.via.is_empty() {
        let named = NamedBy::Anybody(Some(account));
        shared.links.connect(&request.target, request.buffer, named).await.map(Far::Target)
    } else {
        shared.links.node(request.next_hop(), Some(account)).await.map(Far::Node)
    }
}

/// Why there was no session, and nobody to tell.
struct Abandoned;

/// Whether a source is one of which there may be only so many connections: those of a proxy are told apart by what it says,
/// and whose address is enough is known.
pub fn counts(shared: &Shared, source: IpAddr) -> bool {
    let admission = shared.admission();
    !admission.is_proxy(source) && !admission.is_neighbour(source)
}

/// Serves a connection to its end.
pub async fn serve(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr, mut waiting: Option<Waiting>) {
    let socket = Socket(Arc::new(stream));
    let asked = match Box::pin(ask(&shared, socket, peer, &mut waiting)).await {
        Ok(Some(asked)) => asked,
        Ok(None) => return,
        Err(Abandoned) => {
            shared.counters.abandoned.fetch_add(1, Ordering::Relaxed);
            return;
        }
    };
    drop(waiting);
    let Asked { leg, request, early, grant, client } = asked;
    let entry = shared.access.as_ref().map(|_| Box::new(Entry::new(&request, client, grant.account.name())));
    let opened = match Opened::new(&shared, grant, &request, leg.socket()) {
        Ok(opened) => opened,
        Err(refusal) => return tell_and_refuse(&shared, leg, refusal, entry).await,
    };
    let (far, status, request) = match Box::pin(go_on(&shared, &opened, request, client)).await {
        Ok(there) => there,
        Err(refusal) => return tell_and_refuse(&shared, leg, refusal, entry).await,
    };
    let near = Near { leg, early, status, entry };
    Box::pin(relay(&shared, opened, near, far, request, client)).await;
}

async fn tell_and_refuse(shared: &Shared, leg: Leg, refusal: Refusal, entry: Option<Box<Entry>>) {
    if let Some(mut entry) = entry {
        entry.on_refused(&refusal);
        shared.write_access(entry);
    }
    refuse(shared, leg, refusal).await;
}

/// A request that was admitted.
struct Asked {
    leg: Leg,
    request: Request,
    early: Vec<u8>,
    grant: Grant,
    client: SocketAddr,
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

/// Reads what the client wants. Nothing is said to those who say nothing that makes sense; `None` if the
/// client was told why not, or has gone.
async fn ask(
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
    // What a proxy passes on is charged to who it says that it is from, not to itself.
    if is_proxy && client.ip() != peer.ip() && counts(shared, client.ip()) {
        *waiting = shared.strangers.on_connection(client.ip(), Instant::now());
        if waiting.is_none() {
            shared.counters.strangers.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
    }
    let knows = |client: IpAddr| {
        shared.admission().is_neighbour(client) || shared.strangers.is_known(client, Instant::now())
    };
    let patience = if knows(client.ip()) { Patience::Long } else { Patience::Until(until) };
    let leg = unless_sent_away(waiting, shake_hands(shared, socket, patience)).await?;
    let Some(leg) = leg else { return Ok(None) };
    if leg.has_certificate() {
        // Who has one may keep connections ready.
        *waiting = None;
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

/// TLS, if that is what the client begins with; `None` if it has closed.
async fn shake_hands(shared: &Shared, socket: Socket, patience: Patience) -> Result<Option<Leg>, Abandoned> {
    let mut leg = Leg::plain(socket.clone());
    if let Some(tls) = shared.tls() {
        let mut first = [0; 1];
        match timeout(patience.for_first(shared), socket.0.peek(&mut first)).await {
            Ok(Ok(0)) => return Ok(None),
            Ok(Ok(_)) if first[0] == TLS_HANDSHAKE => {
                let left = patience.for_more(shared, Instant::now());
                let shaking = timeout(left, tls.accept(socket.clone())).await;
                leg = Leg::tls(socket, shaking.map_err(|_| Abandoned)?.map_err(|_| Abandoned)?.into());
            }
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return Err(Abandoned),
        }
    }
    Ok(Some(leg))
}

async fn ask_within(
    shared: &Arc<Shared>,
    mut leg: Leg,
    client: SocketAddr,
    mut patience: Patience,
) -> Result<Option<Asked>, Abandoned> {
    let mut bytes: Vec<u8> = Vec::new();
    let way = RequestOrigin {
        peer: client,
        local: leg.socket().0.local_addr().map_err(|_| Abandoned)?,
        is_tls: leg.is_tls(),
        has_certificate: leg.has_certificate(),
        holder: leg.holder(),
    };
    loop {
        let read = match read_request(shared, &mut leg, &mut bytes, patience).await {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(None),
            Err(None) => return Err(Abandoned),
            Err(Some(error)) => {
                let refusal = Refusal::at(&shared.name, Failure::RequestError, error);
                refuse(shared, leg, refusal).await;
                return Ok(None);
            }
        };
        // By the settings of this moment: the connection may be older.
        let admitted = shared.admission().admit(&read, &way, &shared.config.reached_by, &shared.seen);
        let ReadRequest { request, len, .. } = read;
        let rest = bytes.split_off(len);
        let grant = match admitted {
            Ok(grant) => grant,
            Err(denial) => {
                let refusal = denial.refusal(&shared.name);
                if !denial.asks
                    && let Some(left_out) = shared.refused_log.passes(Instant::now())
                {
                    let reason = denial.reason.as_str();
                    tracing::warn!(%client, reason, left_out, "somebody was not let in");
                }
                let status = if denial.asks { 407 } else { refusal.failure.status() };
                refuse_with(shared, leg, refusal, status).await;
                return Ok(None);
            }
        };
        shared.strangers.on_known(client.ip(), Instant::now());
        patience = Patience::Long;
        match request.method {
            Method::Connect => {
                // Only those who are nodes themselves are believed where a session came from.
                let client = request.client.filter(|_| grant.is_node()).unwrap_or(client);
                return Ok(Some(Asked { leg, request, early: rest, grant, client }));
            }
            Method::Prepare => {
                bytes = rest;
                shared.prepare(request, &grant.account);
                let answer = Answer { status: 204, hops: Vec::new() }.to_head();
                let told = async {
                    leg.write_all(&answer).await?;
                    leg.flush().await
                };
                told.await.map_err(|_| Abandoned)?;
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

/// A session that counts.
struct Opened {
    shared: Arc<Shared>,
    grant: Grant,
    reserved: Bytes,
    /// What of it is its account's.
    share: Option<Share>,
    granted: Option<Bytes>,
}

impl Opened {
    fn new(shared: &Arc<Shared>, grant: Grant, request: &Request, near: &Socket) -> Result<Opened, Refusal> {
        let limit = |details: String| Refusal::at(&shared.name, Failure::ConnectionLimit, details);
        if shared.is_stopping() {
            return Err(limit("this node is about to stop".into()));
        }
        if request.forwarding == Forwarding::Store && !shared.config.stores && grant.proof != Proof::Operator
        {
            let why = "this node stores nothing: `--allow-store` there allows it";
            return Err(Refusal::at(&shared.name, Failure::RequestDenied, why));
        }
        grant.account.open().map_err(limit)?;
        let sessions = shared.status.on_session_begins();
        let (shared_too, none) = (Arc::clone(shared), Bytes(0));
        let mut opened = Opened { shared: shared_too, grant, reserved: none, share: None, granted: None };
        opened.look_at_load();
        if sessions > shared.config.most_sessions {
            return Err(limit(format!(
                "this node has the {} sessions that it takes",
                shared.config.most_sessions
            )));
        }
        if let Some(wanted) = request.buffer {
            // One account leaves some to the others.
            let most = Bytes(shared.config.all_buffers.0 / 4);
            let account = &opened.grant.account;
            let (may, share) = account.reserve(wanted.min(shared.config.most_buffer), most);
            if may.0 < wanted.0.min(LEAST_BUFFER) {
                return Err(limit(format!(
                    "{} has reserved the {} bytes that it may",
                    account.name(),
                    most.0
                )));
            }
            opened.share = share;
            opened.reserved = shared.status.reserve(may);
            if opened.reserved.0 < wanted.0.min(LEAST_BUFFER) {
                return Err(limit("this node has no buffer left".into()));
            }
            let near = SockRef::from(&*near.0);
            set_buffer(&near, opened.reserved);
            // The kernel may allow less. What it says is twice what it means (socket(7)).
            let of = |size: io::Result<usize>| size.map_or(0, |size| size as u64 / 2);
            let real = Bytes(of(near.recv_buffer_size()) + of(near.send_buffer_size()));
            opened.granted = Some(opened.reserved.min(real));
        }
        Ok(opened)
    }

    fn look_at_load(&self) {
        let status = &self.shared.status;
        let full =
            status.sessions() >= self.shared.config.most_sessions || status.buffer_free().0 < LEAST_BUFFER;
        let overloaded = full || self.shared.is_stopping();
        if overloaded != status.is_overloaded() {
            status.set_overloaded(overloaded);
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.grant.account.close();
        self.shared.status.on_session_ends();
        self.shared.status.release(self.reserved);
        self.look_at_load();
    }
}

/// Connects the way on, and tells the nodes behind the next one.
async fn go_on(
    shared: &Arc<Shared>,
    opened: &Opened,
    mut request: Request,
    client: SocketAddr,
) -> Result<(Far, HopStatus, Request), Refusal> {
    let began = Instant::now();
    let next = request.next_hop().clone();
    let account = &opened.grant.account;
    let prepared = shared.take_prepared(&request, account);
    if request.session.is_none() && request.set_up == SetUp::Parallel && request.via.len() > 1 {
        let id = new_session().map_err(|error| Refusal::at(&shared.name, Failure::Internal, error))?;
        request.session = Some(id);
        request.client = Some(client);
        tell_others(&shared.links, &request, &request.via);
    }
    let far = match prepared {
        Some(connecting) => {
            shared.counters.prepared.fetch_add(1, Ordering::Relaxed);
            match connecting.await {
                Ok(connected) => connected?,
                Err(_) => connect_next(shared, &request, account).await?,
            }
        }
        None => connect_next(shared, &request, account).await?,
    };
    let status = HopStatus {
        node: shared.name.clone(),
        next_hop: Some(next.to_string()),
        service_time: Some(shared.status.service_time()),
        buffer: opened.granted,
        connect_time: Some(began.elapsed()),
        ..HopStatus::default()
    };
    Ok((far, status, request))
}

/// A name for a session.
pub fn new_session() -> io::Result<SessionId> {
    let mut bytes = [0; 16];
    let random = ring::rand::SystemRandom::new().fill(&mut bytes);
    random.map_err(|_| io::Error::other("the kernel gives no random numbers"))?;
    Ok(SessionId(u128::from_be_bytes(bytes)))
}

/// Tells all nodes but the first of some hops that a session is about to come, all at the same time.
pub fn tell_others(links: &Arc<Links>, request: &Request, hops: &[Endpoint]) {
    for (at, hop) in hops.iter().enumerate().skip(1) {
        let via = hops[at + 1..].to_vec();
        let request = Request { method: Method::Prepare, via, ..request.clone() };
        let (links, hop) = (Arc::clone(links), hop.clone());
        tokio::spawn(async move { links.prepare(&hop, &request).await });
    }
}

/// The client's side of a session.
struct Near {
    leg: Leg,
    /// What it sent behind its request.
    early: Vec<u8>,
    /// What it is told of this node.
    status: HopStatus,
    /// What is written of the session, where that is wanted.
    entry: Option<Box<Entry>>,
}

/// How a session ended that did not come to its end.
enum End {
    /// It never began, and the client is to be told.
    Refused(Box<Refusal>),
    /// It never began, and the client has been told.
    Told,
    /// A side broke, or was broken.
    Broken,
    /// Its time is over.
    Outlived(Outlived),
}

/// Waits until a session has no reason to go on: nothing has moved for too long, one of its peers answers nothing, or who asked
/// for it would not be let in any more.
async fn outlives(shared: &Shared, sockets: &[Socket; 2], grant: &Grant) -> Outlived {
    let NodeConfig { idle, gone_after, .. } = shared.config;
    let every = (idle.min(gone_after) / 4).clamp(Duration::from_millis(10), Duration::from_secs(30));
    let mut reloaded = shared.reloaded.subscribe();
    let began = Instant::now();
    loop {
        if !shared.admission().still_admits(grant) {
            return Outlived::Revoked;
        }
        tokio::select! {
            // It fails when the node is gone, and this with it.
            _ = reloaded.changed() => continue,
            () = tokio::time::sleep(every) => {}
        }
        let known = sockets.each_ref().map(|socket| TcpInfo::of(socket).unwrap_or_default());
        let owes = |info: &TcpInfo| info.unacked > 0 || info.probes > 0;
        if known.iter().any(|info| owes(info) && info.last_heard >= gone_after) {
            return Outlived::Gone;
        }
        let silent = |info: &TcpInfo| info.last_sent.min(info.last_received) >= idle;
        if began.elapsed() >= idle && known.iter().all(silent) {
            return Outlived::Idle;
        }
    }
}

async fn relay(
    shared: &Arc<Shared>,
    opened: Opened,
    near: Near,
    far: Far,
    request: Request,
    client: SocketAddr,
) {
    let Near { leg: near, early, status, entry } = near;
    let entry = Mutex::new(entry);
    let of_session = [AtomicU64::new(0), AtomicU64::new(0)];
    // Whatever becomes of it from here on.
    let written = |ended: &'static str| {
        if let Some(mut entry) = entry.lock().unwrap_or_else(PoisonError::into_inner).take() {
            entry.on_end(ended, of_session.each_ref().map(|bytes| bytes.load(Ordering::Relaxed)));
            shared.write_access(entry);
        }
    };
    let told_of = |refusal: &Refusal| {
        if let Some(mut entry) = entry.lock().unwrap_or_else(PoisonError::into_inner).take() {
            entry.on_refused(refusal);
            shared.write_access(entry);
        }
    };
    let next = request.next_hop().clone();
    let mut told = None;
    let far = match far {
        Far::Target(socket) => {
            if let Some(version) = request.send_proxy {
                let destination = socket.0.peer_addr().unwrap_or(client);
                told = Some(ProxyHeader { source: client, destination }.to_bytes(version));
            }
            Leg::plain(socket)
        }
        Far::Node(mut leg) => {
            let onward = Request { via: request.via[1..].to_vec(), client: Some(client), ..request.clone() };
            if let Err(refusal) = shared.links.ask(&mut leg, &next, &onward, &[]).await {
                told_of(&refusal);
                return refuse(shared, near, refusal).await;
            }
            leg
        }
    };
    let is_node = !request.via.is_empty();
    let forwarding = request.forwarding;
    drop(request);
    let sockets = [near.socket().clone(), far.socket().clone()];
    let (mut near_in, mut near_out) = near.into_halves();
    let (mut far_in, mut far_out) = far.into_halves();
    let account = Some(&opened.grant.account);
    let spool = Some(&shared.spool);
    let of_both = [(&shared.counters.up, &of_session[0]), (&shared.counters.down, &of_session[1])];
    let meter = |way: usize| {
        let (moved, of_session) = of_both[way];
        Meter { moved, of_session, account, status: &shared.status, spool }
    };
    let answered = AtomicBool::new(false);
    let far_broke = AtomicBool::new(false);
    let there = async {
        let first = async {
            let up = meter(0);
            let send = Broken::Sink;
            if let Some(header) = told {
                far_out.write_all(&header).await.map_err(send)?;
            }
            if !early.is_empty() {
                far_out.write_all(&early).await.map_err(send)?;
                up.on_moved(early.len()).await?;
            }
            drop(early);
            far_out.flush().await.map_err(send)
        };
        let passed = match first.await {
            Ok(()) => direction(&mut near_in, &mut far_out, forwarding, meter(0)).await,
            Err(broken) => Err(broken),
        };
        match passed {
            Ok(()) => Ok(()),
            // The next node may have said why: that is read on the way back.
            Err(Broken::Sink(_)) if !answered.load(Ordering::Relaxed) => pending().await,
            Err(_) => Err(End::Broken),
        }
    };
    let back = async {
        let (mut answer, rest) = if is_node {
            shared
                .links
                .answer(&mut far_in, &next)
                .await
                .map_err(|refusal| End::Refused(Box::new(refusal)))?
        } else {
            (Answer { status: 200, hops: Vec::new() }, Vec::new())
        };
        answer.hops.push(status);
        let mut head = answer.to_head();
        head.extend_from_slice(&rest);
        drop(rest);
        let said = async {
            near_out.write_all(&head).await?;
            near_out.flush().await
        };
        said.await.map_err(|_| End::Broken)?;
        if !answer.is_success() {
            let failure = answer.failed().and_then(|hop| hop.error).unwrap_or(Failure::Internal);
            shared.counters.on_refused(failure);
            if let Some(hop) = answer.failed() {
                told_of(&Refusal { failure, hop: Box::new(hop.clone()) });
            }
            return Err(End::Told);
        }
        drop((answer, head));
        answered.store(true, Ordering::Relaxed);
        // What broke meanwhile would read like an end now: the kernel tells of a break once.
        if far_broke.load(Ordering::Relaxed) {
            return Err(End::Broken);
        }
        shared.counters.opened.fetch_add(1, Ordering::Relaxed);
        if let Some(entry) = &mut *entry.lock().unwrap_or_else(PoisonError::into_inner) {
            entry.on_answer();
        }
        let passed = direction(&mut far_in, &mut near_out, forwarding, meter(1)).await;
        passed.map_err(|_| End::Broken)
    };
    let far_breaks = async {
        sockets[1].broken().await;
        far_broke.store(true, Ordering::Relaxed);
        if !answered.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    };
    let outcome = tokio::select! {
        both = async { tokio::try_join!(there, back) } => both.map(drop),
        _ = sockets[0].broken() => Err(End::Broken),
        () = far_breaks => Err(End::Broken),
        why = outlives(shared, &sockets, &opened.grant) => Err(End::Outlived(why)),
    };
    match outcome {
        Ok(()) => {
            shared.counters.finished.fetch_add(1, Ordering::Relaxed);
            written("finished");
            for socket in &sockets {
                let _ = socket.end_well();
            }
        }
        // The sockets are reset when they are dropped.
        Err(End::Broken) => {
            shared.counters.broken.fetch_add(1, Ordering::Relaxed);
            written("broken");
        }
        Err(End::Outlived(why)) => {
            shared.counters.on_outlived(why);
            written(why.name());
        }
        Err(how) => {
            if let End::Refused(refusal) = how {
                shared.counters.on_refused(refusal.failure);
                told_of(&refusal);
                let answer = Answer { status: refusal.failure.status(), hops: vec![*refusal.hop] };
                if near_out.write_all(&answer.to_head()).await.is_err() {
                    return;
                }
            }
            drop(opened);
            if near_out.shutdown().await.is_ok() && sockets[0].end_well().is_ok() {
                Links::linger(&mut near_in).await;
            }
        }
    }
}

async fn refuse(shared: &Shared, leg: Leg, refusal: Refusal) {
    let status = refusal.failure.status();
    refuse_with(shared, leg, refusal, status).await;
}

async fn refuse_with(shared: &Shared, leg: Leg, refusal: Refusal, status: u16) {
    tracing::debug!(%refusal, status, "refused");
    shared.counters.on_refused(refusal.failure);
    let socket = leg.socket().clone();
    let (mut source, mut sink) = leg.into_halves();
    let answer = Answer { status, hops: vec![*refusal.hop] }.to_head();
    let told = async {
        sink.write_all(&answer).await?;
        sink.flush().await?;
        sink.shutdown().await
    };
    if told.await.is_ok() && socket.end_well().is_ok() {
        Links::linger(&mut source).await;
    }
}

/// Serves a connection that goes on to a fixed target.
pub async fn serve_relay(shared: Arc<Shared>, at: usize, stream: TcpStream, peer: SocketAddr) {
    let relay = &shared.config.relays[at];
    let near = Socket(Arc::new(stream));
    let plain = Request { buffer: relay.buffer, ..Request::connect(relay.to.clone()) };
    let grant = Grant { account: shared.admission().neighbours(), proof: Proof::Operator };
    let mut entry = shared.access.as_ref().map(|_| Box::new(Entry::new(&plain, peer, grant.account.name())));
    let refused = |refusal: Refusal, entry: Option<Box<Entry>>| {
        shared.counters.on_refused(refusal.failure);
        if let Some(mut entry) = entry {
            entry.on_refused(&refusal);
            shared.write_access(entry);
        }
    };
    let opened = match Opened::new(&shared, grant, &plain, &near) {
        Ok(opened) => opened,
        Err(refusal) => return refused(refusal, entry),
    };
    // As the target would have done: the socket is reset when it is dropped.
    let far = match shared.links.connect(&relay.to, relay.buffer, NamedBy::Operator).await {
        Ok(far) => far,
        Err(refusal) => return refused(refusal, entry),
    };
    if let Some(entry) = &mut entry {
        entry.on_answer();
    }
    let header = relay.send_proxy.map(|version| {
        let destination = far.0.peer_addr().unwrap_or(peer);
        ProxyHeader { source: peer, destination }.to_bytes(version)
    });
    shared.counters.opened.fetch_add(1, Ordering::Relaxed);
    let sockets = [near.clone(), far.clone()];
    let of_session = [AtomicU64::new(0), AtomicU64::new(0)];
    let mut outlived = None;
    let way = (relay.forwarding, header);
    let passing = both_ways(&shared, &opened.grant, [near, far], way, &of_session, &mut outlived);
    let ended = Box::pin(passing).await;
    if let Some(mut entry) = entry {
        let how = outlived.map_or(if ended.is_ok() { "finished" } else { "broken" }, Outlived::name);
        entry.on_end(how, of_session.each_ref().map(|bytes| bytes.load(Ordering::Relaxed)));
        shared.write_access(entry);
    }
    match ended {
        Ok(()) => {
            shared.counters.finished.fetch_add(1, Ordering::Relaxed);
            for socket in &sockets {
                let _ = socket.end_well();
            }
        }
        Err(Some(error)) => {
            tracing::debug!(%error, "a session broke");
            shared.counters.broken.fetch_add(1, Ordering::Relaxed);
        }
        // It is counted.
        Err(None) => {}
    }
}

async fn both_ways(
    shared: &Shared,
    grant: &Grant,
    [near, far]: [Socket; 2],
    way: (Forwarding, Option<Vec<u8>>),
    of_session: &[AtomicU64; 2],
    outlived: &mut Option<Outlived>,
) -> Result<(), Option<Broken>> {
    let (forwarding, header) = way;
    let sockets = [near.clone(), far.clone()];
    let (mut near_in, mut near_out) = Leg::plain(near).into_halves();
    let (mut far_in, mut far_out) = Leg::plain(far).into_halves();
    if let Some(header) = header {
        far_out.write_all(&header).await.map_err(|error| Some(Broken::Sink(error)))?;
    }
    let (account, spool) = (Some(&grant.account), Some(&shared.spool));
    let meter = |moved, of_session| Meter { moved, of_session, account, status: &shared.status, spool };
    let up = meter(&shared.counters.up, &of_session[0]);
    let there = direction(&mut near_in, &mut far_out, forwarding, up);
    let down = meter(&shared.counters.down, &of_session[1]);
    let back = direction(&mut far_in, &mut near_out, forwarding, down);
    tokio::select! {
        both = async { tokio::try_join!(there, back) } => both.map(drop).map_err(Some),
        error = sockets[0].broken() => Err(Some(Broken::Source(error))),
        error = sockets[1].broken() => Err(Some(Broken::Sink(error))),
        why = outlives(shared, &sockets, grant) => {
            shared.counters.on_outlived(why);
            *outlived = Some(why);
            Err(None)
        }
    }
}
