//! Another configuration, while there are flows.
use super::Gateway;
use crate::GatewayConfig;
use crate::Policy;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::mem::take;
use shorthaul_types::Time;

impl Gateway {
    /// Goes on with another configuration. Flows that are there keep the policy that they have; bounds hold at once.
    ///
    /// What is known of the gain of splitting stays for policies that are as they were; of others it is found out anew.
    /// What one host is at the access side, which of them share a bottleneck, and the key of the hash stay: what is known is sorted by them.
    pub fn reconfigure(&mut self, now: Time, config: GatewayConfig) {
        self.now = now;
        let (hosts, hash_seed) = (self.config.hosts, self.config.hash_seed);
        let bottlenecks = take(&mut self.config.bottlenecks);
        let mut used = vec![false; self.config.policies.len()];
        for entry in self.table.entries.iter().flatten() {
            used[usize::from(entry.policy)] = true;
        }
        let former = take(&mut self.config.policies);
        self.config = GatewayConfig { hosts, bottlenecks, hash_seed, ..config };
        let policies = &mut self.config.policies;
        self.gains.keep(&as_they_were(&former, policies));
        self.in_force = policies.len();
        self.access.reconfigure(policies, &used);
        let mut places = Vec::with_capacity(used.len());
        for (policy, used) in former.into_iter().zip(&used) {
            places.push(policies.len() as u16);
            if *used {
                policies.push(policy);
            }
        }
        for entry in self.table.entries.iter_mut().flatten() {
            entry.policy = places[usize::from(entry.policy)];
            entry.compared = None;
        }
        self.fragments.set_memory(self.config.memory.0);
        self.access.memory = self.config.memory.0;
        // The next look for idle flows is by the new time.
        self.sweep_at = self.sweep_at.map(|at| at.min(now + self.config.idle_timeout / super::table::SWEEPS));
    }
}

/// Where each of the former policies is among those of today, if one is as it was.
fn as_they_were(former: &[Policy], today: &[Policy]) -> Vec<Option<u16>> {
    // A part of a policy is known by what it is made from, and that is what it prints.
    let written =
        |policies: &[Policy]| policies.iter().map(|policy| format!("{policy:?}")).collect::<Vec<String>>();
    let today = written(today);
    let place = |policy: String| today.iter().position(|other| *other == policy).map(|place| place as u16);
    written(former).into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AggregateConfig;
    use alloc::sync::Arc;

    #[test]
    fn a_policy_is_as_it_was_where_all_of_its_parts_are() {
        let shared = Policy { aggregate: Some(Arc::new(AggregateConfig::default())), ..Policy::default() };
        let headroom = AggregateConfig { headroom: 3.0, ..AggregateConfig::default() };
        let other = Policy { aggregate: Some(Arc::new(headroom)), ..Policy::default() };
        let anew = Policy { aggregate: Some(Arc::new(AggregateConfig::default())), ..Policy::default() };
        assert_eq!(
            as_they_were(&[Policy::default(), shared], &[other, anew, Policy::default()]),
            [Some(2), Some(1)]
        );
        assert_eq!(
            as_they_were(&[Policy { control_group: 0.5, ..Policy::default() }], &[Policy::default()]),
            [None]
        );
    }
}
