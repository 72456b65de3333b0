use super::{EdgeReport, WindowRule};
use shorthaul_types::{Deadline, Time};

/// How fast the window of [`WindowRule::ConstantQueue`] moves, per byte delivered: with an empty queue it grows
/// by this share of it, so that it doubles in some eight round trips.
const GAIN: f64 = 0.125;
/// The price is no higher than that of a queue so many times too long: a burst must not close the window.
const HIGHEST_PRICE: f64 = 2.0;
/// A flow's share counts up to so many times what it was delivered: who pauses gathers no claims.
const MOST_SHARE: u64 = 4;

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

    /// The host at the edge has acknowledged something. Whether the sender has to hear that it may send again.
    pub fn on_delivered(&mut self, now: Time) -> bool {
        self.heard = now;
        core::mem::take(&mut self.frozen)
    }

    /// What this flow's deliveries mean in the queue that it shares; see [`WindowRule::ConstantQueue`]. It is
    /// heeded by that rule alone.
    pub fn on_report(&mut self, EdgeReport { delivered, fair, queue }: EdgeReport) {
        let WindowRule::ConstantQueue { queue: wanted } = self.rule else { return };
        let price = (queue as f64 / wanted.0.max(1) as f64).min(HIGHEST_PRICE);
        let share = fair.min(MOST_SHARE * delivered) as f64;
        self.size = (self.size + GAIN * (share - price * delivered as f64)).max(self.least);
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
                invitation.on_report(EdgeReport { delivered: 1000, fair: 1000, queue: held });
            }
            let queue = invitation.limit(u64::MAX) - 20_000;
            assert!((29_000..31_000).contains(&queue), "{queue} from {start}");
        }
    }

    #[test]
    fn flows_that_share_a_queue_come_to_equal_rates() {
        let rule = WindowRule::ConstantQueue { queue: Bytes(30_000) };
        let mut flows =
            [20_000.0, 200_000.0].map(|size| Invitation { size, ..Invitation::new(Time::ZERO, rule, 1000) });
        // one link of 1000 bytes a turn, shared by the windows, and 10 kB of way for each
        for _ in 0..40_000 {
            let windows = flows.each_ref().map(|flow| flow.limit(u64::MAX));
            let queue = windows.iter().sum::<u64>().saturating_sub(20_000);
            for (flow, window) in flows.iter_mut().zip(windows) {
                let delivered = 1000 * window / windows.iter().sum::<u64>();
                flow.on_report(EdgeReport { delivered, fair: 500, queue });
            }
        }
        let [a, b] = flows.each_ref().map(|flow| flow.limit(u64::MAX));
        assert!((24_000..26_000).contains(&a) && a.abs_diff(b) < 500, "{a} and {b}");
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
        assert!(invitation.on_delivered(Time::from_secs(9)) && !invitation.is_frozen());
        assert_eq!(invitation.limit(7000), 7000);
    }

    #[test]
    fn a_clamp_bounds_what_is_held_and_under_way() {
        let invitation = Invitation::new(Time::ZERO, WindowRule::Clamp(Bytes(12_000)), 1000);
        assert_eq!((invitation.limit(1 << 20), invitation.limit(8000)), (12_000, 8000));
    }
}
