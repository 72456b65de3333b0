//! A session between a client and what comes next, as it comes: to the end of both directions, or until one side breaks.
use super::Shared;
use super::access::Entry;
use super::admission::{Grant, Proof};
use super::metrics::Outlived;
use super::session::{Far, Opened, outlives};
use crate::answer::{Answer, Failure, HopStatus, Refusal};
use crate::links::{Links, NamedBy};
use crate::proxy_header::ProxyHeader;
use crate::pump::{Broken, Forwarding, Meter, Waits, Way, direction};
use crate::request::Request;
use crate::route::Endpoint;
use crate::socket::{Leg, Sink, Socket};
use std::future::pending;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The client's side of a session.
pub(super) struct Near {
    /// Its connection.
    pub leg: Leg,
    /// What it sent behind its request.
    pub early: Vec<u8>,
    /// What it is told of this node.
    pub status: Box<HopStatus>,
    /// What is written of the session, where that is wanted.
    pub entry: Option<Box<Entry>>,
}

/// A session whose way on is there.
pub(super) struct Reached {
    opened: Opened,
    near: Near,
    /// The target, or the next node, which was asked.
    far: Leg,
    /// What the target is told first.
    told: Option<Vec<u8>>,
    /// The next node, which has yet to answer.
    next: Option<Box<Endpoint>>,
    forwarding: Forwarding,
}

impl Reached {
    /// Asks the next node, if there is one.
    ///
    /// # Errors
    /// It cannot be asked: the client's side, and why.
    pub async fn ask(
        shared: &Arc<Shared>,
        opened: Opened,
        near: Near,
        far: Far,
        request: Request,
        client: SocketAddr,
    ) -> Result<Box<Reached>, (Near, Refusal)> {
        let (mut told, mut next) = (None, None);
        let far = match far {
            Far::Target(socket) => {
                if let Some(version) = request.send_proxy {
                    let destination = socket.0.peer_addr().unwrap_or(client);
                    told = Some(ProxyHeader { source: client, destination }.to_bytes(version));
                }
                Leg::plain(socket)
            }
            Far::Node(mut leg) => {
                let node = request.next_hop().clone();
                let onward =
                    Request { via: request.via[1..].to_vec(), client: Some(client), ..request.clone() };
                if let Err(refusal) = shared.links.ask(&mut leg, &node, &onward, &[]).await {
                    return Err((near, refusal));
                }
                next = Some(Box::new(node));
                leg
            }
        };
        let forwarding = request.forwarding;
        Ok(Box::new(Reached { opened, near, far, told, next, forwarding }))
    }
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

/// What is to be said of a session in the access log. It is said once, at the latest when the node stops.
struct Unsaid<'a> {
    shared: &'a Shared,
    entry: Mutex<Option<Box<Entry>>>,
    of_session: [AtomicU64; 2],
    waits: Waits,
}

impl<'a> Unsaid<'a> {
    fn new(shared: &'a Shared, entry: Option<Box<Entry>>) -> Self {
        let of_session = [AtomicU64::new(0), AtomicU64::new(0)];
        Unsaid { shared, entry: Mutex::new(entry), of_session, waits: Waits::default() }
    }

    fn entry(&self) -> MutexGuard<'_, Option<Box<Entry>>> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has ended so.
    fn end(&self, ended: &'static str) {
        if let Some(mut entry) = self.entry().take() {
            entry.on_end(ended, self.of_session.each_ref().map(|bytes| bytes.load(Ordering::Relaxed)));
            entry.on_waits(self.waits.times());
            self.shared.write_access(entry);
        }
    }

    /// It could not be.
    fn refuse(&self, refusal: &Refusal) {
        if let Some(mut entry) = self.entry().take() {
            entry.on_refused(refusal);
            self.shared.write_access(entry);
        }
    }
}

impl Drop for Unsaid<'_> {
    fn drop(&mut self) {
        self.end("stopped");
    }
}

/// Moves bytes until both directions have ended.
pub(super) async fn relay(shared: &Arc<Shared>, reached: Box<Reached>) {
    let Reached { opened, near, far, told, next, forwarding } = *reached;
    let Near { leg: near, early, status, entry } = near;
    let mut first = Some(Box::new(First { told, early }));
    // Whatever becomes of it from here on.
    let unsaid = Unsaid::new(shared, entry);
    let Unsaid { of_session, waits, .. } = &unsaid;
    let written = |ended: &'static str| unsaid.end(ended);
    let told_of = |refusal: &Refusal| unsaid.refuse(refusal);
    let sockets = [near.socket().clone(), far.socket().clone()];
    let (mut near_in, mut near_out) = near.into_halves();
    let (mut far_in, mut far_out) = far.into_halves();
    let meter = |moved, way: Way| Meter {
        moved,
        of_session: &of_session[way as usize],
        account: Some(&opened.grant.account),
        status: &shared.status,
        spool: Some(&shared.spool),
        progress: None,
        waits: Some((waits, way)),
    };
    let meters = [meter(&shared.counters.up, Way::Up), meter(&shared.counters.down, Way::Down)];
    let answered = AtomicBool::new(false);
    let far_broke = AtomicBool::new(false);
    // Both stay where they are made: what is moved into a future is in it twice. What is done once, before bytes are moved, is in a box, and given back.
    let outcome = {
        let there = pin!(async {
            let passed = match Box::pin(say_first(&mut far_out, first.take(), &meters[0])).await {
                Ok(()) => direction(&mut near_in, &mut far_out, forwarding, &meters[0]).await,
                Err(broken) => Err(broken),
            };
            match passed {
                Ok(()) => Ok(()),
                // The next node may have said why: that is read on the way back.
                Err(Broken::Sink(_)) if !answered.load(Ordering::Relaxed) => pending().await,
                Err(_) => Err(End::Broken),
            }
        });
        let back = pin!(async {
            let answering = async {
                let (mut answer, rest) = if let Some(next) = &next {
                    let answer = shared.links.answer(&mut far_in, next, Some(&opened.grant.account)).await;
                    answer.map_err(|refusal| End::Refused(Box::new(refusal)))?
                } else {
                    (Answer { status: 200, hops: Vec::new() }, Vec::new())
                };
                answer.hops.push(*status);
                let mut head = answer.to_head();
                head.extend_from_slice(&rest);
                let said = async {
                    near_out.write_all(&head).await?;
                    near_out.flush().await
                };
                said.await.map_err(|_| End::Broken)?;
                if answer.is_success() {
                    return Ok(());
                }
                let failure = answer.failed().and_then(|hop| hop.error).unwrap_or(Failure::Internal);
                shared.counters.on_refused(failure);
                if let Some(hop) = answer.failed() {
                    told_of(&Refusal { failure, hop: Box::new(hop.clone()) });
                }
                Err(End::Told)
            };
            Box::pin(answering).await?;
            answered.store(true, Ordering::Relaxed);
            // What broke meanwhile would read like an end now: the kernel tells of a break once.
            if far_broke.load(Ordering::Relaxed) {
                return Err(End::Broken);
            }
            shared.counters.opened.fetch_add(1, Ordering::Relaxed);
            if let Some(entry) = &mut *unsaid.entry() {
                entry.on_answer();
            }
            let passed = direction(&mut far_in, &mut near_out, forwarding, &meters[1]).await;
            passed.map_err(|_| End::Broken)
        });
        let far_breaks = async {
            sockets[1].broken().await;
            far_broke.store(true, Ordering::Relaxed);
            if !answered.load(Ordering::Relaxed) {
                pending::<()>().await;
            }
        };
        tokio::select! {
            both = async { tokio::try_join!(there, back) } => both.map(drop),
            _ = sockets[0].broken() => Err(End::Broken),
            () = far_breaks => Err(End::Broken),
            why = outlives(shared, &sockets, &opened.grant) => Err(End::Outlived(why)),
        }
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
            let mut head = Vec::new();
            if let End::Refused(refusal) = how {
                shared.counters.on_refused(refusal.failure);
                told_of(&refusal);
                head = Answer { status: refusal.failure.status(), hops: vec![*refusal.hop] }.to_head();
            }
            drop(opened);
            let out = &mut near_out;
            let telling = async move {
                out.write_all(&head).await?;
                out.shutdown().await
            };
            // In a box: sessions that are there have no room for it.
            let told = Box::pin(timeout(shared.config.request_deadline, telling)).await;
            if matches!(told, Ok(Ok(()))) && sockets[0].end_well().is_ok() {
                Links::linger(&mut near_in).await;
            }
        }
    }
}

/// What goes to the far side first.
struct First {
    /// Words of ours.
    told: Option<Vec<u8>>,
    /// What the client sent behind its request.
    early: Vec<u8>,
}

/// Says it.
async fn say_first(far: &mut Sink, first: Option<Box<First>>, up: &Meter<'_>) -> Result<(), Broken> {
    let Some(First { told, early }) = first.map(|first| *first) else { return Ok(()) };
    if let Some(words) = told {
        far.write_all(&words).await.map_err(Broken::Sink)?;
    }
    if !early.is_empty() {
        far.write_all(&early).await.map_err(Broken::Sink)?;
        up.on_moved(early.len()).await?;
    }
    far.flush().await.map_err(Broken::Sink)
}

/// Serves a connection that goes on to a fixed target.
pub async fn serve_relay(shared: Arc<Shared>, at: usize, stream: TcpStream, peer: SocketAddr) {
    let relay = &shared.config.relays[at];
    let near = Socket(Arc::new(stream));
    let plain = Request { buffer: relay.buffer, ..Request::connect(relay.to.clone()) };
    let grant = Grant { account: shared.admission().neighbours(), proof: Proof::Operator };
    let mut entry = shared.access.as_ref().map(|_| Box::new(Entry::new(&plain, peer, grant.account.name())));
    let refused = |refusal: Refusal, entry: Option<Box<Entry>>| {
        shared.log_unreached(peer, &relay.to, &refusal);
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
    let far = match Box::pin(shared.links.connect(&relay.to, relay.buffer, NamedBy::Operator)).await {
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
    let unsaid = Unsaid::new(&shared, entry);
    let mut outlived = None;
    let way = (relay.forwarding, header);
    let counted = (&unsaid.of_session, &unsaid.waits);
    let passing = both_ways(&shared, &opened.grant, [near, far], way, counted, &mut outlived);
    let ended = Box::pin(passing).await;
    unsaid.end(outlived.map_or(if ended.is_ok() { "finished" } else { "broken" }, Outlived::name));
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
    (of_session, waits): (&[AtomicU64; 2], &Waits),
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
    let meter = |moved, way: Way| Meter {
        moved,
        of_session: &of_session[way as usize],
        account,
        status: &shared.status,
        spool,
        progress: None,
        waits: Some((waits, way)),
    };
    let meters = [meter(&shared.counters.up, Way::Up), meter(&shared.counters.down, Way::Down)];
    let there = pin!(direction(&mut near_in, &mut far_out, forwarding, &meters[0]));
    let back = pin!(direction(&mut far_in, &mut near_out, forwarding, &meters[1]));
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
