//! A sender that says nothing is put away as numbers, and brought back as if it never had been: none of what it knows is lost.
use super::pipe_ack::PipeAck;
use super::{EcnResponse, SendSequence, Sender, SenderStats, State};
use crate::ByteQueue;
use alloc::vec::Vec;
use shorthaul_types::{Keep, Numbers, keeps};

keeps!(SendSequence { una, nxt, window_limited_until, pipe_ack, passed_before, last_send });
keeps!(EcnResponse { end, send_cwr });
keeps!(SenderStats {
    sent,
    retransmitted,
    timeouts,
    recoveries,
    undone,
    spurious_timeouts,
    tail_probes,
    probes
});
keeps!(PipeAck { round_end, delivered, halves, half_began });

impl Sender {
    /// Appends all that it knows beyond what it was configured with, for [`Sender::bring_back`]. Says whether it can: nothing is held or
    /// under way, no timer runs, and its parts can be put away.
    pub fn put_away(&self, to: &mut Vec<u64>) -> bool {
        let is_still = self.queue.is_empty()
            && self.queue.allocated() == 0
            && self.is_idle()
            && self.board.allocated() == 0
            && matches!(self.state, State::Open)
            && self.discriminator.knows_nothing()
            && self.start.knows_nothing()
            && self.poll_timeout().is_none()
            && self.timers.rto_at.is_none();
        if !is_still {
            return false;
        }
        let Sender {
            snd, peer, segment, board, probes, undo, persist, shrunk, rtt, rate, pacer, ecn, ..
        } = self;
        self.queue.start().put(to);
        self.fin.put(to);
        snd.put(to);
        peer.put(to);
        segment.put(to);
        board.put_away(to);
        probes.put(to);
        undo.put(to);
        persist.put(to);
        shrunk.put(to);
        rtt.put(to);
        rate.put_away(to);
        pacer.put(to);
        ecn.put(to);
        self.timers.timeouts.put(to);
        self.stats.put(to);
        self.manager.put_away(to);
        self.detector.put_away(to) && self.control.put_away(to)
    }

    /// Knows what a sender of the same configuration [put away](Sender::put_away).
    pub fn bring_back(&mut self, from: &mut Numbers<'_>) -> Option<()> {
        let mut start = 0;
        start.take(from)?;
        self.queue = ByteQueue::new(start);
        Keep::take(&mut self.fin, from)?;
        Keep::take(&mut self.snd, from)?;
        Keep::take(&mut self.peer, from)?;
        let mss = self.segment.mss();
        Keep::take(&mut self.segment, from)?;
        if self.segment.mss() != mss {
            self.on_segment_size();
        }
        self.board.bring_back(from)?;
        Keep::take(&mut self.probes, from)?;
        Keep::take(&mut self.undo, from)?;
        Keep::take(&mut self.persist, from)?;
        Keep::take(&mut self.shrunk, from)?;
        Keep::take(&mut self.rtt, from)?;
        self.rate.bring_back(from)?;
        Keep::take(&mut self.pacer, from)?;
        Keep::take(&mut self.ecn, from)?;
        Keep::take(&mut self.timers.timeouts, from)?;
        Keep::take(&mut self.stats, from)?;
        self.manager.bring_back(from)?;
        self.detector.bring_back(from)?;
        self.control.bring_back(from)
    }
}
