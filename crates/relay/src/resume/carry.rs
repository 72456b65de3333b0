//! One end of a session and one way: bytes between the application's side and a leg, until the way breaks or all is done.
use super::application::Application;
use super::ends::{Ends, Memory, Role};
use super::frame::{Frame, MOST_DATA, Reader, Violation};
use super::watch::{Moved, Watch};
use crate::pump::{Broken, with_scratch};
use crate::socket::Leg;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Sleep, sleep_until, timeout};

/// What was received is acknowledged after so long, unless something else goes or much came.
const ACKNOWLEDGE_AFTER: Duration = Duration::from_millis(100);
/// How often it is looked whether an application's kernel has acknowledged all; longer each time.
const LOOK: Duration = Duration::from_millis(1);
/// The longest of these.
const LOOK_MOST: Duration = Duration::from_millis(100);
/// How long it may take to tell the other end why it is over.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// What an end waits for, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A client asks after so long in which it has heard nothing, longer where nothing moves; and counts a way as broken on which
    /// it hears nothing for twice as long then. A node that has heard nothing for 36 times as long counts it as broken.
    pub quiet: Duration,
}

/// What a way came to.
#[derive(Debug)]
pub enum Carried {
    /// Both directions have been delivered. Whether the other end is known to know.
    Finished(bool),
    /// The session can go on by another way.
    WayBroke(io::Error),
    /// It cannot: this side broke, or may not go on.
    Broken(Broken),
    /// It cannot: the other side broke.
    BrokenThere,
    /// It cannot: the other end said what it must not say.
    Violation(Violation),
}

/// One in this many rounds is timed.
const SAMPLE: u32 = 64;

/// One end and one way, with all that it takes to go on: who stops to [run](Carrying::run) it may run it again.
pub struct Carrying<'a, A, M> {
    role: Role,
    ends: &'a mut Ends<M>,
    app: &'a mut A,
    leg: &'a mut Leg,
    /// What came on the way already.
    first: Option<Vec<u8>>,
    reader: Reader,
    patience: Patience,
    watch: &'a dyn Watch,
    /// How often something was moved, and how much of it was this time.
    rounds: u32,
    of_round: usize,
    /// Frames without data, which go before the next one that has some.
    control: Vec<u8>,
    control_written: usize,
    is_unflushed: bool,
    alarm: Pin<Box<Sleep>>,
    now: Instant,
    heard: Instant,
    active: Instant,
    pinged: Option<Instant>,
    acknowledge_at: Option<Instant>,
    is_asked: bool,
    paused: Option<Instant>,
    /// The other end has closed the way: nothing more comes by it.
    is_closed: bool,
    /// When to look whether the application's kernel has all, and how long after that.
    look: Option<(Instant, Duration)>,
    /// Of what was received, and of what was given: what is waited for, and whether any of it moved since.
    rests: [Resting; 2],
}

/// What one direction waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Resting {
    /// Since when, and whether it is room, and not bytes.
    since: Option<(Instant, bool)>,
    has_moved: bool,
}

/// Moves bytes between an application and a way until that is over. `first` came on the way already; `app_breaks` says when the
/// application's side does.
pub async fn carry<A: Application, M: Memory>(
    ends: (Role, &mut Ends<M>),
    (app, app_breaks): (&mut A, impl Future<Output = io::Error>),
    way: (&mut Leg, Vec<u8>),
    patience: Patience,
    watch: &dyn Watch,
) -> Carried {
    let mut carrying = Carrying::new(ends, app, way, patience, watch);
    let over = carrying.run(pin!(app_breaks)).await;
    carrying.end(over).await
}

impl<'a, A: Application, M: Memory> Carrying<'a, A, M> {
    /// Nothing moves before this is [run](Carrying::run). `first` came on the way already.
    pub fn new(
        (role, ends): (Role, &'a mut Ends<M>),
        app: &'a mut A,
        (leg, first): (&'a mut Leg, Vec<u8>),
        patience: Patience,
        watch: &'a dyn Watch,
    ) -> Self {
        let now = Instant::now();
        Carrying {
            role,
            ends,
            app,
            leg,
            first: Some(first),
            reader: Reader::default(),
            patience,
            watch,
            rounds: 0,
            of_round: 0,
            control: Vec::new(),
            control_written: 0,
            is_unflushed: false,
            alarm: Box::pin(sleep_until((now + patience.quiet).into())),
            now,
            heard: now,
            active: now,
            pinged: None,
            acknowledge_at: None,
            is_asked: false,
            // Others of the account may have moved more than they might: nothing is moved before that is even.
            paused: Some(now + watch.due()),
            is_closed: false,
            look: None,
            rests: [Resting::default(); 2],
        }
    }

    /// How this end stands.
    pub fn ends(&self) -> &Ends<M> {
        self.ends
    }

    /// Moves bytes until that is over, and is [ended](Carrying::end) then. Before, it may be left at any time and run again. `app_breaks` says when the
    /// application's side breaks.
    pub async fn run(&mut self, mut app_breaks: Pin<&mut impl Future<Output = io::Error>>) -> Carried {
        let of_leg = self.leg.socket().clone();
        let mut way_breaks = pin!(of_leg.broken());
        std::future::poll_fn(|cx| {
            if let Some(first) = self.first.take()
                && let Err(over) = self.on_bytes(cx, &first)
            {
                return Poll::Ready(over);
            }
            if let Poll::Ready(error) = app_breaks.as_mut().poll(cx) {
                return Poll::Ready(Carried::Broken(Broken::Source(error)));
            }
            if let Poll::Ready(error) = way_breaks.as_mut().poll(cx) {
                return Poll::Ready(Carried::WayBroke(error));
            }
            self.poll(cx)
        })
        .await
    }

    /// Says the last words on a way that came to this, if the other end has to hear some. Whoever has begun it is not run again.
    pub async fn end(&mut self, over: Carried) -> Carried {
        match over {
            Carried::Broken(broken) => {
                self.ends.break_off();
                self.tell_broken().await;
                Carried::Broken(broken)
            }
            Carried::Finished(_) => Carried::Finished(self.close().await),
            over => over,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Carried> {
        loop {
            self.now = Instant::now();
            self.of_round = 0;
            let round = (|| {
                if self.paused.is_some_and(|until| until <= self.now) {
                    self.paused = None;
                }
                let moved = self.receive(cx)? | self.deliver(cx)?;
                // What came before that counts.
                if self.is_closed {
                    return Err(self.on_closed());
                }
                let moved = self.take(cx)? || moved;
                Ok::<bool, Carried>(self.send(cx)? || moved)
            })();
            if self.of_round > 0 {
                self.rounds = self.rounds.wrapping_add(1);
                // What waits for the application says nothing of us.
                if self.rounds % SAMPLE == 1 && self.ends.waiting().is_none() {
                    self.watch.on_processing(self.of_round, self.now.elapsed());
                }
            }
            match round {
                Err(over) => return Poll::Ready(over),
                Ok(true) => continue,
                Ok(false) => {}
            }
            self.rest();
            if self.ends.is_broken() {
                return Poll::Ready(Carried::BrokenThere);
            }
            if self.ends.is_complete() && self.control.is_empty() && !self.is_unflushed {
                return Poll::Ready(Carried::Finished(false));
            }
            if self.is_silent() {
                return Poll::Ready(Carried::WayBroke(io::ErrorKind::TimedOut.into()));
            }
            let wake = self.wakes_at();
            let set = self.alarm.deadline().into_std();
            if wake < set || set <= self.now {
                self.alarm.as_mut().reset(wake.max(self.now + Duration::from_micros(100)).into());
            }
            if self.alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Nothing can be done now: what each direction waits for.
    fn rest(&mut self) {
        let waits_for_room =
            [self.ends.waiting().is_some(), self.ends.next().is_some() || self.ends.room() == 0];
        let ended = [self.ends.has_heard_all(), self.ends.has_ended()];
        for at in 0..2 {
            let Resting { since, has_moved } = self.rests[at];
            let for_room = waits_for_room[at];
            if !has_moved && since.is_some_and(|(_, was)| was == for_room) {
                continue;
            }
            let next = Resting { since: Some((self.now, for_room)), has_moved: false };
            self.rests[at] = if ended[at] { Resting::default() } else { next };
        }
    }

    /// Bytes of a direction move: what it waited for is over.
    fn stir(&mut self, way: Moved) {
        let rest = &mut self.rests[usize::from(way == Moved::Given)];
        rest.has_moved = true;
        let Some((since, for_room)) = rest.since.take() else { return };
        let (Some(waits), Some(app)) = (self.watch.waits(way), self.app.socket()) else { return };
        let leg = self.leg.socket();
        let (source, sink) = if way == Moved::Received { (leg, app) } else { (app, leg) };
        if for_room {
            waits.on_writable(since, source);
        } else if let Some(rest) = waits.on_readable(since, sink) {
            waits.on_read(rest, false);
        }
        waits.begin();
    }

    /// What came by the way.
    fn receive(&mut self, cx: &mut Context<'_>) -> Result<bool, Carried> {
        if self.paused.is_some() || self.ends.is_broken() || !self.ends.may_receive() {
            return Ok(false);
        }
        let most = self.portion()?.min(MOST_DATA);
        with_scratch(|scratch| {
            let mut buffer = ReadBuf::new(&mut scratch[..most]);
            match Pin::new(&mut *self.leg).poll_read(cx, &mut buffer) {
                Poll::Pending => Ok(false),
                Poll::Ready(Err(error)) => Err(Carried::WayBroke(error)),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                    self.is_closed = true;
                    Ok(true)
                }
                Poll::Ready(Ok(())) => {
                    (self.heard, self.pinged) = (self.now, None);
                    self.on_bytes(cx, buffer.filled()).map(|()| true)
                }
            }
        })
    }

    /// The other end has closed the way. A node does so when all has been delivered and it knows that its client knows; then this is
    /// the end, even if on this way the client has not come to say so.
    fn on_closed(&self) -> Carried {
        let is_over = if self.role == Role::Client { self.ends.is_over() } else { self.ends.is_complete() };
        if is_over {
            Carried::Finished(false)
        } else {
            Carried::WayBroke(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn on_bytes(&mut self, cx: &mut Context<'_>, mut bytes: &[u8]) -> Result<(), Carried> {
        while !bytes.is_empty() {
            let (frame, used) = self.reader.next(bytes).map_err(Carried::Violation)?;
            bytes = &bytes[used..];
            let Some(frame) = frame else { continue };
            if matches!(frame, Frame::Data { .. }) {
                self.stir(Moved::Received);
            }
            let mut broken = None;
            let app = &mut *self.app;
            let mut deliver = |bytes: &[u8]| match app.poll_write(cx, bytes) {
                Poll::Ready(Ok(len)) => len,
                Poll::Ready(Err(error)) => {
                    broken = Some(error);
                    0
                }
                Poll::Pending => 0,
            };
            let before = self.ends.acknowledged();
            self.ends.on_frame(frame, &mut deliver).map_err(Carried::Violation)?;
            if self.ends.acknowledged() != before {
                self.watch.on_acknowledged(self.ends.has_arrived());
            }
            if let Some(error) = broken {
                return Err(Carried::Broken(Broken::Sink(error)));
            }
            match frame {
                Frame::Data { bytes, .. } => self.count(Moved::Received, bytes.len())?,
                Frame::Ping => self.is_asked = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn portion(&self) -> Result<usize, Carried> {
        match self.watch.portion() {
            0 => Err(Carried::Broken(Broken::Volume)),
            portion => Ok(portion),
        }
    }

    fn count(&mut self, moved: Moved, bytes: usize) -> Result<(), Carried> {
        self.active = self.now;
        self.of_round += bytes;
        let wait = self.watch.on_moved(moved, bytes).map_err(Carried::Broken)?;
        if !wait.is_zero() {
            self.paused = Some(self.paused.map_or(self.now + wait, |until| until.max(self.now + wait)));
        }
        Ok(())
    }

    /// What waits for the application.
    fn deliver(&mut self, cx: &mut Context<'_>) -> Result<bool, Carried> {
        let sink = |error| Carried::Broken(Broken::Sink(error));
        let mut moved = false;
        while let Some(bytes) = self.ends.waiting() {
            match self.app.poll_write(cx, bytes) {
                Poll::Ready(Ok(len)) => {
                    self.ends.on_delivered(len);
                    self.stir(Moved::Received);
                }
                Poll::Ready(Err(error)) => return Err(sink(error)),
                Poll::Pending => break,
            }
            moved = true;
        }
        if self.ends.has_heard_all() && self.app.ends_with_other() && !self.ends.has_ended() {
            self.ends.end();
            moved = true;
        }
        if self.ends.is_to_close() && self.may_close().map_err(sink)? {
            self.app.close().map_err(sink)?;
            self.ends.on_closed();
            moved = true;
        }
        if self.ends.is_to_confirm() && self.look.is_none_or(|(at, _)| at <= self.now) {
            if self.app.has_all().map_err(sink)? {
                self.ends.confirm(&mut self.control);
                (self.look, moved) = (None, true);
            } else {
                let wait = self.look.map_or(LOOK, |(_, wait)| (wait * 2).min(LOOK_MOST));
                self.look = Some((self.now + wait, wait));
            }
        }
        Ok(moved)
    }

    /// Whether the application can be told that nothing more comes. Of a client's, that says that all has arrived if it has ended: what it said before,
    /// and its end, may still have to be read.
    fn may_close(&mut self) -> io::Result<bool> {
        if self.role == Role::Node || self.ends.has_ended() {
            return Ok(true);
        }
        Ok(!self.app.has_ended()? && (self.ends.room() == 0 || !self.app.gives()?))
    }

    /// What the application gives.
    fn take(&mut self, cx: &mut Context<'_>) -> Result<bool, Carried> {
        if self.paused.is_some() || self.ends.is_broken() || self.ends.has_ended() {
            return Ok(false);
        }
        let room = self.ends.room();
        if room == 0 {
            return Ok(false);
        }
        let most = self.portion()?.min(room);
        let taken = with_scratch(|scratch| {
            let mut buffer = ReadBuf::new(&mut scratch[..most]);
            match self.app.poll_read(cx, &mut buffer) {
                Poll::Pending => Ok(None),
                Poll::Ready(Err(error)) => Err(Carried::Broken(Broken::Source(error))),
                Poll::Ready(Ok(())) => {
                    let bytes = buffer.filled();
                    if bytes.is_empty() {
                        self.ends.end();
                    } else {
                        self.ends.take(bytes);
                    }
                    Ok(Some(bytes.len()))
                }
            }
        })?;
        if let Some(len) = taken.filter(|len| *len > 0) {
            self.stir(Moved::Given);
            self.count(Moved::Given, len)?;
        }
        Ok(taken.is_some())
    }

    /// What goes by the way.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<bool, Carried> {
        let mut moved = false;
        loop {
            // Who does not read what is said is not told more: it would be kept here.
            if !self.ends.is_within_frame() && self.control.is_empty() {
                self.say();
            }
            let is_control = !self.ends.is_within_frame() && !self.control.is_empty();
            let bytes =
                if is_control { Some(&self.control[self.control_written..]) } else { self.ends.next() };
            let Some(bytes) = bytes else { break };
            match Pin::new(&mut *self.leg).poll_write(cx, bytes) {
                Poll::Pending => return Ok(moved),
                Poll::Ready(Err(error)) => {
                    if !is_control {
                        self.ends.on_write_failed();
                    }
                    return Err(Carried::WayBroke(error));
                }
                Poll::Ready(Ok(len)) => {
                    (moved, self.is_unflushed) = (true, true);
                    if !is_control {
                        self.ends.on_written(len);
                        self.stir(Moved::Given);
                    } else {
                        self.control_written += len;
                        if self.control_written == self.control.len() {
                            (self.control, self.control_written) = (Vec::new(), 0);
                        }
                    }
                }
            }
        }
        if self.is_unflushed {
            match Pin::new(&mut *self.leg).poll_flush(cx) {
                Poll::Pending => {}
                Poll::Ready(Err(error)) => return Err(Carried::WayBroke(error)),
                Poll::Ready(Ok(())) => self.is_unflushed = false,
            }
        }
        Ok(moved)
    }

    /// Frames without data that are due, between two others.
    fn say(&mut self) {
        match self.ends.acknowledgment() {
            _ if self.is_asked => self.acknowledge(),
            Some(true) => self.acknowledge(),
            Some(false) if self.ends.next().is_some() => self.acknowledge(),
            Some(false) => {
                let at = *self.acknowledge_at.get_or_insert(self.now + ACKNOWLEDGE_AFTER);
                if at <= self.now {
                    self.acknowledge();
                }
            }
            None => self.acknowledge_at = None,
        }
        self.ends.say_end(&mut self.control);
        if self.role == Role::Client && self.pinged.is_none() && self.asks_at() <= self.now {
            self.pinged = Some(self.now);
            Frame::Ping.write(&mut self.control);
        }
    }

    fn acknowledge(&mut self) {
        self.ends.acknowledge(&mut self.control);
        (self.acknowledge_at, self.is_asked) = (None, false);
    }

    fn asks_at(&self) -> Instant {
        let quiet = self.patience.quiet;
        let idle = if self.ends.owes() { quiet } else { self.heard - self.active.min(self.heard) };
        self.heard + idle.clamp(quiet, quiet * 12)
    }

    fn silent_at(&self) -> Instant {
        let quiet = self.patience.quiet;
        match (self.role, self.pinged) {
            (Role::Client, Some(pinged)) => pinged + quiet * 2,
            (Role::Client, None) => self.asks_at() + quiet * 2,
            (Role::Node, _) => self.heard + quiet * 36,
        }
    }

    fn is_silent(&self) -> bool {
        self.silent_at() <= self.now
    }

    fn wakes_at(&self) -> Instant {
        let asks = (self.role == Role::Client && self.pinged.is_none()).then(|| self.asks_at());
        let look = self.look.map(|(at, _)| at);
        let others = [asks, self.acknowledge_at, self.paused, look].into_iter().flatten();
        // What is due already waits for the way to take a frame that was begun, not for a time.
        others.filter(|at| *at > self.now).fold(self.silent_at(), Instant::min)
    }

    /// Says last of all that this side broke.
    async fn tell_broken(&mut self) {
        let told = async {
            let control = self.control.split_off(self.control_written);
            self.control.clear();
            let rest = if self.ends.is_within_frame() { self.ends.next() } else { Some(&control[..]) };
            self.leg.write_all(rest.unwrap_or_default()).await?;
            let mut last = Vec::new();
            Frame::Break.write(&mut last);
            self.leg.write_all(&last).await?;
            self.leg.shutdown().await?;
            self.leg.socket().end_well()?;
            self.read_to_end().await
        };
        let _ = timeout(LAST_WORDS, told).await;
    }

    /// Ends a way on which all has been said; whether the other end did so, too.
    async fn close(&mut self) -> bool {
        let quiet = self.patience.quiet;
        // The node is the first: a client that hears so knows that it knows.
        if self.role == Role::Client && !matches!(timeout(quiet, self.read_to_end()).await, Ok(Ok(()))) {
            return false;
        }
        let closing = async {
            self.leg.shutdown().await?;
            self.leg.socket().end_well()?;
            if self.role == Role::Node {
                self.read_to_end().await?;
            }
            Ok::<(), io::Error>(())
        };
        // A client knows all that it has to know, however its own end arrives.
        matches!(timeout(quiet, closing).await, Ok(Ok(()))) || self.role == Role::Client
    }

    async fn read_to_end(&mut self) -> io::Result<()> {
        let mut nothing = [0; 1024];
        while self.leg.read(&mut nothing).await? > 0 {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ends::Unbounded;
    use super::super::watch::Unwatched;
    use super::*;
    use crate::socket::Socket;
    use std::sync::Arc;
    use tokio::net::{TcpListener, TcpStream};

    async fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (Socket(Arc::new(near)), listener.accept().await.unwrap().0)
    }

    /// What a client makes of a way on which a node says this and closes it, if the application has ended and gets an end.
    async fn closed_after(words: &[Frame<'_>]) -> Carried {
        let ((mut app, of_app), (way, mut node)) = (pair().await, pair().await);
        drop(of_app);
        let mut bytes = Vec::new();
        words.iter().for_each(|frame| frame.write(&mut bytes));
        node.write_all(&bytes).await.unwrap();
        node.shutdown().await.unwrap();
        while !shorthaul_os::poll::has_ended(&way).unwrap() {
            tokio::task::yield_now().await;
        }
        let mut ends = Ends::new(Role::Client, 1 << 20, Unbounded);
        let patience = Patience { quiet: Duration::from_secs(60) };
        let mut leg = Leg::plain(way);
        ends.end();
        carry(
            (Role::Client, &mut ends),
            (&mut app, std::future::pending()),
            (&mut leg, Vec::new()),
            patience,
            &Unwatched,
        )
        .await
    }

    #[tokio::test]
    async fn what_a_broken_way_may_have_taken_can_have_arrived() {
        let ((mut app, _of_app), (way, _node)) = (pair().await, pair().await);
        // Every write to it fails, and nothing tells so before.
        socket2::SockRef::from(&*way.0).shutdown(std::net::Shutdown::Write).unwrap();
        // With the window that both begin with there is nothing to acknowledge first.
        let mut ends = Ends::new(Role::Client, 0, Unbounded);
        ends.take(&[7; 5000]);
        let patience = Patience { quiet: Duration::from_secs(60) };
        let mut leg = Leg::plain(way);
        let carried = carry(
            (Role::Client, &mut ends),
            (&mut app, std::future::pending()),
            (&mut leg, Vec::new()),
            patience,
            &Unwatched,
        );
        assert!(matches!(carried.await, Carried::WayBroke(_)));
        // TLS writes a frame in several pieces, of which the first may be there before the next one fails.
        assert_eq!(ends.move_to(4000), Ok(()));
        assert_eq!(ends.move_to(5001), Err(Violation::Acknowledged));
    }

    #[tokio::test]
    async fn answers_to_who_asks_and_does_not_read_do_not_pile_up() {
        let ((mut app, _of_app), (way, mut client)) = (pair().await, pair().await);
        // Nothing goes out before the client reads: both buffers are full, and grow no more.
        socket2::SockRef::from(&*way.0).set_send_buffer_size(1 << 16).unwrap();
        socket2::SockRef::from(&client).set_recv_buffer_size(1 << 16).unwrap();
        let mut before = 0;
        while timeout(Duration::from_millis(200), way.0.writable()).await.is_ok() {
            while let Ok(len) = way.0.try_write(&[0; 4096]) {
                before += len;
            }
        }
        let of_node = way.clone();
        let asks = async {
            let (mut ping, mut data) = (Vec::new(), Vec::new());
            Frame::Ping.write(&mut ping);
            Frame::Data { offset: 0, bytes: &[7] }.write(&mut data);
            for words in [&ping; 100].into_iter().chain([&data]) {
                client.write_all(words).await.unwrap();
                // The node hears each by itself.
                while socket2::SockRef::from(&*of_node.0).peek(&mut [std::mem::MaybeUninit::uninit()]).is_ok()
                {
                    tokio::task::yield_now().await;
                }
            }
            client.read_exact(&mut vec![0; before]).await.unwrap();
            let (mut reader, mut answers, mut buffer) = (Reader::default(), 0, [0; 4096]);
            loop {
                let len = client.read(&mut buffer).await.unwrap();
                let mut bytes = &buffer[..len];
                while !bytes.is_empty() {
                    let (frame, used) = reader.next(bytes).unwrap();
                    bytes = &bytes[used..];
                    match frame {
                        Some(Frame::Ack { received: 0, .. }) => answers += 1,
                        Some(Frame::Ack { .. }) => return answers,
                        _ => {}
                    }
                }
            }
        };
        let mut ends = Ends::new(Role::Node, 1 << 20, Unbounded);
        let patience = Patience { quiet: Duration::from_secs(60) };
        let carries = async {
            let mut leg = Leg::plain(way);
            let app = (&mut app, std::future::pending());
            carry((Role::Node, &mut ends), app, (&mut leg, Vec::new()), patience, &Unwatched).await
        };
        tokio::select! {
            answers = asks => assert_eq!(answers, 1),
            carried = carries => panic!("{carried:?}"),
        }
    }

    #[tokio::test]
    async fn a_way_that_is_closed_when_all_is_said_has_not_broken() {
        // The end and what stands before it come at once: all that was said counts.
        assert!(matches!(closed_after(&[Frame::Done(0), Frame::End(0)]).await, Carried::Finished(true)));
        // Nobody has said that what was given arrived, or that nothing more comes.
        assert!(matches!(closed_after(&[Frame::End(0)]).await, Carried::WayBroke(_)));
        assert!(matches!(closed_after(&[Frame::Done(0)]).await, Carried::WayBroke(_)));
        assert!(matches!(closed_after(&[]).await, Carried::WayBroke(_)));
    }
}
