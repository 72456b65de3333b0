use super::released::Released;
use super::{AckOptions, AckRelease, AckReleaseKind, Event, Opening, Progress};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;
use shorthaul_types::Time;

/// So many arrivals are remembered; beyond, several count as one, as of the earliest.
const REMEMBERED: usize = 1024;
/// For so long timestamps are watched before their clock is believed to be known.
const WATCHED: Duration = Duration::from_millis(500);

/// Acknowledge when the receiver has acknowledged, and let the timestamp that is echoed hide how long the data was here, so that
/// the sender times the way to the gateway alone (W-TCP).
///
/// Ratnam and Matta, "WTCP: An Efficient Mechanism for Improving TCP Performance over Wireless Links", ISCC 1998, as public
/// descriptions have it: the base station acknowledges what the mobile host has acknowledged, and adds the time that a segment
/// was with it to the timestamp of that segment. The paper's own text was not at hand. Guessed: the unit of the sender's
/// timestamps, which is measured here from those that come; until it is known, nothing is hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct WithoutResidence {}

/// Follows the receiver's acknowledgments, and knows when what they acknowledge came.
#[derive(Debug)]
struct Hidden {
    released: Released,
    clock: Clock,
    waiting: VecDeque<Arrival>,
    /// The timestamp to echo.
    echo: Option<u32>,
}

/// Data that is here.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// Behind its last byte.
    end: u64,
    at: Time,
    ts: u32,
}

/// How fast the sender's timestamps run: the first that came, and the latest.
#[derive(Debug, Default)]
struct Clock {
    first: Option<(Time, u32)>,
    last: Option<(Time, u32)>,
}

impl Clock {
    fn on_timestamp(&mut self, at: Time, ts: u32) {
        self.first.get_or_insert((at, ts));
        self.last = Some((at, ts));
    }

    /// By how much it runs on in `time`, rounded down; not at all before it is known.
    fn ticks(&self, time: Duration) -> u32 {
        let (Some((from, first)), Some((to, last))) = (self.first, self.last) else { return 0 };
        let watched = to.saturating_since(from);
        if watched < WATCHED {
            return 0;
        }
        let ticks = u128::from(last.wrapping_sub(first)) * time.as_nanos() / watched.as_nanos();
        u32::try_from(ticks).unwrap_or(0)
    }
}

impl AckReleaseKind for WithoutResidence {
    fn open(&self, opening: &Opening) -> Box<dyn AckRelease> {
        Box::new(Hidden {
            released: Released::new(opening.next),
            clock: Clock::default(),
            waiting: VecDeque::new(),
            echo: opening.ts_recent,
        })
    }
}

impl Hidden {
    fn on_arrival(&mut self, arrival: Arrival) {
        self.clock.on_timestamp(arrival.at, arrival.ts);
        let full = self.waiting.len() >= REMEMBERED;
        match self.waiting.back_mut() {
            Some(last) if full => last.end = arrival.end,
            _ => self.waiting.push_back(arrival),
        }
    }

    fn on_delivered(&mut self, now: Time, delivered: u64) {
        while let Some(arrival) = self.waiting.pop_front_if(|first| first.end <= delivered) {
            let residence = now.saturating_since(arrival.at);
            self.echo = Some(arrival.ts.wrapping_add(self.clock.ticks(residence)));
        }
    }
}

impl AckRelease for Hidden {
    fn on_event(&mut self, now: Time, event: Event) {
        self.released.on_event(event);
        match event {
            Event::Received { bytes, in_order, ts_recent: Some(ts), .. } if bytes > 0 => {
                self.on_arrival(Arrival { end: in_order, at: now, ts });
            }
            Event::Delivered(Progress { delivered, .. }) => {
                self.on_delivered(now, delivered);
                self.released.advance(delivered);
            }
            _ => {}
        }
    }

    fn released(&self) -> u64 {
        self.released.to()
    }

    fn wants_ack(&self) -> bool {
        self.released.wants_ack()
    }

    fn options(&self, received: AckOptions, in_order: u64) -> AckOptions {
        let held = received.held_back(self.released(), in_order);
        AckOptions { ts_recent: held.ts_recent.and(self.echo), ..held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    fn release() -> Box<dyn AckRelease> {
        WithoutResidence {}.open(&Opening { now: Time::ZERO, next: 1, mss: 1000, ts_recent: Some(7) })
    }

    /// The segment that ends there comes, with the sender's clock of 4 ms a tick at its departure 10 ms before.
    fn comes(release: &mut Box<dyn AckRelease>, at: u64, end: u64) {
        let ts_recent = Some(1000 + ((at - 10) / 4) as u32);
        release.on_event(MS(at), Event::Received { bytes: 1000, in_order: end, ts_recent, gap: false });
    }

    fn acknowledged(
        release: &mut Box<dyn AckRelease>,
        at: u64,
        delivered: u64,
        received: u64,
    ) -> Option<u32> {
        let held = received - delivered;
        release.on_event(MS(at), Event::Delivered(Progress { delivered, received, held }));
        assert_eq!((release.released(), release.wants_ack()), (delivered, true));
        release.options(AckOptions { ts_recent: Some(99), ..AckOptions::default() }, received).ts_recent
    }

    #[test]
    fn the_time_that_data_was_here_is_not_in_the_round_trip() {
        let mut release = release();
        for number in 0..5 {
            comes(&mut release, 110 + 200 * number, 1001 + 1000 * number);
        }
        // The last came at 910 ms, and left the sender at 900. It was here for 3 s; the sender's clock is now at 3900 ms,
        // when it would have left had it not been here.
        let echo = acknowledged(&mut release, 3910, 5001, 5001);
        assert_eq!(echo, Some(1000 + 3900 / 4));
        // What comes and goes at once is echoed as it came.
        comes(&mut release, 4010, 6001);
        assert_eq!(acknowledged(&mut release, 4010, 6001, 6001), Some(1000 + 4000 / 4));
    }

    #[test]
    fn before_the_clock_is_known_the_round_trip_is_that_to_the_receiver() {
        let mut release = release();
        comes(&mut release, 110, 1001);
        comes(&mut release, 150, 2001);
        assert_eq!(acknowledged(&mut release, 900, 1001, 2001), Some(1000 + 100 / 4));
        assert_eq!(acknowledged(&mut release, 950, 2001, 2001), Some(1000 + 140 / 4));
    }

    #[test]
    fn who_has_no_timestamps_is_acknowledged_when_delivered() {
        let mut release =
            WithoutResidence {}.open(&Opening { now: Time::ZERO, next: 1, mss: 1000, ts_recent: None });
        release.on_event(MS(5), Event::Received { bytes: 1000, in_order: 1001, ts_recent: None, gap: false });
        assert_eq!((release.released(), release.wants_ack()), (1, false));
        release.on_event(MS(9), Event::Delivered(Progress { delivered: 1001, received: 1001, held: 0 }));
        assert_eq!(release.options(AckOptions::default(), 1001).ts_recent, None);
        assert_eq!((release.released(), release.wants_ack()), (1001, true));
    }
}
