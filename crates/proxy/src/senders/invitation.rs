use super::WindowRule;
use shorthaul_types::{Deadline, Time};

/// What the window of [`WindowRule::ConstantQueue`] grows or shrinks by, per byte delivered, when the
/// queue is empty: a queue that is twice too long shrinks it as fast.
const GAIN: f64 = 0.125;

/// How much the sender of a direction is invited to send.
#[derive(Debug)]
pub(crate) struct Invitation {
    rule: WindowRule,
    /// The window of a rule that moves it, in bytes.
    size: f64,
    /// The smallest that it may become: two segments.
    least: f64,
    /// When the host at the edge was last heard, or began to owe an answer.
    heard: Time,
    /// Something is under way to it.
    waits: bool,
    frozen: bool,
}

impl Invitation {
    /// The invitation of a new direction with segments of `mss` bytes.
    pub fn new(now: Time, rule: WindowRule, mss: u32) -> Self {
        // RFC 6928's initial window: what a sender may send before anything is known
        let size = 10.0 * f64::from(mss);
        let least = 2.0 * f64::from(mss);
        Invitation { rule, size, least, heard: now, waits: false, frozen: false }
    }

    /// How many bytes may be held and under way together, if there is room for `room`.
    pub fn limit(&self, room: u64) -> u64 {
        match self.rule {
            WindowRule::Buffer | WindowRule::Freeze { .. } => room,
            WindowRule::Clamp(most) => room.min(most.0),
            WindowRule::ConstantQueue { .. } => room.min(self.size as u64),
        }
    }

    /// The host at the edge has acknowledged `bytes`, `held` are still to be delivered. Whether the
    /// sender has to hear that it may send again.
    pub fn on_delivered(&mut self, now: Time, bytes: u64, held: u64) -> bool {
        self.heard = now;
        if let WindowRule::ConstantQueue { queue } = self.rule {
            // CLAMP's dw = (tau - p(q) rate) dt, with a price p in proportion to the queue
            let missing = 1.0 - held as f64 / queue.0.max(1) as f64;
            self.size = (self.size + GAIN * bytes as f64 * missing.max(-1.0)).max(self.least);
        }
        core::mem::take(&mut self.frozen)
    }

    /// Whether something is `under_way` to the host at the edge.
    pub fn on_sent(&mut self, now: Time, under_way: bool) {
        if under_way && !self.waits {
            self.heard = now;
        }
        self.waits = under_way;
    }

    /// Time has passed. Whether the sender has to hear that its window is closed.
    pub fn on_timeout(&mut self, now: Time) -> bool {
        let due = self.poll_timeout().is_some_and(|deadline| deadline.at <= now);
        self.frozen |= due;
        due
    }

    /// Whether the window is closed, whatever was offered before.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// When the host at the edge will have been silent for too long.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        match self.rule {
            WindowRule::Freeze { after } if self.waits && !self.frozen => {
                Some(Deadline { at: self.heard + after, timer: "silent-edge" })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use shorthaul_types::Bytes;

    #[test]
    fn a_constant_queue_is_approached_from_both_sides() {
        for start in [2_000.0, 500_000.0] {
            let rule = WindowRule::ConstantQueue { queue: Bytes(30_000) };
            let mut invitation = Invitation::new(Time::ZERO, rule, 1000);
            invitation.size = start;
            // 20 kB fit on the way: the rest of the window is in the queue
            for _ in 0..6000 {
                let held = invitation.limit(u64::MAX).saturating_sub(20_000);
                invitation.on_delivered(Time::ZERO, 1000, held);
            }
            let queue = invitation.limit(u64::MAX) - 20_000;
            assert!((29_000..31_000).contains(&queue), "{queue} from {start}");
        }
    }

    #[test]
    fn the_window_closes_when_the_edge_is_silent_and_opens_when_it_is_heard() {
        let rule = WindowRule::Freeze { after: Duration::from_secs(1) };
        let mut invitation = Invitation::new(Time::ZERO, rule, 1000);
        assert!(invitation.poll_timeout().is_none(), "nothing is under way");
        invitation.on_sent(Time::from_secs(5), true);
        assert_eq!(invitation.poll_timeout().map(|deadline| deadline.at), Some(Time::from_secs(6)));
        assert!(!invitation.on_timeout(Time::from_millis(5900)));
        assert!(invitation.on_timeout(Time::from_secs(6)) && invitation.is_frozen());
        assert!(invitation.on_delivered(Time::from_secs(9), 1000, 0) && !invitation.is_frozen());
        assert_eq!(invitation.limit(7000), 7000);
    }

    #[test]
    fn a_clamp_bounds_what_is_held_and_under_way() {
        let invitation = Invitation::new(Time::ZERO, WindowRule::Clamp(Bytes(12_000)), 1000);
        assert_eq!((invitation.limit(1 << 20), invitation.limit(8000)), (12_000, 8000));
    }
}
