//! A flow that stays whole: it is observed, and may pass interceptors.
mod observation;

pub(crate) use observation::Seen;
pub use observation::{Observed, ObservedDirection};

use crate::end::Side;
use crate::interceptor::{Interceptor, InterceptorKind};
use alloc::boxed::Box;
use alloc::sync::Arc;
use observation::Observation;
use shorthaul_types::{Deadline, PortId, SeqNum, Time};
use shorthaul_wire::{Packet, TxBatch};

/// A connection that we do not stand in.
#[derive(Debug)]
pub(crate) struct WholeFlow {
    /// The ports that lead to the ends.
    attachments: [PortId; 2],
    /// The end at the access side.
    access: Side,
    observation: Observation,
    /// The first is the nearest to the access side.
    interceptors: Box<[Box<dyn Interceptor>]>,
}

impl WholeFlow {
    /// A SYN comes from a client at `port`; the server is at the other one.
    pub fn new(
        now: Time,
        [client, server]: [PortId; 2],
        access: Side,
        intercept: &[Arc<dyn InterceptorKind>],
    ) -> Self {
        WholeFlow {
            attachments: [client, server],
            access,
            observation: Observation::new(now),
            interceptors: intercept.iter().map(|kind| kind.open(access)).collect(),
        }
    }

    /// The end at the access side.
    pub fn access(&self) -> Side {
        self.access
    }

    /// A packet comes from `side`, to go on to that port; what goes on goes to `out`. Returns what was new in it.
    pub fn on_packet(
        &mut self,
        now: Time,
        side: Side,
        (to, packet): (PortId, Packet),
        out: &mut TxBatch,
    ) -> Seen {
        let seen = match packet.as_tcp() {
            Some(segment) => self.observation.on_segment(now, side, segment),
            None => Seen::default(),
        };
        let passes = |packet: Packet, part: &mut Box<dyn Interceptor>| part.on_packet(now, side, packet);
        let mut parts = self.interceptors.iter_mut();
        let sent = if side == self.access {
            parts.try_fold(packet, passes)
        } else {
            parts.rev().try_fold(packet, passes)
        };
        out.extend(sent.map(|packet| (to, packet)));
        self.poll(now, out);
        seen
    }

    /// What the interceptors put in now goes to `out`.
    pub fn poll(&mut self, now: Time, out: &mut TxBatch) {
        for part in &mut self.interceptors {
            while let Some((side, packet)) = part.poll_packet(now) {
                out.push((self.attachments[side.index()], packet));
            }
        }
    }

    /// The gateway steps out of the flow: what was kept back goes to `out`.
    pub fn step_out(&mut self, now: Time, out: &mut TxBatch) {
        self.interceptors.iter_mut().for_each(|part| part.step_out());
        self.poll(now, out);
    }

    /// The memory of what interceptors keep, in bytes.
    pub fn memory(&self) -> usize {
        self.interceptors.iter().map(|part| part.memory()).sum()
    }

    /// Memory is short: what interceptors could do without goes.
    pub fn forget(&mut self) {
        self.interceptors.iter_mut().for_each(|part| part.forget());
    }

    /// Whether it is the connection that a SYN with this sequence number opens.
    pub fn is_opened_by(&self, seq: SeqNum) -> bool {
        self.observation.is_opened_by(seq)
    }

    /// Whether the server has answered the SYN.
    pub fn is_answered(&self) -> bool {
        self.observation.is_answered()
    }

    /// Whether the connection is over.
    pub fn is_over(&self) -> bool {
        self.observation.is_over()
    }

    /// Up to where `side` has acknowledged.
    pub fn delivered_to(&self, side: Side) -> u64 {
        self.observation.delivered_to(side)
    }

    /// Whether it is only observed.
    pub fn is_untouched(&self) -> bool {
        self.interceptors.is_empty()
    }

    /// What was seen of it.
    pub fn observed(&self) -> Observed {
        Observed { kept: self.memory() as u64, ..self.observation.observed() }
    }

    /// When an interceptor has to be asked again.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.interceptors.iter().map(|part| part.poll_timeout()).fold(None, Deadline::earliest)
    }
}
