//! A box that queues with CAKE in both directions, and what adjusts its rates.
use crate::cake::{Cake, Controller, MONITOR_INTERVAL, PING_INTERVAL, PINGERS};
use crate::ping;
use shorthaul_scenario::Shaper;
use shorthaul_types::{Deadline, PortId, Seed, Time};
use shorthaul_wire::{Machine, Packet, TxBatch};
use std::net::IpAddr;

/// The queues of a box: down and up.
pub(crate) struct ShaperNode {
    pub queues: [Cake; 2],
    address: IpAddr,
    autorate: Option<Prober>,
}

/// What asks the reflectors.
struct Prober {
    controller: Controller,
    reflectors: Vec<IpAddr>,
    next_ping: Time,
    pinger: u16,
    next_interval: Time,
}

impl ShaperNode {
    /// Packets from the access side arrive at this port.
    pub const ACCESS: PortId = PortId(0);
    /// All others arrive at this one.
    pub const WAN: PortId = PortId(1);
    const DOWN: usize = 0;
    const UP: usize = 1;

    pub fn new(shaper: &Shaper, address: IpAddr, reflectors: Vec<IpAddr>, seed: Seed) -> Self {
        let mut queues =
            [Cake::new(shaper.down, seed.derive("down")), Cake::new(shaper.up, seed.derive("up"))];
        let autorate = shaper.autorate.clone().map(|config| Prober {
            controller: Controller::new(config),
            reflectors,
            next_ping: Time::ZERO,
            pinger: 0,
            next_interval: Time::ZERO + MONITOR_INTERVAL,
        });
        if let Some(prober) = &autorate {
            set_rates(&mut queues, &prober.controller);
        }
        ShaperNode { queues, address, autorate }
    }

    /// What left one of the queues.
    fn on_departure(&mut self, now: Time, way: usize, packet: Packet, out: &mut TxBatch) {
        if let Some(prober) = &mut self.autorate {
            prober.controller.on_bytes(way, u64::from(packet.wire_len() as u32));
        }
        if packet.ip.dst() != self.address {
            let port = if way == Self::DOWN { Self::ACCESS } else { Self::WAN };
            out.push((port, packet));
            return;
        }
        if let (Some(prober), Some(answer)) = (&mut self.autorate, ping::read_answer(now, &packet)) {
            let pinger = usize::from(answer.identifier);
            prober.controller.on_answer(now, pinger, [answer.back, answer.there]);
            set_rates(&mut self.queues, &prober.controller);
        }
    }
}

fn set_rates(queues: &mut [Cake; 2], controller: &Controller) {
    for (queue, rate) in queues.iter_mut().zip(controller.rates()) {
        queue.set_rate(Some(rate));
    }
}

impl Machine for ShaperNode {
    fn handle_packet(&mut self, now: Time, port: PortId, packet: Packet) {
        let way = if port == Self::ACCESS { Self::UP } else { Self::DOWN };
        self.queues[way].push(now, packet);
    }

    fn handle_timeout(&mut self, now: Time) {
        let Some(prober) = &mut self.autorate else { return };
        if now >= prober.next_interval {
            prober.next_interval = now + MONITOR_INTERVAL;
            prober.controller.on_interval();
        }
        if now >= prober.next_ping && !prober.reflectors.is_empty() {
            prober.next_ping = now + PING_INTERVAL / u32::from(PINGERS);
            let reflector = prober.reflectors[usize::from(prober.pinger) % prober.reflectors.len()];
            let request = ping::request(now, self.address, reflector, prober.pinger);
            prober.pinger = (prober.pinger + 1) % PINGERS;
            if let Some(request) = request {
                self.queues[Self::UP].push(now, request);
            }
        }
    }

    fn poll_transmit(&mut self, now: Time, out: &mut TxBatch) -> bool {
        for way in [Self::DOWN, Self::UP] {
            while let Some(packet) = self.queues[way].pop(now) {
                self.on_departure(now, way, packet, out);
            }
        }
        false
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let departs = self.queues.iter().filter_map(Cake::next_departure).min();
        let departs = departs.map(|at| Deadline { at, timer: "shaper" });
        let asks = self
            .autorate
            .as_ref()
            .map(|prober| Deadline { at: prober.next_ping.min(prober.next_interval), timer: "autorate" });
        Deadline::earliest(departs, asks)
    }
}
