//! Recording what passes a link, off the thread that moves the packets.
use crate::sys::clock;
use shorthaul_link::DropReason;
use shorthaul_types::Time;
use shorthaul_wire::pcapng::{PacketInfo, Writer};
use shorthaul_wire::{ChecksumMode, Cut, cut};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

/// So many packets may wait to be written; what comes while there are more is left out, and counted.
const WAITING: usize = 1 << 14;
/// The file is written when so many bytes have come together.
const BUFFER: usize = 1 << 18;

/// A packet at one end of a link.
pub(crate) struct Sighting {
    /// Which end.
    end: usize,
    /// When, by `CLOCK_MONOTONIC`.
    at: Time,
    packet: Cut,
    event: Event,
}

enum Event {
    Enters,
    Leaves,
    Dropped(DropReason),
}

/// Where the emulator shows its packets.
pub(crate) struct Tap(SyncSender<Sighting>);

impl Tap {
    /// Notes a packet that comes to the link, and may be dropped; says whether there was room for the note.
    pub(crate) fn entering(&self, end: usize, at: Time, packet: Cut, dropped: Option<DropReason>) -> bool {
        let event = dropped.map_or(Event::Enters, Event::Dropped);
        self.0.try_send(Sighting { end, at, packet, event }).is_ok()
    }

    /// Notes a packet that leaves the link; says whether there was room for the note.
    pub(crate) fn leaving(&self, end: usize, at: Time, packet: Cut) -> bool {
        self.0.try_send(Sighting { end, at, packet, event: Event::Leaves }).is_ok()
    }
}

/// A recording that goes on until its [`Tap`] is dropped.
#[derive(Debug)]
pub(crate) struct Recording(JoinHandle<io::Result<()>>);

impl Recording {
    /// Begins to write what the tap is shown to `file`, as from two interfaces: the two ends of the link.
    pub(crate) fn start(file: &Path, ends: [&str; 2]) -> io::Result<(Tap, Recording)> {
        let mut file = File::create(file)?;
        let mut writer = Writer::new();
        for end in ends {
            writer.add_interface(end);
        }
        file.write_all(writer.buffered())?;
        writer.clear();
        let (tap, sightings) = mpsc::sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("recording".into());
        let thread = thread.spawn(move || write(file, writer, &sightings))?;
        Ok((Tap(tap), Recording(thread)))
    }

    /// Waits until everything is written. The tap must be gone.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.0.join().unwrap_or_else(|_| Err(io::Error::other("the thread that wrote it panicked")))
    }
}

fn write(mut file: File, mut writer: Writer, sightings: &Receiver<Sighting>) -> io::Result<()> {
    let wall = clock::wall().saturating_since(Time::ZERO).saturating_sub(clock::now().saturating_since(Time::ZERO));
    while let Ok(first) = sightings.recv() {
        let mut next = Some(first);
        while let Some(sighting) = next {
            add(&mut writer, &sighting, wall);
            next = if writer.buffered().len() < BUFFER { sightings.try_recv().ok() } else { None };
        }
        file.write_all(writer.buffered())?;
        writer.clear();
    }
    Ok(())
}

/// `wall` is what `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC`.
fn add(writer: &mut Writer, sighting: &Sighting, wall: Duration) {
    let comment = match sighting.event {
        Event::Enters => "enters the link",
        Event::Leaves => "leaves the link",
        Event::Dropped(DropReason::QueueFull) => "dropped: queue full",
        Event::Dropped(DropReason::Loss) => "dropped: loss",
        Event::Dropped(DropReason::Outage) => "dropped: outage",
    };
    let info = PacketInfo { interface: sighting.end as u32, at: sighting.at + wall, comment };
    // The hosts leave checksums to each other; a reader of the recording would call them wrong.
    for packet in cut(&sighting.packet.to_datagram(), ChecksumMode::Full) {
        writer.packet(&info, [packet.header.as_slice(), packet.payload.as_slice()]);
    }
}
