//! A machine that looks at what happens late.
use shorthaul_scenario::Lateness;
use shorthaul_types::{PortId, Seed, Time};
use shorthaul_wire::Packet;
use std::time::Duration;

/// What a machine that is late has to be told yet, and when it looks.
///
/// Packets that come while it does not look wait in its devices, which have room for all. When it looks, it takes them in
/// first, all at that time, and then serves its timers: as the live event loop does.
pub(crate) struct Sleep {
    lateness: Lateness,
    seed: Seed,
    wakeups: u64,
    wakes_at: Option<Time>,
    waiting: Vec<(PortId, Packet)>,
}

impl Sleep {
    pub fn new(lateness: Lateness, seed: Seed) -> Self {
        Sleep { lateness, seed, wakeups: 0, wakes_at: None, waiting: Vec::new() }
    }

    /// A packet comes: it is given back if the machine looks at it now.
    pub fn on_packet(&mut self, now: Time, port: PortId, packet: Packet) -> Option<Packet> {
        if self.wakes_at.is_none() && self.wakes(now) {
            return Some(packet);
        }
        self.waiting.push((port, packet));
        None
    }

    /// It is called by a timer, its own or that of its sleep: whether it looks now.
    pub fn on_timer(&mut self, now: Time) -> bool {
        match self.wakes_at {
            Some(at) if at > now => false,
            Some(_) => {
                self.wakes_at = None;
                true
            }
            None => self.wakes(now),
        }
    }

    /// Something happens while it sleeps and nothing has happened before: whether it looks at once.
    fn wakes(&mut self, now: Time) -> bool {
        self.wakeups += 1;
        let late = self.lateness.at(now, self.wakeups, self.seed);
        if late > Duration::ZERO {
            self.wakes_at = Some(now + late);
        }
        late.is_zero()
    }

    /// When it looks, if something has happened that it does not know.
    pub fn wakes_at(&self) -> Option<Time> {
        self.wakes_at
    }

    /// What has waited for it, in the order in which it came.
    pub fn take(&mut self) -> impl Iterator<Item = (PortId, Packet)> + use<> {
        std::mem::take(&mut self.waiting).into_iter()
    }
}
