//! Sessions by way of nodes, or without any.
mod failing;
mod http;
mod moving;
mod proxy;
mod socks;
mod stdio;
mod tally;

pub use moving::MoveOptions;
pub use proxy::{LocalConfig, LocalError, LocalProxy, Service};

use crate::answer::{Failure, HopStatus, Refusal};
use crate::links::{Links, NamedBy};
use crate::node::{new_session, tell_others};
use crate::pump::{Broken, Forwarding, Meter, direction};
use crate::request::{Method, Request, SetUp};
use crate::resume::Moved;
use crate::route::{Endpoint, Route, RouteProvider};
use crate::socket::{Leg, Socket};
use crate::status::NodeStatus;
use failing::FailingWays;
use moving::{Moving, Settled, Waits, may_pass};
use shorthaul_types::Bytes;
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tally::Tally;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

/// How often a node is asked again that wants that, and the longest wait.
const ASKED_AGAIN: u32 = 3;
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// How sessions are opened.
#[derive(Clone)]
pub struct ClientOptions {
    /// Who knows ways.
    pub routes: Arc<dyn RouteProvider>,
    /// Connections to nodes and targets.
    pub links: Arc<Links>,
    /// How the nodes of a route are told.
    pub set_up: SetUp,
    /// How they pass bytes on.
    pub forwarding: Forwarding,
    /// What each may hold of a direction.
    pub buffer: Option<Bytes>,
    /// Whether sessions by way of nodes survive these, all but the last: if bytes go on as they come.
    pub moves: Option<MoveOptions>,
    /// How long it is tried again to set a session up when a node is not there, or the way breaks meanwhile.
    pub patience: Duration,
}

/// Opens sessions.
#[derive(Clone)]
pub struct Client {
    options: ClientOptions,
    /// Our ends of direct connections that are open.
    direct: Arc<Mutex<HashSet<SocketAddr>>>,
    failing: Arc<FailingWays>,
    /// Who is told that a session goes on.
    on_move: Option<OnMove>,
}

/// Hears that a session goes on after its way broke, or was left for a better one.
pub type OnMove = Arc<dyn Fn(&GoesOn<'_>) + Send + Sync>;

/// A session that stood goes on.
#[derive(Clone, Copy, Debug)]
pub struct GoesOn<'a> {
    /// Where to.
    pub target: &'a Endpoint,
    /// By which way.
    pub route: &'a Route,
    /// Whether that is the one by which it went before.
    pub is_same_way: bool,
    /// How long it stood.
    pub stood: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("links", &self.options.links).finish_non_exhaustive()
    }
}

/// A direct connection, as long as it is open.
#[derive(Debug)]
struct Direct {
    local: SocketAddr,
    open: Arc<Mutex<HashSet<SocketAddr>>>,
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.local);
    }
}

/// A session that is there.
#[derive(Debug)]
pub struct Session {
    leg: Leg,
    /// What came behind the answer already.
    rest: Vec<u8>,
    /// The way that it took.
    pub route: Route,
    /// What the nodes said, the last of them first.
    pub hops: Vec<HopStatus>,
    /// How long it took to have it.
    pub took: Duration,
    /// What it needs to go on by another way.
    moving: Option<Box<Moving>>,
    /// What is told of it when it ends.
    tally: Tally,
    _direct: Option<Direct>,
}

/// What an attempt leads to.
struct Opened {
    leg: Leg,
    rest: Vec<u8>,
    hops: Vec<HopStatus>,
    moving: Option<Box<Moving>>,
    direct: Option<Direct>,
}

/// No way led to the destination.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenError {
    /// Where it should have led.
    pub target: Endpoint,
    /// The ways that were tried, and where each ended.
    pub attempts: Vec<(Route, Refusal)>,
}

impl std::error::Error for OpenError {}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot reach {}", self.target)?;
        for (at, (route, refusal)) in self.attempts.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ";" })?;
            match route.is_direct() {
                true => write!(f, " directly: {refusal}")?,
                false => write!(f, " by {route}: {refusal}")?,
            }
        }
        Ok(())
    }
}

impl OpenError {
    /// What the last attempt ended with.
    pub fn failure(&self) -> Failure {
        self.attempts.last().map_or(Failure::Internal, |(_, refusal)| refusal.failure)
    }
}

/// What an application has to say before its session is there.
///
/// Nothing is lost by a failed attempt: what was sent on it is kept, and sent again on the next way. But
/// only if no part of it can have reached the destination.
pub(crate) struct Early<'a> {
    taken: Vec<u8>,
    more: &'a mut (dyn FnMut() -> Vec<u8> + Send),
}

impl<'a> Early<'a> {
    pub fn new(more: &'a mut (dyn FnMut() -> Vec<u8> + Send)) -> Early<'a> {
        Early { taken: Vec::new(), more }
    }

    /// What there is by now.
    fn now(&mut self) -> &[u8] {
        self.taken.extend((self.more)());
        &self.taken
    }
}

impl Client {
    /// A client.
    pub fn new(options: ClientOptions) -> Client {
        Client { options, direct: Arc::default(), failing: Arc::default(), on_move: None }
    }

    /// The same, which tells of each session that moves.
    #[must_use]
    pub fn telling_moves(self, on_move: OnMove) -> Client {
        Client { on_move: Some(on_move), ..self }
    }

    /// Opens a session by the best way that works.
    ///
    /// # Errors
    /// None does. Each is named with where it ended.
    pub async fn open(&self, target: &Endpoint) -> Result<Session, OpenError> {
        self.open_plain(target, None, &mut Early::new(&mut Vec::new)).await
    }

    /// Opens a session by the best way that works, with the first bytes of the application right behind the request:
    /// they are with the destination before its answer is here.
    ///
    /// # Errors
    /// As [`Client::open`]. What was said may have reached the destination all the same.
    pub async fn open_saying(&self, target: &Endpoint, first: &[u8]) -> Result<Session, OpenError> {
        let mut left = Some(first.to_vec());
        let mut say = || left.take().unwrap_or_default();
        self.open_plain(target, None, &mut Early::new(&mut say)).await
    }

    /// One that can move, where that is so.
    pub(crate) async fn open_with(
        &self,
        target: &Endpoint,
        client: Option<SocketAddr>,
        early: &mut Early<'_>,
    ) -> Result<Session, OpenError> {
        self.open_as(target, client, early, true).await
    }

    /// One that is a stream and nothing else.
    pub(crate) async fn open_plain(
        &self,
        target: &Endpoint,
        client: Option<SocketAddr>,
        early: &mut Early<'_>,
    ) -> Result<Session, OpenError> {
        self.open_as(target, client, early, false).await
    }

    async fn open_as(
        &self,
        target: &Endpoint,
        client: Option<SocketAddr>,
        early: &mut Early<'_>,
        moves: bool,
    ) -> Result<Session, OpenError> {
        let began = Instant::now();
        let until = began + self.options.patience;
        let mut waits = Waits::new();
        loop {
            let mut routes = self.options.routes.routes(target).await;
            if routes.is_empty() {
                routes.push(Route::direct());
            }
            let mut error = OpenError { target: target.clone(), attempts: Vec::new() };
            let mut may_wait = true;
            let mut going = Going { routes: &*self.options.routes, chosen: routes[0].clone(), taken: None };
            for route in routes {
                match self.open_asking_again(&route, (target, client), early, (moves, until)).await {
                    Ok(Opened { leg, rest, hops, moving, direct }) => {
                        let took = began.elapsed();
                        going.taken = Some(route.clone());
                        self.failing.on_session(&route, &error.attempts);
                        let ends = (Arc::clone(&self.options.routes), leg.socket().clone());
                        let tally = Tally::new(ends, (target, &route), &hops, took);
                        tally.progress.moved(Moved::Given, early.taken.len());
                        return Ok(Session { leg, rest, route, hops, took, moving, tally, _direct: direct });
                    }
                    Err(Failed { refusal, said }) => {
                        tracing::debug!(%target, %route, %refusal, "no session");
                        let unbelieved = refusal.failure == Failure::TlsCertificate;
                        let last = is_final(&refusal, target, said)
                            || (unbelieved && !self.options.routes.goes_on_unbelieved());
                        may_wait &= may_pass(&refusal, target) && !last;
                        error.attempts.push((route, refusal));
                        if last {
                            break;
                        }
                    }
                }
            }
            drop(going);
            if !may_wait || !waits.next(until).await {
                return Err(error);
            }
        }
    }

    async fn open_directly(
        &self,
        target: &Endpoint,
        client: Option<SocketAddr>,
        early: &mut Early<'_>,
    ) -> Result<Opened, Failed> {
        let ClientOptions { links, buffer, .. } = &self.options;
        let open = || self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        let client = client.map(|client| SocketAddr::new(client.ip().to_canonical(), client.port()));
        if client.is_some_and(|client| open().contains(&client)) {
            // Otherwise it would go on in a circle until something is used up.
            let why = "the firewall's rule leads our own connections back to us: let it leave out our user";
            return Err(Refusal::at(links.name(), Failure::LoopDetected, why).toward(target).into());
        }
        let socket = links.connect(target, *buffer, NamedBy::Operator).await?;
        let failed = |error| Refusal::at(links.name(), Failure::ConnectionTerminated, error).toward(target);
        let local = socket.0.local_addr().map_err(failed)?;
        open().insert(local);
        let direct = Some(Direct { local, open: Arc::clone(&self.direct) });
        let mut leg = Leg::plain(socket);
        let told = leg.write_all(early.now()).await.map_err(failed);
        told.map_err(|refusal| Failed { refusal, said: true })?;
        Ok(Opened { leg, rest: Vec::new(), hops: Vec::new(), moving: None, direct })
    }

    /// Opens one by a route, and again where a node asks for that: one that has just started believes nothing that may have been said to the
    /// one before it. Of what it refuses, nothing has arrived.
    async fn open_asking_again(
        &self,
        route: &Route,
        ends: (&Endpoint, Option<SocketAddr>),
        early: &mut Early<'_>,
        how: (bool, Instant),
    ) -> Result<Opened, Failed> {
        for _ in 0..ASKED_AGAIN {
            let opened = self.open_by(route, ends, early, how).await;
            let Some(wait) = opened.as_ref().err().and_then(|failed| failed.refusal.hop.retry_after) else {
                return opened;
            };
            tokio::time::sleep(wait.min(LONGEST_RETRY)).await;
        }
        self.open_by(route, ends, early, how).await
    }

    async fn open_by(
        &self,
        route: &Route,
        (target, client): (&Endpoint, Option<SocketAddr>),
        early: &mut Early<'_>,
        (moves, until): (bool, Instant),
    ) -> Result<Opened, Failed> {
        let ClientOptions { links, set_up, forwarding, buffer, .. } = &self.options;
        let Some(first) = route.hops.first() else {
            return self.open_directly(target, client, early).await;
        };
        let internal = |error: io::Error| Refusal::at(links.name(), Failure::Internal, error);
        let mut request = Request {
            via: route.hops[1..].to_vec(),
            buffer: *buffer,
            forwarding: *forwarding,
            set_up: *set_up,
            client,
            ..Request::connect(target.clone())
        };
        if *set_up == SetUp::Parallel && route.hops.len() > 1 {
            request.session = Some(new_session().map_err(internal)?);
            tell_others(links, &request, &route.hops);
        }
        let as_it_comes = *forwarding == Forwarding::Pipelined { wait_windows: 0 };
        if moves && as_it_comes && self.options.moves.is_some() {
            return self.begin_moving(route, request, early, until).await;
        }
        let mut leg = links.node(first, None).await?;
        let words = early.now();
        let answered = async {
            links.ask(&mut leg, first, &request, words).await?;
            links.answered(&mut leg, &route.hops).await
        };
        match answered.await {
            Ok((answer, rest)) => Ok(Opened { leg, rest, hops: answer.hops, moving: None, direct: None }),
            Err(refusal) => Err(Failed { refusal, said: !words.is_empty() }),
        }
    }

    /// Begins a session that can move. Until then, if there is so much patience, what may have begun is gone on with, and what cannot
    /// have begun is asked for again: with the same key, so that nothing is said twice, whatever is still on its way.
    async fn begin_moving(
        &self,
        route: &Route,
        mut request: Request,
        early: &mut Early<'_>,
        until: Instant,
    ) -> Result<Opened, Failed> {
        let ClientOptions { links, .. } = &self.options;
        let internal = |error: io::Error| Refusal::at(links.name(), Failure::Internal, error);
        let Some(first) = route.hops.first() else {
            return Err(internal(io::ErrorKind::InvalidInput.into()).into());
        };
        let asked = Instant::now();
        let mut waits = Waits::new();
        // What is said first is said in the same way each time.
        let mut begun: Option<Box<Moving>> = None;
        loop {
            let mut leg = match links.node(first, None).await {
                Ok(leg) => leg,
                Err(refusal)
                    if begun.is_some() && may_pass(&refusal, &request.target) && waits.next(until).await =>
                {
                    continue;
                }
                Err(refusal) => return Err(refusal.into()),
            };
            let mut moving = match begun.take() {
                Some(moving) => moving,
                None => {
                    let ends = (&request.target, request.client);
                    Box::new(Moving::new(self, ends, route, early.now()).map_err(internal)?)
                }
            };
            request.method = Method::Session;
            request.resume = Some(moving.begins());
            let words = moving.first_words().map_err(|error| internal(io::Error::other(error)))?;
            let failed = |refusal| Failed { refusal, said: !words.is_empty() };
            let answered = async {
                links.ask(&mut leg, first, &request, &words).await?;
                let (answer, rest) = links.answered(&mut leg, &route.hops).await?;
                let begun = moving.check_begun(answer.hops.first().and_then(|hop| hop.received));
                begun.map_err(|why| Refusal::at(&first.to_string(), Failure::RequestError, why))?;
                Ok((answer, rest))
            };
            let refusal: Refusal = match answered.await {
                Ok((answer, rest)) => {
                    let moving = Some(moving);
                    return Ok(Opened { leg, rest, hops: answer.hops, moving, direct: None });
                }
                Err(refusal) => refusal,
            };
            // That one asked before may be there by now.
            let is_denied = refusal.failure == Failure::RequestDenied && refusal.hop.retry_after.is_none();
            let may_be_there = is_unsure(&refusal) || is_denied;
            if until <= Instant::now() || !may_be_there {
                return Err(failed(refusal));
            }
            match moving.settle(asked, until).await {
                Ok(((leg, rest), answer)) => {
                    let moving = Some(moving);
                    return Ok(Opened { leg, rest, hops: answer.hops, moving, direct: None });
                }
                Err(Settled::Never) if is_unsure(&refusal) && waits.next(until).await => begun = Some(moving),
                Err(Settled::Never) => return Err(refusal.into()),
                Err(Settled::Unknown) => return Err(failed(refusal)),
            }
        }
    }
}

/// Tells whoever knows ways by which of them a session goes, also where nobody waits for it any longer.
struct Going<'a> {
    routes: &'a dyn RouteProvider,
    chosen: Route,
    taken: Option<Route>,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        self.routes.goes_by(&self.chosen, self.taken.as_ref());
    }
}

/// Why an attempt came to nothing.
struct Failed {
    refusal: Refusal,
    /// Whether the application's first words may have arrived, as far as the failure does not tell.
    said: bool,
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed { refusal, said: false }
    }
}

/// Whether what was said before such a failure may have arrived.
fn is_unsure(refusal: &Refusal) -> bool {
    matches!(refusal.failure, Failure::ConnectionTerminated | Failure::ConnectionTimeout)
}

/// Whether another way would do no better, or could do harm.
fn is_final(refusal: &Refusal, target: &Endpoint, said_something: bool) -> bool {
    let at_target = refusal.hop.next_hop.as_deref() == Some(target.to_string().as_str());
    match refusal.failure {
        // The destination itself says no, as it would say to anybody.
        Failure::ConnectionRefused => at_target,
        // What was said may have arrived, and must not arrive twice.
        _ => said_something && is_unsure(refusal),
    }
}

/// A session as one stream, for a library that reads and writes it: what came behind the answer comes first.
pub(crate) struct SessionStream {
    leg: Leg,
    rest: Vec<u8>,
    tally: Tally,
    _direct: Option<Direct>,
}

impl AsyncRead for SessionStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if self.rest.is_empty() {
            ready!(Pin::new(&mut self.leg).poll_read(cx, buf))?;
        } else {
            let len = self.rest.len().min(buf.remaining());
            buf.put_slice(&self.rest[..len]);
            self.rest.drain(..len);
        }
        self.tally.progress.moved(Moved::Received, buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SessionStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.leg).poll_write(cx, bytes))?;
        self.tally.progress.moved(Moved::Given, written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.leg).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.leg).poll_shutdown(cx)
    }
}

impl Session {
    pub(crate) fn into_stream(self) -> SessionStream {
        SessionStream { leg: self.leg, rest: self.rest, tally: self.tally, _direct: self._direct }
    }

    /// Carries a local connection to the end of both directions. What breaks on one side is reset on the
    /// other.
    pub(crate) async fn carry(
        self,
        local: Socket,
        head: &[u8],
        forwarding: Forwarding,
    ) -> Result<(), Broken> {
        if let Some(moving) = self.moving {
            let mut app = local.clone();
            app.write_all(head).await.map_err(Broken::Sink)?;
            let breaking = local.clone();
            let breaks = || breaking.broken();
            let carried = moving.carry(&mut app, breaks, (self.leg, self.rest), &self.tally).await;
            if carried.is_ok() {
                let _ = local.end_well();
            }
            return carried;
        }
        let far = self.leg.socket().clone();
        let (mut far_in, mut far_out) = self.leg.into_halves();
        let (mut near_in, mut near_out) = Leg::plain(local.clone()).into_halves();
        near_out.write_all(head).await.map_err(Broken::Sink)?;
        near_out.write_all(&self.rest).await.map_err(Broken::Sink)?;
        // Nobody else has a part of a client's memory.
        let (moved, status) = (AtomicU64::new(0), NodeStatus::new(Bytes(u64::MAX >> 1)));
        let meter = |way| Meter {
            moved: &moved,
            of_session: &moved,
            account: None,
            status: &status,
            spool: None,
            progress: Some((&self.tally.progress, way)),
            waits: None,
        };
        self.tally.progress.moved(Moved::Received, self.rest.len());
        let meters = [meter(Moved::Given), meter(Moved::Received)];
        let there = direction(&mut near_in, &mut far_out, forwarding, &meters[0]);
        let back = direction(&mut far_in, &mut near_out, forwarding, &meters[1]);
        let outcome = tokio::select! {
            both = async { tokio::try_join!(there, back) } => both.map(drop),
            error = local.broken() => Err(Broken::Source(error)),
            error = far.broken() => Err(Broken::Sink(error)),
        };
        if outcome.is_ok() {
            let _ = (local.end_well(), far.end_well());
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_arrived_is_not_said_again() {
        let target: Endpoint = "server:80".parse().unwrap();
        let refusal = |failure| Refusal::at("a", failure, "");
        for failure in [Failure::ConnectionTerminated, Failure::ConnectionTimeout] {
            assert!(is_final(&refusal(failure), &target, true));
            assert!(!is_final(&refusal(failure), &target, false));
        }
        let of_node = refusal(Failure::ConnectionRefused).toward(&"b:1".parse().unwrap());
        assert!(!is_final(&of_node, &target, true));
        assert!(is_final(&refusal(Failure::ConnectionRefused).toward(&target), &target, false));
    }
}
