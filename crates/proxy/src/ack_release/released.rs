use super::Event;

/// What most releases keep: up to where, and whether an acknowledgment is due.
#[derive(Debug)]
pub(super) struct Released {
    to: u64,
    /// `to` has moved since the last acknowledgment.
    moved: bool,
    /// A gap is to be told of.
    gap: bool,
}

impl Released {
    /// Nothing has been released yet but what lies before `next`.
    pub fn new(next: u64) -> Self {
        Released { to: next, moved: false, gap: false }
    }

    /// Everything up to `to` may be acknowledged.
    pub fn advance(&mut self, to: u64) {
        self.moved |= to > self.to;
        self.to = self.to.max(to);
    }

    /// Something happened. To be called for each event, before anything is released by it.
    pub fn on_event(&mut self, event: Event) {
        match event {
            Event::Received { gap, .. } => self.gap |= gap,
            Event::AckSent { .. } => (self.moved, self.gap) = (false, false),
            _ => {}
        }
    }

    /// Up to where.
    pub fn to(&self) -> u64 {
        self.to
    }

    /// Whether that has moved since the last acknowledgment.
    pub fn has_moved(&self) -> bool {
        self.moved
    }

    /// Whether an acknowledgment is due.
    pub fn wants_ack(&self) -> bool {
        self.moved || self.gap
    }
}
