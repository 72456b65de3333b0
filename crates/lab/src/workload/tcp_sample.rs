use crate::sys::socket;
use shorthaul_types::{BitRate, Bytes};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// What the kernel says of a TCP connection at one moment (`TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSample {
    /// When, since the beginning of the transfer.
    pub at: Duration,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The smallest round-trip time so far.
    pub min_rtt: Duration,
    /// The congestion window in segments.
    pub cwnd: u32,
    /// The segment size, without headers.
    pub mss: Bytes,
    /// The slow-start threshold in segments; `u32::MAX >> 1` before there is one.
    pub ssthresh: u32,
    /// Segments sent and not yet acknowledged.
    pub unacked: u32,
    /// The receiver's window, counted from what it has acknowledged.
    pub window: Bytes,
    /// Segments retransmitted so far.
    pub retransmits: u32,
    /// Payload bytes sent again so far.
    pub retransmitted: Bytes,
    /// Retransmission time-outs so far; `None` if the kernel does not count them (before Linux 6.7).
    pub timeouts: Option<u16>,
    /// Bytes acknowledged by the other end so far.
    pub acked: Bytes,
    /// How long the receiver's window has kept it from sending so far.
    pub window_limited: Duration,
    /// The latest delivery rate that the kernel measured.
    pub delivery_rate: BitRate,
}

impl TcpSample {
    /// Asks the kernel; `at` is what the sample is stamped with.
    ///
    /// # Errors
    /// If this is no TCP socket.
    pub fn take(socket: &impl AsFd, at: Duration) -> io::Result<Self> {
        Ok(Self::read(&socket::tcp_info(socket)?, at))
    }

    /// Reads `struct tcp_info`; fields beyond what this kernel has are zero.
    fn read(info: &[u8], at: Duration) -> Self {
        let u32_at = |offset: usize| {
            let bytes = info.get(offset..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        let u64_at = |offset: usize| {
            let bytes = info.get(offset..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        let micros = |offset| Duration::from_micros(u32_at(offset).into());
        TcpSample {
            at,
            mss: Bytes(u32_at(16).into()),
            unacked: u32_at(24),
            rtt: micros(68),
            ssthresh: u32_at(76),
            cwnd: u32_at(80),
            retransmits: u32_at(100),
            acked: Bytes(u64_at(120)),
            min_rtt: micros(148),
            retransmitted: Bytes(u64_at(208)),
            window: Bytes(u32_at(228).into()),
            timeouts: info.get(240..242).and_then(<[u8]>::first_chunk).map(|b| u16::from_ne_bytes(*b)),
            window_limited: Duration::from_micros(u64_at(176)),
            delivery_rate: BitRate::from_bytes_per_sec(u64_at(160)),
        }
    }
}
