use super::{Occupancy, WindowLimit, WindowLimitKind, WindowUpdate};
use crate::ack_release::{Event, Opening, QueueShare};
use crate::policy::{Setting, Subscription};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use shorthaul_types::{Bytes, Time};

/// How fast the window moves, per byte delivered: with an empty queue it grows by this share of it, so that it doubles in
/// some eight round trips.
const GAIN: f64 = 0.125;
/// The price is at most that of a queue this many times too long: a burst must not close the window.
const HIGHEST_PRICE: f64 = 2.0;
/// A flow's share counts up to this many times what it was delivered: who pauses gathers no claims.
const MOST_SHARE: u64 = 4;

/// Offer what keeps the queue of a host at the gateway constant, and its flows' rates equal (CLAMP): each flow's window w
/// grows by its share, and shrinks by a price p(q) for what it was delivered,
///
/// ```text
/// dw = (τ − p(q)·μ) dt          μ: the flow's rate, q: the queue of all flows of the host
/// ```
///
/// (Andrew, Hanly and Mukhtar, "CLAMP: A System to Enhance the Performance of Wireless Access Networks",
/// GLOBECOM 2003, and technical report CUBIN 2004-02-01.) Verified in their abstracts are the idea, its one
/// signal (the aggregate queue, and no propagation delays) and its aim (a chosen queue and chosen shares). Here
/// the form is that of AGG's equations 1 and 2, which follow the same authors; [`QueuePrice`](super::QueuePrice) has the equations of
/// CLAMP's own papers, as far as they are known. The constants are ours: p(q) is q over the queue aimed at, and τ the rate that all flows would have if they had
/// the same, so that the queue does not grow with the number of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct ConstantQueue {
    /// The queue that is aimed at, of all flows of a host together, in bytes of payload.
    pub queue: Bytes,
}

/// A flow's window, in bytes.
#[derive(Debug)]
struct Window {
    size: f64,
    /// The smallest that it may become: two segments.
    least: f64,
    /// The queue that is aimed at.
    queue: u64,
}

impl ConstantQueue {
    fn window(&self, opening: &Opening) -> Window {
        let mss = f64::from(opening.mss);
        // RFC 6928's initial window: what a sender may send before anything is known
        Window { size: 10.0 * mss, least: 2.0 * mss, queue: self.queue.0 }
    }
}

impl WindowLimitKind for ConstantQueue {
    fn open(&self, opening: &Opening) -> Box<dyn WindowLimit> {
        Box::new(self.window(opening))
    }

    fn subscription(&self) -> Subscription<'_> {
        Subscription::HostQueue
    }

    fn check(&self, setting: &Setting<'_>) -> Result<(), String> {
        match setting.aggregate {
            None => Ok(()),
            Some(_) => Err("the aggregate and this bound on the window both steer the queue of a host; leave out one of them".to_string()),
        }
    }
}

impl WindowLimit for Window {
    fn bound(&mut self, occupancy: &Occupancy, room: u64) -> u64 {
        room.min((self.size as u64).saturating_sub(occupancy.held))
    }

    fn on_event(&mut self, _now: Time, event: Event) -> Option<WindowUpdate> {
        if let Event::Shared(QueueShare { delivered, fair, queue, .. }) = event {
            let price = (queue as f64 / self.queue.max(1) as f64).min(HIGHEST_PRICE);
            let share = fair.min(MOST_SHARE * delivered) as f64;
            self.size = (self.size + GAIN * (share - price * delivered as f64)).max(self.least);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: Occupancy = Occupancy { held: 0, unsent: 0, early: 0 };

    fn window(size: f64) -> Window {
        let opening = Opening { now: Time::ZERO, next: 1, mss: 1000, ts_recent: None };
        Window { size, ..ConstantQueue { queue: Bytes(30_000) }.window(&opening) }
    }

    fn tell(window: &mut Window, delivered: u64, fair: u64, queue: u64) {
        window.on_event(Time::ZERO, Event::Shared(QueueShare { delivered, fair, all: fair, queue }));
    }

    #[test]
    fn a_constant_queue_is_approached_from_both_sides() {
        for start in [2_000.0, 500_000.0] {
            let mut window = window(start);
            // 20 kB fit on the way: the rest of the window is in the queue
            for _ in 0..6000 {
                let held = window.bound(&EMPTY, u64::MAX).saturating_sub(20_000);
                tell(&mut window, 1000, 1000, held);
            }
            let queue = window.bound(&EMPTY, u64::MAX) - 20_000;
            assert!((29_000..31_000).contains(&queue), "{queue} from {start}");
        }
    }

    #[test]
    fn flows_that_share_a_queue_come_to_equal_rates() {
        let mut flows = [20_000.0, 200_000.0].map(window);
        // one link of 1000 bytes a turn, shared by the windows, and 10 kB of way for each
        for _ in 0..40_000 {
            let windows = flows.each_mut().map(|flow| flow.bound(&EMPTY, u64::MAX));
            let queue = windows.iter().sum::<u64>().saturating_sub(20_000);
            for (flow, window) in flows.iter_mut().zip(windows) {
                let delivered = 1000 * window / windows.iter().sum::<u64>();
                tell(flow, delivered, 500, queue);
            }
        }
        let [a, b] = flows.each_mut().map(|flow| flow.bound(&EMPTY, u64::MAX));
        assert!((24_000..26_000).contains(&a) && a.abs_diff(b) < 500, "{a} and {b}");
    }
}
