use std::time::Duration;

use shorthaul_congestion::{ControlParams, RtoFloor};
use shorthaul_tcp::SenderProfile;
use shorthaul_types::{BitRate, Bytes, Time};

use crate::PlanError;

/// What a full segment carries besides its payload, byte by byte as the link counts it.
///
/// The share of a link that is left for payload is its ceiling: with [`Framing::ETHERNET`] and IPv4 it is
/// 1448 of 1538 bytes, 94.1 %, which is the "theoretical limit of about 94 %" of Kalim et al. (section V-A3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Bytes of the link layer for each packet: 0 where the link counts IP packets.
    pub link: u32,
    /// Bytes of the IP header: 20 for IPv4, 40 for IPv6 (RFC 8200 §3).
    pub ip: u32,
    /// Bytes of the TCP header with its options: 20, or 32 with timestamps (RFC 7323 §3.2).
    pub tcp: u32,
    /// The largest IP packet, in bytes.
    pub mtu: u32,
}

impl Framing {
    /// IPv4 with timestamps over Ethernet, each frame with preamble, check sequence and gap (IEEE 802.3): 38 bytes.
    pub const ETHERNET: Framing = Framing { link: 38, ip: 20, tcp: 32, mtu: 1500 };
    /// IPv4 with timestamps, on a link that counts IP packets, as emulators do.
    pub const IPV4: Framing = Framing { link: 0, ip: 20, tcp: 32, mtu: 1500 };
    /// IPv6 with timestamps, on a link that counts IP packets.
    pub const IPV6: Framing = Framing { link: 0, ip: 40, tcp: 32, mtu: 1500 };

    /// Payload bytes of a full segment.
    pub const fn mss(self) -> u32 {
        self.mtu.saturating_sub(self.ip + self.tcp)
    }

    /// Bytes that a full segment occupies on the link.
    pub const fn frame(self) -> u32 {
        self.mtu + self.link
    }

    /// The share of the link's capacity that can be payload, 0 to 1.
    pub fn ceiling(self) -> f64 {
        f64::from(self.mss()) / f64::from(self.frame())
    }
}

/// One TCP connection's way: from a sender, relay or not, to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leg {
    /// Round-trip time without queueing, as a ping measures it.
    pub rtt: Duration,
    /// The probability that the way itself loses a data packet, 0 to below 1.
    ///
    /// Losses by overflow of the queue are not among them: they follow from `capacity` and `queue`.
    pub loss: f64,
    /// The rate of the narrowest link, headers included.
    pub capacity: BitRate,
    /// What the narrowest link's drop-tail queue holds, in bandwidth-delay products of this leg; taken for ten packets
    /// where that is less, since no router has fewer.
    pub queue_bdp: f64,
    /// Headers and packet size.
    pub framing: Framing,
    /// `b`: for how many segments the window grows as if for one (Padhye et al. 1998, section II).
    ///
    /// 2 for a receiver that delays ACKs and a sender that counts them; 1 for one that counts bytes
    /// (RFC 3465), as Linux does.
    pub segments_per_ack: f64,
    /// The smallest of both ends' buffers, if they bind: no more than this is ever in flight.
    pub window_limit: Option<Bytes>,
    /// The least retransmission timeout: 1 s in RFC 6298 §2.4, 200 ms in Linux.
    pub min_rto: Duration,
    /// Segments that are sent at once before the first ACK (RFC 6928: 10).
    pub initial_window: u32,
}

/// Packets that any queue holds.
const SHORTEST_QUEUE: f64 = 10.0;

impl Leg {
    /// A leg with one bandwidth-delay product of queue, Ethernet framing, byte-counting ends, no window limit,
    /// a least retransmission timeout of 200 ms and
    /// an initial window of 10 segments.
    pub fn new(rtt: Duration, loss: f64, capacity: BitRate) -> Self {
        Leg {
            rtt,
            loss,
            capacity,
            queue_bdp: 1.0,
            framing: Framing::ETHERNET,
            segments_per_ack: 1.0,
            window_limit: None,
            min_rto: Duration::from_millis(200),
            initial_window: 10,
        }
    }

    /// The same with a sender of this profile: its initial window and its least retransmission timeout.
    #[must_use]
    pub fn sent_by(self, sender: &SenderProfile) -> Leg {
        let mss = self.framing.mss().max(1);
        let params = ControlParams::new(mss, Time::ZERO).with_initial_segments(sender.initial_window);
        let min_rto = match sender.rto.floor {
            RtoFloor::Whole(least) | RtoFloor::Variance(least) => least,
        };
        Leg { initial_window: (params.initial_window / u64::from(mss)) as u32, min_rto, ..self }
    }

    /// The `part` (0 to 1) of this leg that is left when relays stand on it: that share of the round trip and of
    /// the loss, as equation 8 of Kalim et al. assumes for equal parts (RTT/(N+1), p/(N+1)).
    #[must_use]
    pub fn share(&self, part: f64) -> Leg {
        Leg { rtt: self.rtt.mul_f64(part), loss: self.loss * part, ..*self }
    }

    /// Whether the models are defined for this leg.
    ///
    /// # Errors
    /// Names the quantity that is out of range, and the range.
    pub fn check(&self) -> Result<(), PlanError> {
        let wrong = |quantity: &'static str, found: String, wanted: &'static str| {
            Err(PlanError::OutOfRange { quantity, found, wanted })
        };
        if self.rtt.is_zero() || self.rtt > Duration::from_secs(60) {
            return wrong(
                "round-trip time",
                shorthaul_types::format_duration(self.rtt),
                "more than 0 and at most 60 s",
            );
        }
        if !(0.0..=0.5).contains(&self.loss) {
            return wrong("loss", self.loss.to_string(), "a probability from 0 to 0.5");
        }
        if self.capacity.bits_per_sec() < 1000 {
            return wrong("rate", self.capacity.to_string(), "at least 1 kbit/s");
        }
        if !(0.0..=1000.0).contains(&self.queue_bdp) {
            return wrong("queue", self.queue_bdp.to_string(), "0 to 1000 bandwidth-delay products");
        }
        if !(1.0..=64.0).contains(&self.segments_per_ack) {
            return wrong("segments per ACK", self.segments_per_ack.to_string(), "1 to 64");
        }
        if !SenderProfile::INITIAL_WINDOWS.contains(&self.initial_window) {
            return wrong("initial window", self.initial_window.to_string(), "1 to 1000 segments");
        }
        if self.framing.mss() < 100 {
            return wrong("packet size", self.framing.mtu.to_string(), "room for 100 bytes of payload");
        }
        if self.window_limit.is_some_and(|window| window.0 < u64::from(self.framing.mss())) {
            let found = self.window_limit.unwrap_or_default().to_string();
            return wrong("window limit", found, "at least one segment");
        }
        Ok(())
    }

    /// The largest goodput that the link lets through: capacity less headers.
    pub fn ceiling(&self) -> BitRate {
        BitRate::from_bits_per_sec((self.capacity_segments() * self.segment_bits()) as u64)
    }

    /// Full segments a second at link rate.
    pub(crate) fn capacity_segments(&self) -> f64 {
        self.capacity.bits_per_sec() as f64 / (8.0 * f64::from(self.framing.frame()))
    }

    /// Payload bits of a full segment.
    pub(crate) fn segment_bits(&self) -> f64 {
        8.0 * f64::from(self.framing.mss())
    }

    /// Seconds from a full segment's leaving to its ACK on an empty link: the measured round trip plus the time
    /// that a full packet takes to be sent, which a ping's small one does not.
    pub(crate) fn round_trip(&self) -> f64 {
        self.rtt.as_secs_f64() + 1.0 / self.capacity_segments()
    }

    /// Segments in flight that just keep the link busy.
    pub(crate) fn bdp_segments(&self) -> f64 {
        self.capacity_segments() * self.round_trip()
    }

    /// Segments that the queue holds.
    pub(crate) fn queue_segments(&self) -> f64 {
        (self.queue_bdp * self.bdp_segments()).max(SHORTEST_QUEUE)
    }

    /// Full packets that the narrowest link's queue holds, as the models take it: for a simulation of the same leg.
    pub fn queue_packets(&self) -> u64 {
        self.queue_segments().round() as u64
    }

    /// The window limit in segments; infinite where there is none.
    pub(crate) fn window_segments(&self) -> f64 {
        self.window_limit.map_or(f64::INFINITY, |w| w.0 as f64 / f64::from(self.framing.mss()))
    }

    /// Seconds of a first retransmission timeout in steady state: RFC 6298 §2 with little variance.
    pub(crate) fn rto(&self) -> f64 {
        self.min_rto.as_secs_f64().max(1.5 * self.round_trip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_leave_what_the_paper_measured() {
        assert!((Framing::ETHERNET.ceiling() - 0.9415).abs() < 1e-4);
        assert_eq!((Framing::IPV4.mss(), Framing::IPV6.mss()), (1448, 1428));
    }

    #[test]
    fn a_leg_begins_with_the_window_of_its_sender() {
        let plain = Leg::new(Duration::from_millis(64), 0.0, BitRate::from_bits_per_sec(32_000_000));
        let sender = SenderProfile { initial_window: 64, ..SenderProfile::default() };
        assert_eq!(plain.sent_by(&sender).initial_window, 64);
        assert_eq!(plain.sent_by(&SenderProfile::NEWRENO).min_rto, Duration::from_secs(1));
        // RFC 6928: ten segments, but no more than 14,600 bytes unless two segments are.
        let jumbo = Leg { framing: Framing { mtu: 9000, ..Framing::IPV4 }, ..plain };
        assert_eq!(jumbo.sent_by(&SenderProfile::default()).initial_window, 2);
    }

    #[test]
    fn impossible_legs_are_refused_by_name() {
        let good = Leg::new(Duration::from_millis(64), 0.001, BitRate::from_bits_per_sec(32_000_000));
        assert!(good.check().is_ok());
        for (leg, word) in [
            (Leg { loss: 0.7, ..good }, "loss"),
            (Leg { loss: f64::NAN, ..good }, "loss"),
            (Leg { rtt: Duration::ZERO, ..good }, "round-trip"),
            (Leg { capacity: BitRate::default(), ..good }, "rate"),
            (Leg { window_limit: Some(Bytes(10)), ..good }, "window"),
        ] {
            let error = leg.check().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
