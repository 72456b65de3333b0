use super::{Occupancy, WindowLimit, WindowLimitKind, WindowUpdate};
use crate::ack_release::{Event, Opening};
use crate::policy::Setting;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::time::Duration;
use shorthaul_types::{Deadline, Time};

/// Offer nothing while the receiver is silent (M-TCP), and close what was offered before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, schemars::JsonSchema), serde(deny_unknown_fields))]
pub struct Freeze {
    /// For how long it must have been silent while something is under way to it.
    #[cfg_attr(
        feature = "serde",
        serde(with = "shorthaul_types::serde_duration"),
        schemars(with = "shorthaul_types::schema::Duration")
    )]
    pub after: Duration,
}

/// Watches the receiver of one direction.
#[derive(Debug)]
struct Silence {
    after: Duration,
    /// When the receiver was last heard, or began to owe an answer.
    heard: Time,
    /// Something is under way to it.
    waits: bool,
    frozen: bool,
}

impl WindowLimitKind for Freeze {
    fn open(&self, opening: &Opening) -> Box<dyn WindowLimit> {
        Box::new(Silence { after: self.after, heard: opening.now, waits: false, frozen: false })
    }

    fn check(&self, _setting: &Setting<'_>) -> Result<(), String> {
        match self.after.is_zero() {
            true => Err("after: no receiver answers at once; write a time such as \"1 s\"".to_string()),
            false => Ok(()),
        }
    }
}

impl WindowLimit for Silence {
    fn bound(&mut self, _occupancy: &Occupancy, room: u64) -> u64 {
        room
    }

    fn on_event(&mut self, now: Time, event: Event) -> Option<WindowUpdate> {
        match event {
            Event::Delivered(_) => {
                self.heard = now;
                core::mem::take(&mut self.frozen).then_some(WindowUpdate::Open)
            }
            Event::Polled { under_way } => {
                if under_way && !self.waits {
                    self.heard = now;
                }
                self.waits = under_way;
                None
            }
            Event::Timeout => {
                let due = self.poll_timeout().is_some_and(|deadline| deadline.at <= now);
                self.frozen |= due;
                due.then_some(WindowUpdate::Closed)
            }
            _ => None,
        }
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        (self.waits && !self.frozen)
            .then(|| Deadline { at: self.heard + self.after, timer: "silent-receiver" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ack_release::Progress;

    #[test]
    fn the_window_closes_when_the_receiver_is_silent_and_opens_when_it_is_heard() {
        let opening = Opening { now: Time::ZERO, next: 1, mss: 1000, ts_recent: None };
        let mut limit = Freeze { after: Duration::from_secs(1) }.open(&opening);
        assert!(limit.poll_timeout().is_none(), "nothing is under way");
        limit.on_event(Time::from_secs(5), Event::Polled { under_way: true });
        assert_eq!(limit.poll_timeout().map(|deadline| deadline.at), Some(Time::from_secs(6)));
        assert_eq!(limit.on_event(Time::from_millis(5900), Event::Timeout), None);
        assert_eq!(limit.on_event(Time::from_secs(6), Event::Timeout), Some(WindowUpdate::Closed));
        let heard = Event::Delivered(Progress { delivered: 2, received: 2, held: 0 });
        assert_eq!(limit.on_event(Time::from_secs(9), heard), Some(WindowUpdate::Open));
        assert_eq!(limit.bound(&Occupancy { held: 0, unsent: 0, early: 0 }, 7000), 7000);
    }
}
