//! One transfer by either sender, live, to the same receiver.
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use serde::Serialize;
use shorthaul_dataplane::HostLoop;
use shorthaul_lab::workload::{Amount, Content, Ends, Sender, Transfer, TransferReport};
use shorthaul_lab::{Lab, LinkReport};
use shorthaul_os::clock::sharpen_timers;
use shorthaul_tcp::{Addresses, Connection, ConnectionConfig, Event, SenderProfile, State};
use shorthaul_types::{Bytes, Seed};
use shorthaul_wire::Payload;

use super::case::ParityCase;
use crate::endpoint::place::{GUEST, KERNEL, OURS};
use crate::error::{Result, TrialError, While};

/// After this a transfer has failed: several times as long as the slowest should take.
const LIMIT: Duration = Duration::from_secs(90);
/// How often both senders are looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// Bytes written ahead of what was sent.
const AHEAD: u64 = 4 << 20;
/// Bytes that are made at a time.
const CHUNK: usize = 64 << 10;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    Ours,
    Kernel,
}

impl Who {
    pub const BOTH: [Who; 2] = [Who::Ours, Who::Kernel];

    /// As in files.
    pub fn name(self) -> &'static str {
        match self {
            Who::Ours => "ours",
            Who::Kernel => "kernel",
        }
    }
}

/// How a sender stood at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    pub seconds: f64,
    pub window_bytes: u64,
    pub in_flight_bytes: u64,
    pub round_trip_s: f64,
    pub acked_bytes: u64,
}

/// What came of a transfer, every byte of which arrived.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub goodput_bit_per_s: f64,
    pub seconds: f64,
    /// Bytes that were retransmitted.
    pub retransmitted_bytes: u64,
    /// Data packets that the link lost at random, and that found its queue full.
    pub lost: u64,
    pub overflowed: u64,
    /// Packets that this machine lost because it was too slow to emulate the link.
    pub missed: u64,
    /// 99 % of the packets were delivered at most this much too late, in seconds.
    pub late_s: f64,
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

/// Sends `amount` in a network of its own; the same `seed` loses the same packets.
pub fn run(cell: &ParityCase, who: Who, amount: Bytes, seed: Seed) -> Result<Measured> {
    let path = cell.path(seed);
    let lab = path.start()?;
    let control = cell.control.kernel().to_owned();
    let transfer = Transfer {
        sender: Sender::Client,
        amount: Amount::Bytes(amount),
        congestion: Ends { client: control.clone(), server: control },
        limit: LIMIT,
        interval: INTERVAL,
        seed: seed.derive("content"),
        ..Transfer::default()
    };
    match who {
        Who::Kernel => {
            let report = transfer.run(lab.host(OURS), lab.host(KERNEL))?;
            let again = u64::from(report.retransmits());
            let mss = report.samples.last().map_or(0, |sample| sample.mss.0);
            let samples = report.samples.iter().map(|sample| Sample {
                seconds: sample.at.as_secs_f64(),
                window_bytes: u64::from(sample.cwnd) * sample.mss.0,
                in_flight_bytes: u64::from(sample.unacked) * sample.mss.0,
                round_trip_s: sample.rtt.as_secs_f64(),
                acked_bytes: sample.acked.0,
            });
            measured(&lab, &report, again * mss, samples.collect())
        }
        Who::Ours => {
            let mut endpoint = path.endpoint(&lab, |_| ())?;
            let sending = |address| send(cell, &mut endpoint, address, amount, transfer.seed);
            let (report, sent) = transfer.receive_from(lab.host(KERNEL), sending);
            let (report, sent) = match (report, sent) {
                (Ok(report), Some(Ok(sent))) => (report, sent),
                // Why we did not send says more than that nothing came.
                (_, Some(Err(error))) => return Err(error),
                (Err(error), _) => return Err(error.into()),
                (Ok(_), None) => {
                    return Err(TrialError::failed("the receiver has something that nobody sent"));
                }
            };
            measured(&lab, &report, sent.retransmitted_bytes, sent.samples)
        }
    }
}

fn measured(
    lab: &Lab,
    report: &TransferReport,
    retransmitted_bytes: u64,
    samples: Vec<Sample>,
) -> Result<Measured> {
    let LinkReport { up, down, missed, .. } = lab.links()[0].report()?;
    Ok(Measured {
        goodput_bit_per_s: report.received.0 as f64 * 8.0 / report.completed.as_secs_f64(),
        seconds: report.completed.as_secs_f64(),
        retransmitted_bytes,
        lost: up.link.dropped.loss,
        overflowed: up.link.dropped.queue_full,
        missed: missed + up.refused + down.refused,
        late_s: up.lateness.p99.max(down.lateness.p99).as_secs_f64(),
        samples,
    })
}

struct Sent {
    retransmitted_bytes: u64,
    samples: Vec<Sample>,
}

/// Our sender: connects, sends, closes, and sees to it that all of it is acknowledged.
fn send(
    cell: &ParityCase,
    endpoint: &mut HostLoop,
    address: SocketAddr,
    amount: Bytes,
    seed: Seed,
) -> Result<Sent> {
    sharpen_timers();
    let config = ConnectionConfig {
        profile: SenderProfile::named(cell.control.profile())
            .map_err(|unknown| TrialError::failed(unknown.to_string()))?,
        send_buffer: cell.buffer(),
        super_segments: true,
        ..ConnectionConfig::default()
    };
    let path = Addresses { local: SocketAddr::new(IpAddr::V4(GUEST.v4), 0), remote: address };
    let started = Instant::now();
    let mut config = Some(config);
    let mut id = None;
    let mut written = 0;
    let mut closed = false;
    let mut failure = None;
    let mut sent = Sent { retransmitted_bytes: 0, samples: Vec::new() };
    let mut next_sample = Duration::ZERO;
    let mut source = Source { content: Content::new(seed), buffer: vec![0; CHUNK] };
    loop {
        let mut done = false;
        let round = endpoint.round(INTERVAL, |host, now| {
            if let Some(config) = config.take() {
                match host.connect(now, path, config) {
                    Ok(new) => id = Some(new),
                    Err(error) => failure = Some(error.to_string()),
                }
            }
            while let Some((_, event)) = host.poll_event() {
                if let Event::Failed(why) = event {
                    failure = Some(why.to_string());
                }
            }
            let Some(connection) = id.and_then(|id| host.connection_mut(id)) else {
                done = id.is_some();
                return;
            };
            source.write(connection, &mut written, amount.0);
            if written == amount.0 && !closed {
                connection.close(now);
                closed = true;
            }
            let at = started.elapsed();
            if at >= next_sample {
                next_sample = at + INTERVAL;
                sent.samples.push(sample(connection, at));
            }
            sent.retransmitted_bytes = connection.sender().stats().retransmitted;
            // The kernel has read everything when it closes in its turn.
            done = closed && matches!(connection.state(), State::Closed | State::TimeWait);
        });
        round.doing("running our endpoint")?;
        if let Some(failure) = failure {
            let written = Bytes(written);
            return Err(TrialError::failed(format!("our endpoint, after {written} were written: {failure}")));
        }
        if done {
            return Ok(sent);
        }
        if started.elapsed() >= LIMIT {
            let written = Bytes(written);
            return Err(TrialError::failed(format!(
                "our endpoint had written {written} of {amount} when the time was over"
            )));
        }
    }
}

/// What is sent.
struct Source {
    content: Content,
    buffer: Vec<u8>,
}

impl Source {
    /// Writes so much that the sender never waits for data.
    fn write(&mut self, connection: &mut Connection, written: &mut u64, amount: u64) {
        let unacknowledged = connection.sender().nxt() - connection.sender().una();
        let waiting =
            |connection: &Connection| connection.sender().queue().len().saturating_sub(unacknowledged);
        while *written < amount && connection.writable() >= CHUNK as u64 && waiting(connection) < AHEAD {
            let len = (amount - *written).min(CHUNK as u64) as usize;
            self.content.fill(*written, &mut self.buffer[..len]);
            *written += connection.write(Payload::copy_of(&self.buffer[..len])) as u64;
        }
    }
}

fn sample(connection: &Connection, at: Duration) -> Sample {
    let sender = connection.sender();
    Sample {
        seconds: at.as_secs_f64(),
        window_bytes: sender.control().window(),
        in_flight_bytes: sender.in_flight(),
        round_trip_s: sender.rtt().srtt().map_or(0.0, |rtt| rtt.as_secs_f64()),
        acked_bytes: sender.una().saturating_sub(1),
    }
}
