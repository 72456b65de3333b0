//! One connection from a client: from its first byte to the end of its session.
use super::Shared;
use super::access::Entry;
use super::admission::{Grant, Proof};
use super::asking::{Abandoned, Asked, ask};
use super::metrics::Outlived;
use super::prepared::Announcing;
use super::refusals::Asker;
use super::relaying::{Near, Reached, relay};
use super::strangers::Waiting;
use super::{NodeConfig, kept};
use crate::account::{Account, Share};
use crate::answer::{Answer, Failure, HopStatus, Refusal};
use crate::links::{Links, NamedBy, set_buffer};
use crate::pump::Forwarding;
use crate::request::{Method, Request, Resume, SessionId, SetUp};
use crate::route::Endpoint;
use crate::socket::{Leg, Socket};
use ring::rand::SecureRandom as _;
use shorthaul_os::TcpInfo;
use shorthaul_types::Bytes;
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Less than this is no buffer for a direction.
const LEAST_BUFFER: u64 = 4096;

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

/// Whether a source is one of which there may be only so many connections: those of a proxy are told apart by what it says,
/// and whose address is enough is known.
pub fn counts(shared: &Shared, source: IpAddr) -> bool {
    let admission = shared.admission();
    !admission.is_proxy(source) && !admission.is_neighbour(source)
}

/// Serves a connection to its end, and holds `place` until then.
///
/// What setting up takes is given back before bytes are moved, and is no part of what is returned: so an idle session is small.
pub fn serve(
    shared: Arc<Shared>,
    (stream, peer): (TcpStream, SocketAddr),
    waiting: Option<Waiting>,
    place: impl Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let of_begin = Arc::clone(&shared);
    let beginning = Box::pin(async move { begin(&of_begin, stream, peer, waiting).await });
    async move {
        let _place = place;
        match beginning.await {
            None => {}
            Some(Begun::Session(session)) => Box::pin(relay(&shared, session)).await,
            Some(Begun::Kept(asked)) => Box::pin(kept::serve(&shared, asked)).await,
        }
    }
}

/// What a connection has come to.
enum Begun {
    Session(Box<Reached>),
    /// One that may survive the nodes on its way, and whose end is here.
    Kept(Box<(Asked, Resume)>),
}

/// Reads what a client wants and connects the way on; nothing, if that is not to be had, which it was told then.
async fn begin(
    shared: &Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    mut waiting: Option<Waiting>,
) -> Option<Begun> {
    let socket = Socket(Arc::new(stream));
    let asked = match ask(shared, socket, peer, &mut waiting).await {
        Ok(asked) => asked?,
        Err(Abandoned) => {
            shared.counters.abandoned.fetch_add(1, Ordering::Relaxed);
            return None;
        }
    };
    drop(waiting);
    if let Some(resume) = asked.request.resume.filter(|_| asked.request.via.is_empty()) {
        return Some(Begun::Kept(Box::new((asked, resume))));
    }
    let Asked { leg, request, early, grant, client } = asked;
    let entry = shared.access.as_ref().map(|_| Box::new(Entry::new(&request, client, grant.account.name())));
    let (account, target) = (Arc::clone(&grant.account), request.target.clone());
    let asker = Asker { client, account: Some(account.name()), target: Some(&target) };
    let mut opened = match Opened::new(shared, grant, &request, leg.socket()) {
        Ok(opened) => opened,
        Err(refusal) => {
            tell_and_refuse(shared, leg, refusal, entry, asker).await;
            return None;
        }
    };
    let (far, status, request) = match go_on(shared, &mut opened, request, client).await {
        Ok(there) => there,
        Err(refusal) => {
            tell_and_refuse(shared, leg, refusal, entry, asker).await;
            return None;
        }
    };
    let near = Near { leg, early, status: Box::new(status), entry };
    match Reached::ask(shared, opened, near, far, request, client).await {
        Ok(reached) => Some(Begun::Session(reached)),
        Err((near, refusal)) => {
            tell_and_refuse(shared, near.leg, refusal, near.entry, asker).await;
            None
        }
    }
}

pub(super) async fn tell_and_refuse(
    shared: &Shared,
    leg: Leg,
    refusal: Refusal,
    entry: Option<Box<Entry>>,
    asker: Asker<'_>,
) {
    if let Some(mut entry) = entry {
        entry.on_refused(&refusal);
        shared.write_access(entry);
    }
    refuse(shared, leg, refusal, asker).await;
}

/// A session that counts.
pub(super) struct Opened {
    shared: Arc<Shared>,
    pub grant: Grant,
    /// In a box, as what follows: few sessions have any.
    reserved: Option<Box<Reserved>>,
    /// The nodes on its way that are being told of it.
    announcing: Option<Box<Announcing>>,
}

/// What a session has reserved.
struct Reserved {
    bytes: Bytes,
    /// What the kernel allows of it.
    granted: Bytes,
    /// What of it is its account's.
    _share: Share,
}

impl Opened {
    /// Counts it, if it may be; `near` is the client's side.
    pub fn new(
        shared: &Arc<Shared>,
        grant: Grant,
        request: &Request,
        near: &Socket,
    ) -> Result<Opened, Refusal> {
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
        let mut opened = Opened::with_nothing(shared, grant);
        opened.look_at_load();
        if sessions > shared.config.most_sessions {
            return Err(limit(format!(
                "this node has the {} sessions that it takes",
                shared.config.most_sessions
            )));
        }
        if let Some(wanted) = request.buffer {
            let most = shared.status.buffer_of_account();
            let account = &opened.grant.account;
            let (may, share) = account.reserve(wanted.min(shared.config.most_buffer), most);
            if may.0 < wanted.0.min(LEAST_BUFFER) {
                return Err(limit(format!(
                    "{} has reserved the {} bytes that it may",
                    account.name(),
                    most.0
                )));
            }
            let bytes = shared.status.reserve(may);
            let reserved = Reserved { bytes, granted: Bytes(0), _share: share };
            let reserved = opened.reserved.insert(Box::new(reserved));
            if bytes.0 < wanted.0.min(LEAST_BUFFER) {
                return Err(limit("this node has no buffer left".into()));
            }
            let near = SockRef::from(&*near.0);
            set_buffer(&near, bytes);
            // The kernel may allow less. What it says is twice what it means (socket(7)).
            let of = |size: io::Result<usize>| size.map_or(0, |size| size as u64 / 2);
            let real = Bytes(of(near.recv_buffer_size()) + of(near.send_buffer_size()));
            reserved.granted = bytes.min(real);
        }
        Ok(opened)
    }

    /// One that was counted by another process before; it reserves nothing.
    pub fn inherited(shared: &Arc<Shared>, grant: Grant) -> Result<Opened, String> {
        grant.account.open()?;
        shared.status.on_session_begins();
        let opened = Opened::with_nothing(shared, grant);
        opened.look_at_load();
        Ok(opened)
    }

    fn with_nothing(shared: &Arc<Shared>, grant: Grant) -> Opened {
        Opened { shared: Arc::clone(shared), grant, reserved: None, announcing: None }
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
        if let Some(reserved) = &self.reserved {
            self.shared.status.release(reserved.bytes);
        }
        self.look_at_load();
    }
}

/// Connects the way on, and tells the nodes behind the next one.
pub(super) async fn go_on(
    shared: &Arc<Shared>,
    opened: &mut Opened,
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
        opened.announcing = Some(Box::new(shared.announce(&request, account)));
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
        buffer: opened.reserved.as_ref().map(|reserved| reserved.granted),
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

/// What all nodes but the first of some hops are told of a session that is about to come.
pub(super) fn announcements<'a>(
    request: &'a Request,
    hops: &'a [Endpoint],
) -> impl Iterator<Item = (Endpoint, Request)> + 'a {
    hops.iter().enumerate().skip(1).map(move |(at, hop)| {
        let via = hops[at + 1..].to_vec();
        (hop.clone(), Request { method: Method::Prepare, via, resume: None, ..request.clone() })
    })
}

/// Tells them, all at the same time, for whoever runs this process.
pub fn tell_others(links: &Arc<Links>, request: &Request, hops: &[Endpoint]) {
    for (hop, request) in announcements(request, hops) {
        let links = Arc::clone(links);
        tokio::spawn(async move { links.prepare(&hop, &request, None).await });
    }
}

/// Waits until a session has no reason to go on: nothing has moved for too long, one of its peers answers nothing, or who asked
/// for it would not be let in any more.
pub(super) async fn outlives(shared: &Shared, sockets: &[Socket], grant: &Grant) -> Outlived {
    let mut reloaded = shared.reloaded.subscribe();
    let began = Instant::now();
    loop {
        if !shared.admission().still_admits(grant) {
            return Outlived::Revoked;
        }
        let every = (shared.config.idle.min(shared.config.gone_after) / 4)
            .clamp(Duration::from_millis(10), Duration::from_secs(30));
        tokio::select! {
            // It fails when the node is gone, and this with it.
            _ = reloaded.changed() => continue,
            () = tokio::time::sleep(every) => {}
        }
        if let Some(why) = has_outlived(&shared.config, sockets, began) {
            return why;
        }
    }
}

/// Whether a session has no reason to go on, by what the kernel knows of its connections.
fn has_outlived(config: &NodeConfig, sockets: &[Socket], began: Instant) -> Option<Outlived> {
    let NodeConfig { idle, gone_after, .. } = *config;
    let known: Vec<TcpInfo> = sockets.iter().map(|socket| TcpInfo::of(socket).unwrap_or_default()).collect();
    let owes = |info: &TcpInfo| info.unacked > 0 || info.probes > 0;
    if known.iter().any(|info| owes(info) && info.last_heard >= gone_after) {
        return Some(Outlived::Gone);
    }
    let silent = |info: &TcpInfo| info.last_sent.min(info.last_received) >= idle;
    (began.elapsed() >= idle && known.iter().all(silent)).then_some(Outlived::Idle)
}

pub(super) async fn refuse(shared: &Shared, leg: Leg, refusal: Refusal, asker: Asker<'_>) {
    let status = refusal.failure.status();
    refuse_with(shared, leg, refusal, status, asker).await;
}

pub(super) async fn refuse_with(shared: &Shared, leg: Leg, refusal: Refusal, status: u16, asker: Asker<'_>) {
    tracing::debug!(%refusal, status, "refused");
    shared.log_refusal(asker, &refusal);
    shared.counters.on_refused(refusal.failure);
    let socket = leg.socket().clone();
    let (mut source, mut sink) = leg.into_halves();
    let answer = Answer { status, hops: vec![*refusal.hop] }.to_head();
    let told = async {
        sink.write_all(&answer).await?;
        sink.flush().await?;
        sink.shutdown().await
    };
    let told = timeout(shared.config.request_deadline, told).await;
    if matches!(told, Ok(Ok(()))) && socket.end_well().is_ok() {
        Links::linger(&mut source).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the future that a function returns.
    fn size_of_future<'a, F: Future>(_: impl Fn(&'a Arc<Shared>, Box<Reached>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_session_is_small() {
        // With its task, the registrations of its sockets and what the allocator rounds up that is 3.7 KiB.
        let size = size_of_future(relay);
        assert!(size <= 2_200, "{size} bytes while bytes are moved");
    }
}
