use crate::bridge::Lost;
use crate::driver::{Driven, Driver, Outlet};
use crate::exchange::{Exchange, Lead};
use crate::priority::Standing;
use crate::record::{Mark, Recorder};
use crate::take_over::{Alive, Last};
use crate::{BandwidthReport, Config, ConfigError, Journal};
use shorthaul_os::poll::wait_readable;
use shorthaul_os::{BufferPool, Errno, Tun, monotonic};
use shorthaul_proxy::Inherited;
use shorthaul_types::{Deadline, PortId, Time};
use shorthaul_wire::{Chunk, Datagram, Offload, Payload};
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Packets taken from each device before the machine has its turn: few enough that nothing waits
/// long for its acknowledgment, enough to spread the cost of a round.
const BATCH: usize = 32;
/// And where the loop is late: all that has waited. A device keeps 500 packets, unless its queue was made longer.
const LATE_BATCH: usize = 1024;
/// A deadline that passed longer ago than this was missed: no timer is believed before what waited has been looked at.
const LATE: Duration = Duration::from_millis(1);

/// How many packets are taken from each device in a round at `now`, where `deadline` was the earliest.
pub(crate) fn batch(now: Time, deadline: Option<Deadline>) -> usize {
    let late = deadline.is_some_and(|Deadline { at, .. }| now.saturating_since(at) >= LATE);
    if late { LATE_BATCH } else { BATCH }
}

/// Declares the loop's counters once, for the struct and for its listing by name.
macro_rules! loop_stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What the loop itself has seen.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct LoopStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl LoopStats {
            /// Every counter with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

loop_stats! {
    /// Rounds.
    rounds,
    /// Rounds that began a millisecond or more after the deadline that they were to serve.
    late_rounds,
    /// Microseconds for which nobody read packets when this process took over from another.
    standstill_us,
    /// When that began, in microseconds of the machine's clock (`CLOCK_MONOTONIC`).
    standstill_began_us,
    /// Packets read from a device.
    packets_read,
    /// Packets of another worker's hosts, which were handed on to it.
    packets_handed_on,
    /// Such packets that were dropped because it had no room for them.
    dropped_handed_on,
    /// Bytes of packets that hosts at the access side sent.
    bytes_from_access,
    /// Bytes of packets that came from the rest of the world.
    bytes_from_wan,
    /// Packets written to a device.
    packets_written,
    /// Packets dropped because the device's queue was full (`EAGAIN`).
    dropped_queue_full,
    /// Packets dropped because the kernel had no memory for them (`ENOBUFS`, `ENOMEM`).
    dropped_no_memory,
    /// Packets dropped because the device was down (`EIO`).
    dropped_device_down,
    /// Packets dropped because the kernel refused them for another reason.
    dropped_refused,
    /// Packets of a bridge that were dropped because no frame of theirs had ever passed, in neither direction: nobody knows for which
    /// hardware address they are.
    dropped_without_header,
    /// Packets that came in by an access interface, in the name of a host that is elsewhere and may not speak there (`rp_filter`); and of one that
    /// is heard elsewhere than before, until the kernel has said whether it may.
    dropped_source_elsewhere,
    /// Bytes that were held and that a crash would have lost: the run directory had no room for them.
    custody_bytes_without_room,
    /// Changes of flows that a crash would have forgotten, for the same reason.
    custody_records_without_room,
}

impl LoopStats {
    /// Whether anything was not kept for want of room.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.custody_bytes_without_room + self.custody_records_without_room > 0
    }

    fn count_written(&mut self, result: &io::Result<()>) {
        let counter = match result.as_ref().map_err(Errno::from_io_error) {
            Ok(()) => &mut self.packets_written,
            Err(Some(Errno::AGAIN)) => &mut self.dropped_queue_full,
            Err(Some(Errno::NOBUFS | Errno::NOMEM)) => &mut self.dropped_no_memory,
            Err(Some(Errno::IO | Errno::NETDOWN)) => &mut self.dropped_device_down,
            Err(_) => &mut self.dropped_refused,
        };
        *counter += 1;
    }
}

/// One event loop: two devices, one machine, one `now` a round.
pub struct EventLoop<M> {
    driver: Driver<M>,
    pool: BufferPool,
    outside: Outside,
    standing: Option<Standing>,
    /// Where there are others, with other hosts.
    exchange: Option<Exchange>,
}

/// What the loop's packets and records go to.
struct Outside {
    devices: [Tun; 2],
    journal: Option<Journal>,
    /// For how many flows the machine was told that there is room in it.
    room: Option<u32>,
    recorder: Option<Recorder>,
    /// What is lost between a bridge and us.
    lost: Option<Lost>,
    stats: LoopStats,
    now: Time,
}

impl<M: Driven> EventLoop<M> {
    /// A loop over the devices of port 0 and port 1. What the machine wants to survive a crash goes to
    /// `journal`; all that goes in and out is recorded where there is a `recorder`.
    pub fn new(devices: [Tun; 2], machine: M, journal: Option<Journal>, recorder: Option<Recorder>) -> Self {
        let buffers = journal.as_ref().map(Journal::buffers);
        let pool = buffers.map_or_else(BufferPool::new, BufferPool::in_arena);
        let (stats, now) = (LoopStats::default(), monotonic());
        let outside = Outside { devices, journal, room: None, recorder, lost: None, stats, now };
        EventLoop { driver: Driver::new(machine), pool, outside, standing: None, exchange: None }
    }

    /// The same, where the calling thread, which does the rounds, has this standing among others.
    #[must_use]
    pub(crate) fn standing(self, standing: Standing) -> Self {
        EventLoop { standing: Some(standing), ..self }
    }

    /// The same, where packets may be lost on their way to the devices' other side.
    #[must_use]
    pub(crate) fn losing(mut self, lost: Option<Lost>) -> Self {
        self.outside.lost = lost;
        self
    }

    /// The same, as one of several workers.
    #[must_use]
    pub(crate) fn among(self, exchange: Option<Exchange>) -> Self {
        EventLoop { exchange, ..self }
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        self.driver.machine()
    }

    /// What the loop has seen so far.
    pub fn stats(&self) -> LoopStats {
        let Outside { stats, lost, .. } = &self.outside;
        let of = |count: fn(&Lost) -> u64| lost.as_ref().map_or(0, count);
        LoopStats {
            dropped_without_header: of(Lost::without_header),
            dropped_source_elsewhere: of(Lost::source_elsewhere),
            ..*stats
        }
    }

    /// Has the machine take over what a predecessor left, which is told that this gets on.
    pub(crate) fn adopt(&mut self, left: &[Inherited], alive: &Alive) {
        let now = monotonic();
        self.make_room(now, left.len());
        for inherited in left {
            if self.outside.recorder.is_some() {
                self.outside.mark(now, Mark::Adopt, &inherited.encode());
            }
            self.driver.machine_mut().adopt(now, inherited);
            alive.say();
        }
    }

    /// Stores all that the next one has to know of what was taken over.
    pub(crate) fn begin_journal(&mut self) {
        self.outside.save(self.driver.machine_mut());
    }

    /// Puts the journal in the place of the predecessor's, which has no need of it any more.
    ///
    /// # Errors
    /// It cannot be put there.
    pub(crate) fn put_journal_in_place(&mut self) -> io::Result<()> {
        self.outside.journal.as_mut().map_or(Ok(()), Journal::put_in_place)
    }

    /// What the machine's flows do at the moment, for whoever is handed over the [devices](Self::devices). All else that it knows stands in the journal
    /// by then.
    pub(crate) fn hand_over(&mut self) -> Last {
        let stopped = monotonic();
        self.outside.save(self.driver.machine_mut());
        let machine = self.driver.machine();
        let (momenta, unkept) = (machine.momenta().into_iter().collect(), machine.unkept());
        Last { stopped, momenta, unkept }
    }

    /// The devices.
    pub(crate) fn devices(&self) -> &[Tun; 2] {
        &self.outside.devices
    }

    /// Whether there is something that another process could go on with.
    pub(crate) fn has_journal(&self) -> bool {
        self.outside.journal.is_some()
    }

    /// The packets are this loop's from now on.
    pub(crate) fn begin(&mut self) {
        if let Some(standing) = &mut self.standing {
            standing.begin(monotonic());
        }
    }

    /// The packets are another process' from now on.
    pub(crate) fn end(&self) {
        self.standing.iter().for_each(Standing::end);
    }

    /// Notes since when nobody reads packets, as this process takes over: until now.
    pub(crate) fn note_standstill(&mut self, since: Time) {
        self.outside.stats.standstill_began_us = since.as_nanos() / 1_000;
        self.outside.stats.standstill_us = monotonic().saturating_since(since).as_micros() as u64;
    }

    /// Has the machine begin to step out of everything.
    pub fn drain(&mut self) {
        let now = monotonic();
        self.outside.mark(now, Mark::Drain, &[]);
        self.driver.machine_mut().drain(now);
    }

    /// Has the machine give up what it still holds. Says of how many flows that was.
    pub fn abandon(&mut self) -> usize {
        let now = monotonic();
        self.outside.mark(now, Mark::Abandon, &[]);
        self.driver.machine_mut().abandon(now)
    }

    /// Has the machine go on with another configuration, and the key of its hash.
    ///
    /// # Errors
    /// The configuration cannot be worked with; all stays as it was.
    pub fn reconfigure(&mut self, config: &Config, hash_seed: u64) -> Result<(), ConfigError> {
        let machine = config.gateway(hash_seed)?;
        let now = monotonic();
        let text = serde_json::to_vec(config).unwrap_or_default();
        self.outside.mark(now, Mark::Configure, &text);
        self.driver.machine_mut().reconfigure(now, machine);
        Ok(())
    }

    /// Tells the machine what the access side carries from now on. Whether there is what is spoken of.
    pub fn set_bandwidth(&mut self, report: &BandwidthReport) -> bool {
        let now = monotonic();
        self.outside.mark(now, Mark::Bandwidth, report.to_string().as_bytes());
        self.driver.machine_mut().set_bandwidth(now, report)
    }

    /// Why recording ended before the loop did; said once.
    pub fn take_recording_error(&mut self) -> Option<io::Error> {
        let error = self.outside.recorder.as_mut()?.take_error()?;
        self.outside.recorder = None;
        Some(error)
    }

    /// Waits for a packet, a deadline or `others`, but no longer than `longest`, and does one round.
    /// Says which of the others can be read from.
    ///
    /// # Errors
    /// A device is gone.
    pub fn round(&mut self, others: [BorrowedFd<'_>; 2], longest: Duration) -> io::Result<[bool; 2]> {
        let mut before = monotonic();
        if let Some(pause) = self.standing.as_mut().and_then(|standing| standing.pause(before)) {
            std::thread::sleep(pause);
            before = monotonic();
        }
        let deadline = self.driver.machine().poll_timeout();
        let mut timeout = deadline.map_or(longest, |d| d.at.saturating_since(before).min(longest));
        if self.exchange.as_ref().is_some_and(Exchange::waits) {
            timeout = Duration::ZERO;
        }
        let [access, wan] = &self.outside.devices;
        let [access, wan, first, second] =
            wait_readable([access.as_fd(), wan.as_fd(), others[0], others[1]], Some(timeout))?;
        let now = monotonic();
        if let Some(standing) = &mut self.standing {
            standing.on_round(before, now);
        }
        self.outside.now = now;
        self.outside.stats.rounds += 1;
        self.make_room(now, self.driver.machine().slots());
        let batch = batch(now, deadline);
        self.outside.stats.late_rounds += u64::from(batch > BATCH);
        for (port, readable) in [PortId(0), PortId(1)].into_iter().zip([access, wan]) {
            if readable {
                self.take_in(now, port, batch)?;
            }
        }
        self.take_handed_on(now, batch);
        if let Some(journal) = &mut self.outside.journal {
            journal.note_alive(now);
            let stats = &mut self.outside.stats;
            (stats.custody_bytes_without_room, stats.custody_records_without_room) = journal.without_room();
        }
        self.outside.mark(now, Mark::Turn, &[]);
        self.driver.turn(now, &mut self.outside);
        if let Some(recorder) = &mut self.outside.recorder {
            recorder.end_round();
        }
        Ok([first, second])
    }

    /// Takes room for what is to survive a crash of this many flows, and tells the machine how many there may be.
    fn make_room(&mut self, now: Time, slots: usize) {
        let Some(journal) = &mut self.outside.journal else { return };
        let room = journal.make_room(slots);
        if self.outside.room.replace(room) != Some(room) {
            self.outside.mark(now, Mark::Room, room.to_string().as_bytes());
            self.driver.machine_mut().set_record_room(room);
        }
    }

    fn take_in(&mut self, now: Time, port: PortId, batch: usize) -> io::Result<()> {
        for _ in 0..batch {
            let device = &self.outside.devices[usize::from(port.0)];
            let Some((bytes, offload)) = self.pool.fill(|chunk| device.receive(chunk))? else {
                return Ok(());
            };
            let stats = &mut self.outside.stats;
            stats.packets_read += 1;
            let from =
                if port == PortId(0) { &mut stats.bytes_from_access } else { &mut stats.bytes_from_wan };
            *from += bytes.len() as u64;
            let datagram = Datagram { bytes, offload };
            let lead = match &self.exchange {
                None => Lead::Own(datagram),
                Some(exchange) => exchange.lead(port, datagram),
            };
            let datagram = match lead {
                Lead::Own(datagram) => datagram,
                Lead::HandedOn => {
                    self.outside.stats.packets_handed_on += 1;
                    continue;
                }
                Lead::NoRoom => {
                    self.outside.stats.dropped_handed_on += 1;
                    continue;
                }
            };
            self.outside.record(now, port, &datagram);
            self.driver.take_in(now, port, datagram, &mut self.outside);
        }
        Ok(())
    }

    /// Takes in what other workers have handed on, in buffers of this one: what is held lies in its own journal.
    fn take_handed_on(&mut self, now: Time, most: usize) {
        let EventLoop { exchange: Some(exchange), pool, outside, driver, .. } = self else { return };
        if !exchange.waits() {
            return;
        }
        for (port, Datagram { bytes, offload }) in exchange.take(most) {
            let copy = |chunk: &mut Chunk| {
                Ok::<_, Infallible>((chunk.append(bytes.as_slice()) == bytes.len()).then_some(()))
            };
            let Ok(Some((bytes, ()))) = pool.fill(copy) else { continue };
            let datagram = Datagram { bytes, offload };
            outside.record(now, port, &datagram);
            driver.take_in(now, port, datagram, outside);
        }
    }
}

impl Outside {
    fn record(&mut self, now: Time, port: PortId, datagram: &Datagram) {
        if let Some(recorder) = &mut self.recorder {
            recorder.received(now, port, datagram);
        }
    }

    fn mark(&mut self, now: Time, mark: Mark, bytes: &[u8]) {
        if let Some(recorder) = &mut self.recorder {
            recorder.mark(now, mark, bytes);
        }
    }
}

impl Outlet for Outside {
    #[inline]
    fn packet(&mut self, port: PortId, headers: &[u8], slices: &[Payload], offload: &Offload) {
        let port = PortId(port.0 & 1);
        if let Some(recorder) = &mut self.recorder {
            recorder.sent(self.now, port, headers, slices, offload);
        }
        // What a device does not take is lost as on any link, and repaired by the senders.
        let result = self.devices[usize::from(port.0)].send(headers, slices, offload);
        self.stats.count_written(&result);
    }

    fn save(&mut self, machine: &mut impl Driven) {
        match &mut self.journal {
            Some(journal) => machine.save(journal),
            None => machine.save(&mut ()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_late_reads_all_that_waits_before_a_timer_is_served() {
        let due = |millis| Some(Deadline { at: Time::from_millis(millis), timer: "test" });
        let now = Time::from_millis(100);
        assert_eq!(batch(now, None), BATCH);
        assert_eq!(batch(now, due(200)), BATCH);
        assert_eq!(batch(now + Duration::from_micros(900), due(100)), BATCH);
        assert_eq!(batch(now, due(99)), LATE_BATCH);
    }
}
