use crate::LossDetection;
use crate::congestion_manager::CongestionManager;
use crate::discriminator::EveryLossIsCongestion;
use crate::loss_discriminator::{Discriminator, Probe};
use crate::start::{SlowStart, Start};
use alloc::boxed::Box;
use core::time::Duration;
use shorthaul_congestion::{Control, RttConfig};
use shorthaul_types::{BitRate, Time};
use shorthaul_wire::PayloadList;

/// How a sender is to work.
#[derive(Debug)]
pub struct SenderConfig {
    /// Payload bytes of a full segment, options deducted.
    pub mss: u32,
    /// Finds losses.
    pub loss_detection: LossDetection,
    /// Says what they mean.
    pub discriminator: Box<dyn Discriminator>,
    /// Sizes the window.
    pub control: Box<dyn Control>,
    /// Says with which window it begins, where something is known of its path.
    pub start: Box<dyn Start>,
    /// Grants what may leave.
    pub manager: CongestionManager,
    /// The receiver sends selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// After an RTO, first looks whether it was spurious (F-RTO, RFC 5682).
    pub f_rto: bool,
    /// After several RTOs in a row, tries smaller segments (RFC 4821).
    pub black_hole_probing: bool,
    /// Bursts are spread over the round trip.
    pub pacing: bool,
    /// Holds small segments back while something is unacknowledged (Nagle's algorithm, RFC 9293
    /// §3.7.4), but for the one that carries the FIN.
    pub nagle: bool,
    /// After an idle time, begins with the initial window again (RFC 5681 §4.1).
    pub idle_restart: bool,
    /// A window that is not filled does not grow (RFC 7661).
    pub window_validation: bool,
    /// The answer to a loss is taken back once it turns out that nothing was lost (RFC 3522, RFC 3708).
    pub undo: bool,
    /// A window that the peer closes over what is outstanding stops the retransmission timer: the sender persists (4.4BSD), and sends what is
    /// outstanding again when it is open. Without, the timer goes on (RFC 9293 §3.8.6, SHLD-16).
    pub persist_on_shrink: bool,
    /// The round trip of the retransmission timer is that of the echoed timestamp wherever there is one (RTTM, RFC 1323 §3.1), and of our own clock
    /// elsewhere. Without, it is the other way round.
    pub rttm: bool,
    /// Parameters of the retransmission timer.
    pub rto: RttConfig,
}

impl SenderConfig {
    /// A sender of today, to a peer with selective acknowledgments.
    pub fn new(mss: u32, control: Box<dyn Control>) -> Self {
        SenderConfig {
            mss,
            loss_detection: LossDetection::RACK_TLP,
            discriminator: Box::new(EveryLossIsCongestion),
            control,
            start: Box::new(SlowStart),
            manager: CongestionManager::Own,
            sack: true,
            f_rto: true,
            black_hole_probing: true,
            pacing: true,
            nagle: false,
            idle_restart: true,
            window_validation: true,
            undo: true,
            persist_on_shrink: false,
            rttm: false,
            rto: RttConfig::LINUX,
        }
    }
}

/// How much older than it is [`Ack::echo`] can make a segment: a tick of the clock at either end.
const ECHO_RESOLUTION: Duration = Duration::from_millis(2);

/// What a sender looks at in a segment that acknowledges its data; offsets are of its own stream,
/// but for `seq`.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// The acknowledgment.
    pub ack: u64,
    /// The window, scaled, in bytes.
    pub window: u64,
    /// The offset of the segment in the other stream, to tell old windows from new ones.
    pub seq: u64,
    /// SACK blocks as offsets, in the order of the option.
    pub sack: &'a [(u64, u64)],
    /// The segment carries data or a FIN, so it is no duplicate ACK (RFC 5681 §2).
    pub has_data: bool,
    /// ECE is set (RFC 3168).
    pub ecn_echo: bool,
    /// How long ago, at most, the timestamp was sent that it echoes (RFC 7323 §4.1); `None` without
    /// timestamps. It tells the round trip also of what was retransmitted.
    pub echo: Option<Duration>,
    /// What it acknowledges was sent before this, as the timestamp shows that it echoes; for a sender whose timestamps are
    /// not of its own clock, so that there is no [`Ack::echo`].
    pub sent_before: Option<Time>,
    /// How long it has waited on its way here, at least; `None` where that is unknown.
    pub waited: Option<Duration>,
    /// The rate at which the receiver wants the sender to send, as it reports in an option.
    pub reported: Option<BitRate>,
}

impl Ack<'_> {
    /// When the segment was sent, at the latest, that moved SND.UNA (RFC 7323 §4.3).
    pub(super) fn sent_before(&self, now: Time) -> Option<Time> {
        let by_echo = |echo: Duration| {
            Time::from_nanos((now + ECHO_RESOLUTION).as_nanos().saturating_sub(echo.as_nanos() as u64))
        };
        self.sent_before.or(self.echo.map(by_echo))
    }
}

/// A segment, or a super-segment, to send.
#[derive(Debug)]
pub struct Outgoing {
    /// The offset of its first byte.
    pub offset: u64,
    /// Its bytes.
    pub payload: PayloadList,
    /// A FIN follows them.
    pub fin: bool,
    /// Nothing more is waiting behind them.
    pub push: bool,
    /// It begins with something that was sent before.
    pub retransmission: bool,
    /// The congestion window was reduced since the last segment (CWR, RFC 3168 §6.1.2).
    pub cwr: bool,
    /// It is a probe of the discriminator.
    pub probe: Option<Probe>,
}

impl Outgoing {
    /// A segment without data.
    pub(super) fn empty(offset: u64) -> Self {
        Outgoing {
            offset,
            payload: PayloadList::new(),
            fin: false,
            push: false,
            retransmission: false,
            cwr: false,
            probe: None,
        }
    }
}

/// What a sender has done, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Payload bytes sent, retransmissions included.
    pub sent: u64,
    /// Payload bytes retransmitted.
    pub retransmitted: u64,
    /// RTOs: expiries of the retransmission timer.
    pub timeouts: u32,
    /// Times that recovery was entered.
    pub recoveries: u32,
    /// Recoveries and RTOs that turned out to be mistakes, and were undone.
    pub undone: u32,
    /// Of these, RTOs: what was taken for lost was on its way.
    pub spurious_timeouts: u32,
    /// Tail loss probes.
    pub tail_probes: u32,
    /// Probes of the discriminator.
    pub probes: u32,
}
