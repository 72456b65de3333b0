use super::DUP_THRESH;
use crate::Scoreboard;
use crate::loss_detector::{AckEvent, Detection, Event, Flight, Phase};
use shorthaul_types::{SeqNum, keeps};

/// Duplicate ACKs of a peer without SACK: three of them show that the first segment is missing (RFC 5681 §3.2).
#[derive(Debug, Default)]
pub(super) struct DuplicateAcks {
    count: u64,
    /// The lower half of SND.NXT when everything outstanding was last retransmitted: up to there, duplicates say that
    /// something arrived twice rather than that something is missing (`recover` of RFC 6582 §3.2). It is kept just below
    /// SND.UNA after that.
    recover: SeqNum,
    sacked_out: u64,
    /// The first hole is retransmitted whatever the window says (RFC 5681 §3.2 step 2, RFC 6582 §3.2 step 3).
    fast_retransmit_pending: bool,
}

keeps!(DuplicateAcks { count, recover, sacked_out, fast_retransmit_pending });

impl DuplicateAcks {
    /// Returns whether SND.UNA has moved: what that says of the next hole is the detector's own.
    pub fn on_ack(&mut self, detection: &mut Detection<'_>, ack: &AckEvent) -> bool {
        if ack.advanced > 0 {
            self.on_advance(&detection.flight);
        } else if ack.duplicate {
            self.on_duplicate(detection);
        }
        ack.advanced > 0
    }

    fn on_advance(&mut self, flight: &Flight) {
        self.count = 0;
        if SeqNum(flight.una as u32).after(self.recover) {
            self.recover = SeqNum((flight.una - 1) as u32); // so that it is never half a space behind
        }
    }

    /// A duplicate ACK: one more segment has left the network.
    fn on_duplicate(&mut self, detection: &mut Detection<'_>) {
        let Flight { una, mss, phase, .. } = detection.flight;
        self.count += 1;
        self.sacked_out += mss;
        let is_new = SeqNum(una as u32).after(self.recover);
        if self.count == DUP_THRESH && is_new && phase == Phase::Open {
            self.retransmit_first(detection);
        }
    }

    /// The segment at SND.UNA is lost.
    pub fn retransmit_first(&mut self, detection: &mut Detection<'_>) {
        let Flight { una, nxt, mss, .. } = detection.flight;
        detection.mark_lost(una, (una + mss).min(nxt));
        self.fast_retransmit_pending = true;
    }

    /// Bytes that have left the network, of those behind SND.UNA.
    pub fn sacked_out(&self) -> u64 {
        self.sacked_out
    }

    /// Of what had left the network, `bytes` are acknowledged.
    pub fn take_sacked_out(&mut self, bytes: u64) {
        self.sacked_out = self.sacked_out.saturating_sub(bytes);
    }

    /// Nothing is known any more to have left the network.
    pub fn forget_sacked_out(&mut self) {
        self.sacked_out = 0;
    }

    pub fn on_event(&mut self, flight: &Flight, event: Event) {
        match event {
            Event::Sent(sent) if sent.retransmission => self.fast_retransmit_pending = false,
            Event::Restarted => {
                self.recover = SeqNum(flight.nxt as u32);
                self.count = 0;
                self.sacked_out = 0;
            }
            Event::Recovered | Event::Undone => {
                self.count = 0;
                self.sacked_out = 0;
            }
            _ => {}
        }
    }

    /// What may leave of a window with room for `room`: a segment at least where a fast retransmit is pending.
    pub fn credit(&self, flight: &Flight, board: &Scoreboard, room: u64) -> u64 {
        if self.fast_retransmit_pending && board.lost() > 0 { room.max(flight.mss) } else { room }
    }
}
