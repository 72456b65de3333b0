//! What somebody who is not on the way may do: send what he heard once more, and make up segments of connections that he knows by
//! their addresses and ports, but not by their sequence numbers.
use super::{Stop, World};
use crate::packets;
use shorthaul_types::SeqNum;
use shorthaul_wire::{Packet, TcpFlags, TcpHeader};

/// This many packets are remembered, to be replayed.
const HEARD: usize = 64;

impl World {
    /// A packet is on a link: sometimes it is remembered.
    pub(super) fn overhear(&mut self, to: Stop, packet: &Packet) {
        if self.heard.len() < HEARD {
            self.heard.push((to, packet.clone()));
        } else if self.tricks.once_in(8) {
            let place = self.tricks.below(HEARD as u64) as usize;
            self.heard[place] = (to, packet.clone());
        }
    }

    /// One of the packets that were heard comes again.
    pub fn replay(&mut self) {
        if !self.heard.is_empty() {
            let (to, packet) = self.tricks.pick(&self.heard).clone();
            self.put(to, packet);
        }
    }

    /// Somebody at either side, who speaks for both ends of a connection that is open, shows the gateway a whole handshake of it with numbers of
    /// his own.
    pub fn forge_handshake(&mut self) {
        let open: Vec<usize> = (0..self.flows.len())
            .filter(|flow| self.flows[*flow].apps.iter().all(|app| app.id.is_some()))
            .collect();
        if open.is_empty() {
            return;
        }
        let flow = *self.tricks.pick(&open);
        let Flow { key, stations, .. } = &self.flows[flow];
        let (ends, ports) = ([key.src, key.dst], stations.map(|station| self.stations[station].port));
        let isns = [0; 2].map(|_| SeqNum(self.tricks.below(1 << 32) as u32));
        for (from, flags) in [(0, TcpFlags::SYN), (1, TcpFlags::SYN | TcpFlags::ACK), (0, TcpFlags::ACK)] {
            let seq = isns[from] + u32::from(!flags.contains(TcpFlags::SYN));
            let ack = if flags.contains(TcpFlags::ACK) { isns[1 - from] + 1 } else { SeqNum(0) };
            let header = TcpHeader { seq, ack, flags, window: 60_000, ..TcpHeader::default() };
            let packet = packets::segment(ends[from], ends[1 - from], header, packets::filler(0));
            self.put(Stop::Gateway(ports[from]), packet);
        }
    }

    /// A segment of one of the flows comes that none of its ends has sent. Its sequence numbers are guessed, and wrong: off
    /// where the stream is by 2²⁰ at least, as nearly all guesses are.
    pub fn forge(&mut self) {
        if self.flows.is_empty() {
            return;
        }
        let flow = self.tricks.below(self.flows.len() as u64) as usize;
        let from = self.tricks.below(2) as usize;
        let Flow { key, stations, isns, .. } = &self.flows[flow];
        let (Some(seq), Some(ack)) = (isns[from], isns[1 - from]) else { return };
        let (src, dst) = if from == 0 { (key.src, key.dst) } else { (key.dst, key.src) };
        let port = self.stations[stations[from]].port;
        let is_open = self.flows[flow].apps.iter().all(|app| app.id.is_some());
        let tricks = &mut self.tricks;
        let mut wrong = |isn: SeqNum| isn + (1 << 21) + tricks.below((1 << 32) - (1 << 23)) as u32;
        let (seq, ack) = (wrong(seq), wrong(ack));
        let kinds = [
            TcpFlags::RST,
            TcpFlags::RST | TcpFlags::ACK,
            TcpFlags::SYN,
            TcpFlags::SYN | TcpFlags::ACK,
            TcpFlags::ACK,
            TcpFlags::ACK | TcpFlags::FIN,
            TcpFlags::ACK | TcpFlags::PSH,
        ];
        let flags = *tricks.pick(&kinds);
        if flags == TcpFlags::SYN && !is_open {
            return; // an end in SYN-SENT believes any SYN (RFC 9293 §3.10.7.3), with a gateway or without
        }
        let header =
            TcpHeader { seq, ack, flags, window: tricks.below(65_536) as u16, ..TcpHeader::default() };
        let len = if flags.contains(TcpFlags::PSH) { 1 + tricks.below(1400) as usize } else { 0 };
        let packet = packets::segment(src, dst, header, packets::filler(len));
        self.put(Stop::Gateway(port), packet);
    }
}

use super::Flow;
