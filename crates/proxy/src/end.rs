use shorthaul_types::SeqSpace;
use shorthaul_wire::{IpHeader, TcpOptions, TcpSegment};

/// One of the two ends of a connection, and of the two directions: the one that this end sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who sent the SYN.
    Client,
    /// Who answered it.
    Server,
}

impl Side {
    /// Both.
    pub const BOTH: [Side; 2] = [Side::Client, Side::Server];

    /// The other one.
    pub const fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            Side::Client => 0,
            Side::Server => 1,
        }
    }
}

/// What we know of an end: how it numbers what it sends, what it agreed to, and what its packets
/// look like, so that ours in its name look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Its sequence numbers.
    pub space: SeqSpace,
    /// Its latest IP header.
    pub ip: IpHeader,
    /// Its port.
    pub port: u16,
    /// The port of ours that leads to it.
    pub attachment: shorthaul_types::PortId,
    /// Largest segment that it takes (RFC 9293 §3.7.1), options included.
    pub mss: u16,
    /// Its windows are shifted by this; it takes effect only if both ends offered it.
    pub window_shift: u8,
    /// Its latest TSval: ours in its name never run ahead of it (RFC 7323 §5.4).
    pub ts_val: Option<u32>,
    /// Its latest TSecr: whose TSval it has seen.
    pub ts_ecr: Option<u32>,
    /// The window field of its latest segment, not scaled.
    pub window: u16,
    /// Up to where it has acknowledged what the other end sends.
    pub acknowledges: u64,
    /// Up to where what it sent was passed on as it came, behind what was received of it, without a gap.
    pub passed: u64,
    /// The right edge of the windows that it offered, as an offset of what the other end sends.
    pub advertised: u64,
    /// Urgent data ends at this offset of what it sends.
    pub urgent: Option<u64>,
}

impl End {
    pub(crate) fn new(ip: IpHeader, syn: &TcpSegment, attachment: shorthaul_types::PortId) -> Self {
        let TcpOptions { mss, window_scale, timestamps, .. } = &syn.header.options;
        let default_mss = if matches!(ip, IpHeader::V4(_)) { 536 } else { 1220 };
        End {
            space: SeqSpace::new(syn.header.seq),
            ip,
            port: syn.header.src_port,
            attachment,
            mss: mss.unwrap_or(default_mss).max(64),
            window_shift: window_scale.unwrap_or(0).min(14),
            ts_val: timestamps.map(|ts| ts.val),
            ts_ecr: None,
            window: syn.header.window,
            acknowledges: 0,
            passed: 0,
            advertised: 0,
            urgent: None,
        }
    }

    /// Remembers what its packets look like now.
    pub(crate) fn observe(&mut self, ip: IpHeader, segment: &TcpSegment) {
        self.ip = ip;
        self.window = segment.header.window;
        self.ts_ecr = segment.header.options.timestamps.map(|ts| ts.ecr);
        if let Some(ts) = segment.header.options.timestamps {
            self.tell_clock(ts.val);
        }
    }

    /// Its clock stands there, whatever it was before.
    pub(crate) fn set_clock(&mut self, val: u32) {
        self.ts_val = Some(val);
    }

    /// Its clock stands there, or further.
    pub(crate) fn tell_clock(&mut self, val: u32) {
        if self.ts_val.is_some_and(|latest| val.wrapping_sub(latest) as i32 > 0) {
            self.ts_val = Some(val);
        }
    }
}
