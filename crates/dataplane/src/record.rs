use crate::{Config, ConfigError};
use serde::{Deserialize, Serialize};
use shorthaul_os::files::create_privately;
use shorthaul_types::{PortId, Time};
use shorthaul_wire::pcapng::{PacketInfo, Writer};
use shorthaul_wire::{Datagram, Offload, Payload};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The interfaces of a recording, by number: what came in and went out by each port, and a clock
/// whose entries say what the driver did beside taking packets in.
pub(crate) const INTERFACES: [&str; 5] = ["edge-in", "wan-in", "edge-out", "wan-out", "clock"];
/// The number of the first interface for packets that went out.
pub(crate) const FIRST_OUT: u32 = 2;
/// The number of the clock.
pub(crate) const CLOCK: u32 = 4;
/// In front of the session in the comment of the first entry.
pub(crate) const TITLE: &str = "shorthaul recording 1 ";

/// Recorded bytes that are gathered before they go to the file, at most.
const GATHERED: usize = 1 << 20;
/// How many of these may wait for the disk. A recording that would need more ends.
const WAITING: usize = 64;
/// How long they are gathered, at most (while there are rounds).
const GATHERED_FOR: Duration = Duration::from_secs(1);

/// What the driver did, as the comment of an entry on the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The machine was told the time and then asked for its packets: the end of a round.
    Turn,
    /// The machine took over a record of a predecessor, which is the entry's content.
    Adopt,
    /// The machine was told for how many flows there is room in what survives a crash: the entry's content, in decimal.
    Room,
    /// The machine was told to step out of everything.
    Drain,
    /// The machine was told to give up what it held.
    Abandon,
    /// The machine was told the bandwidth of its emulated links, as the entry's content says.
    Bandwidth,
    /// The machine went on with another configuration, which is the entry's content as JSON.
    Configure,
    /// The recording ends here, in good order.
    End,
}

impl Mark {
    const ALL: [Mark; 8] = [
        Mark::Turn,
        Mark::Adopt,
        Mark::Room,
        Mark::Drain,
        Mark::Abandon,
        Mark::Bandwidth,
        Mark::Configure,
        Mark::End,
    ];

    /// The comment.
    pub const fn as_str(self) -> &'static str {
        match self {
            Mark::Turn => "turn",
            Mark::Adopt => "adopt",
            Mark::Room => "room",
            Mark::Drain => "drain",
            Mark::Abandon => "abandon",
            Mark::Bandwidth => "bandwidth",
            Mark::Configure => "configure",
            Mark::End => "end",
        }
    }

    /// The mark with this comment.
    pub fn read(comment: &str) -> Option<Self> {
        Mark::ALL.into_iter().find(|mark| mark.as_str() == comment)
    }
}

/// What has to be known to build the same machine again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    /// The version that recorded.
    pub version: String,
    /// Whether packets were only forwarded, without splitting.
    pub forward_only: bool,
    /// The key of the flow table's hash.
    pub hash_seed: u64,
    /// The configuration.
    pub config: Config,
}

impl Session {
    /// The session of a gateway that runs with `config`.
    ///
    /// # Errors
    /// The configuration cannot be worked with.
    pub fn gateway(config: &Config, hash_seed: u64) -> Result<Self, ConfigError> {
        config.gateway(hash_seed)?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Session { version, forward_only: false, hash_seed, config: config.clone() })
    }

    /// The session of a forwarder that runs with `config`.
    ///
    /// # Errors
    /// The configuration cannot be worked with.
    pub fn forwarder(config: &Config) -> Result<Self, ConfigError> {
        Ok(Session { forward_only: true, ..Self::gateway(config, 0)? })
    }
}

/// Records a live run: all that goes into a machine and all that comes out, as a pcapng file that
/// Wireshark shows and that [`replay`](crate::replay()) plays into the same machine again.
///
/// It holds the packets whole, with what is private in them; only its owner may read the file.
#[derive(Debug)]
pub struct Recorder {
    writer: Writer,
    disk: Disk,
    comment: String,
    now: Time,
    written_at: Time,
    is_broken: bool,
    error: Option<io::Error>,
}

impl Recorder {
    /// Begins a recording in a new file at `path`, in place of one that may be there.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub fn create(path: &Path, session: &Session, now: Time) -> io::Result<Self> {
        let mut file = create_privately(path)?;
        let mut writer = Writer::new();
        for name in INTERFACES {
            writer.add_interface(name);
        }
        let comment = format!("{TITLE}{}", serde_json::to_string(session)?);
        if comment.len() > usize::from(u16::MAX) {
            return Err(io::Error::other("the configuration is too long to be kept in a recording"));
        }
        writer.packet(&PacketInfo { interface: CLOCK, at: now, comment: &comment }, []);
        file.write_all(writer.buffered())?;
        writer.clear();
        Ok(Recorder {
            writer,
            disk: Disk::of(file),
            comment: String::new(),
            now,
            written_at: now,
            is_broken: false,
            error: None,
        })
    }

    /// Has the file written from now on by a thread with no more privileges than the calling one has now. What is recorded before
    /// waits.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn begin(&mut self) -> io::Result<()> {
        self.disk.begin()
    }

    /// Why nothing more is recorded, if so; said once.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    pub(crate) fn mark(&mut self, at: Time, mark: Mark, bytes: &[u8]) {
        self.now = at;
        self.writer.packet(&PacketInfo { interface: CLOCK, at, comment: mark.as_str() }, [bytes]);
    }

    pub(crate) fn received(&mut self, at: Time, port: PortId, datagram: &Datagram) {
        self.packet(at, u32::from(port.0), &[], std::slice::from_ref(&datagram.bytes), &datagram.offload);
    }

    pub(crate) fn sent(
        &mut self,
        at: Time,
        port: PortId,
        headers: &[u8],
        slices: &[Payload],
        offload: &Offload,
    ) {
        self.packet(at, FIRST_OUT + u32::from(port.0), headers, slices, offload);
    }

    fn packet(&mut self, at: Time, interface: u32, headers: &[u8], slices: &[Payload], offload: &Offload) {
        self.comment.clear();
        let _ = write!(self.comment, "{offload}"); // a string takes everything
        let info = PacketInfo { interface, at, comment: &self.comment };
        self.writer.packet(&info, std::iter::once(headers).chain(slices.iter().map(Payload::as_slice)));
    }

    /// Passes what was gathered on to the file when it is much, or when it waited for long.
    pub(crate) fn end_round(&mut self) {
        let waited = self.now.saturating_since(self.written_at);
        if self.writer.buffered().len() >= GATHERED || waited >= GATHERED_FOR {
            self.write_out();
        }
    }

    fn write_out(&mut self) {
        // After an error the file may end in the middle of a block: nothing may follow.
        if !self.is_broken
            && let Err(error) = self.disk.write(self.writer.buffered())
        {
            self.is_broken = true;
            self.error = Some(error);
        }
        self.written_at = self.now;
        self.writer.clear();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.mark(self.now, Mark::End, &[]);
        if !self.is_broken {
            self.disk.finish(self.writer.buffered());
        }
    }
}

/// A file that a thread of its own writes, so that packets do not wait for a disk.
#[derive(Debug)]
struct Disk {
    gathered: Option<SyncSender<Vec<u8>>>,
    /// Until it is begun.
    waiting: Option<(File, mpsc::Receiver<Vec<u8>>)>,
    writing: Option<JoinHandle<()>>,
    failed: Arc<Mutex<Option<io::Error>>>,
}

impl Disk {
    fn of(file: File) -> Disk {
        let (gathered, next) = mpsc::sync_channel::<Vec<u8>>(WAITING);
        let (gathered, waiting) = (Some(gathered), Some((file, next)));
        Disk { gathered, waiting, writing: None, failed: Arc::new(Mutex::new(None)) }
    }

    fn begin(&mut self) -> io::Result<()> {
        let Some((mut file, next)) = self.waiting.take() else { return Ok(()) };
        let noted = Arc::clone(&self.failed);
        let write = move || {
            for bytes in next {
                if let Err(error) = file.write_all(&bytes) {
                    *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return;
                }
            }
        };
        self.writing = Some(std::thread::Builder::new().name("recording".into()).spawn(write)?);
        Ok(())
    }

    /// Has bytes written, without waiting.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let gone = || io::Error::other("the recording ended before");
        match self.gathered.as_ref().ok_or_else(gone)?.try_send(bytes.to_vec()) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err(io::Error::other("the disk is slower than what is recorded")),
            Err(TrySendError::Disconnected(_)) => {
                let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
                Err(failed.unwrap_or_else(gone))
            }
        }
    }

    /// Has the last bytes written, and waits until all are.
    fn finish(&mut self, bytes: &[u8]) {
        let _ = self.begin(); // a gateway that never began to work ends, too
        if let Some(gathered) = self.gathered.take() {
            let _ = gathered.send(bytes.to_vec());
        }
        if let Some(writing) = self.writing.take() {
            let _ = writing.join();
        }
    }
}
