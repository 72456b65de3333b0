//! Another configuration, while there are flows.
use super::Gateway;
use crate::GatewayConfig;
use crate::gain::Gains;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::take;
use shorthaul_types::Time;

impl Gateway {
    /// Goes on with another configuration. Flows that are there keep the policy that they have; bounds hold at once.
    ///
    /// What splitting gains is found out anew, as that is known by policies.
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
        self.gains = Gains::new(hash_seed);
        self.fragments.set_memory(self.config.memory.0);
        self.access.memory = self.config.memory.0;
        // The next look for idle flows is by the new time.
        self.sweep_at = self.sweep_at.map(|at| at.min(now + self.config.idle_timeout / super::table::SWEEPS));
    }
}
