//! Descriptors that one process hands to another over a Unix socket (`SCM_RIGHTS`, unix(7)).
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

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
