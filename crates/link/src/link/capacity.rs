use shorthaul_types::{Bytes, Time};

use super::Link;
use crate::Rate;
use crate::outage::OutageClock;
use crate::server::{Ready, Server};

/// The packets that it is reckoned with.
const PACKET: Bytes = Bytes(1500);

impl<T> Link<T> {
    /// What it could have sent by `until` if packets of 1500 bytes had always waited, without those that an outage swallows; `None`
    /// where there is no limit.
    pub fn capacity(&self, until: Time) -> Option<Bytes> {
        if self.config.rate == Rate::Unlimited {
            return None;
        }
        let mut server = Server::new(&self.config.rate, self.origin);
        let mut outages = OutageClock::new(&self.config.outages, self.seed, self.origin);
        let (mut free, mut bytes) = (self.origin, 0);
        loop {
            let ready = Ready { arrival: self.origin, free };
            let slot = server.serve(ready, self.on_link(PACKET), &mut outages);
            if slot.departure > until || slot.departure == Time::MAX {
                return Some(Bytes(bytes));
            }
            free = slot.departure;
            bytes += if slot.is_void { 0 } else { PACKET.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkConfig, Outage, OutageTimes, Outages};
    use alloc::vec;
    use core::time::Duration;
    use shorthaul_types::{BitRate, Seed};

    #[test]
    fn capacity_is_what_the_rates_add_up_to_without_outages() {
        let ms = Duration::from_millis;
        let mbit = |rate: u64| BitRate::from_bits_per_sec(rate * 1_000_000);
        let rate = Rate::Schedule { phases: vec![(ms(1000), mbit(12)), (ms(1000), mbit(24))], repeats: true };
        let config = LinkConfig { rate, ..LinkConfig::default() };
        let of = |config: &LinkConfig, at| {
            Link::<()>::new(config.clone(), Seed(1)).capacity(Time::from_millis(at))
        };
        assert_eq!(of(&config, 1000), Some(Bytes(1_500_000)));
        assert_eq!(of(&config, 4000), Some(Bytes(9_000_000)));
        let when = OutageTimes::Listed(vec![Outage { at: ms(1500), lasts: ms(500) }]);
        for hold in [Duration::MAX, Duration::ZERO] {
            let outages = Outages { when: when.clone(), hold };
            let left = of(&LinkConfig { outages, ..config.clone() }, 2000).unwrap().0;
            assert!((2_997_000..=3_000_000).contains(&left), "{hold:?}: {left}");
        }
        assert_eq!(of(&LinkConfig::default(), 1000), None);
        assert_eq!(
            of(&LinkConfig { rate: Rate::Fixed(mbit(0)), ..LinkConfig::default() }, 1000),
            Some(Bytes(0))
        );
    }
}
