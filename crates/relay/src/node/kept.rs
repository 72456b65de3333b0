//! Sessions that survive the nodes on their way, at the last of these: the target's side stays, and ways come and go.
use super::Shared;
use super::access::Entry;
use super::admission::Grant;
use super::asking::Asked;
use super::heir::{Inherited, Parcel, Record};
use super::metrics::Outlived;
use super::refusals::Asker;
use super::session::{Far, Opened, go_on, outlives, refuse, tell_and_refuse};
use crate::account::{Account, Share};
use crate::answer::{Answer, Failure, HopStatus, Refusal};
use crate::proxy_header::ProxyHeader;
use crate::pump::{Broken, Waits, Watched, Way};
use crate::request::{Request, Resume, SessionId};
use crate::resume::carry::{Carried, Carrying, Patience};
use crate::resume::{Ends, Memory, Moved, Role, Watch};
use crate::route::Endpoint;
use crate::socket::{Leg, Socket};
use shorthaul_types::Bytes;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{sleep_until, timeout};

/// A peer whose address nobody knows any more.
const UNKNOWN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
/// Memory is asked for by so much at once.
const BLOCK: usize = 64 << 10;

/// How long a client that comes back waits, at most, until all sessions are here of the process from which this one has taken over.
const INHERITING: Duration = Duration::from_secs(10);
/// Clients that may come back at the same time, by ways of which the last one counts.
pub(super) const ARRIVALS: usize = 4;

/// All of them, by their keys.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<HashMap<SessionId, Known>>);

/// What is known of one to those who come by another way.
#[derive(Debug)]
pub(super) struct Known {
    pub account: Arc<Account>,
    /// Whether a node asked for it: then another node may ask for the same client.
    pub by_node: bool,
    pub target: Endpoint,
    pub arrivals: Sender<Arrival>,
}

/// A client that comes back.
#[derive(Debug)]
pub(super) struct Arrival {
    leg: Leg,
    early: Vec<u8>,
    received: u64,
}

impl Kept {
    fn all(&self) -> MutexGuard<'_, HashMap<SessionId, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// Whether a session with this key begins here.
    fn begin(&self, key: SessionId, known: Known) -> bool {
        match self.all().entry(key) {
            Place::Occupied(_) => false,
            Place::Vacant(place) => {
                place.insert(known);
                true
            }
        }
    }

    /// Whoever goes on with a session: only who could have begun it, with the same target.
    fn known(&self, key: SessionId, target: &Endpoint, grant: &Grant) -> Option<Sender<Arrival>> {
        let all = self.all();
        let known = all.get(&key).filter(|known| known.target == *target)?;
        let is_same = Arc::ptr_eq(&known.account, &grant.account) || (known.by_node && grant.is_node());
        is_same.then(|| known.arrivals.clone())
    }
}

/// A place among them, until it is dropped.
pub(super) struct InPlace {
    shared: Arc<Shared>,
    key: SessionId,
}

impl InPlace {
    /// A place for a session that begins, or is handed over; nothing, if its key is taken.
    pub fn take(shared: &Arc<Shared>, key: SessionId, known: Known) -> Option<InPlace> {
        shared.kept.begin(key, known).then(|| InPlace { shared: Arc::clone(shared), key })
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        self.shared.kept.all().remove(&self.key);
    }
}

/// What a session keeps counts for the node's memory, and for its account's part of it.
pub(super) struct Quota {
    shared: Arc<Shared>,
    account: Arc<Account>,
    blocks: Vec<Share>,
}

impl Quota {
    pub fn new(shared: &Arc<Shared>, account: &Arc<Account>) -> Quota {
        Quota { shared: Arc::clone(shared), account: Arc::clone(account), blocks: Vec::new() }
    }
}

impl Memory for Quota {
    fn hold(&mut self, bytes: usize) -> bool {
        let wanted = bytes.div_ceil(BLOCK);
        // One more is kept for the next time, unless nothing is needed.
        let kept = if bytes == 0 { 0 } else { wanted + 1 };
        while self.blocks.len() > kept {
            self.blocks.pop();
            self.shared.status.release(Bytes(BLOCK as u64));
        }
        while self.blocks.len() < wanted {
            let block = Bytes(BLOCK as u64);
            let (may, share) = self.account.reserve(block, self.shared.status.buffer_of_account());
            let reserved = if may == block { self.shared.status.reserve(block) } else { Bytes(0) };
            if reserved != block {
                self.shared.status.release(reserved);
                return false;
            }
            self.blocks.push(share);
        }
        true
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        self.shared.status.release(Bytes((self.blocks.len() * BLOCK) as u64));
    }
}

/// A session that begins, or goes on, here.
pub(super) async fn serve(shared: &Arc<Shared>, asked: Box<(Asked, Resume)>) {
    let (Asked { leg, request, early, grant, client }, resume) = *asked;
    let denied = |why: &str| {
        let mut refusal = Refusal::at(&shared.name, Failure::RequestDenied, why);
        refusal.hop.up = Some(shared.since.elapsed());
        refusal
    };
    let account = Arc::clone(&grant.account);
    let to = request.target.clone();
    let asker = Asker { client, account: Some(account.name()), target: Some(&to) };
    if shared.config.moves_within.is_zero() {
        return refuse(shared, leg, denied("sessions that move are not for here"), asker).await;
    }
    if let Some(received) = resume.from {
        let known = || shared.kept.known(resume.key, &request.target, &grant);
        let mut arrivals = known();
        if arrivals.is_none() {
            if shared.has_heir() {
                // It may be with the process that has taken over: whoever is reset comes again, and to that one.
                return;
            }
            let mut inheriting = shared.inheriting.subscribe();
            // It fails when nobody is left who could say so.
            let waited = timeout(INHERITING, inheriting.wait_for(|formers| *formers == 0)).await;
            arrivals = known();
            if waited.is_err() && arrivals.is_none() {
                // It may be on its way still: whoever is reset comes again.
                return;
            }
        }
        let Some(arrivals) = arrivals else {
            return refuse(shared, leg, denied("there is no such session, or no more"), asker).await;
        };
        // One that cannot be taken is reset, and comes again.
        let _ = arrivals.try_send(Arrival { leg, early, received });
        return;
    }
    let (arrivals, arriving) = channel(ARRIVALS);
    let by_node = grant.is_node();
    let known = Known { account: Arc::clone(&account), by_node, target: request.target.clone(), arrivals };
    let Some(place) = InPlace::take(shared, resume.key, known) else {
        return refuse(shared, leg, denied("that session is there already"), asker).await;
    };
    let mut entry =
        shared.access.as_ref().map(|_| Box::new(Entry::new(&request, client, grant.account.name())));
    let mut opened = match Opened::new(shared, grant, &request, leg.socket()) {
        Ok(opened) => opened,
        Err(refusal) => return tell_and_refuse(shared, leg, refusal, entry, asker).await,
    };
    let (target, status) = match Box::pin(reach(shared, &mut opened, request, client)).await {
        Ok(there) => there,
        Err(refusal) => return tell_and_refuse(shared, leg, refusal, entry, asker).await,
    };
    shared.counters.opened.fetch_add(1, Ordering::Relaxed);
    if let Some(entry) = &mut entry {
        entry.on_answer();
    }
    let ends = Ends::new(Role::Node, shared.config.window.0, Quota::new(shared, &opened.grant.account));
    let bytes = Default::default();
    let session = Session {
        shared,
        place,
        opened,
        to: to.clone(),
        by_node,
        target,
        status,
        bytes,
        waits: Waits::default(),
        entry,
        is_finished: false,
        stays: false,
    };
    session.run(ends, Some((leg, early)), arriving).await;
}

/// A session that another process has handed over: its client comes back to this one.
pub(super) async fn go_on_with(shared: &Arc<Shared>, inherited: Box<Inherited>) {
    let Inherited { record, place, opened, to, socket, ends, arriving } = *inherited;
    // One that cannot be had here is reset.
    let Ok(socket) = TcpStream::from_std(socket) else { return };
    let status = HopStatus {
        node: shared.name.clone(),
        next_hop: Some(to.to_string()),
        service_time: Some(shared.status.service_time()),
        connect_time: record.connect_time,
        ..HopStatus::default()
    };
    let account = opened.grant.account.name();
    let past = record.past.filter(|_| shared.access.is_some());
    let entry = past.map(|past| Box::new(Entry::of_past(past, account)));
    let session = Session {
        shared,
        place,
        opened,
        to,
        by_node: record.by_node,
        target: Socket(Arc::new(socket)),
        status,
        bytes: record.bytes.map(AtomicU64::new),
        // Of this process alone: how long buffers were empty before, the other one has said in its metrics.
        waits: Waits::default(),
        entry,
        is_finished: record.is_finished,
        stays: false,
    };
    session.run(ends, None, arriving).await;
}

/// Connects to the target, and tells it whom it speaks with, if that was asked for.
async fn reach(
    shared: &Arc<Shared>,
    opened: &mut Opened,
    request: Request,
    client: SocketAddr,
) -> Result<(Socket, HopStatus), Refusal> {
    let (far, status, request) = go_on(shared, opened, request, client).await?;
    // The last node's next hop is the target.
    let Far::Target(mut socket) = far else {
        return Err(Refusal::at(&shared.name, Failure::Internal, "another node is no target"));
    };
    if let Some(version) = request.send_proxy {
        let destination = socket.0.peer_addr().unwrap_or(client);
        let header = ProxyHeader { source: client, destination }.to_bytes(version);
        let failed =
            |error| Refusal::at(&shared.name, Failure::ConnectionTerminated, error).toward(&request.target);
        socket.write_all(&header).await.map_err(failed)?;
    }
    Ok((socket, status))
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Finished,
    Broken,
    /// Nobody came back in time.
    Lost,
    Outlived(Outlived),
    /// It goes on in the process that has taken over.
    HandedOver,
}

impl Ended {
    fn name(self) -> &'static str {
        match self {
            Ended::Finished => "finished",
            Ended::Broken => "broken",
            Ended::Lost => "lost",
            Ended::Outlived(why) => why.name(),
            Ended::HandedOver => "handed-over",
        }
    }
}

/// One that is there.
struct Session<'a> {
    shared: &'a Arc<Shared>,
    place: InPlace,
    opened: Opened,
    /// Where to, as it was asked for, and whether a node asked.
    to: Endpoint,
    by_node: bool,
    target: Socket,
    status: HopStatus,
    /// Toward the target, and back.
    bytes: [AtomicU64; 2],
    /// How long there was nothing to read, or no room to write: the same.
    waits: Waits,
    entry: Option<Box<Entry>>,
    /// All has been delivered, and the client may not know.
    is_finished: bool,
    /// The process that has taken over does not take it.
    stays: bool,
}

/// Counts what is moved, for the node and for whose session it is.
struct Metered<'a> {
    shared: &'a Shared,
    account: &'a Account,
    bytes: &'a [AtomicU64; 2],
    waits: &'a Waits,
}

impl Watch for Metered<'_> {
    fn portion(&self) -> usize {
        self.account.portion()
    }

    fn due(&self) -> Duration {
        self.account.due()
    }

    fn on_moved(&self, way: Moved, len: usize) -> Result<Duration, Broken> {
        let (all, at) = match way {
            Moved::Received => (&self.shared.counters.up, 0),
            Moved::Given => (&self.shared.counters.down, 1),
        };
        all.fetch_add(len as u64, Ordering::Relaxed);
        if let Some(waits) = self.waits(way) {
            self.shared.status.on_active(waits.active());
        }
        self.bytes[at].fetch_add(len as u64, Ordering::Relaxed);
        self.account.on_moved(len as u64).ok_or(Broken::Volume)
    }

    fn waits(&self, way: Moved) -> Option<Watched<'_>> {
        Some(self.waits.of(if way == Moved::Given { Way::Down } else { Way::Up }, &self.shared.status.waits))
    }

    fn on_processing(&self, bytes: usize, took: Duration) {
        let packets = u32::try_from(bytes.div_ceil(1448)).unwrap_or(u32::MAX);
        self.shared.status.on_processing(took / packets.max(1));
    }
}

/// What a session does next.
enum Next {
    End(Ended),
    /// By this way.
    Way(Arrival),
    /// Until somebody comes back.
    Wait,
    /// To the process that has taken over.
    HandOver,
}

/// Where the node stops before it has ended, that is said.
impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.write_access("stopped");
    }
}

impl Session<'_> {
    /// Writes its line of the access log, once.
    fn write_access(&mut self, ended: &'static str) {
        if let Some(mut entry) = self.entry.take() {
            entry.on_end(ended, self.bytes.each_ref().map(|bytes| bytes.load(Ordering::Relaxed)));
            entry.on_waits(self.waits.times());
            self.shared.write_access(entry);
        }
    }

    /// To its end; it begins by a way, or waits for one.
    async fn run(mut self, mut ends: Ends<Quota>, way: Option<(Leg, Vec<u8>)>, arriving: Receiver<Arrival>) {
        let ended = self.go_on(&mut ends, way, arriving).await;
        match ended {
            // It is the other process's to tell.
            Ended::HandedOver => self.entry = None,
            ended => self.write_access(ended.name()),
        }
        let counters = &self.shared.counters;
        let counter = match ended {
            Ended::Finished => {
                let _ = self.target.end_well();
                &counters.finished
            }
            // The target's side is reset when it is dropped.
            Ended::Broken => &counters.broken,
            Ended::Lost => &counters.lost,
            // It is one of two descriptors of the same connection.
            Ended::HandedOver => &counters.handed_over,
            Ended::Outlived(why) => return counters.on_outlived(why),
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    async fn go_on(
        &mut self,
        ends: &mut Ends<Quota>,
        way: Option<(Leg, Vec<u8>)>,
        mut arriving: Receiver<Arrival>,
    ) -> Ended {
        let shared = self.shared;
        let gone = shared.config.moves_within;
        let mut next = match way {
            Some(way) => self.by(ends, way, &mut arriving).await,
            None => Next::Wait,
        };
        loop {
            next = match next {
                Next::End(ended) => return ended,
                Next::Way(Arrival { leg, early, received }) => {
                    if let Err(violation) = ends.move_to(received) {
                        shared.counters.on_violation(violation);
                        let refusal = Refusal::at(&shared.name, Failure::RequestError, violation);
                        let client = leg.socket().0.peer_addr().unwrap_or(UNKNOWN);
                        let account = self.opened.grant.account.name();
                        let asker = Asker { client, account: Some(account), target: Some(&self.to) };
                        refuse(shared, leg, refusal, asker).await;
                        Next::Wait
                    } else {
                        shared.counters.moved.fetch_add(1, Ordering::Relaxed);
                        self.entry.iter_mut().for_each(|entry| entry.on_move());
                        self.by(ends, (leg, early), &mut arriving).await
                    }
                }
                Next::Wait => {
                    let until = Instant::now() + gone;
                    tokio::select! {
                        Some(arrival) = arriving.recv() => Next::Way(arrival),
                        () = sleep_until(until.into()) => {
                            Next::End(if self.is_finished { Ended::Finished } else { Ended::Lost })
                        }
                        () = shared.heir(), if !self.stays => Next::HandOver,
                        // Whoever comes back hears that there is no such session.
                        _ = self.target.broken(), if !self.is_finished => Next::End(Ended::Broken),
                        why = outlives(shared, std::slice::from_ref(&self.target), &self.opened.grant) => {
                            Next::End(Ended::Outlived(why))
                        }
                    }
                }
                Next::HandOver => {
                    if shared.hand_over(self.parcel(ends)).await {
                        return Ended::HandedOver;
                    }
                    self.stays = true;
                    Next::Wait
                }
            };
        }
    }

    /// All that another process has to know to go on with it.
    fn parcel(&self, ends: &Ends<Quota>) -> io::Result<Parcel> {
        let (ends, given, waiting) = ends.record();
        let record = Record {
            key: self.place.key.0.to_be_bytes(),
            target: self.to.to_string(),
            account: self.opened.grant.account.name().to_owned(),
            proof: self.opened.grant.proof.clone(),
            by_node: self.by_node,
            connect_time: self.status.connect_time,
            bytes: self.bytes.each_ref().map(|bytes| bytes.load(Ordering::Relaxed)),
            is_finished: self.is_finished,
            past: self.entry.as_ref().map(|entry| entry.past()),
            ends,
        };
        Ok(Parcel { record, given, waiting, socket: self.target.as_fd().try_clone_to_owned()? })
    }

    /// By one way, until it breaks, or somebody comes by another.
    async fn by(
        &mut self,
        ends: &mut Ends<Quota>,
        (mut leg, early): (Leg, Vec<u8>),
        arriving: &mut Receiver<Arrival>,
    ) -> Next {
        let (shared, is_finished) = (self.shared, self.is_finished);
        self.status.received = Some(ends.received());
        let head = Answer { status: 200, hops: vec![self.status.clone()] }.to_head();
        let told = async {
            leg.write_all(&head).await?;
            leg.flush().await
        };
        if !matches!(timeout(shared.config.request_deadline, told).await, Ok(Ok(()))) {
            return Next::Wait;
        }
        let account = &self.opened.grant.account;
        let watch = Metered { shared, account, bytes: &self.bytes, waits: &self.waits };
        let (target, mut app) = (&self.target, self.target.clone());
        let mut breaks =
            pin!(async { if is_finished { std::future::pending().await } else { target.broken().await } });
        let patience = Patience { quiet: shared.config.quiet };
        let carrying = Carrying::new((Role::Node, ends), &mut app, (&mut leg, early), patience, &watch);
        let mut carrying = Box::new(carrying);
        let carried = loop {
            tokio::select! {
                carried = Box::pin(carrying.run(breaks.as_mut())) => break carried,
                Some(arrival) = arriving.recv() => return Next::Way(arrival),
                () = shared.heir(), if !self.stays => {
                    // The way stands still meanwhile: its client comes back when the other process has the session, and goes on by this one if it
                    // does not take it.
                    if shared.hand_over(self.parcel(carrying.ends())).await {
                        return Next::End(Ended::HandedOver);
                    }
                    self.stays = true;
                }
                why = outlives(shared, std::slice::from_ref(target), &self.opened.grant) => {
                    return Next::End(Ended::Outlived(why));
                }
            }
        };
        // What it came to is not taken back: nothing is handed over any more.
        let carried = tokio::select! {
            carried = Box::pin(carrying.end(carried)) => carried,
            why = outlives(shared, std::slice::from_ref(target), &self.opened.grant) => {
                return Next::End(Ended::Outlived(why));
            }
        };
        drop(carrying);
        match carried {
            Carried::Finished(true) => Next::End(Ended::Finished),
            Carried::Finished(false) => {
                self.is_finished = true;
                Next::Wait
            }
            Carried::WayBroke(error) => {
                tracing::debug!(%error, "the way of a session broke");
                Next::Wait
            }
            Carried::Broken(broken) => {
                tracing::debug!(%broken, "a session broke");
                Next::End(Ended::Broken)
            }
            Carried::BrokenThere => Next::End(Ended::Broken),
            Carried::Violation(violation) => {
                tracing::debug!(%violation, "a client says what it must not say");
                shared.counters.on_violation(violation);
                Next::End(Ended::Broken)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_not_have_begun_a_session_cannot_go_on_with_it() {
        use super::super::admission::Proof;
        use crate::account::Limits;
        use crate::authority::Holder;
        let grant =
            |name: &str, proof| Grant { account: Arc::new(Account::new(name, Limits::default())), proof };
        let node = |name: &str| {
            let holder = Holder { name: name.into(), serial: name.into(), is_node: true };
            grant(name, Proof::Certificate(Box::new(holder)))
        };
        let (kept, target) = (Kept::default(), "server:80".parse::<Endpoint>().unwrap());
        let alice = grant("alice", Proof::Token(Box::new([1; 32])));
        let begin = |key, grant: &Grant| {
            let (account, by_node) = (Arc::clone(&grant.account), grant.is_node());
            let known = Known { account, by_node, target: target.clone(), arrivals: channel(1).0 };
            kept.begin(SessionId(key), known)
        };
        assert!(begin(1, &alice) && begin(2, &node("paris")));
        assert!(!begin(1, &alice), "a key is good for one session");
        let goes_on = |key, grant: &Grant| kept.known(SessionId(key), &target, grant).is_some();
        assert!(goes_on(1, &alice));
        assert!(!goes_on(1, &grant("bob", Proof::Token(Box::new([2; 32])))));
        assert!(!goes_on(1, &node("tokyo")), "a node is not alice");
        assert!(goes_on(2, &node("tokyo")), "another node may ask for the same client");
        assert!(!goes_on(2, &alice));
        assert!(!goes_on(3, &alice));
        assert!(kept.known(SessionId(1), &"other:80".parse().unwrap(), &alice).is_none());
    }
}
