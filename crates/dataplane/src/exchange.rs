//! What came to another worker than its own is handed on.
//!
//! The kernel leads nearly every packet into the right queue (`steering.rs`): by our program, or, where that cannot be loaded, because a
//! device learns from what is written to it into which queue a flow belongs. What is left, the first packets of flows then and ICMP
//! errors, goes through here: a ring for each worker, into which all others put.
use crate::Steering;
use shorthaul_os::poll::Waker;
use shorthaul_types::PortId;
use shorthaul_wire::Datagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};

/// Packets that may wait in a ring. As many as in a device's queue.
const ROOM: usize = 1_000;

/// A worker's place among the others.
#[derive(Debug)]
pub(crate) struct Exchange {
    steering: Arc<Steering>,
    own: usize,
    handed_on: Receiver<(PortId, Datagram)>,
    /// Something is in the ring, and was not yet looked at.
    waits: Arc<AtomicBool>,
    all: Vec<Ring>,
}

/// What is put in for a worker.
#[derive(Clone, Debug)]
struct Ring {
    packets: SyncSender<(PortId, Datagram)>,
    waits: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

/// Where a packet belongs.
#[derive(Debug)]
pub(crate) enum Lead {
    /// To the worker that has it.
    Own(Datagram),
    /// To another one, which has it now.
    HandedOn,
    /// To another one, which has no room for it.
    NoRoom,
}

impl Exchange {
    /// The places of workers that wait for these.
    pub fn among(steering: &Arc<Steering>, wakers: Vec<Arc<Waker>>) -> Vec<Exchange> {
        let (all, ends): (Vec<Ring>, Vec<_>) = wakers
            .into_iter()
            .map(|waker| {
                let (packets, next) = mpsc::sync_channel(ROOM);
                (Ring { packets, waits: Arc::default(), waker }, next)
            })
            .unzip();
        let places = ends.into_iter().enumerate().map(|(own, handed_on)| Exchange {
            steering: Arc::clone(steering),
            own,
            handed_on,
            waits: Arc::clone(&all[own].waits),
            all: all.clone(),
        });
        places.collect()
    }

    /// Leads a packet that came in by `port` to its worker.
    #[inline]
    pub fn lead(&self, port: PortId, packet: Datagram) -> Lead {
        let worker = self.steering.of_packet(port, packet.bytes.as_slice()).unwrap_or(self.own);
        let Some(ring) = self.all.get(worker).filter(|_| worker != self.own) else {
            return Lead::Own(packet);
        };
        if ring.packets.try_send((port, packet)).is_err() {
            return Lead::NoRoom;
        }
        if !ring.waits.swap(true, Ordering::AcqRel) {
            ring.waker.wake();
        }
        Lead::HandedOn
    }

    /// Whether others have handed something on.
    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    /// What others have handed on, at most so much.
    pub fn take(&self, most: usize) -> impl Iterator<Item = (PortId, Datagram)> + '_ {
        // What comes from now on is told anew.
        self.waits.store(false, Ordering::Release);
        let mut left = most;
        std::iter::from_fn(move || {
            if left == 0 {
                self.waits.store(true, Ordering::Release);
                return None;
            }
            left -= 1;
            self.handed_on.try_recv().ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_os::poll::wait_readable;
    use shorthaul_proxy::{Gateway, GatewayConfig};
    use shorthaul_wire::{Offload, Payload};
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    fn packet(host: [u8; 4]) -> Datagram {
        let mut bytes = [0; 40];
        bytes[0] = 0x45;
        bytes[12..16].copy_from_slice(&host);
        Datagram { bytes: Payload::copy_of(&bytes), offload: Offload::default() }
    }

    #[test]
    fn a_packet_of_anothers_host_is_handed_on_and_whoever_waits_is_woken() {
        let steering = Arc::new(Steering::of(&GatewayConfig::default(), 2));
        let wakers: Vec<Arc<Waker>> = (0..2).map(|_| Arc::new(Waker::new().unwrap())).collect();
        let places = Exchange::among(&steering, wakers.clone());
        let host =
            |worker| (0..).map(|n| [10, 0, 0, n]).find(|a| steering.of_host((*a).into()) == worker).unwrap();
        let [own, other] = [host(0), host(1)];
        assert!(matches!(places[0].lead(Gateway::ACCESS, packet(own)), Lead::Own(_)));
        assert!(!places[1].waits());
        let is_woken = |waker: &Waker| wait_readable([waker.as_fd()], Some(Duration::ZERO)).unwrap()[0];
        for _ in 0..3 {
            assert!(matches!(places[0].lead(Gateway::ACCESS, packet(other)), Lead::HandedOn));
            assert!(is_woken(&wakers[1]), "by the first as well");
        }
        assert!(places[1].waits() && !places[0].waits());
        assert!(is_woken(&wakers[1]) && !is_woken(&wakers[0]));
        let taken: Vec<_> = places[1].take(2).collect();
        assert_eq!(taken.len(), 2);
        assert_eq!(taken[0].1.bytes.as_slice()[12..16], other);
        assert!(places[1].waits(), "one is left");
        assert_eq!(places[1].take(9).count(), 1);
        assert!(!places[1].waits());
        // A ring that is full takes nothing more, and what is in it stays.
        let led = (0..=ROOM).map(|_| places[0].lead(Gateway::ACCESS, packet(other)));
        assert_eq!(led.filter(|led| matches!(led, Lead::NoRoom)).count(), 1);
        assert_eq!(places[1].take(usize::MAX).count(), ROOM);
    }
}
