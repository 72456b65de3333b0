//! Sessions that survive the nodes on their way, at the client: when a way breaks, or a better one is known, another is taken to
//! the same last node, and what that has not received is sent again.
use super::tally::Tally;
use super::{Client, GoesOn, is_final};
use crate::answer::{Answer, Failure, Refusal};
use crate::pump::Broken;
use crate::request::{Method, Request, Resume, SessionId, SetUp};
use crate::resume::carry::{Carried, Patience, carry};
use crate::resume::ends::Unbounded;
use crate::resume::{Application, Ends, Role, Unwatched, Violation};
use crate::route::{Endpoint, Route};
use crate::socket::Leg;
use shorthaul_types::Bytes;
use std::future::{Future, pending, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// How long it takes until another way is tried, when none worked; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// The longest of these.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How often it is asked whether there is a better way.
const BETTER: Duration = Duration::from_secs(10);
/// A session moves if the other way is expected to be so much faster: what is under way is sent again.
const WORTH_MOVING: f64 = 1.25;
/// How long a session that broke is looked for another way, to tell the other side.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Clocks do not tick alike: one part in this many.
const DRIFT: u32 = 1000;

/// When and how sessions move.
#[derive(Clone, Copy, Debug)]
pub struct MoveOptions {
    /// What is kept of a direction until the other end has acknowledged it, at most. It bounds the rate: so much in a round trip.
    pub window: Bytes,
    /// How long another way is looked for.
    pub within: Duration,
    /// After so long without a word it is asked whether the other end is there; see docs/relay.md.
    pub quiet: Duration,
}

impl Default for MoveOptions {
    fn default() -> MoveOptions {
        MoveOptions { window: Bytes(4 << 20), within: Duration::from_secs(60), quiet: Duration::from_secs(5) }
    }
}

/// A wait that becomes longer.
pub(super) struct Waits(Duration);

impl Waits {
    pub fn new() -> Waits {
        Waits(FIRST_WAIT)
    }

    /// Waits, unless that takes longer than until then; whether there is time left.
    pub async fn next(&mut self, until: Instant) -> bool {
        if Instant::now() + self.0 >= until {
            return false;
        }
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_WAIT);
        true
    }
}

/// What a session needs to go on by another way.
#[derive(Debug)]
pub(super) struct Moving {
    client: Client,
    options: MoveOptions,
    target: Endpoint,
    from: Option<SocketAddr>,
    key: SessionId,
    route: Route,
    ends: Ends<Unbounded>,
}

/// A way that a session is carried by from now on.
type Way = (Leg, Vec<u8>);

impl Moving {
    /// A session that is about to begin by a route, with what the application says first.
    pub fn new(
        client: &Client,
        (target, from): (&Endpoint, Option<SocketAddr>),
        route: &Route,
        early: &[u8],
    ) -> io::Result<Moving> {
        let options = client.options.moves.unwrap_or_default();
        let key = crate::node::new_session()?;
        let mut ends = Ends::new(Role::Client, options.window.0, Unbounded);
        ends.take(early);
        let (client, target, route) = (client.clone(), target.clone(), route.clone());
        Ok(Moving { client, options, target, from, key, route, ends })
    }

    /// Which session a request is about that begins it.
    pub fn begins(&self) -> Resume {
        Resume { key: self.key, from: None }
    }

    /// What goes right behind that request; the same each time that it is made.
    ///
    /// # Errors
    /// The session has begun.
    pub fn first_words(&mut self) -> Result<Vec<u8>, Violation> {
        self.ends.move_to(0)?;
        let mut words = Vec::new();
        while let Some(frame) = self.ends.next() {
            words.extend_from_slice(frame);
            let len = frame.len();
            self.ends.on_written(len);
        }
        Ok(words)
    }

    /// Whether the other end can have this much when the session begins.
    ///
    /// # Errors
    /// It cannot.
    pub fn check_begun(&self, received: Option<u64>) -> Result<(), &'static str> {
        match received {
            Some(0) => Ok(()),
            Some(_) => Err("it says that it has received what was not sent"),
            None => Err("it does not know sessions that move: --no-moves"),
        }
    }

    /// Whether a session that may have begun is there, after its way broke before there was an answer. If it is, by which way; if
    /// not, whether it is certain that it never was.
    pub async fn settle(&mut self, asked: Instant, until: Instant) -> Result<(Way, Answer), Settled> {
        let mut waits = Waits::new();
        loop {
            match self.attach(&self.route.clone()).await {
                Ok((way, answer)) => return Ok((way, answer)),
                Err(refusal) if ends_it(&refusal) => {
                    // A node that was there when it was asked first, and all the time since, would know of it.
                    let age = asked.elapsed();
                    let age = age + age / DRIFT + Duration::from_millis(1);
                    return Err(match refusal.hop.up {
                        Some(up) if up > age && refusal.failure == Failure::RequestDenied => Settled::Never,
                        _ => Settled::Unknown,
                    });
                }
                Err(_) => {}
            }
            if !waits.next(until).await {
                return Err(Settled::Unknown);
            }
        }
    }

    /// Asks for the session by a route.
    async fn attach(&mut self, route: &Route) -> Result<(Way, Answer), Refusal> {
        let links = &self.client.options.links;
        let Some(first) = route.hops.first() else {
            return Err(Refusal::at(links.name(), Failure::Internal, "no node is on the way"));
        };
        let resume = Resume { key: self.key, from: Some(self.ends.received()) };
        let request = Request {
            method: Method::Session,
            via: route.hops[1..].to_vec(),
            buffer: self.client.options.buffer,
            // There is nothing to be connected ahead at the last node.
            set_up: SetUp::Sequential,
            client: self.from,
            resume: Some(resume),
            ..Request::connect(self.target.clone())
        };
        let mut leg = links.node(first, None).await?;
        links.ask(&mut leg, first, &request, &[]).await?;
        let (answer, rest) = links.answered(&mut leg, &route.hops).await?;
        let wrong = |why: &str| Refusal::at(&first.to_string(), Failure::RequestError, why);
        // The node next to the target is the first that says something.
        let received = answer.hops.first().and_then(|hop| hop.received);
        let received = received.ok_or_else(|| wrong("it does not say what it has received"))?;
        self.ends.move_to(received).map_err(|violation| wrong(&violation.to_string()))?;
        self.route = route.clone();
        Ok(((leg, rest), answer))
    }

    /// Finds another way: the best that is known, or the old one.
    /// The session stands since `since`.
    async fn move_on(
        &mut self,
        best: Option<Route>,
        within: Duration,
        since: Instant,
    ) -> Result<Way, Refusal> {
        let until = Instant::now() + within;
        let mut waits = Waits::new();
        let mut first = best;
        loop {
            let mut routes: Vec<Route> = first.take().into_iter().collect();
            routes.extend(self.client.options.routes.routes_to_move(&self.target).await);
            routes.push(self.route.clone());
            let mut tried: Vec<Vec<Endpoint>> = Vec::new();
            let mut last = None;
            for route in routes {
                // Only the node that has the session can go on with it.
                if route.hops.last() != self.route.hops.last() || tried.contains(&route.hops) {
                    continue;
                }
                let is_same_way = route.hops == self.route.hops;
                match self.attach(&route).await {
                    Ok((way, _)) => {
                        let stood = since.elapsed();
                        tracing::info!(target = %self.target, %route, is_same_way, ?stood, "a session goes on");
                        if let Some(told) = &self.client.on_move {
                            told(&GoesOn { target: &self.target, route: &route, is_same_way, stood });
                        }
                        return Ok(way);
                    }
                    Err(refusal) if ends_it(&refusal) => return Err(refusal),
                    Err(refusal) => {
                        tracing::debug!(target = %self.target, %route, %refusal, "a session does not move");
                        last = Some(refusal);
                    }
                }
                tried.push(route.hops);
            }
            if !waits.next(until).await {
                let name = self.client.options.links.name();
                return Err(last.unwrap_or_else(|| Refusal::at(name, Failure::Internal, "there is no way")));
            }
        }
    }

    /// The same, after a wait where ways were in vain; and not for longer than they may be.
    async fn move_on_after(
        &mut self,
        vain: &mut Option<(Waits, Instant)>,
        best: Option<Route>,
        within: Duration,
    ) -> Result<Way, Refusal> {
        let since = Instant::now();
        if let Some((waits, until)) = vain
            && !waits.next(*until).await
        {
            let name = self.client.options.links.name();
            let words = "every way breaks as soon as it is there";
            return Err(Refusal::at(name, Failure::ConnectionTerminated, words));
        }
        self.move_on(best, within, since).await
    }

    /// Waits for a way that is better than the one that is used.
    async fn better(client: &Client, target: &Endpoint, route: &Route) -> Route {
        loop {
            sleep(BETTER).await;
            let mut routes = client.options.routes.routes_to_move(target).await;
            let of_ours = routes.iter().find(|other| other.hops == route.hops);
            let ours = of_ours.and_then(|ours| ours.forecast).map(|forecast| forecast.throughput);
            let is_better = |other: &Route| {
                let (Some(theirs), Some(ours)) = (other.forecast, ours) else { return false };
                other.hops.last() == route.hops.last() && theirs.throughput > ours * WORTH_MOVING
            };
            if let Some(at) = routes.iter().position(is_better) {
                return routes.swap_remove(at);
            }
        }
    }

    /// Carries an application's bytes to the end of both directions, by one way after the other. `breaks` says when the
    /// application's side breaks.
    pub async fn carry<A, B>(
        mut self,
        app: &mut A,
        breaks: impl Fn() -> B,
        way: Way,
        tally: &Tally,
    ) -> Result<(), Broken>
    where
        A: Application,
        B: Future<Output = io::Error>,
    {
        let patience = Patience { quiet: self.options.quiet };
        let (mut leg, mut first) = way;
        let mut is_last = false;
        if self.ends.owes() {
            tally.progress.owe();
        }
        let mut vain: Option<(Waits, Instant)> = None;
        loop {
            let (came, progress) = (Instant::now(), self.ends.progress());
            let (client, target, route) = (self.client.clone(), self.target.clone(), self.route.clone());
            let carrying = carry(
                (Role::Client, &mut self.ends),
                (&mut *app, breaks()),
                (&mut leg, std::mem::take(&mut first)),
                patience,
                &tally.progress,
            );
            let mut best = None;
            let carried = tokio::select! {
                carried = Box::pin(carrying) => Some(carried),
                route = Moving::better(&client, &target, &route) => {
                    best = Some(route);
                    None
                }
            };
            let left_by_itself = carried.is_none();
            match carried {
                Some(Carried::Finished(true)) => return Ok(()),
                Some(Carried::Finished(false)) if is_last => return Ok(()),
                // All is done; the node may not know, and would wait for us.
                Some(Carried::Finished(false)) => {
                    match self.move_on(None, self.options.quiet, Instant::now()).await {
                        Ok(way) => ((leg, first), is_last) = (way, true),
                        Err(_) => return Ok(()),
                    }
                }
                Some(Carried::WayBroke(_)) if is_last => return Ok(()),
                Some(Carried::Broken(broken)) => return Err(broken),
                Some(Carried::BrokenThere) => {
                    return Err(Broken::Sink(io::ErrorKind::ConnectionReset.into()));
                }
                Some(Carried::Violation(violation)) => return Err(Broken::Sink(io::Error::other(violation))),
                Some(Carried::WayBroke(_)) | None => {
                    if let Some(Carried::WayBroke(error)) = carried {
                        tracing::info!(target = %self.target, route = %self.route, %error, "a way broke");
                    }
                    let within = self.options.within;
                    // A way that breaks at once, and was of no use, is as none: the next one has to wait.
                    let was_of_use = came.elapsed() >= LONGEST_WAIT || self.ends.progress() != progress;
                    vain = match vain {
                        _ if was_of_use || left_by_itself => None,
                        Some(vain) => Some(vain),
                        None => Some((Waits::new(), Instant::now() + within)),
                    };
                    let moved = tokio::select! {
                        moved = self.move_on_after(&mut vain, best, within) => moved,
                        error = breaks() => {
                            return Err(self.tell_broken(app, error).await);
                        }
                    };
                    (leg, first) = moved.map_err(|refusal| Broken::Sink(io::Error::other(refusal)))?;
                    tally.has_moved.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// The application's side broke while there was no way: the other side hears of it as soon as there is one.
    async fn tell_broken<A: Application>(&mut self, app: &mut A, error: io::Error) -> Broken {
        let patience = Patience { quiet: self.options.quiet };
        let words = error.to_string();
        if let Ok(Ok((mut leg, first))) =
            timeout(LAST_WORDS, self.move_on(None, LAST_WORDS, Instant::now())).await
        {
            let ends = (Role::Client, &mut self.ends);
            Box::pin(carry(ends, (app, ready(error)), (&mut leg, first), patience, &Unwatched)).await;
        }
        Broken::Source(io::Error::other(words))
    }
}

/// What is known of a session that may have begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It has not, and will not.
    Never,
    /// Nothing: it may have.
    Unknown,
}

/// Whether no way leads on from such a refusal.
fn ends_it(refusal: &Refusal) -> bool {
    refusal.hop.retry_after.is_none()
        && matches!(refusal.failure, Failure::RequestDenied | Failure::RequestError | Failure::TlsCertificate)
}

/// Whether the same may be worth trying again a little later.
pub(super) fn may_pass(refusal: &Refusal, target: &Endpoint) -> bool {
    let passes = matches!(
        refusal.failure,
        Failure::ConnectionRefused
            | Failure::ConnectionTimeout
            | Failure::ConnectionTerminated
            | Failure::ConnectionLimit
            | Failure::Unroutable
    );
    passes && !is_final(refusal, target, false)
}

/// An application of which only its own stream tells that it is over.
pub(super) fn never() -> impl Future<Output = io::Error> {
    pending()
}
