//! The application's side of an end.
use crate::socket::Socket;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The application's side of an end.
pub trait Application {
    /// As `AsyncRead`.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;
    /// As `AsyncWrite`.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    /// Nothing more comes.
    ///
    /// # Errors
    /// It cannot be told.
    fn close(&mut self) -> io::Result<()>;
    /// Whether it has all that was written, and its end if it was told.
    ///
    /// # Errors
    /// It broke.
    fn has_all(&self) -> io::Result<bool>;
    /// Whether it has said that it gives no more, be what it gave before that taken or not.
    ///
    /// # Errors
    /// It broke.
    fn has_ended(&self) -> io::Result<bool> {
        Ok(false)
    }
    /// Whether it gave something that is not taken yet, as far as can be seen.
    ///
    /// # Errors
    /// It broke.
    fn gives(&self) -> io::Result<bool> {
        Ok(false)
    }
    /// Its socket, if that is what it is.
    fn socket(&self) -> Option<&Socket> {
        None
    }
    /// Whether its own stream ends when the other one has.
    fn ends_with_other(&self) -> bool {
        false
    }
}

impl Application for Socket {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(self), cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(self), cx, bytes)
    }

    fn close(&mut self) -> io::Result<()> {
        match socket2::SockRef::from(&*self.0).shutdown(std::net::Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()), // it has closed both ways
            done => done,
        }
    }

    fn has_all(&self) -> io::Result<bool> {
        shorthaul_os::socket::unacknowledged(self).map(|bytes| bytes.0 == 0)
    }

    fn has_ended(&self) -> io::Result<bool> {
        shorthaul_os::poll::has_ended(self)
    }

    fn gives(&self) -> io::Result<bool> {
        shorthaul_os::socket::readable(self).map(|bytes| bytes.0 > 0)
    }

    fn socket(&self) -> Option<&Socket> {
        Some(self)
    }
}
