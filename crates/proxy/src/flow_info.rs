use crate::Observed;
use core::fmt;
use core::time::Duration;
use shorthaul_types::{BufferTimes, Bytes, FlowKey, format_duration};

/// What there is to know of one direction, from an end to the other.
#[derive(Clone, Debug, PartialEq)]
pub struct LegInfo {
    /// Congestion control of what we send.
    pub control: &'static str,
    /// Congestion window, in bytes.
    pub window: u64,
    /// Slow-start threshold, in bytes; `u64::MAX` where none is set.
    pub ssthresh: u64,
    /// Bytes in flight from us.
    pub in_flight: u64,
    /// Bytes that we hold: unacknowledged, unsent or out of order.
    pub buffered: u64,
    /// Smoothed round-trip time from us to the receiver.
    pub srtt: Option<Duration>,
    /// The shortest round trip of late. What the smoothed one has above it is time in queues.
    pub min_rtt: Option<Duration>,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Window that the receiver has open, in bytes.
    pub peer_window: u64,
    /// Payload bytes acknowledged by the receiver.
    pub delivered: u64,
    /// Payload bytes retransmitted.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// How long it had nothing to send, and how long no window for what it had.
    pub buffer: BufferTimes,
}

/// What there is to know of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowInfo {
    /// From the client to the server.
    pub key: FlowKey,
    /// `opening`, `split`, `closing` or `draining`; `observed` or `passed` for a flow that stays whole; `control` for one of the
    /// control group; `withdrawn` for one that is not split because that makes its class slower; `inherited` for one that
    /// a gateway left that crashed.
    pub state: &'static str,
    /// Whether the client is the end at the access side; otherwise the server is.
    pub client_at_access: bool,
    /// The number of its policy, counted from 0.
    pub policy: u16,
    /// How long it has been known.
    pub age: Duration,
    /// Toward the server, and toward the client; absent while the flow opens, and where it stays whole.
    pub legs: Option<[LegInfo; 2]>,
    /// What was seen of a flow that stays whole.
    pub observed: Option<Observed>,
}

impl fmt::Display for FlowInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<9} {}  age {}", self.state, self.key, format_duration(self.age))?;
        if let Some(Observed { directions, first_byte, duration, kept }) = &self.observed {
            write!(f, "  seen for {}", format_duration(*duration))?;
            if let Some(first_byte) = first_byte {
                write!(f, "  first byte after {}", format_duration(*first_byte))?;
            }
            for (name, direction) in [("to server", &directions[0]), ("to client", &directions[1])] {
                write!(
                    f,
                    "\n    {name}: bytes:{} retrans:{}",
                    Bytes(direction.bytes),
                    Bytes(direction.retransmitted)
                )?;
                for (name, time) in [("rtt", direction.srtt), ("minrtt", direction.min_rtt)] {
                    if let Some(time) = time {
                        write!(f, " {name}:{}", format_duration(time))?;
                    }
                }
            }
            if *kept > 0 {
                write!(f, "\n    kept:{}", Bytes(*kept))?;
            }
        }
        let Some(legs) = &self.legs else { return Ok(()) };
        for (name, leg) in [("to server", &legs[0]), ("to client", &legs[1])] {
            write!(f, "\n    {name}: {} cwnd:{}", leg.control, Bytes(leg.window))?;
            if leg.ssthresh != u64::MAX {
                write!(f, " ssthresh:{}", Bytes(leg.ssthresh))?;
            }
            if let Some(srtt) = leg.srtt {
                write!(f, " rtt:{}", format_duration(srtt))?;
            }
            write!(
                f,
                " mss:{} flight:{} held:{} window:{} delivered:{} retrans:{} rto:{}",
                leg.mss,
                Bytes(leg.in_flight),
                Bytes(leg.buffered),
                Bytes(leg.peer_window),
                Bytes(leg.delivered),
                Bytes(leg.retransmitted),
                leg.timeouts,
            )?;
        }
        Ok(())
    }
}
