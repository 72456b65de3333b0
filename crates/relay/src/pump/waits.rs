//! How long a direction of a session waited for the one leg with nothing to give to the other.
//!
//! Its buffer is what came in order and was not read, what the session itself holds, and what the outgoing socket has not sent yet. A pump that waits to
//! *read* has read all, and the outgoing leg starves if its socket has nothing unsent either and its window would let a segment more go:
//! a drought. A pump that waits to *write* finds the outgoing socket full, and the leg before it is held up if no more is left of its window than what is on
//! its way: an overflow. The
//! kernel is asked when a wait is over, once a millisecond at most; what else this costs is the time at which a wait begins and ends.
use crate::socket::Socket;
use shorthaul_os::TcpInfo;
use shorthaul_types::{BufferTimes, Bytes};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What the kernel said this long ago is believed still.
const LOOK: Duration = Duration::from_millis(1);
/// A longer silence is the application's, and no time of the legs: two retransmission timeouts in a row are over by then.
const PAUSE: Duration = Duration::from_secs(3);
/// How finely the kernel tells times: two of its ticks, at 100 Hz.
const TICKS: Duration = Duration::from_millis(20);

/// Of both directions of a session. One that is silent from the beginning has no room for it.
#[derive(Debug, Default)]
pub struct Waits {
    directions: OnceLock<Box<[Direction; 2]>>,
}

/// Of one direction, so far.
#[derive(Debug, Default)]
struct Direction {
    /// When something moved last on the session, as [`NodeStatus::on_active`](crate::status::NodeStatus::on_active) counts. That of the first direction
    /// is for both.
    active: AtomicU32,
    began: OnceLock<Instant>,
    now: Mutex<Now>,
    // Microseconds; the first since the beginning.
    until: AtomicU64,
    watched: AtomicU64,
    drought: AtomicU64,
    overflow: AtomicU64,
    longest_drought: AtomicU64,
    longest_overflow: AtomicU64,
    starves: Looked,
    is_full: Looked,
}

/// What a direction waits for at this moment.
#[derive(Debug, Default)]
struct Now {
    since: Option<Instant>,
    /// A wait to read that is over, and of which it is not known yet whether the stream ended.
    rest: Option<Rest>,
}

/// Of one direction of all sessions of a node, in microseconds.
#[derive(Debug, Default)]
pub struct AllWaits {
    /// From the first byte of each until its source ended.
    pub watched: AtomicU64,
    /// While the leg behind had nothing to send.
    pub drought: AtomicU64,
    /// While the leg before might not send.
    pub overflow: AtomicU64,
}

/// Who is told of waits.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'a> {
    waits: &'a Waits,
    way: Way,
    of_node: &'a AllWaits,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Toward the target.
    Up,
    /// Back.
    Down,
}

/// What a wait to read came to, before it is known whether the stream ended.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    ended: Instant,
    lasted: Duration,
    drought: Duration,
}

/// What the kernel said, and when: microseconds since the beginning, twice, and whether it was so.
#[derive(Debug, Default)]
struct Looked(AtomicU64);

impl Looked {
    /// Whether it is so, and for how long of the last `lasted`.
    fn look(&self, at: u64, lasted: Duration, ask: impl FnOnce() -> Option<Duration>) -> Duration {
        let last = self.0.load(Relaxed);
        if last > 0 && at.saturating_sub(last / 2) < LOOK.as_micros() as u64 {
            return if last % 2 == 1 { lasted } else { Duration::ZERO };
        }
        let since = ask();
        self.0.store(2 * at + u64::from(since.is_some()), Relaxed);
        match since {
            None => Duration::ZERO,
            Some(_) if lasted <= TICKS => lasted,
            // It may have become so in the midst of the wait.
            Some(since) => lasted.min(since.saturating_add(TICKS / 2)),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// How long nothing has left, if that is for want of bytes alone.
fn starves(sink: &Socket) -> Option<Duration> {
    let info = TcpInfo::of(sink).ok()?;
    (info.unsent == Bytes(0) && info.in_flight < info.cwnd).then_some(info.last_sent)
}

/// How long nothing has come, if the window is no wider than what is on its way within it: as much as was read in a round trip.
fn is_full(source: &Socket) -> Option<Duration> {
    let info = TcpInfo::of(source).ok()?;
    let is_full = info.window? <= info.read_in_round_trip;
    is_full.then(|| if info.window == Some(Bytes(0)) { info.last_received } else { Duration::MAX / 2 })
}

impl Waits {
    /// Who is told of a direction; all of the node are told with it.
    pub fn of<'a>(&'a self, way: Way, of_node: &'a [AllWaits; 2]) -> Watched<'a> {
        Watched { waits: self, way, of_node: &of_node[way as usize] }
    }

    /// How long the buffers were empty, and how long full: up and down.
    pub fn times(&self) -> [BufferTimes; 2] {
        let of = |micros: &AtomicU64| Duration::from_micros(micros.load(Relaxed));
        let Some(directions) = self.directions.get() else { return Default::default() };
        [&directions[0], &directions[1]].map(|direction| BufferTimes {
            watched: of(&direction.watched),
            drought: of(&direction.drought),
            overflow: of(&direction.overflow),
            longest_drought: of(&direction.longest_drought),
            longest_overflow: of(&direction.longest_overflow),
        })
    }
}

impl Watched<'_> {
    fn direction(&self) -> Option<&Direction> {
        self.waits.directions.get().map(|directions| &directions[self.way as usize])
    }

    /// Bytes are there, perhaps the first.
    pub fn begin(&self) {
        let directions = self.waits.directions.get_or_init(Box::default);
        directions[self.way as usize].began.get_or_init(Instant::now);
    }

    /// When something moved last on the session, either way.
    pub fn active(&self) -> &AtomicU32 {
        &self.waits.directions.get_or_init(Box::default)[0].active
    }

    /// A wait begins, if none has begun; before the first byte it is nobody's.
    pub fn wait(&self) {
        if let Some(direction) = self.direction() {
            direction.now().since.get_or_insert_with(Instant::now);
        }
    }

    /// What it was to read is there, be it the end.
    pub fn end_wait_to_read(&self, sink: &Socket) {
        let Some(direction) = self.direction() else { return };
        let since = direction.now().since.take();
        let rest = since.and_then(|since| self.on_readable(since, sink));
        direction.now().rest = rest;
    }

    /// What was waited for was read: bytes, or the end of the stream.
    pub fn end_rest(&self, has_ended: bool) {
        let rest = self.direction().and_then(|direction| direction.now().rest.take());
        if let Some(rest) = rest {
            self.on_read(rest, has_ended);
        }
    }

    /// There is room again.
    pub fn end_wait_to_write(&self, source: &Socket) {
        let since = self.direction().and_then(|direction| direction.now().since.take());
        if let Some(since) = since {
            self.on_writable(since, source);
        }
    }

    /// A wait to read is over; `None` before the first byte.
    pub fn on_readable(&self, since: Instant, sink: &Socket) -> Option<Rest> {
        let direction = self.direction()?;
        let began = direction.began.get()?;
        let ended = Instant::now();
        let lasted = ended.saturating_duration_since(since);
        let at = micros(ended.saturating_duration_since(*began));
        let drought = match lasted < PAUSE {
            true => direction.starves.look(at, lasted, || starves(sink)),
            false => Duration::ZERO,
        };
        Some(Rest { ended, lasted, drought })
    }

    /// What came of it: bytes, or the end of the stream, for which nobody waited any more.
    pub fn on_read(&self, rest: Rest, has_ended: bool) {
        let is_ours = !has_ended && rest.lasted < PAUSE;
        self.pass(rest.ended, if is_ours { Duration::ZERO } else { rest.lasted });
        if let Some(Direction { drought, longest_drought, .. }) = self.direction().filter(|_| is_ours) {
            add([drought, &self.of_node.drought], longest_drought, rest.drought);
        }
    }

    /// A wait to write is over.
    pub fn on_writable(&self, since: Instant, source: &Socket) {
        let Some(direction) = self.direction() else { return };
        let Some(began) = direction.began.get() else { return };
        let ended = Instant::now();
        let lasted = ended.saturating_duration_since(since);
        let at = micros(ended.saturating_duration_since(*began));
        let full = direction.is_full.look(at, lasted, || is_full(source));
        self.pass(ended, Duration::ZERO);
        let Direction { overflow, longest_overflow, .. } = direction;
        add([overflow, &self.of_node.overflow], longest_overflow, full);
    }

    /// Time has passed until `now`, but for `without`.
    fn pass(&self, now: Instant, without: Duration) {
        let Some(direction) = self.direction() else { return };
        let Some(began) = direction.began.get() else { return };
        let at = micros(now.saturating_duration_since(*began));
        let passed = at.saturating_sub(direction.until.swap(at, Relaxed));
        let passed = passed.saturating_sub(micros(without));
        direction.watched.fetch_add(passed, Relaxed);
        self.of_node.watched.fetch_add(passed, Relaxed);
    }
}

impl Direction {
    fn now(&self) -> MutexGuard<'_, Now> {
        // What it holds is whole whenever the lock is free.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(sums: [&AtomicU64; 2], longest: &AtomicU64, time: Duration) {
    let time = micros(time);
    if time > 0 {
        for sum in sums {
            sum.fetch_add(time, Relaxed);
        }
        longest.fetch_max(time, Relaxed);
    }
}
