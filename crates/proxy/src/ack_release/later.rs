use super::released::Released;
use super::{AckOptions, AckRelease, AckReleaseKind, Event, Opening};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;
use shorthaul_types::{Deadline, Time};

/// Times are rounded up to this part of the delay, which bounds the acknowledgments that wait.
const PARTS: u128 = 64;

/// Acknowledge as early as without a release, but a fixed time later: to its sender, the path is that much longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct Later {
    /// How much later.
    #[cfg_attr(
        feature = "serde",
        serde(with = "shorthaul_types::serde_duration"),
        schemars(with = "shorthaul_types::schema::Duration")
    )]
    pub after: Duration,
}

/// What has come and is still to be acknowledged.
#[derive(Debug)]
struct Delayed {
    after: Duration,
    released: Released,
    /// The timestamp to echo: the earliest of what is acknowledged with one acknowledgment (RFC 7323 §4.3).
    ts_recent: Option<u32>,
    waiting: VecDeque<Waiting>,
}

/// What has come in one part of the time.
#[derive(Debug)]
struct Waiting {
    /// Up to where everything had come then.
    end: u64,
    due: Time,
    ts_recent: Option<u32>,
}

impl AckReleaseKind for Later {
    fn open(&self, opening: &Opening) -> Box<dyn AckRelease> {
        Box::new(Delayed {
            after: self.after,
            released: Released::new(opening.next),
            ts_recent: opening.ts_recent,
            waiting: VecDeque::new(),
        })
    }
}

impl Delayed {
    fn on_received(&mut self, now: Time, end: u64, ts_recent: Option<u32>) {
        let part = (self.after.as_nanos() / PARTS).max(1) as u64;
        let due = Time::from_nanos((now + self.after).as_nanos().next_multiple_of(part));
        match self.waiting.back_mut() {
            Some(last) if last.due == due => last.end = end,
            _ => self.waiting.push_back(Waiting { end, due, ts_recent }),
        }
    }

    fn release_due(&mut self, now: Time) {
        while let Some(Waiting { end, ts_recent, .. }) = self.waiting.pop_front_if(|first| first.due <= now) {
            if !self.released.has_moved() {
                self.ts_recent = ts_recent;
            }
            self.released.advance(end);
        }
    }
}

impl AckRelease for Delayed {
    fn on_event(&mut self, now: Time, event: Event) {
        self.released.on_event(event);
        match event {
            Event::Received { bytes, in_order, ts_recent, .. } if bytes > 0 => {
                self.on_received(now, in_order, ts_recent);
            }
            Event::Timeout => self.release_due(now),
            // With the acknowledgment of the FIN the flow is over: there is nothing left to wait for.
            Event::Finished(end) => {
                self.waiting.clear();
                self.released.advance(end);
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
        AckOptions { ts_recent: self.ts_recent, ..received.held_back(self.released.to(), in_order) }
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.waiting.front().map(|first| Deadline { at: first.due, timer: "later" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn open() -> Box<dyn AckRelease> {
        let opening = Opening { now: ms(0), next: 1, mss: 1000, ts_recent: None };
        Later { after: Duration::from_millis(64) }.open(&opening)
    }

    fn receive(release: &mut Box<dyn AckRelease>, at: Time, in_order: u64) {
        release.on_event(
            at,
            Event::Received { bytes: 1000, in_order, ts_recent: Some(in_order as u32), gap: false },
        );
    }

    #[test]
    fn each_arrival_is_acknowledged_that_much_later() {
        let mut release = open();
        receive(&mut release, ms(10), 1001);
        receive(&mut release, ms(30), 2001);
        assert_eq!(release.poll_timeout().map(|deadline| deadline.at), Some(ms(74)));
        for (at, released, wants) in [(73, 1, false), (74, 1001, true), (93, 1001, false), (94, 2001, true)] {
            release.on_event(ms(at), Event::Timeout);
            assert_eq!((release.released(), release.wants_ack()), (released, wants), "at {at} ms");
            let echoed = (released > 1).then_some(released as u32);
            assert_eq!(
                release.options(AckOptions::default(), 2001).ts_recent,
                echoed,
                "of what is acknowledged"
            );
            release.on_event(ms(at), Event::AckSent { with_data: false });
        }
        assert!(release.poll_timeout().is_none());
    }

    #[test]
    fn what_comes_at_once_is_acknowledged_at_once_and_never_too_early() {
        let mut release = open();
        for step in 0..10 {
            receive(&mut release, Time::from_micros(10_000 + 90 * step), 1001 + 1000 * step);
        }
        release.on_event(ms(74), Event::Timeout);
        assert_eq!(release.released(), 1001, "the first");
        release.on_event(ms(75), Event::Timeout);
        assert_eq!((release.released(), release.poll_timeout()), (10_001, None), "and the others");
    }

    #[test]
    fn a_steady_stream_is_not_put_off_for_ever() {
        let mut release = open();
        let mut now = ms(0);
        for step in 1..1000 {
            now += Duration::from_micros(900);
            receive(&mut release, now, 1 + 1000 * step);
            release.on_event(now, Event::Timeout);
        }
        let behind = 1 + 1000 * 999 - release.released();
        assert!((64_000 / 900 * 1000..64_000 / 900 * 1000 + 4_000).contains(&behind), "{behind}");
    }

    #[test]
    fn a_finished_stream_waits_no_longer() {
        let mut release = open();
        receive(&mut release, ms(10), 1001);
        release.on_event(ms(11), Event::Finished(1001));
        assert_eq!((release.released(), release.wants_ack(), release.poll_timeout()), (1001, true, None));
    }
}
