//! The workers beside the first one, each an event loop with a thread of its own.
//!
//! They share nothing but what they count. The first worker has the signals and is told what the gateway is told; it passes on what
//! concerns all as an [`Order`], and hears of the others what people should know.
use crate::daemon_error::{DaemonError, system};
use crate::desk::{Controlled, Desk};
use crate::exchange::Exchange;
use crate::notice::Notice;
use crate::priority::Standing;
use crate::take_over::{Alive, Last};
use crate::{BandwidthReport, Config, EventLoop, Journal, Recorder};
use shorthaul_os::poll::Waker;
use shorthaul_os::{Tun, monotonic};
use shorthaul_proxy::Inherited;
use shorthaul_types::Time;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a worker waits for a packet at most.
pub(crate) const IDLE: Duration = Duration::from_secs(1);
/// And while it delivers what is held before it ends.
pub(crate) const DRAINING: Duration = Duration::from_millis(10);
/// While it drains, its table is looked through for no more than one part of its time in so many.
const LOOKING: u32 = 20;

/// Whether a machine that drains is done. To find that out is to go through its table, which may be long.
#[derive(Debug, Default)]
pub(crate) struct Draining {
    again_at: Time,
    is_done: bool,
}

impl Draining {
    /// Whether its flows still need us, as last seen.
    pub fn holds_flows(&mut self, machine: &impl Controlled) -> bool {
        let now = monotonic();
        if now >= self.again_at {
            self.is_done = !machine.holds_flows();
            self.again_at = monotonic() + LOOKING * monotonic().saturating_since(now);
        }
        !self.is_done
    }
}

/// What a worker is made of.
pub(crate) struct Outfit {
    /// Its queues of the two devices.
    pub devices: [Tun; 2],
    pub journal: Option<Journal>,
    pub recorder: Option<Recorder>,
    /// What a predecessor left of its hosts' flows.
    pub left: Vec<Inherited>,
    /// Whoever waits for it.
    pub alive: Alive,
}

/// Its place among the others.
pub(crate) struct Place {
    pub desk: Desk,
    pub exchange: Option<Exchange>,
    pub standing: Standing,
}

/// Makes the machine of a worker, on its thread.
pub(crate) type Maker<M> = dyn Fn() -> Result<M, DaemonError> + Send + Sync;

impl Outfit {
    /// An event loop of these, with all that was left taken over and stored, but for the first round.
    pub fn event_loop<M: Controlled>(
        self,
        machine: M,
        standing: Standing,
        exchange: Option<Exchange>,
    ) -> EventLoop<M> {
        let Outfit { devices, journal, recorder, left, alive } = self;
        let event_loop = EventLoop::new(devices, machine, journal, recorder);
        let mut event_loop = event_loop.standing(standing).among(exchange);
        event_loop.adopt(&left, &alive);
        drop(left);
        event_loop.begin_journal();
        alive.say();
        event_loop
    }
}

/// What the first worker tells another.
enum Order {
    /// To take over what was left, and say when that is stored.
    Prepare(Box<Outfit>, Sender<()>),
    /// To put its journal in the place of a predecessor's, and say when it is there.
    Keep(Sender<()>),
    /// To begin with its rounds.
    Begin,
    Bandwidth(BandwidthReport),
    Reconfigure(Box<Config>, u64),
    /// To step out of everything, and say how many flows still need us.
    Drain(Sender<usize>),
    /// To give up what it holds, and say of how many flows.
    Abandon(Sender<usize>),
    /// To stop, and say what its flows do at the moment.
    Stop(Sender<Last>),
    /// To go on: nobody has taken over.
    GoOn,
    /// To leave all to another process.
    Leave,
    /// To do its last rounds, and say whether nobody needs what it has stored.
    End(Sender<bool>),
}

/// What a worker tells the first one.
enum Report {
    Notice(Notice),
    Failed(DaemonError),
}

/// All workers but the first.
pub(crate) struct Crew {
    workers: Vec<Worker>,
    reports: Receiver<Report>,
    /// Their queues of the two devices, for whoever goes on in our place.
    devices: Vec<[Tun; 2]>,
}

struct Worker {
    orders: Sender<Order>,
    waker: Arc<Waker>,
    /// Flows of its still need us, or it does not drain yet.
    holds: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Crew {
    /// Starts a thread for each of these places, with what the calling one has of privileges and priority. It wakes `first` when there
    /// is something to hear.
    pub fn start<M: Controlled + 'static>(
        places: Vec<Place>,
        make: &Arc<Maker<M>>,
        first: &Arc<Waker>,
    ) -> Result<Crew, DaemonError> {
        let (reporter, reports) = mpsc::channel();
        let mut workers = Vec::with_capacity(places.len());
        for (place, number) in places.into_iter().zip(1..) {
            let (orders, next) = mpsc::channel();
            let holds = Arc::new(AtomicBool::new(true));
            let waker = place.desk.waker();
            let reporter = Reporter { reports: reporter.clone(), waker: Arc::clone(first) };
            let make = Arc::clone(make);
            let told = Arc::clone(&holds);
            let work = move || {
                if let Err(error) = work(place, &*make, &next, &told, &reporter) {
                    reporter.report(Report::Failed(error));
                }
            };
            let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(work);
            let thread = thread.map_err(system("starting a thread"))?;
            workers.push(Worker { orders, waker, holds, thread });
        }
        Ok(Crew { workers, reports, devices: Vec::new() })
    }

    fn order(&self, mut order: impl FnMut() -> Order) {
        for worker in &self.workers {
            // One that is gone has said why.
            let _ = worker.orders.send(order());
            worker.waker.wake();
        }
    }

    /// Asks all, and waits for what they say.
    fn ask<T>(&self, order: impl Fn(Sender<T>) -> Order) -> Result<Vec<T>, DaemonError> {
        let mut answers = Vec::with_capacity(self.workers.len());
        for worker in &self.workers {
            let (answer, heard) = mpsc::channel();
            let _ = worker.orders.send(order(answer));
            worker.waker.wake();
            answers.push(heard);
        }
        answers.into_iter().map(|heard| heard.recv().map_err(|_| self.failure())).collect()
    }

    /// Why a worker does not answer any more.
    fn failure(&self) -> DaemonError {
        let failed = self.reports.try_iter().find_map(|report| match report {
            Report::Failed(error) => Some(error),
            Report::Notice(_) => None,
        });
        failed.unwrap_or_else(|| system("waiting for a worker")(io::Error::other("it is gone")))
    }

    /// Gives each what it is made of, and waits until all have stored what was left of their flows.
    pub fn prepare(&mut self, outfits: Vec<Outfit>) -> Result<(), DaemonError> {
        let clones = outfits.iter().map(|outfit| {
            let [access, wan] = &outfit.devices;
            Ok([access.try_clone()?, wan.try_clone()?])
        });
        self.devices = clones.collect::<io::Result<_>>().map_err(system("copying a descriptor"))?;
        let mut outfits = outfits.into_iter();
        let (ready, all_are) = mpsc::channel();
        for worker in &self.workers {
            let Some(outfit) = outfits.next() else { break };
            let _ = worker.orders.send(Order::Prepare(Box::new(outfit), ready.clone()));
        }
        drop(ready);
        self.workers.iter().try_for_each(|_| all_are.recv().map_err(|_| self.failure()))
    }

    /// They put their journals in the place of predecessors'.
    ///
    /// # Errors
    /// One of them cannot.
    pub fn keep(&self) -> Result<(), DaemonError> {
        let (ready, all_are) = mpsc::channel();
        self.order(|| Order::Keep(ready.clone()));
        drop(ready);
        self.workers.iter().try_for_each(|_| all_are.recv().map_err(|_| self.failure()))
    }

    /// The packets are theirs from now on.
    pub fn begin(&self) {
        self.order(|| Order::Begin);
    }

    /// What they have to say.
    ///
    /// # Errors
    /// One of them has failed.
    pub fn reports(&self) -> Result<Vec<Notice>, DaemonError> {
        if self.workers.is_empty() {
            return Ok(Vec::new());
        }
        let notice = |report| match report {
            Report::Notice(notice) => Ok(notice),
            Report::Failed(error) => Err(error),
        };
        self.reports.try_iter().map(notice).collect()
    }

    pub fn set_bandwidth(&self, report: &BandwidthReport) {
        self.order(|| Order::Bandwidth(report.clone()));
    }

    pub fn reconfigure(&self, config: &Config, hash_seed: u64) {
        self.order(|| Order::Reconfigure(Box::new(config.clone()), hash_seed));
    }

    /// They step out of everything from now on. Says how many flows still need us.
    pub fn drain(&self) -> Result<usize, DaemonError> {
        Ok(self.ask(Order::Drain)?.into_iter().sum())
    }

    /// Whether flows of theirs still need us, or one of them does not drain yet.
    pub fn holds_flows(&self) -> bool {
        self.workers.iter().any(|worker| worker.holds.load(Ordering::Acquire))
    }

    /// They give up what they still hold. Says of how many flows that was.
    pub fn abandon(&self) -> Result<usize, DaemonError> {
        Ok(self.ask(Order::Abandon)?.into_iter().sum())
    }

    /// They stop. What their flows do at the moment, and the devices.
    pub fn stop(&self) -> Result<(Vec<Last>, &[[Tun; 2]]), DaemonError> {
        Ok((self.ask(Order::Stop)?, &self.devices))
    }

    /// Nobody has taken over from them.
    pub fn go_on(&self) {
        self.order(|| Order::GoOn);
    }

    /// Another process has taken over, and they end.
    pub fn leave(self) {
        self.order(|| Order::Leave);
        self.join();
    }

    /// They do their last rounds and end. Says whether nobody needs what they have stored.
    pub fn end(self) -> bool {
        let needless =
            self.ask(Order::End).is_ok_and(|needless| needless.into_iter().all(|needless| needless));
        self.join();
        needless
    }

    fn join(self) {
        for worker in self.workers {
            let _ = worker.thread.join();
        }
    }
}

/// The way to the first worker. If its thread panics, the first one ends, too, and traffic flows directly.
struct Reporter {
    reports: Sender<Report>,
    waker: Arc<Waker>,
}

impl Reporter {
    fn report(&self, report: Report) {
        let _ = self.reports.send(report);
        self.waker.wake();
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = io::Error::other("it has panicked");
            self.report(Report::Failed(system("a worker")(error)));
        }
    }
}

/// A worker from its beginning to its end. It ends without a word if the first one is gone.
fn work<M: Controlled>(
    place: Place,
    make: &Maker<M>,
    orders: &Receiver<Order>,
    holds: &AtomicBool,
    reporter: &Reporter,
) -> Result<(), DaemonError> {
    let Place { mut desk, exchange, standing } = place;
    standing.has_started();
    let Ok(Order::Prepare(outfit, ready)) = orders.recv() else { return Ok(()) };
    let mut event_loop = outfit.event_loop(make()?, standing, exchange);
    let _ = ready.send(());
    drop(ready);
    let Ok(Order::Keep(ready)) = orders.recv() else { return Ok(()) };
    event_loop.put_journal_in_place().map_err(system("putting a journal in its place"))?;
    let _ = ready.send(());
    drop(ready);
    let Ok(Order::Begin) = orders.recv() else { return Ok(()) };
    event_loop.begin();
    let mut is_short = false;
    let mut draining: Option<Draining> = None;
    loop {
        let longest = if draining.is_some() { DRAINING } else { IDLE };
        let [asked, _] =
            event_loop.round([desk.as_fd(); 2], longest).map_err(system("reading from our own devices"))?;
        if let Some(error) = event_loop.take_recording_error() {
            reporter.report(Report::Notice(Notice::RecordingEnded { error }));
        }
        if !is_short && event_loop.stats().is_short_of_room() {
            is_short = true;
            reporter.report(Report::Notice(Notice::NotKept));
        }
        if asked {
            // What is told is told to the first one.
            let _ = desk.answer(event_loop.machine(), event_loop.stats());
        }
        loop {
            match orders.try_recv() {
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) | Ok(Order::Leave) => return Ok(()),
                Ok(Order::Bandwidth(report)) => _ = event_loop.set_bandwidth(&report),
                // The first one was given the same before, and could work with it.
                Ok(Order::Reconfigure(config, hash_seed)) => event_loop.reconfigure(&config, hash_seed)?,
                Ok(Order::Drain(answer)) => {
                    draining = Some(Draining::default());
                    let _ = answer.send(event_loop.machine().held_flows());
                    event_loop.drain();
                }
                Ok(Order::Abandon(answer)) => _ = answer.send(event_loop.abandon()),
                Ok(Order::Stop(answer)) => {
                    let _ = answer.send(event_loop.hand_over());
                    match orders.recv() {
                        Ok(Order::GoOn) => {}
                        _ => {
                            event_loop.end();
                            return Ok(());
                        }
                    }
                }
                Ok(Order::End(answer)) => {
                    last_rounds(&mut event_loop, &desk);
                    let _ = answer.send(event_loop.machine().owes_nothing());
                    return Ok(());
                }
                Ok(Order::Prepare(..) | Order::Keep(_) | Order::Begin | Order::GoOn) => {} // it has begun
            }
        }
        if let Some(draining) = &mut draining {
            holds.store(draining.holds_flows(event_loop.machine()), Ordering::Release);
        }
    }
}

/// What was on its way to us still passes.
pub(crate) fn last_rounds<M: Controlled>(event_loop: &mut EventLoop<M>, desk: &Desk) {
    loop {
        let before = event_loop.stats().packets_read;
        let round = event_loop.round([desk.as_fd(); 2], Duration::ZERO);
        if round.is_err() || event_loop.stats().packets_read == before {
            return;
        }
    }
}
