use super::released::Released;
use super::{AckRelease, AckReleaseKind, Event, Opening, Progress};
use alloc::boxed::Box;
use shorthaul_types::{Bytes, Time};

/// Acknowledge when the receiver has acknowledged, and the gateway's queue has room for what that will bring: the
/// acknowledgments wait, and with them the sender (ACK regulator).
///
/// After Chan and Ramjee, "TCP/IP Performance over 3G Wireless Links with Rate and Delay Variation", MobiCom
/// 2002, as their patent US 8 230 106 claims it (claim 1): when a packet leaves the queue or an
/// acknowledgment comes, the room is what is free in the queue less what the acknowledgments already released
/// will still bring. The sender's window is estimated as the distance from the smallest acknowledgment that
/// waits to the largest data received. While it is below the queue's limit the regulator is conservative: an
/// acknowledgment may bring two packets (slow start), and room for both is kept. Above it, one is counted
/// for one, and what congestion avoidance adds may overflow the queue, by one packet a round trip. The paper's
/// own pseudo-code was not at hand; its reserve in the conservative mode may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct Regulated {
    /// The limit of the queue, in bytes of payload.
    pub queue: Bytes,
}

/// Keeps the queue from overflowing.
#[derive(Debug)]
struct Regulator {
    released: Released,
    /// The limit of the queue.
    queue: u64,
    /// What the acknowledgments that were let through are expected to bring and have not brought yet.
    expected: u64,
    /// A full segment: less is not worth an acknowledgment.
    segment: u64,
}

impl AckReleaseKind for Regulated {
    fn open(&self, opening: &Opening) -> Box<dyn AckRelease> {
        let segment = u64::from(opening.mss);
        let queue = self.queue.0;
        Box::new(Regulator { released: Released::new(opening.next), queue, expected: 0, segment })
    }
}

impl Regulator {
    /// How much of what waits may be acknowledged.
    fn admitted(&mut self, Progress { delivered, received, held }: Progress) -> u64 {
        let room = self.queue.saturating_sub(held + self.expected);
        let window = received - self.released.to();
        let brings = if window < self.queue { 2 } else { 1 };
        let most = (room / brings).min(delivered.saturating_sub(self.released.to()));
        let released = most / self.segment * self.segment;
        self.expected += brings * released;
        released
    }
}

impl AckRelease for Regulator {
    fn on_event(&mut self, _now: Time, event: Event) {
        self.released.on_event(event);
        match event {
            Event::Received { bytes, .. } => self.expected = self.expected.saturating_sub(bytes),
            Event::Delivered(progress) => {
                let to = if progress.held == 0 {
                    self.expected = 0; // nothing more will come to make room
                    progress.delivered
                } else {
                    self.released.to() + self.admitted(progress)
                };
                self.released.advance(to);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgments_wait_until_the_queue_has_room_for_what_they_bring() {
        let opening = Opening { now: Time::ZERO, next: 1, mss: 1000, ts_recent: None };
        let mut release = Regulated { queue: Bytes(10_000) }.open(&opening);
        let delivered = |release: &mut Box<dyn AckRelease>, delivered, received| {
            let progress = Progress { delivered, received, held: received - delivered };
            release.on_event(Time::ZERO, Event::Delivered(progress));
            (release.released(), release.wants_ack())
        };
        // 5000 of 10000 are free: as the window is small, an acknowledgment may bring twice its bytes
        assert_eq!(delivered(&mut release, 3001, 8001), (2001, true));
        // 4000 are expected and 5000 held: no more than half a segment
        release.on_event(Time::ZERO, Event::AckSent { with_data: false });
        assert_eq!(delivered(&mut release, 3001, 8001), (2001, false));
        // they have come and were delivered
        release.on_event(
            Time::ZERO,
            Event::Received { bytes: 4000, in_order: 12_001, ts_recent: None, gap: false },
        );
        assert_eq!(
            delivered(&mut release, 9001, 12_001).0,
            9001,
            "with a window of the queue, one is counted for one"
        );
        assert_eq!(delivered(&mut release, 12_001, 12_001).0, 12_001, "an empty queue holds nothing back");
    }
}
