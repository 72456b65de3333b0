use super::released::Released;
use super::{AckRelease, AckReleaseKind, Event, Opening, Progress};
use alloc::boxed::Box;
use shorthaul_types::Time;

/// Acknowledge when the receiver has acknowledged. The last byte is kept back while more is under way, so that there is
/// something to acknowledge when the window has to be closed (M-TCP): 4.4BSD, for one, takes a smaller window only with an
/// acknowledgment of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct Delivered {}

/// Follows the receiver's acknowledgments.
#[derive(Debug)]
struct EndToEnd {
    released: Released,
    /// Up to where the receiver has acknowledged.
    delivered: u64,
}

impl AckReleaseKind for Delivered {
    fn open(&self, opening: &Opening) -> Box<dyn AckRelease> {
        Box::new(EndToEnd { released: Released::new(opening.next), delivered: opening.next })
    }
}

impl AckRelease for EndToEnd {
    fn on_event(&mut self, _now: Time, event: Event) {
        self.released.on_event(event);
        match event {
            Event::Delivered(Progress { delivered, held, .. }) => {
                self.delivered = delivered;
                self.released.advance(if held == 0 { delivered } else { delivered - 1 });
            }
            Event::WindowClosed => self.released.advance(self.delivered),
            _ => {}
        }
    }

    fn released(&self) -> u64 {
        self.released.to()
    }

    fn wants_ack(&self) -> bool {
        self.released.wants_ack()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_waits_while_more_is_under_way() {
        let opening = Opening { now: Time::ZERO, next: 1, mss: 1000, ts_recent: None };
        let mut release = Delivered {}.open(&opening);
        let mut delivered = |delivered, received| {
            let progress = Progress { delivered, received, held: received - delivered };
            release.on_event(Time::ZERO, Event::Delivered(progress));
            let said = (release.released(), release.wants_ack());
            release.on_event(Time::ZERO, Event::AckSent { with_data: false });
            said
        };
        assert_eq!(delivered(1001, 3001), (1000, true));
        assert_eq!(delivered(1001, 3001), (1000, false), "nothing new");
        assert_eq!(delivered(3001, 3001), (3001, true));
    }

    #[test]
    fn what_closes_the_window_acknowledges_the_last_byte() {
        let opening = Opening { now: Time::ZERO, next: 1, mss: 1000, ts_recent: None };
        let mut release = Delivered {}.open(&opening);
        release.on_event(Time::ZERO, Event::WindowClosed);
        assert_eq!((release.released(), release.wants_ack()), (1, false), "there is none");
        let progress = Progress { delivered: 1001, received: 3001, held: 2000 };
        release.on_event(Time::ZERO, Event::Delivered(progress));
        release.on_event(Time::ZERO, Event::AckSent { with_data: false });
        release.on_event(Time::ZERO, Event::WindowClosed);
        assert_eq!((release.released(), release.wants_ack()), (1001, true));
    }
}
