//! WTCP's sender: it sends at the rate that the receiver reports, and goes neither by acknowledgments nor by losses.
//!
//! Sinha, Venkitaraman, Sivakumar and Bharghavan, "WTCP: A Reliable Transport Protocol for Wireless Wide-Area Networks", MobiCom 1999.
//! The receiver computes the rate (`RateMeter` of the TCP crate, which says what was guessed). Here, after what public text has:
//! transmission is paced, and losses are repaired without a change of the rate. A sender that hears nothing (a blackout) sends a
//! probe at a time, and has its rate back when it hears of one.
//!
//! Guessed: a window of twice the rate over the round trip, and of ten segments, bounds what is under way. Until a rate is
//! reported, and to a receiver that reports none, it is [Reno](super::reno).
use core::time::Duration;

use shorthaul_types::{BitRate, Time};

use super::Reno;
use crate::window::MAX_WINDOW;
use crate::{AckSample, CongestionEvent, Control, ControlParams, KnownPath};

/// How many products of rate and round trip may be under way, and how many segments besides.
const PRODUCTS: u128 = 2;
const SEGMENTS: u64 = 10;
/// The weight of a round trip in the mean is one in so many.
const SMOOTHING: u32 = 8;

/// WTCP congestion control, of a sender.
#[derive(Debug)]
pub struct Wtcp {
    /// As long as no rate is reported.
    untold: Reno,
    rate: Option<BitRate>,
    srtt: Option<Duration>,
    mss: u64,
    /// Nothing is heard: a segment at a time.
    blackout: bool,
}

impl Wtcp {
    /// Starts as Reno does.
    pub fn new(params: ControlParams) -> Self {
        Wtcp {
            untold: Reno::new(params),
            rate: None,
            srtt: None,
            mss: u64::from(params.mss.max(1)),
            blackout: false,
        }
    }
}

impl Control for Wtcp {
    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            let mean = |srtt: Duration| (srtt / SMOOTHING).saturating_mul(SMOOTHING - 1) + rtt / SMOOTHING;
            self.srtt = Some(self.srtt.map_or(rtt, mean));
        }
        if let Some(rate) = ack.reported {
            self.rate = Some(rate.max(BitRate::from_bits_per_sec(1)));
        }
        if ack.newly_acked > 0 {
            self.blackout = false;
        }
        if self.rate.is_none() {
            self.untold.on_ack(ack);
        }
    }

    fn on_congestion(&mut self, now: Time, event: CongestionEvent, flight_size: u64) {
        if self.rate.is_none() {
            self.untold.on_congestion(now, event, flight_size);
        }
    }

    fn decrease(&mut self, now: Time, percent: u64) {
        if self.rate.is_none() {
            self.untold.decrease(now, percent);
        }
    }

    fn on_timeout(&mut self, now: Time, flight_size: u64) {
        match self.rate {
            Some(_) => self.blackout = true,
            None => self.untold.on_timeout(now, flight_size),
        }
    }

    fn on_recovered(&mut self, now: Time) {
        self.untold.on_recovered(now);
    }

    fn on_spurious(&mut self, now: Time) {
        self.blackout = false;
        self.untold.on_spurious(now);
    }

    fn on_idle_restart(&mut self, now: Time) {
        if self.rate.is_none() {
            self.untold.on_idle_restart(now);
        }
    }

    fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
        self.untold.set_mss(mss);
    }

    fn take_over(&mut self, now: Time, known: &KnownPath) {
        self.untold.take_over(now, known);
    }

    fn window(&self) -> u64 {
        let Some(rate) = self.rate else { return self.untold.window() };
        if self.blackout {
            return self.mss;
        }
        let nanos = self.srtt.unwrap_or_default().as_nanos();
        let product = u128::from(rate.bytes_per_sec()).saturating_mul(nanos) / 1_000_000_000;
        let bytes = u64::try_from(product.saturating_mul(PRODUCTS)).unwrap_or(u64::MAX);
        bytes.saturating_add(SEGMENTS * self.mss).min(MAX_WINDOW).max(self.mss)
    }

    fn ssthresh(&self) -> u64 {
        if self.rate.is_some() { u64::MAX } else { self.untold.ssthresh() }
    }

    fn in_slow_start(&self) -> bool {
        self.rate.is_none() && self.untold.in_slow_start()
    }

    fn pacing_rate(&self) -> Option<BitRate> {
        self.rate
    }

    fn uses_prr(&self) -> bool {
        self.rate.is_none()
    }

    fn name(&self) -> &'static str {
        "wtcp"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn ack(newly_acked: u64, reported: Option<u64>) -> AckSample {
        AckSample {
            now: Time::from_secs(1),
            delivered: newly_acked,
            newly_acked,
            in_flight_before: newly_acked,
            in_flight: 0,
            rtt: Some(Duration::from_millis(500)),
            waited: None,
            reported: reported.map(BitRate::from_bits_per_sec),
            rate: None,
            cwnd_limited: true,
            in_recovery: false,
        }
    }

    fn wtcp() -> Wtcp {
        Wtcp::new(ControlParams::new(MSS as u32, Time::ZERO))
    }

    #[test]
    fn it_sends_at_the_rate_that_it_is_told_whatever_is_lost() {
        let mut control = wtcp();
        assert_eq!(control.pacing_rate(), None);
        control.on_ack(&ack(MSS, Some(80_000)));
        assert_eq!(control.pacing_rate().map(BitRate::bits_per_sec), Some(80_000));
        // 10 kB a second over half a second, twice, and ten segments.
        assert_eq!(control.window(), 20 * MSS);
        control.on_congestion(Time::from_secs(2), CongestionEvent::Loss, 20 * MSS);
        assert_eq!((control.window(), control.uses_prr()), (20 * MSS, false));
        control.on_ack(&ack(MSS, Some(40_000)));
        assert_eq!(control.pacing_rate().map(BitRate::bits_per_sec), Some(40_000));
    }

    #[test]
    fn after_a_blackout_the_rate_is_what_it_was() {
        let mut control = wtcp();
        control.on_ack(&ack(MSS, Some(80_000)));
        control.on_timeout(Time::from_secs(2), 20 * MSS);
        assert_eq!(control.window(), MSS, "a probe at a time");
        control.on_ack(&ack(0, None));
        assert_eq!(control.window(), MSS);
        control.on_ack(&ack(MSS, None));
        assert_eq!((control.window(), control.pacing_rate().is_some()), (20 * MSS, true));
    }

    #[test]
    fn a_receiver_that_reports_nothing_has_a_sender_of_reno() {
        let params = ControlParams::new(MSS as u32, Time::ZERO);
        let (mut control, mut reno) = (Wtcp::new(params), Reno::new(params));
        for _ in 0..20 {
            control.on_ack(&ack(MSS, None));
            reno.on_ack(&ack(MSS, None));
        }
        control.on_congestion(Time::from_secs(2), CongestionEvent::Loss, 20 * MSS);
        reno.on_congestion(Time::from_secs(2), CongestionEvent::Loss, 20 * MSS);
        assert_eq!((control.window(), control.ssthresh()), (reno.window(), reno.ssthresh()));
    }
}
