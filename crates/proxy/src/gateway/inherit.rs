//! What a predecessor left is taken over.
use super::Gateway;
use super::arrival::subject;
use super::table::Phase;
use crate::split_flow::{Fate, SplitFlow};
use crate::{FlowMomentum, Inherited, Mode};
use alloc::boxed::Box;
use shorthaul_types::Time;

impl Gateway {
    /// Goes on with a flow that a predecessor left: the same sequence numbers, the same bytes. Timers begin anew, and
    /// what is known of losses, windows and rates, unless the predecessor has said what it was doing.
    ///
    /// A flow that no policy splits now is stepped out of as soon as what is held of it is delivered. Where bytes are lost that
    /// their sender believes delivered, both ends are reset, so that they fail at once instead of waiting for ever.
    pub fn adopt(&mut self, now: Time, inherited: &Inherited) {
        self.now = now;
        let record = &inherited.record;
        let (key, port) = (record.flow(), record.client_port());
        if self.table.find(key).is_some() {
            return; // no predecessor had it twice
        }
        let subject = subject(port, key, &record.ends[0].ip);
        let policies = &self.config.policies[..self.in_force];
        let chosen = policies.iter().position(|policy| policy.matches.holds(&subject));
        let splits = chosen.filter(|number| policies[*number].mode == Mode::Split);
        let any = policies.iter().position(|policy| policy.mode == Mode::Split);
        let number = splits.or(any).or(chosen).unwrap_or(0);
        let mut flow = SplitFlow::resume(now, inherited, &self.config.policies[number]);
        let is_unkept = self.table.next_slot() >= self.record_room;
        if splits.is_none() || self.draining || record.draining || is_unkept {
            flow.drain();
        }
        let index = self.insert(now, key, number as u16, Phase::Split(Box::new(flow)));
        self.counters.flows_resumed += 1;
        self.take_shares(index);
        self.take_place(now, index);
        if let Some(momentum) = &inherited.momentum {
            self.take_group_over(now, index, &momentum.group);
        }
        self.table.arm(index, now);
        self.settle(index, Fate::Alive);
    }

    /// What each flow does at the moment, by the number of its record: for a successor that goes on at once.
    pub fn momenta(&self) -> impl Iterator<Item = (u64, FlowMomentum)> + '_ {
        self.table.entries.iter().flatten().filter_map(|entry| match &entry.phase {
            Phase::Split(flow) => {
                let momentum = flow.momentum(self.momentum_in_group(entry.member()));
                Some((entry.serial, momentum?))
            }
            Phase::Away(_) => {
                let momentum =
                    self.as_brought_back(entry, |flow, of| flow.momentum(self.momentum_in_group(of)));
                Some((entry.serial, momentum??))
            }
            _ => None,
        })
    }

    /// Flows of which the store of what survives a crash does not have all bytes, each with all that is held: for a successor that goes
    /// on at once.
    pub fn unkept(&self) -> impl Iterator<Item = Inherited> + '_ {
        self.table.entries.iter().flatten().filter_map(|entry| match &entry.phase {
            Phase::Split(flow) if entry.is_short_of_custody => Some(flow.inheritance(entry.serial)),
            _ => None,
        })
    }

    /// Flows that a predecessor left, of which not both ends have spoken since.
    pub fn inherited_flows(&self) -> usize {
        self.split_flows().filter(|flow| flow.is_unheard()).count()
    }
}
