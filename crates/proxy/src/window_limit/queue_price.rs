use super::{Occupancy, WindowLimit, WindowLimitKind, WindowUpdate};
use crate::ack_release::{Event, Opening, QueueShare};
use crate::policy::{Setting, Subscription};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use shorthaul_types::{Bytes, Time};

/// Offer a flow a window w that grows by its share a round trip, and shrinks by the price of its host's queue (CLAMP, by its own
/// equations):
///
/// ```text
/// dw = (φτ − p(q)·µ)/d dt,   p(q) = max(0, (b·q − a)/µc)
/// ```
/// with the flow's rate µ, its round trip d, the queue q of all flows, and the capacity µc. Where nothing changes any more, µ is
/// φτ/p, so that flows share as their φ do, and q is (a + τ·Σφ)/b: hardly more with more flows, if τ is small beside a.
///
/// Andrew, Hanly and Mukhtar, "CLAMP: A System to Enhance the Performance of Wireless Access Networks", GLOBECOM 2003, and "CLAMP:
/// Active Queue Management at Wireless Access Points", European Wireless 2005. Only abstracts were at hand; the equations are quoted
/// from memory of them. Ours: µ/µc is what the flow delivered of all that its host was delivered meanwhile; d is the time in
/// which a window is delivered, w/µ (the abstracts say that no propagation delay is estimated); the queue is what is held for
/// the host, with what is under way over its link, so a is to be that product and the queue besides. The window is not above what a
/// segment for each acknowledged one makes of it, and begins with RFC 6928's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct QueuePrice {
    /// a: the queue that costs nothing, times b.
    pub a: Bytes,
    /// b: how fast the price rises with the queue.
    #[cfg_attr(feature = "serde", serde(default = "one"))]
    pub b: u32,
    /// φτ: by how much the window of a flow grows in a round trip that costs nothing.
    pub tau: Bytes,
}

#[cfg(feature = "serde")]
fn one() -> u32 {
    1
}

/// A flow's window, in bytes.
#[derive(Debug)]
struct Priced {
    of: QueuePrice,
    size: f64,
    /// The smallest that it may become: two segments.
    least: f64,
}

impl WindowLimitKind for QueuePrice {
    fn open(&self, opening: &Opening) -> Box<dyn WindowLimit> {
        let mss = f64::from(opening.mss);
        Box::new(Priced { of: *self, size: 10.0 * mss, least: 2.0 * mss })
    }

    fn subscription(&self) -> Subscription<'_> {
        Subscription::HostQueue
    }

    fn check(&self, setting: &Setting<'_>) -> Result<(), String> {
        if self.b == 0 || self.tau.0 == 0 {
            let key = if self.b == 0 { "b" } else { "tau" };
            return Err(alloc::format!(
                "{key}: with zero no queue and no window is found; write 1 and \"1500 B\", for example"
            ));
        }
        match setting.aggregate {
            None => Ok(()),
            Some(_) => Err("the aggregate and this bound on the window both steer the queue of a host; leave out one of them".to_string()),
        }
    }
}

impl WindowLimit for Priced {
    fn bound(&mut self, occupancy: &Occupancy, room: u64) -> u64 {
        room.min((self.size as u64).saturating_sub(occupancy.held))
    }

    fn on_event(&mut self, _now: Time, event: Event) -> Option<WindowUpdate> {
        if let Event::Shared(QueueShare { delivered, all, queue, .. }) = event {
            let delivered = delivered as f64;
            let share = delivered / all.max(1) as f64;
            let price = (f64::from(self.of.b) * queue as f64 - self.of.a.0 as f64).max(0.0);
            let change = (self.of.tau.0 as f64 - price * share) * delivered / self.size;
            // One that is delivered makes room for two at most, or for none.
            self.size = (self.size + change.clamp(-delivered, delivered)).max(self.least);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const EMPTY: Occupancy = Occupancy { held: 0, unsent: 0, early: 0 };

    /// So many flows over a link that delivers 1000 bytes at a time, each with 10 kB of way. What stands in the queue at the end, and
    /// the windows.
    fn settled(kinds: &[QueuePrice], start: f64) -> (u64, Vec<u64>) {
        let mut flows: Vec<Priced> =
            kinds.iter().map(|of| Priced { of: *of, size: start, least: 2000.0 }).collect();
        let way = 10_000 * flows.len() as u64;
        let mut queue = 0;
        for turn in 0..400_000 {
            let windows: Vec<u64> = flows.iter_mut().map(|flow| flow.bound(&EMPTY, u64::MAX)).collect();
            let all: u64 = windows.iter().sum();
            queue = all.saturating_sub(way);
            // Each is delivered as often as its share of what is under way.
            let at = turn % flows.len();
            let delivered = 1000 * windows[at] * windows.len() as u64 / all;
            let share = QueueShare { delivered, fair: 1000, all: 1000 * flows.len() as u64, queue };
            flows[at].on_event(Time::ZERO, Event::Shared(share));
        }
        (queue, flows.iter_mut().map(|flow| flow.bound(&EMPTY, u64::MAX)).collect())
    }

    const ONE: QueuePrice = QueuePrice { a: Bytes(30_000), b: 1, tau: Bytes(1000) };

    #[test]
    fn the_queue_is_that_of_the_equations_from_both_sides() {
        for start in [3_000.0, 300_000.0] {
            let (queue, _) = settled(&[ONE], start);
            assert!(queue.abs_diff(31_000) < 300, "{queue} from {start}");
            let (queue, _) = settled(&[QueuePrice { b: 2, ..ONE }], start);
            assert!(queue.abs_diff(15_500) < 300, "{queue} from {start}");
        }
    }

    #[test]
    fn more_flows_hardly_lengthen_it_and_share_equally() {
        let (queue, windows) = settled(&[ONE; 5], 40_000.0);
        assert!(queue.abs_diff(35_000) < 500, "{queue}");
        let (least, most) = (windows.iter().min().unwrap(), windows.iter().max().unwrap());
        assert!(most - least < 1500, "{windows:?}");
    }

    #[test]
    fn flows_share_as_their_weights() {
        let (_, windows) = settled(&[ONE, QueuePrice { tau: Bytes(3000), ..ONE }], 20_000.0);
        let ratio = windows[1] as f64 / windows[0] as f64;
        assert!((2.8..3.2).contains(&ratio), "{windows:?}");
    }
}
