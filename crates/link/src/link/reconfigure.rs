use alloc::vec::Vec;

use shorthaul_types::Time;

use super::Link;
use crate::arq::{self, ArqClock};
use crate::backlog::Place;
use crate::line::{Entry, Line};
use crate::loss::Loss;
use crate::outage::OutageClock;
use crate::server::{Ready, Server, Slot};
use crate::{DropReason, LinkConfig};

impl<T> Link<T> {
    /// Changes what the link is like, from `now` on. The same configuration again changes nothing.
    ///
    /// What has been serialized comes out as before. What is in the queue stays in the queue, even if the
    /// new limit is smaller, and is serialized and delayed by the new values; only the packet that is being
    /// serialized finishes as before, unless the new values would send the whole of it earlier. Packets
    /// that were to be lost stay lost, and a new outage can lose more, which the statistics alone will tell.
    /// Where the new configuration keeps order, nothing overtakes what is still under way, even if the delay
    /// has become shorter. An aggregate that is being collected takes no more packets.
    ///
    /// # Panics
    /// If [`LinkConfig::validate`] refuses the configuration.
    pub fn reconfigure(&mut self, now: Time, config: LinkConfig) {
        if let Err(error) = config.validate() {
            panic!("invalid link configuration: {error}");
        }
        if config == self.config {
            return;
        }
        self.clock = self.clock.max(now);
        self.backlog.advance(self.clock);
        let waiting = self.take_waiting(config.keeps_order());

        if config.loss != self.config.loss {
            self.loss = Loss::new(config.loss, self.seed, self.origin);
        }
        let serializes_alike = config.rate == self.config.rate
            && config.overhead == self.config.overhead
            && config.arq == self.config.arq
            && config.outages == self.config.outages;
        self.config = config;
        if serializes_alike {
            waiting.into_iter().for_each(|entry| self.send(entry));
        } else {
            self.server = Server::new(&self.config.rate, self.origin);
            self.outages = OutageClock::new(&self.config.outages, self.seed, self.origin);
            self.arq = ArqClock::new(self.config.arq, self.seed, self.origin);
            self.repeat = arq::selective_repeat(self.config.arq, self.seed, self.origin);
            self.serialize_again(waiting);
        }
    }

    /// Takes out the packets that have not been serialized yet, in order; the others keep their delivery.
    fn take_waiting(&mut self, new_config_keeps_order: bool) -> Vec<Entry<T>> {
        let now = self.clock;
        let departed = self.aggregate.iter().take_while(|entry| entry.departure <= now).count();
        let mut waiting = self.aggregate.split_off(departed);
        if let Some(deadline) = self.aggregate_deadline() {
            self.release_aggregate(deadline);
        }
        self.last_release = self.last_release.map(|last| last.min(now));

        let mut line = Line::new(new_config_keeps_order);
        self.latest_delivery = Time::ZERO;
        for entry in self.line.take_all() {
            if entry.departure > now {
                waiting.push(entry);
            } else {
                self.latest_delivery = self.latest_delivery.max(entry.delivery);
                line.insert(entry);
            }
        }
        self.line = line;
        waiting.sort_unstable_by_key(|entry| entry.key);
        waiting
    }

    /// Serializes everything in the queue from now on; `waiting` are those that will not be lost.
    fn serialize_again(&mut self, waiting: Vec<Entry<T>>) {
        let now = self.clock;
        let places = self.backlog.take_all();
        if !places.is_empty() {
            self.free = Some(now.max(self.awake));
        }
        let mut waiting = waiting.into_iter().peekable();
        for Place { key, size, start, departure } in places {
            let before = self.server.clone();
            let free = self.free.unwrap_or(now);
            let mut slot = self.serialize(key, size, Ready { arrival: now, free });
            let as_before = start < now && departure < slot.departure;
            if as_before {
                slot = Slot { start, departure, whole: departure, is_void: false, is_given_up: false };
                self.server = before;
            }
            self.take_place(key, size, slot);
            match waiting.next_if(|entry| entry.key == key) {
                Some(_) if slot.is_void => self.stats.dropped.count(DropReason::Outage),
                Some(_) if slot.is_given_up => self.stats.dropped.count(DropReason::Loss),
                Some(entry) => {
                    let whole = if as_before { entry.whole } else { slot.whole };
                    self.send(Entry { departure: slot.departure, whole, ..entry });
                }
                None => {}
            }
        }
    }
}
