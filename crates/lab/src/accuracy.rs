//! How exact the emulator is on this machine: measured from the outside, by packets between two hosts.
use crate::error::LabError;
use crate::lab::Lab;
use crate::lateness::LatenessStats;
use crate::topology::{LinkDescription, LinkKind, Topology};
use crate::workload::{Amount, Transfer, TransferError};
use shorthaul_link::{LinkConfig, QueueLimit, Rate};
use shorthaul_os::clock::{self, sharpen_timers};
use shorthaul_os::{datagram, socket};
use shorthaul_types::{BitRate, Bytes, Seed, Time};
use std::io;
use std::net::UdpSocket;
use std::time::Duration;

/// The size of every probe as an IP packet, and what of it is not UDP payload.
const PACKET: Bytes = Bytes(1500);
const HEADERS: u64 = 28;
/// What a full TCP segment carries of a 1500-byte packet: without IP, TCP and timestamps.
const SEGMENT: u64 = 1448;

/// What was measured.
#[derive(Clone, Debug)]
pub struct Accuracy {
    /// How exactly rates are kept.
    pub rates: Vec<RateResult>,
    /// How exactly packets are delayed at 100 Mbit/s, under rising load.
    pub delays: Vec<DelayResult>,
    /// What one TCP connection gets through links of rising rates.
    pub throughputs: Vec<ThroughputResult>,
    /// Whether the kernel ran the emulators before ordinary threads.
    pub runs_first: bool,
}

/// A link that was offered more than its rate.
#[derive(Clone, Copy, Debug)]
pub struct RateResult {
    /// The configured rate.
    pub configured: BitRate,
    /// The rate at which packets came out.
    pub measured: BitRate,
}

/// When packets came out of a link of 100 Mbit/s and 10 ms, against when an ideal one delivers them.
#[derive(Clone, Copy, Debug)]
pub struct DelayResult {
    /// The offered load.
    pub load: BitRate,
    /// How much later than ideal. Includes the two hosts' kernels.
    pub error: LatenessStats,
    /// The part of it that the emulator knows of.
    pub lateness: LatenessStats,
}

/// What one TCP connection got through a link.
#[derive(Clone, Copy, Debug)]
pub struct ThroughputResult {
    /// The configured rate; `None` for a link that has none.
    pub configured: Option<BitRate>,
    /// The rate of IP packets, computed from the bytes that arrived.
    pub measured: BitRate,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccuracyError {
    /// There is no lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A transfer failed.
    #[error("measuring throughput: {0}")]
    Transfer(#[from] TransferError),
    /// A socket failed.
    #[error("measuring with UDP: {0}")]
    Socket(#[from] io::Error),
    /// Too little arrived to say anything.
    #[error("of {sent} packets only {received} arrived; the machine may be too busy")]
    Lost {
        /// Packets sent.
        sent: usize,
        /// Packets received.
        received: usize,
    },
}

impl RateResult {
    /// The relative error: 0.01 means one percent too fast.
    pub fn error(&self) -> f64 {
        self.measured.bits_per_sec() as f64 / self.configured.bits_per_sec() as f64 - 1.0
    }
}

/// Measures; every single measurement takes about as long as `each`.
///
/// # Errors
/// If there is no lab to be had, or the machine is too busy to measure.
pub fn measure(each: Duration) -> Result<Accuracy, AccuracyError> {
    let mbit = |n: u64| BitRate::from_bits_per_sec(n * 1_000_000);
    let mut runs_first = true;
    let rates =
        [1, 10, 100, 500].into_iter().map(|n| measure_rate(mbit(n), each)).collect::<Result<_, _>>()?;
    let mut delays = Vec::new();
    for load in [2, 50, 90] {
        let (result, first) = measure_delay(mbit(load), each)?;
        runs_first &= first;
        delays.push(result);
    }
    let limits = [Some(mbit(500)), Some(mbit(700)), Some(mbit(1000)), None];
    let throughputs =
        limits.into_iter().map(|limit| measure_throughput(limit, each)).collect::<Result<_, _>>()?;
    Ok(Accuracy { rates, delays, throughputs, runs_first })
}

/// Two hosts and a link that is `up` from `a` to `b`, and plain back.
fn lab(up: LinkConfig) -> Result<Lab, LabError> {
    let mut topology = Topology::new(Seed(1));
    let down = LinkConfig { delay: up.delay, ..LinkConfig::default() };
    topology.add_link(LinkDescription::new(["a", "b"], LinkKind::Emulated { up, down }));
    Lab::start(&topology)
}

/// A pair of UDP sockets, from `a` to `b`.
fn sockets(lab: &Lab) -> io::Result<(UdpSocket, UdpSocket)> {
    let (a, b) = (lab.host("a"), lab.host("b"));
    let receiver = b.run(|| UdpSocket::bind((b.address_v4(), 0)))?;
    let sender = a.run(|| UdpSocket::bind((a.address_v4(), 0)))?;
    sender.connect(receiver.local_addr()?)?;
    receiver.set_read_timeout(Some(Duration::from_millis(500)))?;
    socket::enlarge_receive_buffer(&receiver, 64 << 20)?;
    socket::stamp_arrivals(&receiver)?;
    Ok((sender, receiver))
}

/// How packets are sent.
#[derive(Clone, Copy)]
struct Pace {
    /// One packet every so often on average.
    gap: Duration,
    /// The sender does not sleep for less than this, but sends in bursts.
    nap: Duration,
    count: usize,
}

/// Sends numbered packets; returns when each was sent, by `CLOCK_REALTIME`.
fn send_paced(sender: &UdpSocket, Pace { gap, nap, count }: Pace) -> io::Result<Vec<Time>> {
    sharpen_timers();
    let mut packet = vec![0; (PACKET.0 - HEADERS) as usize];
    let start = clock::wall();
    let mut sent = Vec::with_capacity(count);
    for number in 0..count {
        let wait = (start + gap * number as u32).saturating_since(clock::wall());
        if !wait.is_zero() && wait >= nap {
            std::thread::sleep(wait);
        }
        packet[..4].copy_from_slice(&(number as u32).to_le_bytes());
        sent.push(clock::wall());
        sender.send(&packet)?;
    }
    Ok(sent)
}

/// Receives until nothing comes any more: the numbers of the packets, and when they arrived.
fn receive_all(receiver: &UdpSocket) -> io::Result<Vec<(usize, Time)>> {
    let mut buffer = vec![0; PACKET.0 as usize];
    let mut arrivals = Vec::new();
    loop {
        match datagram::receive(receiver, &mut buffer) {
            Ok(datagram) => {
                let unstamped = || io::Error::other("the kernel did not stamp a datagram");
                let at = datagram.stamp.ok_or_else(unstamped)?;
                let number = buffer.first_chunk().map_or(0, |number| u32::from_le_bytes(*number));
                arrivals.push((number as usize, at));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(arrivals),
            Err(error) => return Err(error),
        }
    }
}

/// When each packet was sent, and which arrived when.
type Probes = (Vec<Time>, Vec<(usize, Time)>);

/// Sends packets through the link.
fn probe(lab: &Lab, pace: Pace) -> Result<Probes, AccuracyError> {
    let (sender, receiver) = sockets(lab)?;
    let (sent, arrivals) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive_all(&receiver));
        let sent = send_paced(&sender, pace);
        (sent, receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    Ok((sent?, arrivals?))
}

fn measure_rate(configured: BitRate, each: Duration) -> Result<RateResult, AccuracyError> {
    // 10 % too much is offered, and the queue bridges 50 ms of a sender that is held up.
    let queue = QueueLimit::Bytes(configured.bytes_in(Duration::from_millis(50)).0.max(10 * PACKET.0));
    let lab = lab(LinkConfig { rate: Rate::Fixed(configured), queue, ..LinkConfig::default() })?;
    let gap = configured.time_to_send(PACKET) * 10 / 11;
    let count = (each.as_nanos() / gap.as_nanos()) as usize + 2;
    let (sent, arrivals) = probe(&lab, Pace { gap, nap: Duration::from_millis(2), count })?;
    // The first packets find the queue empty.
    let settled = &arrivals[arrivals.len() / 10..];
    let [first, .., last] = settled else {
        return Err(AccuracyError::Lost { sent: sent.len(), received: arrivals.len() });
    };
    let bits = (settled.len() - 1) as f64 * PACKET.0 as f64 * 8.0;
    let time = last.1.saturating_since(first.1);
    Ok(RateResult {
        configured,
        measured: BitRate::from_bits_per_sec((bits / time.as_secs_f64().max(1e-9)) as u64),
    })
}

fn measure_delay(load: BitRate, each: Duration) -> Result<(DelayResult, bool), AccuracyError> {
    let rate = BitRate::from_bits_per_sec(100_000_000);
    let delay = Duration::from_millis(10);
    let lab = lab(LinkConfig { rate: Rate::Fixed(rate), delay, ..LinkConfig::default() })?;
    let gap = load.time_to_send(PACKET);
    let count = (each.as_nanos() / gap.as_nanos()) as usize + 2;
    let (sent, arrivals) = probe(&lab, Pace { gap, nap: Duration::ZERO, count })?;
    if arrivals.len() * 100 < sent.len() * 99 {
        return Err(AccuracyError::Lost { sent: sent.len(), received: arrivals.len() });
    }
    // An ideal link serializes one packet after the other, beginning when it was sent.
    let mut free = Time::ZERO;
    let ideal = |sent: &Time| {
        free = free.max(*sent) + rate.time_to_send(PACKET);
        free + delay
    };
    let ideal: Vec<Time> = sent.iter().map(ideal).collect();
    let mut error = crate::lateness::Lateness::default();
    for (number, at) in arrivals {
        error.count(at.saturating_since(ideal[number]));
    }
    let report = lab.link("a", "b").report()?;
    let result = DelayResult { load, error: error.stats(), lateness: report.up.lateness };
    Ok((result, report.runs_first))
}

fn measure_throughput(limit: Option<BitRate>, each: Duration) -> Result<ThroughputResult, AccuracyError> {
    let delay = Duration::from_millis(2);
    let (rate, queue) = match limit {
        // Room for 20 ms.
        Some(rate) => (Rate::Fixed(rate), QueueLimit::Bytes(rate.bytes_in(Duration::from_millis(20)).0)),
        None => (Rate::Unlimited, QueueLimit::Unlimited),
    };
    let lab = lab(LinkConfig { rate, queue, delay, ..LinkConfig::default() })?;
    let transfer = Transfer {
        sender: crate::workload::Sender::Client,
        amount: Amount::Time(each),
        limit: each * 2 + Duration::from_secs(5),
        ..Transfer::default()
    };
    let report = transfer.run(lab.host("a"), lab.host("b"))?;
    // Without the start-up, and without the last interval, which is cut short.
    let skipped = (report.arrivals.len() / 4).max(1);
    let settled = report.arrivals.get(skipped..report.arrivals.len().saturating_sub(1)).unwrap_or_default();
    let bytes: u64 = settled.iter().map(|bytes| bytes.0).sum();
    let time = transfer.interval * settled.len() as u32;
    let bits = bytes as f64 / SEGMENT as f64 * PACKET.0 as f64 * 8.0 / time.as_secs_f64().max(1e-9);
    Ok(ThroughputResult { configured: limit, measured: BitRate::from_bits_per_sec(bits as u64) })
}
