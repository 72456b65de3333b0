use crate::driver::{Driven, Driver, Outlet};
use crate::record::{CLOCK, FIRST_OUT, INTERFACES, Mark, Session, TITLE};
use crate::{Config, ConfigError, Forwarder};
use shorthaul_os::BufferPool;
use shorthaul_proxy::{Gateway, Inherited};
use shorthaul_types::{PortId, Time};
use shorthaul_wire::pcapng::{ReadError, ReadErrorKind, Reader, Record};
use shorthaul_wire::{Chunk, Datagram, Offload, Payload};
use std::collections::VecDeque;
use std::fmt;

/// Why a recording could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It is not one of ours.
    #[error("this is no recording of `shorthaul gateway --record`: {why}")]
    Foreign {
        /// What is not as it would be.
        why: String,
    },
    /// The file is damaged.
    #[error("{0}")]
    Damaged(ReadError),
    /// An entry makes no sense.
    #[error("packet {number} of the recording: {why}")]
    Entry {
        /// Its number, counted from one, as Wireshark does.
        number: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The configuration in it is not one that this version can work with.
    #[error("the configuration in the recording does not fit this version: {0}")]
    Config(#[from] ConfigError),
}

/// What a replay has shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The version that recorded.
    pub version: String,
    /// Packets that went in.
    pub packets_in: u64,
    /// Packets that came out and were the same as those recorded.
    pub packets_out: u64,
    /// Rounds.
    pub turns: u64,
    /// The time from the first to the last entry.
    pub duration: std::time::Duration,
    /// Whether the recording was ended in good order. Otherwise it ends somewhere in a round, as it
    /// does when the gateway is killed, and all before that place was compared.
    pub is_complete: bool,
    /// The first difference, where there is one. The replay ended there.
    pub difference: Option<Difference>,
}

/// A packet as it left, or would have.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The port that it leaves by.
    pub port: PortId,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What is left to the device.
    pub offload: Offload,
}

/// Where the machine did otherwise than in the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The number of the entry in the recording, counted from one, as Wireshark does.
    pub number: u64,
    /// Its time.
    pub at: Time,
    /// What was recorded; `None` if the machine put out a packet more.
    pub recorded: Option<Output>,
    /// What the machine put out now; `None` if it put out nothing more.
    pub replayed: Option<Output>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at packet {} of the recording ({} s): ", self.number, self.at)?;
        match (&self.recorded, &self.replayed) {
            (Some(recorded), None) => write!(f, "the machine did not send {recorded}"),
            (None, Some(replayed)) => write!(f, "the machine sent one more, {replayed}"),
            (Some(recorded), Some(replayed)) => {
                write!(f, "recorded {recorded}, now {replayed}")?;
                let same = recorded.bytes.iter().zip(&replayed.bytes).take_while(|(a, b)| a == b).count();
                if same < recorded.bytes.len().max(replayed.bytes.len()) {
                    write!(f, "; the first {same} bytes are the same")?;
                }
                Ok(())
            }
            (None, None) => f.write_str("none"),
        }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interface = INTERFACES[(FIRST_OUT as usize) + usize::from(self.port.0 & 1)];
        write!(f, "{} bytes on {interface}", self.bytes.len())?;
        let offload = self.offload.to_string();
        if offload.is_empty() { Ok(()) } else { write!(f, " ({offload})") }
    }
}

/// Plays a recording, the contents of its file, into the machine that made it, and compares what comes
/// out. The same version and configuration give the same packets, to the byte.
///
/// # Errors
/// The recording cannot be read.
pub fn replay(recording: &[u8]) -> Result<Replay, ReplayError> {
    let mut entries = Entries::new(recording);
    let session = entries.session()?;
    if session.forward_only {
        compare(entries, session, Forwarder::default())
    } else {
        let gateway = Gateway::new(session.config.gateway(session.hash_seed)?);
        compare(entries, session, gateway)
    }
}

/// What the machine has put out and the recording has not yet confirmed.
#[derive(Default)]
struct Outputs(VecDeque<Output>);

impl Outlet for Outputs {
    fn packet(&mut self, port: PortId, headers: &[u8], slices: &[Payload], offload: &Offload) {
        let mut bytes = headers.to_vec();
        slices.iter().for_each(|slice| bytes.extend_from_slice(slice.as_slice()));
        self.0.push_back(Output { port: PortId(port.0 & 1), bytes, offload: *offload });
    }
}

fn compare<M: Driven>(mut entries: Entries<'_>, session: Session, machine: M) -> Result<Replay, ReplayError> {
    let mut driver = Driver::new(machine);
    // Memory is part of what the machine decides by, so it comes in the same sizes as live.
    let mut pool = BufferPool::new();
    let mut outputs = Outputs::default();
    let mut replay = Replay {
        version: session.version,
        packets_in: 0,
        packets_out: 0,
        turns: 0,
        duration: std::time::Duration::ZERO,
        is_complete: false,
        difference: None,
    };
    let begin = entries.last_at;
    while let Some((record, entry)) = entries.read()? {
        let now = record.at;
        replay.duration = now.saturating_since(begin);
        let recorded = match &entry {
            Entry::Out(output) => Some(output),
            _ => None,
        };
        // An output must be the next; anything else comes after the last one.
        let replayed = outputs.0.pop_front();
        if recorded != replayed.as_ref() {
            let (number, recorded) = (entries.number, recorded.cloned());
            replay.difference = Some(Difference { number, at: now, recorded, replayed });
            return Ok(replay);
        }
        match entry {
            Entry::Out(_) => replay.packets_out += 1,
            Entry::In(port, offload) => {
                replay.packets_in += 1;
                if let Some(bytes) = load(&mut pool, record.bytes) {
                    driver.take_in(now, port, Datagram { bytes, offload }, &mut outputs);
                }
            }
            Entry::Mark(Mark::Turn) => {
                replay.turns += 1;
                driver.turn(now, &mut outputs);
            }
            Entry::Mark(Mark::Adopt) => {
                let inherited = Inherited::decode(record.bytes);
                let inherited = inherited.ok_or_else(|| entries.wrong("its content is no flow"))?;
                driver.machine_mut().adopt(now, &inherited);
            }
            Entry::Mark(Mark::Room) => {
                let slots = std::str::from_utf8(record.bytes).ok().and_then(|text| text.parse().ok());
                let slots = slots.ok_or_else(|| entries.wrong("its content is no number of flows"))?;
                driver.machine_mut().set_record_room(slots);
            }
            Entry::Mark(Mark::Drain) => driver.machine_mut().drain(now),
            Entry::Mark(Mark::Abandon) => {
                driver.machine_mut().abandon(now);
            }
            Entry::Mark(Mark::Bandwidth) => {
                let report = std::str::from_utf8(record.bytes).ok().and_then(|text| text.parse().ok());
                let report = report.ok_or_else(|| entries.wrong("its content is no bandwidth"))?;
                driver.machine_mut().set_bandwidth(now, &report);
            }
            Entry::Mark(Mark::Configure) => {
                let config: Config =
                    serde_json::from_slice(record.bytes).map_err(|error| entries.wrong(error))?;
                driver.machine_mut().reconfigure(now, config.gateway(session.hash_seed)?);
            }
            Entry::Mark(Mark::End) => replay.is_complete = true,
        }
    }
    Ok(replay)
}

/// The bytes as the live loop has them. `None` only if there are more than a device hands over.
fn load(pool: &mut BufferPool, bytes: &[u8]) -> Option<Payload> {
    let read = |chunk: &mut Chunk| -> Result<_, std::convert::Infallible> {
        Ok((chunk.append(bytes) == bytes.len()).then_some(()))
    };
    let Ok(filled) = pool.fill(read);
    filled.map(|(payload, ())| payload)
}

/// An entry of a recording, as far as it is not in its [`Record`].
enum Entry {
    In(PortId, Offload),
    Out(Output),
    Mark(Mark),
}

struct Entries<'a> {
    reader: Reader<'a>,
    number: u64,
    last_at: Time,
}

impl<'a> Entries<'a> {
    fn new(recording: &'a [u8]) -> Self {
        Entries { reader: Reader::new(recording), number: 0, last_at: Time::ZERO }
    }

    fn wrong(&self, why: impl ToString) -> ReplayError {
        ReplayError::Entry { number: self.number, why: why.to_string() }
    }

    fn next_record(&mut self) -> Result<Option<Record<'a>>, ReplayError> {
        match self.reader.next() {
            None => Ok(None),
            // Whoever was killed could not finish the last block.
            Some(Err(ReadError { kind: ReadErrorKind::Truncated, .. })) => Ok(None),
            Some(Err(error)) => Err(ReplayError::Damaged(error)),
            Some(Ok(record)) => {
                self.number += 1;
                self.last_at = record.at;
                Ok(Some(record))
            }
        }
    }

    fn session(&mut self) -> Result<Session, ReplayError> {
        let foreign = |why: &str| ReplayError::Foreign { why: why.into() };
        let first = self.next_record()?.ok_or_else(|| foreign("it holds no packet"))?;
        if self.reader.interfaces().iter().map(|interface| interface.name).ne(INTERFACES) {
            return Err(foreign("it has other interfaces"));
        }
        let session = first.comment.strip_prefix(TITLE);
        let session = session.ok_or_else(|| foreign("it does not begin with a configuration"))?;
        serde_json::from_str(session).map_err(|error| ReplayError::Foreign {
            why: format!("its configuration is not one that this version knows: {error}"),
        })
    }

    fn read(&mut self) -> Result<Option<(Record<'a>, Entry)>, ReplayError> {
        let Some(record) = self.next_record()? else { return Ok(None) };
        let port = PortId((record.interface & 1) as u8);
        let entry = match record.interface {
            CLOCK => {
                let mark = Mark::read(record.comment);
                Entry::Mark(mark.ok_or_else(|| self.wrong(format!("`{}` is no mark", record.comment)))?)
            }
            interface => {
                let offload = record.comment.parse().map_err(|error| self.wrong(error))?;
                if interface < FIRST_OUT {
                    Entry::In(port, offload)
                } else {
                    Entry::Out(Output { port, bytes: record.bytes.to_vec(), offload })
                }
            }
        };
        Ok(Some((record, entry)))
    }
}
