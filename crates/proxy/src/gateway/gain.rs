//! Which flows are observed instead of split, and what comes of the comparison.
use super::table::{A_SWEEP, Entry, Phase};
use super::{Fate, Gateway};
use crate::end::Side;
use crate::gain::{Ends, GainInfo, Group, KnownGains, Milestones};
use crate::split_flow::Turn;
use alloc::vec::Vec;
use core::time::Duration;
use shorthaul_types::{FlowKey, Time};

/// The time between two parts of the table in which flows are looked for to which splitting does harm.
const BETWEEN_PARTS: Duration = Duration::from_millis(1);

/// What a flow is to the comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    pub group: Group,
    /// The end at the access side.
    host: Side,
    milestones: Milestones,
}

impl Compared {
    pub fn new(group: Group, host: Side) -> Self {
        Compared { group, host, milestones: Milestones::default() }
    }
}

fn ends(policy: u16, key: FlowKey, host: Side) -> Ends {
    let (client, server) = (key.src.ip(), key.dst.ip());
    let (host, server) = if host == Side::Client { (client, server) } else { (server, client) };
    Ends { policy, host, server }
}

impl Gateway {
    /// To which group a flow belongs that its policy would split; `None` where nothing is compared.
    pub(super) fn compared(&mut self, now: Time, policy: u16, key: FlowKey, host: Side) -> Option<Compared> {
        let share = self.config.policies[usize::from(policy)].control_group;
        (share > 0.0).then(|| Compared::new(self.gains.assign(now, ends(policy, key, host), share), host))
    }

    /// A packet came from `side`: what it acknowledged may have passed a milestone.
    pub(super) fn note_progress(&mut self, now: Time, index: u32, side: Side) {
        let Some(Entry { phase, ends: known, policy, since, compared: Some(compared), .. }) =
            self.table.get_mut(index)
        else {
            return;
        };
        let delivered = match phase {
            Phase::Split(flow) => flow.delivered_to(side),
            Phase::Whole(flow) => flow.delivered_to(side),
            _ => return,
        };
        let passed = compared.milestones.pass(side == compared.host, delivered);
        if passed.is_empty() {
            return;
        }
        let (group, ends) = (compared.group, ends(*policy, known.key(), compared.host));
        let elapsed = now.saturating_since(*since);
        if self.gains.record(now, ends, group, passed, elapsed) {
            self.counters.gain_harms += 1;
            self.withdrawal = Some((now, 0));
            self.withdraw(now);
        }
    }

    /// Steps out of the flows to which splitting does harm, of each when nothing of it is held: of some now, and of others soon, for packets wait for that.
    pub(super) fn withdraw(&mut self, now: Time) {
        let Some((_, from)) = self.withdrawal.filter(|(at, _)| *at <= now) else { return };
        let end = (from + A_SWEEP as u32).min(self.table.entries.len() as u32);
        let is_last = end as usize == self.table.entries.len();
        self.withdrawal = (!is_last).then(|| (now + BETWEEN_PARTS, end));
        for index in from..end {
            let Some(Entry { phase, ends: known, policy, compared: Some(compared), .. }) =
                self.table.get_mut(index)
            else {
                continue;
            };
            let host = compared.host;
            if compared.group != Group::Split || !matches!(phase, Phase::Split(_) | Phase::Away(_)) {
                continue;
            }
            let ends = ends(*policy, known.key(), host);
            if !self.gains.is_harmed(now, ends) {
                continue;
            }
            compared.group = Group::Withdrawn;
            let fate = match phase {
                Phase::Split(flow) => {
                    flow.drain();
                    // What was to be acknowledged still is.
                    let turn = Turn { windows: [0; 2], late: self.lateness.recent() };
                    flow.poll_transmit(now, turn, &mut self.passing).1
                }
                _ => Fate::SteppedOut,
            };
            self.settle(index, fate);
        }
    }

    /// What is known of the gain of splitting, by classes of flows; those that were compared most often come first.
    pub fn gains(&self) -> Vec<GainInfo> {
        self.known_gains().info()
    }

    /// The same, to be joined with what other gateways know.
    pub fn known_gains(&self) -> KnownGains {
        self.gains.known()
    }
}
