//! What may be said on the control socket.
use crate::{BandwidthReport, ParseBandwidthError};
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// What a process asks that wants to go on in the place of this one; `take_over.rs` has what follows.
pub(crate) const TAKE_OVER: &str = "take-over";
/// What it says when it comes, and begins to prepare itself.
pub(crate) const ANNOUNCE: &str = "take-over-soon";
/// The longest request.
const LONGEST_REQUEST: usize = 128;

/// What somebody asks on the control socket, or tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The flows, as text.
    Flows,
    /// The flows, as JSON.
    FlowsJson,
    /// Those in so many places of the table from one on, as JSON, and where to go on.
    FlowsPage {
        /// The first place; what an answer says of where to go on is another one.
        from: u64,
        /// How many.
        most: usize,
    },
    /// The counters, as text.
    Counters,
    /// The counters, as JSON.
    CountersJson,
    /// The counters of each worker, as text.
    Workers,
    /// The counters of each worker, as JSON.
    WorkersJson,
    /// What splitting gains, as text.
    Gain,
    /// What splitting gains, as JSON.
    GainJson,
    /// All that is shown of it, as JSON.
    Snapshot,
    /// The flows that this is about.
    Find(String),
    /// What the access side carries.
    Bandwidth(Result<BandwidthReport, ParseBandwidthError>),
    /// To be handed everything, by and by.
    Announce,
    /// To be handed everything.
    TakeOver {
        /// Whoever asks knows claims, and says that it gets on.
        claims: bool,
    },
    /// Something else.
    Unknown(String),
}

impl Request {
    /// Understands what came.
    pub fn read(bytes: &[u8]) -> Request {
        let text = String::from_utf8_lossy(bytes).trim().to_owned();
        // What was announced may be asked by the time that this is read.
        let asked = text.strip_prefix(ANNOUNCE).filter(|rest| !rest.is_empty()).unwrap_or(&text);
        match asked {
            "flows" => Request::Flows,
            "flows-json" => Request::FlowsJson,
            "counters" => Request::Counters,
            "counters-json" => Request::CountersJson,
            "workers" => Request::Workers,
            "workers-json" => Request::WorkersJson,
            "gain" => Request::Gain,
            "gain-json" => Request::GainJson,
            "snapshot" => Request::Snapshot,
            ANNOUNCE => Request::Announce,
            // Who knows no claims asks without an end of the line, and does not mind one.
            TAKE_OVER => Request::TakeOver { claims: bytes.ends_with(b"\n") },
            other if other.starts_with("flows-json ") => {
                let numbers = other["flows-json ".len()..].split_once(' ');
                match numbers.and_then(|(from, most)| Some((from.parse().ok()?, most.parse().ok()?))) {
                    Some((from, most)) => Request::FlowsPage { from, most },
                    None => Request::Unknown(text),
                }
            }
            other => match (other.strip_prefix("find "), other.strip_prefix("bandwidth ")) {
                (Some(sought), _) => Request::Find(sought.to_owned()),
                (_, Some(report)) => Request::Bandwidth(report.parse()),
                (None, None) => Request::Unknown(text),
            },
        }
    }

    /// Waits this long for a request; `None` if whoever would ask is gone.
    pub(crate) fn hear(stream: &mut UnixStream, longest: Duration) -> io::Result<Option<Request>> {
        stream.set_read_timeout(Some(longest))?;
        let mut request = [0; LONGEST_REQUEST];
        let length = stream.read(&mut request)?;
        Ok((length > 0).then(|| Request::read(&request[..length])))
    }
}
