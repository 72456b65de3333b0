//! The boundary between a sender and its congestion control.
use alloc::vec::Vec;
use core::fmt::Debug;
use core::time::Duration;

use shorthaul_types::{BitRate, Numbers, Seed, Time};

use crate::RateSample;

/// What one acknowledgment told. All sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// When it arrived.
    pub now: Time,
    /// Bytes that this ACK newly acknowledged, cumulatively or selectively.
    pub delivered: u64,
    /// Bytes that this ACK acknowledged cumulatively: the advance of SND.UNA.
    pub newly_acked: u64,
    /// Bytes in flight just before this ACK was processed.
    pub in_flight_before: u64,
    /// Bytes in flight after it: sent, and neither delivered nor believed lost.
    pub in_flight: u64,
    /// The round-trip time that this ACK measured, never of a retransmitted segment unless a
    /// timestamp made that safe (RFC 6298 §3).
    pub rtt: Option<Duration>,
    /// The least part of it that the acknowledgment waited on its way here, in a queue that is not this sender's.
    /// `None` where that is unknown.
    pub waited: Option<Duration>,
    /// The rate at which the receiver wants it to be sent, where it says so.
    pub reported: Option<BitRate>,
    /// The delivery rate that ends with this ACK.
    pub rate: Option<RateSample>,
    /// The window, not the application or the peer, held the sender back in the last round.
    pub cwnd_limited: bool,
    /// The sender is in fast recovery: after [`Control::on_congestion`] with
    /// [`CongestionEvent::Loss`] and before [`Control::on_recovered`]. False while it repairs
    /// after a timeout, when the window grows by slow start.
    pub in_recovery: bool,
}

/// One transmission that was lost, for algorithms that look at the loss rate.
#[derive(Clone, Copy, Debug)]
pub struct LossSample {
    /// When the loss was detected.
    pub now: Time,
    /// Where in the stream its first byte is, so that what was lost in one piece can be told from
    /// losses here and there.
    pub offset: u64,
    /// Size of the transmission in bytes.
    pub bytes: u64,
    /// Bytes lost since it was sent, itself included.
    pub lost: u64,
    /// Bytes delivered since it was sent.
    pub delivered: u64,
    /// Bytes that were in flight when it was sent, itself not included.
    pub in_flight_at_send: u64,
    /// Too little data, not the network, limited the flight that it was part of.
    pub app_limited: bool,
}

/// What the sender took as the sign of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionEvent {
    /// A segment was lost and found by duplicate or selective acknowledgments, or by RACK.
    Loss,
    /// The peer echoed a congestion mark (RFC 3168).
    EcnEcho,
}

/// A congestion control algorithm: it is told what happened and answers with a window in bytes
/// and, if it has one, a pacing rate.
///
/// The sender finds losses, repairs them and decides what a loss means; the algorithm only sizes
/// the window. In fast recovery [`window`](Control::window) is already the reduced one, and
/// a sender that finds [`uses_prr`](Control::uses_prr) true walks down to it by RFC 6937.
///
/// The contract of the calls:
///
/// * [`on_ack`](Control::on_ack) for each ACK that delivered something, after the congestion
///   call, if any, which the same ACK caused;
/// * [`on_congestion`](Control::on_congestion) at most once a round trip, on entry into
///   recovery, then [`on_recovered`](Control::on_recovered) when the recovery point has passed;
/// * [`on_timeout`](Control::on_timeout) at each expiry of the retransmission timer, likewise
///   followed by [`on_recovered`](Control::on_recovered).
pub trait Control: Debug + Send {
    /// An ACK delivered data.
    fn on_ack(&mut self, ack: &AckSample);

    /// One transmission was lost to congestion. Called for each, before
    /// [`on_congestion`](Control::on_congestion), which comes once a round trip.
    fn on_loss(&mut self, loss: &LossSample) {
        let _ = loss;
    }

    /// Congestion was met. `flight_size` is FlightSize of RFC 5681: bytes sent and not yet
    /// cumulatively acknowledged, the lost ones included.
    fn on_congestion(&mut self, now: Time, event: CongestionEvent, flight_size: u64);

    /// A loss was no congestion, and the window is to be smaller all the same: it becomes `percent`, from 1 to 100, of what it
    /// was, and the threshold becomes the window. An algorithm whose window is none of losses does nothing.
    fn decrease(&mut self, now: Time, percent: u64) {
        let _ = (now, percent);
    }

    /// The retransmission timer expired. The window falls to one segment and ssthresh by
    /// RFC 5681 equation 4; a further expiry for the same data leaves ssthresh.
    /// `flight_size` as for [`on_congestion`](Control::on_congestion).
    fn on_timeout(&mut self, now: Time, flight_size: u64);

    /// Everything that was outstanding at the last congestion event or timeout has arrived.
    fn on_recovered(&mut self, now: Time);

    /// The last congestion event or timeout was a mistake (RFC 3522, RFC 5682, DSACK): undo the
    /// answer to it. Without one to undo, nothing happens.
    fn on_spurious(&mut self, now: Time);

    /// Data will be sent after nothing was sent for longer than the RTO
    /// (RFC 5681 §4.1).
    fn on_idle_restart(&mut self, now: Time);

    /// Data will be sent, and nothing is in flight. Precedes
    /// [`on_idle_restart`](Control::on_idle_restart) where both hold.
    fn on_transmit_start(&mut self, now: Time) {
        let _ = now;
    }

    /// The sender's maximum segment size changed; windows keep their bytes.
    fn set_mss(&mut self, mss: u32);

    /// All that the algorithm knows, as numbers that [`restore`](Control::restore) of the same algorithm reads in another process; none
    /// where [`KnownPath`] says it all.
    fn snapshot(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Goes on exactly where another process was, whose [`snapshot`](Control::snapshot) this is; both have the same clock, and delivery
    /// rates go on as they were. Says whether the numbers fit: where another version wrote them, nothing changes, and
    /// [`take_over`](Control::take_over) is what is left.
    fn restore(&mut self, numbers: &[u64]) -> bool {
        let _ = numbers;
        false
    }

    /// Appends all that the algorithm knows beyond what it was built with, for [`bring_back`](Control::bring_back): the connection is put away
    /// as numbers, and goes on later as if it never had been. Says whether it can; if not, the connection stays as it is.
    fn put_away(&self, to: &mut Vec<u64>) -> bool {
        let _ = to;
        false
    }

    /// Knows again what it [put away](Control::put_away). It was built as the one that did, with the segment size of then.
    fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        let _ = from;
        None
    }

    /// The connection goes on at `now` where another process had it, of which no more is known than this. An algorithm that cannot make
    /// anything of that begins anew.
    fn take_over(&mut self, now: Time, known: &KnownPath) {
        let _ = (now, known);
    }

    /// The congestion window in bytes, at least one segment.
    fn window(&self) -> u64;

    /// The slow start threshold in bytes; `u64::MAX` is infinite.
    fn ssthresh(&self) -> u64;

    /// The window grows exponentially until it meets [`ssthresh`](Control::ssthresh) or
    /// congestion.
    fn in_slow_start(&self) -> bool;

    /// The rate to pace at, if the algorithm has one of its own.
    fn pacing_rate(&self) -> Option<BitRate> {
        None
    }

    /// The rate to pace at: the algorithm's own, or else what sends the window in `srtt`, times
    /// 2 early in slow start so that pacing does not slow the doubling down, and times 1.2
    /// otherwise (the ratios of Linux). `None`, unlimited, before the round-trip time is known.
    fn pacing_rate_over(&self, srtt: Option<Duration>) -> Option<BitRate> {
        if let Some(rate) = self.pacing_rate() {
            return Some(rate);
        }
        let srtt = srtt?.as_nanos().max(1);
        let percent = if self.in_slow_start() && self.window() < self.ssthresh() / 2 { 200 } else { 120 };
        let bits = u128::from(self.window()) * 8 * percent * 10_000_000 / srtt;
        // Rounded to zero, it would let nothing leave ever again.
        Some(BitRate::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX).max(1)))
    }

    /// The algorithm keeps the flight small on purpose, so delivery rate samples say nothing
    /// about the path: the sender calls [`on_app_limited`](crate::DeliveryRate::on_app_limited)
    /// after each [`on_ack`](Control::on_ack) for which this is true.
    fn holds_back(&self) -> bool {
        false
    }

    /// Whether the sender spreads the reduction over recovery by RFC 6937.
    fn uses_prr(&self) -> bool {
        true
    }

    /// The name of the algorithm in lower case, for reports.
    fn name(&self) -> &'static str;
}

/// What another process had found out of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownPath {
    /// The congestion window, in bytes.
    pub window: u64,
    /// The slow start threshold, in bytes.
    pub ssthresh: u64,
    /// The rate that its algorithm paced at, if it had one of its own and was past its start.
    pub rate: Option<BitRate>,
    /// The shortest round trip.
    pub min_rtt: Option<Duration>,
}

/// How many segments one ACK may add to the window in slow start: L of RFC 3465 §2.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteCounting {
    /// No limit for a paced sender, and what the algorithm's own document says for an unpaced one:
    /// 2 (RFC 3465 §2.2), or 8 for CUBIC with HyStart++ (RFC 9406 §4.3).
    #[default]
    ByPacing,
    /// L = 1: delayed acknowledgments slow the doubling down, as in RFC 5681 with a segment an ACK.
    Conservative,
    /// L = 2: the window doubles also where every second segment is acknowledged.
    Aggressive,
}

impl ByteCounting {
    /// L of an algorithm that has `unpaced` for a sender without pacing; `None` is no limit.
    pub(crate) fn limit(params: &ControlParams, unpaced: u64) -> Option<u64> {
        match params.byte_counting {
            ByteCounting::ByPacing if params.paced => None,
            ByteCounting::ByPacing => Some(unpaced),
            ByteCounting::Conservative => Some(1),
            ByteCounting::Aggressive => Some(2),
        }
    }
}

/// What an algorithm starts from.
#[derive(Clone, Copy, Debug)]
pub struct ControlParams {
    /// Sender maximum segment size in bytes, without headers; zero counts as one.
    pub mss: u32,
    /// First window in bytes (IW of RFC 5681).
    pub initial_window: u64,
    /// First slow-start threshold in bytes, at least two segments; `u64::MAX` for none, as RFC 5681 §3.1 has it. Algorithms without
    /// a threshold do not look at it.
    pub initial_ssthresh: u64,
    /// When the connection started.
    pub now: Time,
    /// The sender paces. Then one ACK for many segments, as receivers with receive offload send
    /// them, sets off no burst, and slow start need not cap what it adds for one ACK
    /// (RFC 9406 §4.3); unpaced, it adds at most L segments (RFC 3465).
    pub paced: bool,
    /// How slow start counts acknowledged bytes, where the algorithm has a slow start.
    pub byte_counting: ByteCounting,
    /// The receiver reports what it holds (RFC 2018). Without, only one loss a round trip is seen,
    /// and BBRv3 takes each for more than the path bears.
    pub selective_acks: bool,
    /// Where the random choices of BBR come from. Flows that share a bottleneck are to have
    /// different seeds, or they probe in step.
    pub seed: Seed,
}

impl ControlParams {
    /// A paced sender with selective acknowledgments and the initial window of RFC 6928: ten
    /// segments, but no more than 14600 bytes unless two segments are. The seed is zero.
    pub fn new(mss: u32, now: Time) -> Self {
        ControlParams {
            mss,
            initial_window: 0,
            initial_ssthresh: u64::MAX,
            now,
            paced: true,
            byte_counting: ByteCounting::ByPacing,
            selective_acks: true,
            seed: Seed(0),
        }
        .with_initial_segments(10)
    }

    /// The same with an initial window of this many segments; of segments larger than 1460 bytes, only
    /// as many as fit into this many of 1460, but two in any case (RFC 6928 equation 1).
    pub fn with_initial_segments(self, segments: u32) -> Self {
        let (mss, segments) = (u64::from(self.mss.max(1)), u64::from(segments.max(1)));
        let initial_window = (segments * mss).min((segments * 1460).max(2 * mss));
        ControlParams { initial_window, ..self }
    }
}
