use crate::capture::Recording;
use crate::emulator::{DirectionReport, Emulator, Report, Request, number};
use crate::error::LabError;
use crate::host::Host;
use crate::plan::{InterfacePlan, LinkPlan};
use crate::topology::LinkKind;
use shorthaul_link::{Direction, Link, LinkConfig};
use shorthaul_os::poll::Waker;
use shorthaul_os::{Netlink, Tun, monotonic};
use shorthaul_types::Seed;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A link of a running [`Lab`](crate::Lab).
#[derive(Debug)]
pub struct LinkHandle {
    name: String,
    hosts: [Host; 2],
    /// Interface names at the two ends.
    interfaces: [String; 2],
    emulation: Option<Emulation>,
}

#[derive(Debug)]
struct Emulation {
    requests: Sender<Request>,
    waker: Arc<Waker>,
    recording: Mutex<Option<Recording>>,
    thread: Mutex<Option<JoinHandle<io::Result<()>>>>,
}

/// What a link has done, and how it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// From the first host to the second.
    pub up: DirectionReport,
    /// From the second host to the first.
    pub down: DirectionReport,
    /// Packets that a host's kernel dropped because the emulator did not fetch them fast enough.
    pub missed: u64,
    /// Whether the kernel runs the emulator before ordinary threads (`SCHED_FIFO`).
    pub runs_first: bool,
}

const NOT_EMULATED: &str = "it is not emulated (`kind = \"veth\"`)";
/// How long an emulator may take to answer. It answers in microseconds; after this it hangs.
const TIMEOUT: Duration = Duration::from_secs(5);

impl LinkHandle {
    /// Makes the interfaces of a link in its two hosts, and starts its emulator if it has one.
    pub(crate) fn create(
        plan: &LinkPlan,
        number: usize,
        hosts: [Host; 2],
        seed: Seed,
    ) -> Result<Self, LabError> {
        let name = plan.description.name();
        let failed = |doing: &str| LabError::link(&name, doing);
        let interface = |host: &Host| -> InterfacePlan {
            let found = host.interfaces().iter().find(|interface| interface.link == number);
            found.expect("a plan gives both hosts of a link an interface").clone()
        };
        let interfaces = [interface(&hosts[0]), interface(&hosts[1])];
        let names = [interfaces[0].name.clone(), interfaces[1].name.clone()];
        let emulation = match &plan.description.kind {
            LinkKind::Direct => {
                let make = || Netlink::open()?.add_veth(&names[0], &names[1], hosts[1].network());
                hosts[0].run(make).map_err(failed("making a veth pair"))?;
                None
            }
            LinkKind::Emulated { up, down } => {
                let end = |end: usize| hosts[end].run(|| Tun::create(&names[end]));
                let ends = [
                    end(0).map_err(failed("making a TUN device"))?,
                    end(1).map_err(failed("making a TUN device"))?,
                ];
                let seed = seed.derive(&name);
                let origin = monotonic();
                let links = [
                    Link::starting_at(origin, up.clone(), seed.derive("up")),
                    Link::starting_at(origin, down.clone(), seed.derive("down")),
                ];
                Some(Emulation::start(&name, ends, links).map_err(failed("starting its emulator"))?)
            }
        };
        for (end, (host, interface)) in hosts.iter().zip(&interfaces).enumerate() {
            host.run(|| Host::configure_interface(interface, plan.description.mtu, end))
                .map_err(failed(&format!("setting up {} in {}", interface.name, host.name())))?;
        }
        Ok(LinkHandle { name, hosts, interfaces: names, emulation })
    }

    /// Its name: `client-gateway`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The hosts at its ends. [`Direction::Up`] goes from the first to the second.
    pub fn hosts(&self) -> &[Host; 2] {
        &self.hosts
    }

    /// The names of its interfaces in these hosts.
    pub fn interfaces(&self) -> [&str; 2] {
        [&self.interfaces[0], &self.interfaces[1]]
    }

    /// Whether it is emulated. The functions below need that.
    pub fn is_emulated(&self) -> bool {
        self.emulation.is_some()
    }

    /// Changes what the link is like in one direction, from now on.
    ///
    /// # Errors
    /// If the configuration makes no sense, or the link is not emulated, or gone.
    pub fn reconfigure(&self, direction: Direction, config: LinkConfig) -> Result<(), LabError> {
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        config.validate().map_err(wrong).map_err(LabError::link(&self.name, "reconfiguring it"))?;
        self.ask(Request::Reconfigure { direction, config: Box::new(config) })
    }

    /// What it has done, and how it stands. Cheap enough to be asked every millisecond.
    ///
    /// # Errors
    /// If the link is not emulated, or gone.
    pub fn report(&self) -> Result<LinkReport, LabError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.ask(Request::Report(reply))?;
        let Report { ways, runs_first } =
            answer.recv_timeout(TIMEOUT).map_err(|_| self.gone("its emulator does not answer"))?;
        let missed = (0..2).map(|end| self.missed(end)).sum();
        Ok(LinkReport {
            up: ways[number(Direction::Up)],
            down: ways[number(Direction::Down)],
            missed,
            runs_first,
        })
    }

    /// Records into a pcapng file what passes the link's end at the host `at`, in both directions, until
    /// [`LinkHandle::stop_recording`] or the end of the lab. Packets from there that the link drops carry the
    /// reason as a comment.
    ///
    /// # Errors
    /// If the file cannot be made, or the link is not emulated, or gone, or does not end at that host.
    pub fn record(&self, at: &str, file: &Path) -> Result<(), LabError> {
        let end = self.hosts.iter().position(|host| host.name() == at);
        let end = end.ok_or_else(|| self.gone(&format!("it has no end at `{at}`")))?;
        let failed = LabError::link(&self.name, &format!("recording it to {}", file.display()));
        self.stop_recording()?;
        let interface = format!("{at} {}", self.interfaces[end]);
        let (tap, recording) = Recording::start(file, &interface, end).map_err(failed)?;
        self.ask(Request::Capture(Some(tap)))?;
        *self.recording()? = Some(recording);
        Ok(())
    }

    /// Ends a recording, if there is one, and waits until it is written. It also ends with the lab.
    ///
    /// # Errors
    /// If it could not be written, or the link is not emulated, or gone.
    pub fn stop_recording(&self) -> Result<(), LabError> {
        let Some(recording) = self.recording()?.take() else { return Ok(()) };
        self.ask(Request::Capture(None))?;
        recording.finish().map_err(LabError::link(&self.name, "recording it"))
    }

    fn recording(&self) -> Result<MutexGuard<'_, Option<Recording>>, LabError> {
        let emulation = self.emulation.as_ref().ok_or_else(|| self.gone(NOT_EMULATED))?;
        Ok(emulation.recording.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn ask(&self, request: Request) -> Result<(), LabError> {
        let Some(emulation) = &self.emulation else {
            return Err(self.gone(NOT_EMULATED));
        };
        emulation.requests.send(request).map_err(|_| self.gone("its emulator has ended"))?;
        emulation.waker.wake();
        Ok(())
    }

    fn gone(&self, why: &str) -> LabError {
        LabError::link(&self.name, "asking it")(io::Error::other(why))
    }

    /// What the device at `end` dropped because its queue to the emulator was full.
    fn missed(&self, end: usize) -> u64 {
        let interface = &self.interfaces[end];
        let table = self.hosts[end].run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
        dropped_on_transmit(&table.unwrap_or_default(), interface).unwrap_or(0)
    }
}

/// The field "drop" under "Transmit" in `/proc/net/dev`.
fn dropped_on_transmit(table: &str, interface: &str) -> Option<u64> {
    let fields = table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
    fields.split_whitespace().nth(11)?.parse().ok()
}

impl Emulation {
    fn start(name: &str, ends: [Tun; 2], links: [Link<shorthaul_wire::Cut>; 2]) -> io::Result<Self> {
        let waker = Arc::new(Waker::new()?);
        let (requests, receiver) = mpsc::channel();
        let emulator = Emulator::new(ends, links, receiver, Arc::clone(&waker));
        let thread =
            std::thread::Builder::new().name(format!("link {name}")).spawn(move || emulator.run())?;
        Ok(Emulation { requests, waker, recording: Mutex::default(), thread: Mutex::new(Some(thread)) })
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        if self.requests.send(Request::Stop).is_ok() {
            self.waker.wake();
        }
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It ends with an error if a device was removed; the lab ends anyway.
            let _ = thread.join();
        }
        let recording = self.recording.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(recording) = recording {
            // Who wants to know whether it could be written stops it before.
            let _ = recording.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_found_in_the_kernels_table() {
        let table = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
            lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n \
            to-b: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        assert_eq!(dropped_on_transmit(table, "to-b"), Some(12));
        assert_eq!(dropped_on_transmit(table, "to-bc"), None);
    }
}
