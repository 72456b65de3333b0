//! What a node says of itself to those who run it.
use super::Shared;
use crate::accept::accept;
use crate::answer::Failure;
use crate::giving_back::GivingBack;
use crate::pump::AllWaits;
use crate::resume::Violation;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use serde::Serialize;
use shorthaul_monitor::response;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Counts what happened since the node began.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that came.
    pub accepted: AtomicU64,
    /// Sessions that were set up.
    pub opened: AtomicU64,
    /// Sessions of which both directions came to their end.
    pub finished: AtomicU64,
    /// Sessions of which one side broke, so that the other was reset.
    pub broken: AtomicU64,
    /// Sessions on which nothing moved for too long.
    pub idle: AtomicU64,
    /// Sessions one of whose peers answers nothing any more.
    pub gone: AtomicU64,
    /// Sessions of those who would not be let in any more.
    pub revoked: AtomicU64,
    /// Sessions of which the way broke, and nobody came back in time.
    pub lost: AtomicU64,
    /// Sessions that went over to the process that has taken over.
    pub handed_over: AtomicU64,
    /// Times that a session came by another way.
    pub moved: AtomicU64,
    violations: Mutex<BTreeMap<Violation, u64>>,
    /// Sessions whose way on had been prepared.
    pub prepared: AtomicU64,
    /// Connections on which no request came in time, or none that can be understood by anybody.
    pub abandoned: AtomicU64,
    /// Connections that were closed at once because too many of their source came to nothing.
    pub strangers: AtomicU64,
    /// Bytes from clients' sides toward targets.
    pub up: AtomicU64,
    /// Bytes back.
    pub down: AtomicU64,
    refused: Mutex<BTreeMap<Failure, u64>>,
    /// Bits per second over the last seconds, both ways together.
    pub rate: AtomicU64,
}

/// Why a session has no reason to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlived {
    /// Nothing has moved for too long.
    Idle,
    /// A peer answers nothing any more.
    Gone,
    /// Who asked for it would not be let in any more.
    Revoked,
}

impl Outlived {
    /// As logs and metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Outlived::Idle => "idle",
            Outlived::Gone => "gone",
            Outlived::Revoked => "revoked",
        }
    }
}

impl Counters {
    /// A session has no reason to go on.
    pub fn on_outlived(&self, why: Outlived) {
        let counter = match why {
            Outlived::Idle => &self.idle,
            Outlived::Gone => &self.gone,
            Outlived::Revoked => &self.revoked,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A client of a session that can move said what it must not say.
    pub fn on_violation(&self, violation: Violation) {
        *self.violations.lock().unwrap_or_else(PoisonError::into_inner).entry(violation).or_default() += 1;
    }

    /// A session could not be.
    pub fn on_refused(&self, failure: Failure) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner).entry(failure).or_default() += 1;
    }
}

/// Everything at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// The node's name.
    pub name: String,
    /// Sessions that are open or being set up.
    pub sessions: u64,
    /// Whether new ones are turned away.
    pub overloaded: bool,
    /// The service time Ts in microseconds.
    pub service_time_us: f64,
    /// The part of it that is waiting.
    pub waiting_time_us: f64,
    /// What can still be reserved.
    pub buffer_free_bytes: u64,
    /// Connections that came, since the node began, as all that follows.
    pub connections_accepted: u64,
    /// Sessions that were set up.
    pub sessions_opened: u64,
    /// Sessions of which both directions came to their end.
    pub sessions_finished: u64,
    /// Sessions of which one side broke, so that the other was reset.
    pub sessions_broken: u64,
    /// Sessions on which nothing moved for too long.
    pub sessions_idle: u64,
    /// Sessions one of whose peers answered nothing any more.
    pub sessions_gone: u64,
    /// Sessions of those who would not be let in any more.
    pub sessions_revoked: u64,
    /// Sessions of which the way broke, and nobody came back in time.
    pub sessions_lost: u64,
    /// Sessions that went over to the process that has taken over.
    pub sessions_handed_over: u64,
    /// Times that a session came by another way.
    pub sessions_moved: u64,
    /// Sessions that ended because their client said what it must not say, by what that was.
    pub sessions_violated: BTreeMap<&'static str, u64>,
    /// Sessions whose way on had been prepared.
    pub sessions_prepared: u64,
    /// By the name of the failure in RFC 9209.
    pub sessions_refused: BTreeMap<&'static str, u64>,
    /// Connections on which no request came in time, or none that can be understood.
    pub connections_abandoned: u64,
    /// Connections that were closed at once because too many of their source came to nothing.
    pub connections_of_strangers: u64,
    /// Toward targets.
    pub bytes_up: u64,
    /// Back.
    pub bytes_down: u64,
    /// How long buffers of sessions were empty and full, all sessions together: toward targets, and back.
    pub buffers_up: BufferSums,
    /// Back.
    pub buffers_down: BufferSums,
    /// Both ways, over the last seconds.
    pub bits_per_second: u64,
    /// By user.
    pub users: BTreeMap<String, UserSnapshot>,
}

/// How long buffers were empty and full, of all sessions together, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct BufferSums {
    /// From the first byte of each session until its source ended.
    pub watched_seconds: f64,
    /// While there was nothing to send on, and the leg behind could have carried it.
    pub drought_seconds: f64,
    /// While there was no room, and the leg before might not send.
    pub overflow_seconds: f64,
}

impl From<&AllWaits> for BufferSums {
    fn from(waits: &AllWaits) -> Self {
        let of = |micros: &AtomicU64| micros.load(Ordering::Relaxed) as f64 / 1e6;
        BufferSums {
            watched_seconds: of(&waits.watched),
            drought_seconds: of(&waits.drought),
            overflow_seconds: of(&waits.overflow),
        }
    }
}

/// One user at one moment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct UserSnapshot {
    /// Open.
    pub sessions: u64,
    /// Since the node began.
    pub sessions_opened: u64,
    /// Both ways.
    pub bytes: u64,
}

impl Shared {
    /// What can be said now.
    pub fn snapshot(&self) -> Snapshot {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let micros = |time: Duration| time.as_nanos() as f64 / 1000.0;
        let refused = self.counters.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let violations = self.counters.violations.lock().unwrap_or_else(PoisonError::into_inner);
        let user = |account: &crate::account::Account| UserSnapshot {
            sessions: account.sessions(),
            sessions_opened: account.opened(),
            bytes: account.moved().0,
        };
        Snapshot {
            name: self.name.clone(),
            sessions: self.status.sessions(),
            overloaded: self.status.is_overloaded(),
            service_time_us: micros(self.status.service_time()),
            waiting_time_us: micros(self.status.waiting_time()),
            buffer_free_bytes: self.status.buffer_free().0,
            connections_accepted: of(&self.counters.accepted),
            sessions_opened: of(&self.counters.opened),
            sessions_finished: of(&self.counters.finished),
            sessions_broken: of(&self.counters.broken),
            sessions_idle: of(&self.counters.idle),
            sessions_gone: of(&self.counters.gone),
            sessions_revoked: of(&self.counters.revoked),
            sessions_lost: of(&self.counters.lost),
            sessions_handed_over: of(&self.counters.handed_over),
            sessions_moved: of(&self.counters.moved),
            sessions_violated: violations.iter().map(|(what, count)| (what.name(), *count)).collect(),
            sessions_prepared: of(&self.counters.prepared),
            sessions_refused: refused.iter().map(|(failure, count)| (failure.name(), *count)).collect(),
            connections_abandoned: of(&self.counters.abandoned),
            connections_of_strangers: of(&self.counters.strangers),
            bytes_up: of(&self.counters.up),
            bytes_down: of(&self.counters.down),
            buffers_up: BufferSums::from(&self.status.waits[0]),
            buffers_down: BufferSums::from(&self.status.waits[1]),
            bits_per_second: of(&self.counters.rate),
            users: self.admission().accounts().iter().map(|a| (a.name().to_owned(), user(a))).collect(),
        }
    }

    /// Looks every now and then at how fast it goes, and gives back the memory of sessions that are over, for
    /// ever.
    pub(super) async fn observe(&self) {
        const EVERY: Duration = Duration::from_millis(200);
        let mut giving_back = GivingBack::default();
        let moved = || self.counters.up.load(Ordering::Relaxed) + self.counters.down.load(Ordering::Relaxed);
        let mut last = moved();
        loop {
            let asleep = tokio::time::Instant::now();
            tokio::time::sleep(EVERY).await;
            let now = moved();
            let rate = (now - last) as f64 * 8.0 / asleep.elapsed().as_secs_f64();
            let old = self.counters.rate.load(Ordering::Relaxed) as f64;
            self.counters.rate.store((old + (rate - old) / 8.0) as u64, Ordering::Relaxed);
            last = now;
            self.log_refusals_left_out();
            giving_back.look(self.status.sessions());
        }
    }

    /// Looks every now and then at how long what is ready waits for this thread, for ever.
    pub(super) async fn observe_waiting(&self) {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let ready = std::time::Instant::now();
            // Everything else that is ready comes first.
            tokio::task::yield_now().await;
            self.status.on_waiting(ready.elapsed());
        }
    }
}

/// Looks every now and then, from a thread that does nothing else, how long the process waits for a processor: where others keep them busy, or it is stopped, packets wait as long.
/// What a timer is late of itself is the least that was seen.
pub(super) fn observe_lateness(shared: &Arc<Shared>) -> std::io::Result<()> {
    const LEAST: u64 = 5;
    const SPREAD: u64 = 150;
    let shared = Arc::downgrade(shared);
    let look = move || {
        let mut least = Duration::MAX;
        loop {
            // At any time, so that what comes again and again is met as packets meet it.
            let mut draw = [0; 2];
            let _ = getrandom::fill(&mut draw);
            let wait = Duration::from_millis(LEAST + u64::from(u16::from_ne_bytes(draw)) % SPREAD);
            let begun = std::time::Instant::now();
            std::thread::sleep(wait);
            let late = begun.elapsed().saturating_sub(wait);
            least = least.min(late);
            let Some(shared) = shared.upgrade() else { return };
            shared.status.on_late(late - least);
        }
    };
    std::thread::Builder::new().name("lateness".into()).spawn(look).map(drop)
}

impl Snapshot {
    /// In the text format of OpenMetrics, which Prometheus reads.
    ///
    /// # Errors
    /// None are known: a string takes everything.
    pub fn to_openmetrics(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("shorthaul");
        for (name, help, value) in [
            ("sessions", "Sessions that are open", self.sessions),
            ("overloaded", "Whether new sessions are turned away", u64::from(self.overloaded)),
            ("buffer_free_bytes", "What sessions can still reserve", self.buffer_free_bytes),
            ("bits_per_second", "Both directions, over the last seconds", self.bits_per_second),
        ] {
            registry.register(name, help, ConstGauge::new(value));
        }
        for (name, help, micros) in [
            ("service_time_seconds", "Waiting and processing of an average packet", self.service_time_us),
            ("waiting_time_seconds", "How long what is ready waits for its turn", self.waiting_time_us),
        ] {
            registry.register(name, help, ConstGauge::new(micros / 1e6));
        }
        for (name, help, value) in [
            ("connections", "Connections that came", self.connections_accepted),
            ("connections_abandoned", "Connections without a request", self.connections_abandoned),
            (
                "connections_of_strangers",
                "Connections beyond the rate of their source",
                self.connections_of_strangers,
            ),
            ("sessions_prepared", "Sessions whose way on had been prepared", self.sessions_prepared),
            ("sessions_opened", "Sessions that were set up", self.sessions_opened),
            ("sessions_moved", "Times that a session came by another way", self.sessions_moved),
        ] {
            registry.register(name, help, ConstCounter::new(value));
        }
        let ended = [
            ("finished", self.sessions_finished),
            ("broken", self.sessions_broken),
            ("idle", self.sessions_idle),
            ("gone", self.sessions_gone),
            ("revoked", self.sessions_revoked),
            ("lost", self.sessions_lost),
            ("handed_over", self.sessions_handed_over),
        ];
        registry.register("sessions_ended", "Sessions that ended", by("how", ended));
        let refused = self.sessions_refused.iter().map(|(error, count)| (*error, *count));
        registry.register(
            "sessions_refused",
            "Sessions that could not be, by RFC 9209 error",
            by("error", refused),
        );
        let violated = self.sessions_violated.iter().map(|(what, count)| (*what, *count));
        registry.register(
            "sessions_violated",
            "Sessions whose client said what it must not say",
            by("what", violated),
        );
        let bytes = [("up", self.bytes_up), ("down", self.bytes_down)];
        registry.register("bytes", "Bytes moved toward targets and back", by("direction", bytes));
        let sums = [("up", &self.buffers_up), ("down", &self.buffers_down)];
        let seconds = |of: fn(&BufferSums) -> f64| {
            let family = Family::<Label, Counter<f64, AtomicU64>>::default();
            for (direction, sums) in sums {
                family.get_or_create(&[("direction", direction.to_owned())]).inc_by(of(sums));
            }
            family
        };
        for (name, help, times) in [
            (
                "buffer_watched",
                "Time of sessions from the first byte until their source ended",
                seconds(|sums| sums.watched_seconds),
            ),
            (
                "buffer_drought",
                "Time of sessions with nothing to send on, though the leg behind could have carried it",
                seconds(|sums| sums.drought_seconds),
            ),
            (
                "buffer_overflow",
                "Time of sessions without room, so that the leg before might not send",
                seconds(|sums| sums.overflow_seconds),
            ),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, times);
        }
        let users = |of: fn(&UserSnapshot) -> u64| {
            self.users.iter().map(move |(name, user)| (name.as_str(), of(user)))
        };
        let open = Family::<Label, Gauge>::default();
        for (user, sessions) in users(|user| user.sessions) {
            open.get_or_create(&[("user", user.to_owned())]).set(sessions as i64);
        }
        registry.register("user_sessions", "Open sessions of a user", open);
        let opened = by("user", users(|user| user.sessions_opened));
        registry.register("user_sessions_opened", "Sessions of a user", opened);
        registry.register("user_bytes", "Bytes of a user, both ways", by("user", users(|user| user.bytes)));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// The metrics of a node that has one of everything: what there is to be read, for documents.
pub fn metrics_of_everything() -> String {
    let snapshot = Snapshot {
        sessions_refused: [("error", 1)].into(),
        sessions_violated: [("what", 1)].into(),
        users: [("user".to_owned(), UserSnapshot::default())].into(),
        ..Snapshot::default()
    };
    // A string takes everything.
    snapshot.to_openmetrics().unwrap_or_default()
}

/// The one label of a sample, and its value.
type Label = [(&'static str, String); 1];

/// A counter that there is several times.
fn by<'a>(label: &'static str, counts: impl IntoIterator<Item = (&'a str, u64)>) -> Family<Label, Counter> {
    let family = Family::<Label, Counter>::default();
    for (value, count) in counts {
        family.get_or_create(&[(label, value.to_owned())]).inc_by(count);
    }
    family
}

const TEXT: &str = "text/plain; charset=utf-8";

/// Answers `GET /metrics` and `GET /status.json`, for ever.
pub(super) async fn serve(shared: std::sync::Arc<Shared>, listener: TcpListener) {
    loop {
        let (mut socket, _) = accept(&listener, &shared.shortage).await;
        let shared = std::sync::Arc::clone(&shared);
        tokio::spawn(async move {
            let answered = async {
                let mut bytes = Vec::new();
                while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
                    if bytes.len() > 4096 || socket.read_buf(&mut bytes).await? == 0 {
                        return Ok::<(), io::Error>(());
                    }
                }
                let answer = match shorthaul_monitor::parse(&bytes) {
                    Err(status) => response(status, TEXT, &format!("{status}\n")),
                    Ok(request) if request.path == "/metrics" => {
                        let text = shared.snapshot().to_openmetrics().map_err(io::Error::other)?;
                        let (kind, text) = shorthaul_monitor::metrics(&request, text);
                        request.answer("200 OK", kind, &text)
                    }
                    Ok(request) if request.path == "/status.json" => {
                        let json =
                            serde_json::to_string_pretty(&shared.snapshot()).map_err(io::Error::other)?;
                        request.answer("200 OK", "application/json", &json)
                    }
                    Ok(request) => {
                        request.answer("404 Not Found", TEXT, "/metrics and /status.json are here\n")
                    }
                };
                socket.write_all(answer.as_bytes()).await?;
                socket.shutdown().await
            };
            let _ = tokio::time::timeout(Duration::from_secs(5), answered).await;
        });
    }
}
