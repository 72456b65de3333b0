use crate::window_limit::{Occupancy, WindowLimit};

/// What a connection's wired sender is allotted (AGG Table I): a window that counts from what has left for the host, so
/// that what is offered is the window less what is queued here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AllottedWindow {
    /// In bytes.
    pub bytes: u64,
}

impl WindowLimit for AllottedWindow {
    fn bound(&mut self, occupancy: &Occupancy, room: u64) -> u64 {
        room.min(self.bytes.saturating_sub(occupancy.unsent))
    }
}
