//! What a gateway has to bear: it is stopped again and again, or others keep its processors busy.
use shorthaul_os::process::ProcessHandle;
use shorthaul_os::schedule;
use std::fmt;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the gateway is stopped.
const STOP: Duration = Duration::from_millis(10);
/// How often it is stopped.
const EVERY: Duration = Duration::from_millis(100);

/// What disturbs a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disturbance {
    /// Nothing of ours.
    None,
    /// The gateway's process is stopped for 10 ms ten times a second (SIGSTOP, SIGCONT).
    Stopped,
    /// A loop keeps each processor busy.
    Busy,
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Disturbance::None => "undisturbed",
            Disturbance::Stopped => "stopped",
            Disturbance::Busy => "busy",
        })
    }
}

impl Disturbance {
    /// Does `work` under it, with a gateway that is this process. Returns also how long the process stood still in all.
    pub fn during<T>(self, gateway: Option<&ProcessHandle>, work: impl FnOnce() -> T) -> (T, Duration) {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let stopper = gateway.filter(|_| self == Disturbance::Stopped);
            let stopper = stopper.map(|process| scope.spawn(|| stop_again_and_again(process, &done)));
            if self == Disturbance::Busy {
                for processor in schedule::allowed_processors().unwrap_or_default() {
                    let done = &done;
                    scope.spawn(move || spin(processor, done));
                }
            }
            let result = work();
            done.store(true, Ordering::Relaxed);
            let stood = stopper.and_then(|stopper| stopper.join().ok()).unwrap_or_default();
            (result, stood)
        })
    }
}

/// Until it is done. Where this thread is late itself, the process stands still for longer than it should: so that is counted.
fn stop_again_and_again(process: &ProcessHandle, done: &AtomicBool) -> Duration {
    // So that the stops are as long as they are said to be; where that is not permitted, what is counted tells.
    let _ = schedule::run_first();
    let (mut stood, mut next) = (Duration::ZERO, Instant::now());
    while !done.load(Ordering::Relaxed) {
        next += EVERY;
        let begun = Instant::now();
        if process.pause().is_ok() {
            thread::sleep(STOP);
            let _ = process.resume();
            stood += begun.elapsed();
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    stood
}

fn spin(processor: usize, done: &AtomicBool) {
    // Where it may not stay, it is busy elsewhere.
    let _ = schedule::stay_on(processor);
    let mut count = 0_u64;
    while !done.load(Ordering::Relaxed) {
        count = black_box(count.wrapping_add(1));
    }
}
