use shorthaul_report::Progress;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use shorthaul_relay::discovery::{Choice, Found};
use shorthaul_types::Bytes;

use super::path::{HOPS, Line, connect};
use crate::error::{Result, TrialError, While};

/// The relay that is used: half-way, as in the paper.
const HALF_WAY: usize = HOPS / 2;
/// Enough for discovery to look for relays, and too little for it to look more than once.
const ENOUGH: Bytes = Bytes(300_000);

/// How a session comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactKind {
    /// One connection, no discovery.
    Direct,
    /// Probed, and nobody but the destination answered.
    ProbedThenDirect,
    /// Probed by a client that was never here before, then by way of the relay.
    FirstContact,
    /// Probed, then by way of the relay.
    ProbedThenRelayed,
    /// The same, with the handshake with the relay begun as soon as that answered.
    Overlapped,
    /// The relay was in the table.
    Cached,
}

impl ContactKind {
    pub const ALL: [ContactKind; 6] = [
        ContactKind::Direct,
        ContactKind::ProbedThenDirect,
        ContactKind::FirstContact,
        ContactKind::ProbedThenRelayed,
        ContactKind::Overlapped,
        ContactKind::Cached,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            ContactKind::Direct => "direct",
            ContactKind::ProbedThenDirect => "probed, then direct",
            ContactKind::FirstContact => "probed at first contact, then by the relay",
            ContactKind::ProbedThenRelayed => "probed, then by the relay",
            ContactKind::Overlapped => "probed while connecting to the relay",
            ContactKind::Cached => "by the relay that the table has",
        }
    }

    /// What the paper says, in round trips (section 4, "Setup Time Comparison"): for a relay half-way, `rttX` is half of one.
    pub const fn stated(self) -> Option<(f64, &'static str)> {
        match self {
            ContactKind::Direct => Some((1.5, "3/2 rtt")),
            ContactKind::ProbedThenDirect => Some((2.5, "5/2 rtt")),
            ContactKind::ProbedThenRelayed | ContactKind::Overlapped => Some((2.25, "2 rtt + 1/2 rttX + ts")),
            ContactKind::FirstContact | ContactKind::Cached => None,
        }
    }
}

/// From the wish to send until the destination has the first byte: medians of `times`.
pub fn measure(line: &Line, times: u32, progress: &Progress<'_>) -> Result<Vec<(ContactKind, Duration)>> {
    let mut found = Vec::new();
    for way in ContactKind::ALL {
        let mut measured = Vec::new();
        for _ in 0..times {
            measured.push(once(line, way)?);
        }
        measured.sort_unstable();
        if let Some(median) = measured.get(measured.len() / 2) {
            progress.step(&format!("{}: {:.1} ms", way.name(), median.as_secs_f64() * 1e3));
            found.push((way, *median));
        }
    }
    Ok(found)
}

fn once(line: &Line, way: ContactKind) -> Result<Duration> {
    let offered: &[usize] = if way == ContactKind::ProbedThenDirect { &[] } else { &[HALF_WAY] };
    let _answering = line.offer(offered)?;
    let finder = Arc::new(line.finder()?);
    let ask = || line.on_source(|| finder.best_route(line.sink(), Some(ENOUGH)));
    // Whoever was in contact with the network has a cookie; whoever asked for this destination has it in the table.
    match way {
        ContactKind::ProbedThenDirect | ContactKind::ProbedThenRelayed | ContactKind::Overlapped => {
            line.on_source(|| finder.round(line.sink(), &mut Default::default())).map_err(TrialError::of)?;
        }
        ContactKind::Cached => drop(ask()),
        ContactKind::Direct | ContactKind::FirstContact => {}
    }
    let began = Instant::now();
    let mut connecting = None;
    let hop = match way {
        ContactKind::Direct => None,
        ContactKind::Overlapped => {
            let choice = line.on_source(|| {
                let mut early = |found: &Found| {
                    let session = found.offer.session;
                    // The thread is in the source, too.
                    connecting.get_or_insert_with(|| thread::spawn(move || connect(session)));
                };
                finder.best_route_and_tell(line.sink(), Some(ENOUGH), &mut early)
            });
            first_hop(line, &choice)?
        }
        _ => first_hop(line, &ask())?,
    };
    let wanted = if matches!(way, ContactKind::Direct | ContactKind::ProbedThenDirect) {
        None
    } else {
        Some(HALF_WAY)
    };
    if hop != wanted {
        return Err(TrialError::failed(format!("{}: discovery chose hop {hop:?}", way.name())));
    }
    let arrival = match connecting {
        Some(connecting) => {
            let socket = connecting.join().map_err(|_| TrialError::failed("connecting panicked"))??;
            line.send_on(socket, Bytes(1000))?.0
        }
        None => line.send(hop, Bytes(1000))?.1,
    };
    Ok(arrival.first_byte.doing("nothing arrived")? - began)
}

fn first_hop(line: &Line, choice: &Choice) -> Result<Option<usize>> {
    choice.hops.first().map(|session| line.hop_of(session.ip())).transpose()
}
