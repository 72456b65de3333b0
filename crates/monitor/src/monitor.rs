//! When samples are taken, and who is given them.
use crate::openmetrics;
use crate::sampler::{Moment, Sampler};
use crate::snapshot::{About, FlowRow, Snapshot, State, WorkerRow};
use shorthaul_proxy::{Brief, FlowInfo, GainInfo};
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often at most.
const PERIOD: Duration = Duration::from_secs(1);
/// Listing flows may take this part of the time, as it is seen from outside, where others' packets are in it.
const SHARE: u32 = 20;
/// And this often at least.
const LONGEST: Duration = Duration::from_secs(10);
/// After this time without a question, samples are not taken any more.
const INTEREST: Duration = Duration::from_secs(15);
/// Whoever asks first waits this long for a sample.
const FIRST: Duration = Duration::from_secs(5);
/// Flows that are shown of a host, or of what was searched for.
const SOUGHT: usize = 200;
/// Who searches for flows waits this long after the last search.
const BETWEEN_SEARCHES: Duration = Duration::from_millis(250);

/// What the thread with the packets is asked. Nothing of this is waited for on that thread.
pub trait Source: Send + Sync {
    /// Gives all flows, a few at a time, until told to break off.
    fn flows(&self, each: &mut dyn FnMut(Vec<FlowInfo>) -> ControlFlow<()>);
    /// Gives all flows, a few at a time; of those that say nothing, no more than that they are there.
    fn flows_in_brief(&self, each: &mut dyn FnMut(Brief)) {
        self.flows(&mut |flows| {
            each(Brief { flows, silent: Vec::new() });
            ControlFlow::Continue(())
        });
    }
    /// All counters, by name.
    fn counters(&self) -> Vec<(&'static str, u64)>;
    /// What splitting gains.
    fn gains(&self) -> Vec<GainInfo>;
    /// The rest; `None` if the gateway is gone.
    fn state(&self) -> Option<State>;
    /// What each worker has, where there are several.
    fn workers(&self) -> Vec<WorkerRow> {
        Vec::new()
    }
}

/// Watches a gateway for everybody who asks.
pub struct Monitor {
    source: Box<dyn Source>,
    began: Instant,
    /// In milliseconds since it began: when somebody last asked.
    asked: AtomicU64,
    always: AtomicBool,
    latest: Mutex<Latest>,
    changed: Condvar,
    search: Mutex<Option<Instant>>,
}

struct Latest {
    sampler: Sampler,
    /// How many samples were taken.
    number: u64,
    /// The time of the last one, since the monitor began.
    at: Duration,
    snapshot: Arc<Snapshot>,
    json: Arc<str>,
    over: bool,
}

impl Monitor {
    /// Begins to watch, in a thread of its own, when somebody asks.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(about: About, source: impl Source + 'static) -> io::Result<Arc<Monitor>> {
        let latest = Latest {
            sampler: Sampler::new(about),
            number: 0,
            at: Duration::ZERO,
            snapshot: Arc::default(),
            json: Arc::from("{}"),
            over: false,
        };
        let monitor = Arc::new(Monitor {
            source: Box::new(source),
            began: Instant::now(),
            asked: AtomicU64::new(0),
            always: AtomicBool::new(false),
            latest: Mutex::new(latest),
            changed: Condvar::new(),
            search: Mutex::new(None),
        });
        let watching = Arc::clone(&monitor);
        std::thread::Builder::new().name("monitor".into()).spawn(move || watching.watch())?;
        Ok(monitor)
    }

    /// Takes samples whether or not somebody asks: histograms are of all the time then.
    pub fn watch_always(&self) {
        self.always.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened that people should know.
    pub fn note(&self, what: String) {
        self.latest().sampler.note(unix_ms(), what);
    }

    fn is_asked(&self) -> bool {
        let asked = Duration::from_millis(self.asked.load(Ordering::Relaxed));
        let never = asked.is_zero();
        self.always.load(Ordering::Relaxed) || (!never && self.began.elapsed() < asked + INTEREST)
    }

    fn ask(&self) {
        let now = self.began.elapsed().as_millis() as u64;
        self.asked.store(now.max(1), Ordering::Relaxed);
        self.wake();
    }

    /// Who is about to wait has the lock until it waits, and so is woken.
    fn wake(&self) {
        drop(self.latest());
        self.changed.notify_all();
    }

    fn watch(&self) {
        loop {
            let mut latest = self.latest();
            while !self.is_asked() {
                latest = self.changed.wait(latest).unwrap_or_else(PoisonError::into_inner);
            }
            drop(latest);
            let began = Instant::now();
            if !self.sample() {
                self.latest().over = true;
                self.changed.notify_all();
                return;
            }
            let took = began.elapsed();
            std::thread::sleep((took * SHARE).clamp(PERIOD, LONGEST).saturating_sub(took));
        }
    }

    /// Takes a sample; `false` if the gateway is gone.
    fn sample(&self) -> bool {
        let Some(state) = self.source.state() else { return false };
        let (counters, gains) = (self.source.counters(), self.source.gains());
        let workers = self.source.workers();
        let at = self.began.elapsed();
        let mut listing = self.latest().sampler.begin(at);
        self.source.flows_in_brief(&mut |brief| self.latest().sampler.add(&mut listing, brief));
        let took = self.began.elapsed() - at;
        let moment = Moment { at, unix_ms: unix_ms(), listing: took, state, counters, gains, workers };
        let mut latest = self.latest();
        let snapshot = latest.sampler.finish(listing, moment);
        let json = serde_json::to_string(&snapshot).unwrap_or_default();
        latest.number += 1;
        latest.at = at;
        (latest.snapshot, latest.json) = (Arc::new(snapshot), json.into());
        drop(latest);
        self.changed.notify_all();
        true
    }

    /// The latest sample and its number, once that is above `after`, in JSON; `None` if there is none in `patience`, or no gateway
    /// any more.
    pub fn json_after(&self, after: u64, patience: Duration) -> Option<(u64, Arc<str>)> {
        self.wait(after, patience, |latest| (latest.number, Arc::clone(&latest.json)))
    }

    fn wait<T>(&self, after: u64, patience: Duration, take: impl FnOnce(&Latest) -> T) -> Option<T> {
        self.ask();
        let waits = |latest: &mut Latest| latest.number <= after && !latest.over;
        let waited = self.changed.wait_timeout_while(self.latest(), patience, waits);
        let (latest, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (latest.number > after && !latest.over).then(|| take(&latest))
    }

    /// The number behind which a sample is recent.
    fn recent(&self) -> u64 {
        let latest = self.latest();
        let is_old = self.began.elapsed().saturating_sub(latest.at) > LONGEST;
        if is_old { latest.number } else { 0 }
    }

    /// A recent sample in JSON.
    pub fn json(&self) -> Option<Arc<str>> {
        self.json_after(self.recent(), FIRST).map(|(_, json)| json)
    }

    /// A recent sample as Prometheus reads it.
    pub fn openmetrics(&self) -> Option<String> {
        let after = self.recent();
        self.wait(after, FIRST, |latest| openmetrics::encode(&latest.snapshot, &latest.sampler).ok())?
    }

    /// The flows in which this text comes up: in the addresses and ports of the ends, the state, or the policy. At most 200.
    pub fn flows(&self, sought: &str) -> Vec<FlowRow> {
        self.ask();
        // One search at a time, and not one behind the other.
        let mut last = self.search.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = *last {
            std::thread::sleep(BETWEEN_SEARCHES.saturating_sub(last.elapsed()));
        }
        let mut rows = Vec::new();
        self.source.flows(&mut |flows| {
            let (latest, at) = (self.latest(), self.began.elapsed());
            for flow in flows {
                let row = latest.sampler.row_at(&flow, at);
                let fields = [&row.client, &row.server, &row.state, &row.policy];
                if fields.iter().any(|field| field.contains(sought)) || row.host.to_string() == sought {
                    rows.push(row);
                }
                if rows.len() >= SOUGHT {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        *last = Some(Instant::now());
        rows.sort_by(|a, b| (b.down + b.up).total_cmp(&(a.down + a.up)));
        rows
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
