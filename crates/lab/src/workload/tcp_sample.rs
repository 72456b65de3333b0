use shorthaul_os::TcpInfo;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::time::Duration;

/// What a TCP says of a connection at one moment: the kernel's, or one that speaks in its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSample {
    /// When, since the beginning of the transfer.
    pub at: Duration,
    /// What it says.
    pub info: TcpInfo,
}

impl TcpSample {
    /// Asks the kernel; `at` is what the sample is stamped with.
    ///
    /// # Errors
    /// If this is no TCP socket.
    pub fn take(socket: &impl AsFd, at: Duration) -> io::Result<Self> {
        Ok(TcpSample { at, info: TcpInfo::of(socket)? })
    }
}

impl Deref for TcpSample {
    type Target = TcpInfo;

    fn deref(&self) -> &TcpInfo {
        &self.info
    }
}

impl DerefMut for TcpSample {
    fn deref_mut(&mut self) -> &mut TcpInfo {
        &mut self.info
    }
}
