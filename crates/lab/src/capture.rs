//! Recording what passes a link, off the thread that moves the packets.
use shorthaul_link::DropReason;
use shorthaul_os::clock::{monotonic, wall};
use shorthaul_types::Time;
use shorthaul_wire::pcapng::{PacketInfo, Writer};
use shorthaul_wire::{ChecksumMode, Cut, cut};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

/// At most this many packets wait to be written; what comes then is left out, and counted.
const WAITING: usize = 1 << 14;
/// The number of bytes with which the file is written.
const BUFFER: usize = 1 << 18;

/// A packet at the end of a link that is recorded.
pub(crate) struct Sighting {
    /// When, by `CLOCK_MONOTONIC`.
    at: Time,
    packet: Cut,
    /// Why the link will not deliver it.
    dropped: Option<DropReason>,
}

/// Where the emulator shows its packets.
pub(crate) struct Tap {
    /// The end that is recorded.
    end: usize,
    notes: SyncSender<Sighting>,
}

impl Tap {
    /// Notes a packet that passes an end, if it is the one recorded; says whether there was room for the
    /// note. What comes from the host there may have been dropped by the link.
    #[inline]
    pub(crate) fn note(&self, end: usize, at: Time, packet: &Cut, dropped: Option<DropReason>) -> bool {
        end != self.end || self.notes.try_send(Sighting { at, packet: packet.clone(), dropped }).is_ok()
    }
}

/// A recording that goes on until its [`Tap`] is dropped.
#[derive(Debug)]
pub(crate) struct Recording(JoinHandle<io::Result<()>>);

impl Recording {
    /// Begins to write what the tap is shown to `file`, as from one interface of that name.
    pub(crate) fn start(file: &Path, interface: &str, end: usize) -> io::Result<(Tap, Recording)> {
        let mut file = File::create(file)?;
        let mut writer = Writer::new();
        let interface = writer.add_interface(interface);
        file.write_all(writer.buffered())?;
        writer.clear();
        let (notes, sightings) = mpsc::sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("recording".into());
        let thread = thread.spawn(move || write(file, writer, interface, &sightings))?;
        Ok((Tap { end, notes }, Recording(thread)))
    }

    /// Waits until everything is written. The tap must be gone.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.0.join().unwrap_or_else(|_| Err(io::Error::other("the thread that wrote it panicked")))
    }
}

fn write(
    mut file: File,
    mut writer: Writer,
    interface: u32,
    sightings: &Receiver<Sighting>,
) -> io::Result<()> {
    let epoch = Time::ZERO + wall().saturating_since(monotonic());
    while let Ok(first) = sightings.recv() {
        let mut next = Some(first);
        while let Some(sighting) = next {
            add(&mut writer, interface, &sighting, epoch);
            next = if writer.buffered().len() < BUFFER { sightings.try_recv().ok() } else { None };
        }
        file.write_all(writer.buffered())?;
        writer.clear();
    }
    Ok(())
}

/// `epoch` is by `CLOCK_REALTIME` when `CLOCK_MONOTONIC` was zero.
fn add(writer: &mut Writer, interface: u32, sighting: &Sighting, epoch: Time) {
    let comment = match sighting.dropped {
        None => "",
        Some(DropReason::QueueFull) => "dropped by the link: queue full",
        Some(DropReason::Loss) => "dropped by the link: loss",
        Some(DropReason::Outage) => "dropped by the link: outage",
    };
    let at = epoch + sighting.at.saturating_since(Time::ZERO);
    let info = PacketInfo { interface, at, comment };
    // The hosts leave checksums to each other; a reader of the recording would call them wrong.
    for packet in cut(&sighting.packet.to_datagram(), ChecksumMode::Full) {
        writer.packet(&info, [packet.header.as_slice(), packet.payload.as_slice()]);
    }
}
