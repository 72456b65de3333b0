use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use shorthaul_types::{Bytes, Time};

use crate::config::NakRounds;
use crate::draw::Draw;
use crate::loss::Phases;

/// How a radio link protocol with selective repeat is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    pub frame: Bytes,
    pub round_trip: Duration,
    pub rounds: NakRounds,
    pub window: Option<u32>,
    pub errors: [f64; 2],
}

/// Which frames have to be sent again, and when all of a packet has come.
#[derive(Clone, Debug)]
pub(crate) struct SelectiveRepeat {
    protocol: Protocol,
    phases: Phases,
    draw: Draw,
    /// When frames are to be sent again, the earliest last.
    again: Vec<Time>,
    /// How many frames were sent for the first time.
    sent: u64,
    /// When everything so far has been delivered in order, or was given up.
    in_order: Time,
    /// Packets that the window still waits for: the number of their last frame, and when they were delivered in order.
    open: VecDeque<(u64, Time)>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    /// When all of it has come, and all before it.
    pub whole: Time,
    /// A frame of it was given up.
    pub fails: bool,
}

impl SelectiveRepeat {
    pub(crate) fn new(protocol: Protocol, phases: Phases, draw: Draw) -> Self {
        SelectiveRepeat {
            protocol,
            phases,
            draw,
            again: Vec::new(),
            sent: 0,
            in_order: Time::ZERO,
            open: VecDeque::new(),
        }
    }

    fn frames(&self, size: Bytes) -> u64 {
        size.0.div_ceil(self.protocol.frame.0).max(1)
    }

    /// When the window has room for a packet of this size.
    pub(crate) fn opens(&mut self, size: Bytes) -> Time {
        let Some(window) = self.protocol.window else { return Time::ZERO };
        let must_be_done = (self.sent + self.frames(size)).saturating_sub(u64::from(window));
        let mut opens = Time::ZERO;
        while let Some((_, whole)) = self.open.pop_front_if(|(last, _)| *last <= must_be_done) {
            opens = opens.max(whole);
        }
        // A packet of more frames than the window waits for all before it.
        if must_be_done > self.sent { opens.max(self.in_order) } else { opens }
    }

    /// A frame that is to be sent again before `before`, and when.
    pub(crate) fn due(&mut self, before: Time) -> Option<(Time, Bytes)> {
        let due = self.again.pop_if(|due| *due < before)?;
        Some((due, self.protocol.frame))
    }

    /// Packet `key` of `size` bytes is sent from `start` to `departure`.
    pub(crate) fn on_packet(&mut self, key: u64, size: Bytes, start: Time, departure: Time) -> Fate {
        let frames = self.frames(size);
        let lasts = departure.saturating_since(start) / u32::try_from(frames).unwrap_or(u32::MAX);
        let draw = self.draw.part(key);
        let (mut whole, mut fails) = (departure, false);
        for number in 0..frames {
            let sent = start + lasts.saturating_mul(number as u32);
            if !self.is_error(draw, number, sent) {
                continue;
            }
            let (came, given_up) = self.repair(draw.part(number), sent, lasts);
            whole = whole.max(came);
            fails |= given_up;
        }
        self.again.sort_unstable_by(|a, b| b.cmp(a));
        self.in_order = self.in_order.max(whole);
        self.sent += frames;
        if self.protocol.window.is_some() {
            self.open.push_back((self.sent, self.in_order));
        }
        Fate { whole: self.in_order, fails }
    }

    /// The rounds of a frame that was in error when it was `sent`: when it has come, or was given up.
    fn repair(&mut self, draw: Draw, sent: Time, lasts: Duration) -> (Time, bool) {
        // Repairs look ahead; packets behind this one come before them.
        let mut phases = self.phases.clone();
        let (mut ended, mut copy) = (sent + lasts, 0);
        for &copies in self.protocol.rounds.copies() {
            let mut came = None;
            let begins = ended + self.protocol.round_trip;
            for number in 0..u32::from(copies) {
                let at = begins + lasts * number;
                self.again.push(at);
                copy += 1;
                if came.is_none() && !is_error(self.protocol.errors, &mut phases, draw, copy, at) {
                    came = Some(at + lasts);
                }
            }
            if let Some(came) = came {
                return (came, false);
            }
            ended = begins + lasts * u32::from(copies);
        }
        // The receiver waits as long for the last copies as for the others before.
        (ended, true)
    }

    fn is_error(&mut self, draw: Draw, number: u64, at: Time) -> bool {
        is_error(self.protocol.errors, &mut self.phases, draw, number, at)
    }
}

/// Whether what is sent at this time is in error.
fn is_error(errors: [f64; 2], phases: &mut Phases, draw: Draw, number: u64, at: Time) -> bool {
    let [good, bad] = errors;
    draw.happens(number, if phases.is_on_at(at) { bad } else { good })
}

#[cfg(test)]
mod tests {
    use crate::{Arq, Link, LinkConfig, NakRounds, Offered, Rate};
    use alloc::vec::Vec;
    use core::time::Duration;
    use shorthaul_types::{BitRate, Bytes, Seed, Time};

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// 8 kbit/s: a frame of 20 bytes takes 20 ms, as in IS-95. The delay is 5 ms.
    fn config(error: f64, rounds: &[u8], window: Option<u32>) -> LinkConfig {
        LinkConfig {
            rate: Rate::Fixed(BitRate::from_bits_per_sec(8_000)),
            delay: MS(5),
            arq: Some(Arq::SelectiveRepeat {
                frame: Bytes(20),
                round_trip: MS(100),
                rounds: NakRounds::new(rounds).unwrap(),
                window,
                error_good: error,
                error_bad: error,
                good: MS(1000),
                bad: MS(1000),
            }),
            ..LinkConfig::default()
        }
    }

    /// How long each packet is under way, in milliseconds; `None` for those given up.
    fn delays(config: LinkConfig, size: u64, every: Duration, count: u32) -> Vec<Option<u64>> {
        let mut link = Link::new(config, Seed(3));
        let mut delays = Vec::new();
        for number in 0..count {
            let now = Time::ZERO + every * number;
            let lost = link.push_once(now, Bytes(size), ()) != Offered::Queued;
            let came = link.pop(Time::MAX).map(|(at, ())| at.saturating_since(now).as_millis() as u64);
            assert_eq!(came.is_none(), lost);
            delays.push(came);
        }
        delays
    }

    /// By the rounds of the protocol: a frame that is alone comes after 20 ms, or 120 ms later in the first round, or with one of the
    /// copies of the second, and so on. Seven errors in a row lose it.
    #[test]
    fn delays_have_the_distribution_of_the_rounds() {
        let (p, count) = (0.4_f64, 100_000);
        let delays = delays(config(p, &[1, 2, 3], None), 20, MS(2_000), count);
        let share =
            |delay: Option<u64>| delays.iter().filter(|own| **own == delay).count() as f64 / f64::from(count);
        // The end of the first transmission, of the copy in the first round, of two in the second, of three in the third.
        let ends = [20, 140, 260, 280, 400, 420, 440];
        for (errors, end) in (0..).zip(ends) {
            let expected = p.powi(errors) * (1.0 - p);
            let got = share(Some(end + 5));
            assert!((got - expected).abs() < 0.004, "{end} ms: {got} for {expected}");
        }
        assert!((share(None) - p.powi(7)).abs() < 0.001, "{}", share(None));
        let known = ends.map(|end| share(Some(end + 5))).iter().sum::<f64>() + share(None);
        assert!((known - 1.0).abs() < 1e-9, "nothing comes at another time: {known}");
    }

    /// What follows a frame in error is sent meanwhile: the link carries its rate less what is sent again.
    #[test]
    fn a_busy_link_loses_the_time_of_copies_and_no_more() {
        let (p, count) = (0.3_f64, 20_000_u64);
        let mut link = Link::new(config(p, &[1; 16], None), Seed(5));
        (0..count).for_each(|_| assert_eq!(link.push_once(Time::ZERO, Bytes(20), ()), Offered::Queued));
        let took = link.queue_delay(Time::ZERO).as_secs_f64();
        let expected = count as f64 * 0.020 / (1.0 - p);
        assert!((took / expected - 1.0).abs() < 0.01, "{took} s for {expected} s");
        // All come in order, each at most the time of a few rounds after it was sent.
        let mut latest = Time::ZERO;
        while let Some((at, ())) = link.pop(Time::MAX) {
            assert!(at >= latest);
            latest = at;
        }
        assert!(latest.as_secs_f64() < took + 3.0, "{latest:?}");
    }

    #[test]
    fn a_window_stops_the_sender_until_what_is_missing_has_come() {
        let took = |window| {
            let mut link = Link::new(config(0.3, &[1; 16], window), Seed(5));
            (0..2_000).for_each(|_| assert_eq!(link.push_once(Time::ZERO, Bytes(20), ()), Offered::Queued));
            link.queue_delay(Time::ZERO).as_secs_f64()
        };
        let free = took(None);
        // A round trip is five frames: a window of one stops at each error, one of 64 hardly ever.
        assert!(took(Some(64)) < 1.02 * free, "{} and {free}", took(Some(64)));
        assert!(took(Some(4)) > 1.2 * free, "{} and {free}", took(Some(4)));
        // Each frame in error costs the round trip and the copy, on average 0.3/0.7 times.
        let alone = 2_000.0 * (0.020 + 0.120 * 0.3 / 0.7);
        assert!((took(Some(1)) / alone - 1.0).abs() < 0.05, "{} for {alone}", took(Some(1)));
    }

    #[test]
    fn a_packet_whose_frame_is_given_up_is_lost_and_the_others_go_on() {
        let delays = delays(config(0.5, &[1], None), 60, MS(1_000), 20_000);
        let lost = delays.iter().filter(|delay| delay.is_none()).count() as f64 / 20_000.0;
        // Three frames, each lost when it and its copy fail.
        let expected = 1.0 - (1.0 - 0.25_f64).powi(3);
        assert!((lost - expected).abs() < 0.01, "{lost} for {expected}");
        assert_eq!(NakRounds::new(&[1, 0]), None);
        assert_eq!(NakRounds::new(&[1; 17]), None);
    }
}
