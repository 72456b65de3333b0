//! Who hears of bytes that move, and bounds them.
use crate::pump::{Broken, Watched};
use std::time::Duration;

/// Which way bytes moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// From the application.
    Given,
    /// From the way.
    Received,
}

/// Who hears of bytes that move, and bounds them.
pub trait Watch: Sync {
    /// How much may be moved at once; nothing, if no more may be moved at all.
    fn portion(&self) -> usize {
        usize::MAX
    }

    /// How long nothing may be moved, for others have moved too much.
    fn due(&self) -> Duration {
        Duration::ZERO
    }

    /// So much was moved: how long to wait before there is more.
    ///
    /// # Errors
    /// No more may be moved.
    fn on_moved(&self, _way: Moved, _bytes: usize) -> Result<Duration, Broken> {
        Ok(Duration::ZERO)
    }

    /// The other end has acknowledged something of what was given, or all.
    fn on_acknowledged(&self, _all: bool) {}

    /// So many bytes were worked on for so long.
    fn on_processing(&self, _bytes: usize, _took: Duration) {}

    /// Who is told how long there was nothing of it to read, or no room to write it.
    fn waits(&self, _way: Moved) -> Option<Watched<'_>> {
        None
    }
}

/// Nobody does.
pub struct Unwatched;

impl Watch for Unwatched {}
