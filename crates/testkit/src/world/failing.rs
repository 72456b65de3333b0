//! A gateway that fails: it crashes, comes back, wakes up late.
use super::{Flow, World};
use shorthaul_proxy::GatewayConfig;
use shorthaul_types::Time;
use std::time::Duration;

impl World {
    /// The gateway is gone, with all that it held. What is to pass it goes directly, until [`World::restart`].
    pub fn crash(&mut self) {
        self.is_down = true;
        // Their bytes are lost, and that is to be told to both ends.
        for flow in self.gateway.unkept().map(|inherited| inherited.record.flow()).collect::<Vec<_>>() {
            let is_its = |known: &&mut Flow| known.key == flow || known.key == flow.reversed();
            self.flows.iter_mut().filter(is_its).for_each(|known| known.was_cut = true);
        }
        self.waiting.clear();
        self.sleeps_until = Time::ZERO;
    }

    /// The next gateway takes over what the journal of the last one says.
    ///
    /// # Panics
    /// If the configuration cannot be worked with.
    pub fn restart(&mut self, config: GatewayConfig) {
        config.check().unwrap_or_else(|error| panic!("the configuration makes no sense: {error}"));
        self.gateway.restart(self.now, &config, &mut self.custody);
        self.config = config;
        self.is_down = false;
        // What was taken over is held, whatever this one's own bounds are.
        self.had = (self.gateway.flows().count(), self.gateway.allocated() as u64);
        self.settle();
    }

    /// The next gateway goes on at once in the place of this one, which says what it was doing.
    ///
    /// # Panics
    /// If the configuration cannot be worked with.
    pub fn take_over(&mut self, config: GatewayConfig) {
        config.check().unwrap_or_else(|error| panic!("the configuration makes no sense: {error}"));
        self.gateway.take_over(self.now, &config, &mut self.custody);
        self.config = config;
        self.had = (self.gateway.flows().count(), self.gateway.allocated() as u64);
        self.settle();
    }

    /// The time for draining is over: the gateway resets what it still holds.
    pub fn reset_held(&mut self) {
        for flow in 0..self.flows.len() {
            self.flows[flow].was_cut |= self.known(flow).is_some_and(|info| info.legs.is_some());
        }
        self.gateway.reset_held(self.now);
    }

    /// Whether the gateway is gone.
    pub fn is_down(&self) -> bool {
        self.is_down
    }

    /// The gateway does nothing for this long: what comes waits for it, and its deadlines pass.
    pub fn oversleep(&mut self, time: Duration) {
        if !self.is_down {
            self.sleeps_until = self.now + time;
        }
    }

    /// All clocks jump ahead, with everything that is on its way.
    pub fn jump(&mut self, time: Duration) {
        self.now += time;
    }
}
