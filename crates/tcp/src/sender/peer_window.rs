use super::Ack;

/// The window that the peer advertises (RFC 9293 §3.10.7.4).
#[derive(Debug)]
pub(super) struct PeerWindow {
    /// SND.UNA + SND.WND.
    pub edge: u64,
    /// MAX.SND.WND.
    pub max: u64,
    /// SND.WL1.
    seq: u64,
    /// SND.WL2.
    ack: u64,
}

shorthaul_types::keeps!(PeerWindow { edge, max, seq, ack });

impl PeerWindow {
    /// A peer that has advertised a window up to `edge`, to a sender whose next byte is `next`.
    pub fn new(next: u64, edge: u64) -> Self {
        PeerWindow { edge, max: edge - next, seq: 0, ack: next }
    }

    /// Takes the window from a segment that is not older than the last one taken. Returns whether the right edge moved;
    /// `None` for an older one.
    pub fn update(&mut self, ack: &Ack<'_>) -> Option<bool> {
        let newer = self.seq < ack.seq || (self.seq == ack.seq && self.ack <= ack.ack);
        if !newer {
            return None;
        }
        self.seq = ack.seq;
        self.ack = ack.ack;
        let edge = ack.ack + ack.window;
        let changed = edge != self.edge;
        self.edge = edge;
        self.max = self.max.max(ack.window);
        Some(changed)
    }
}
