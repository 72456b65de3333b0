//! Descriptors that one process hands to another over a Unix socket (`SCM_RIGHTS`, unix(7)), and what only one of the two gets.
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// At most this many descriptors are handed over at once: as many as the kernel takes (`SCM_MAX_FD`).
pub const MOST: usize = 253;

/// Sends `text`, which is not empty, and descriptors with it.
///
/// # Errors
/// The kernel's, or the other side takes only a part.
pub fn send(stream: &UnixStream, text: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !with.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("more descriptors than there is room for"));
    }
    let sent = sendmsg(stream, &[IoSlice::new(text)], &mut with, SendFlags::NOSIGNAL)?;
    if sent == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives what [`send`] sends, up to `longest` bytes.
///
/// # Errors
/// The kernel's; nothing comes, for the other side is gone.
pub fn receive(stream: &UnixStream, longest: usize) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut text = vec![0; longest];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(stream, &mut [IoSliceMut::new(&mut text)], &mut with, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    text.truncate(got.bytes);
    let descriptors = with.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    Ok((text, descriptors.collect()))
}

/// What several processes may have a descriptor of, and one of them gets: whoever takes it first (`eventfd(2)`).
#[derive(Debug)]
pub struct Claim(OwnedFd);

impl Claim {
    /// One that nobody has taken.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new() -> io::Result<Claim> {
        Ok(Claim(eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Takes it, for ever; whether nobody had.
    pub fn take(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}

impl AsFd for Claim {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Claim {
    /// One that another process has made.
    fn from(descriptor: OwnedFd) -> Claim {
        Claim(descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read as _, Write as _};

    #[test]
    fn one_gets_what_both_have() {
        let (here, there) = UnixStream::pair().unwrap();
        for first in [0, 1] {
            let claim = Claim::new().unwrap();
            send(&here, b"a claim", &[claim.as_fd()]).unwrap();
            let (_, mut descriptors) = receive(&there, 100).unwrap();
            let both = [claim, Claim::from(descriptors.remove(0))];
            assert!(both[first].take());
            assert!(!both[1 - first].take() && !both[first].take());
        }
    }

    #[test]
    fn what_is_handed_over_is_the_same_file() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut reading, writing) = std::io::pipe().unwrap();
        send(&here, b"a pipe", &[writing.as_fd()]).unwrap();
        drop(writing);
        let (text, mut descriptors) = receive(&there, 100).unwrap();
        assert_eq!((&text[..], descriptors.len()), (&b"a pipe"[..], 1));
        let mut writing = File::from(descriptors.remove(0));
        writing.write_all(b"x").unwrap();
        drop(writing);
        let mut read = Vec::new();
        reading.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"x");
        drop(here);
        assert_eq!(receive(&there, 100).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
