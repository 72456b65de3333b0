//! The window of a connection.
use super::check;
use shorthaul_types::Bytes;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// The window that the peer of a TCP connection offers now (`tcpi_snd_wnd`, Linux 5.4).
///
/// # Errors
/// It is no TCP socket, or the kernel does not say.
pub fn offered_window(socket: &impl AsFd) -> io::Result<Bytes> {
    const AT: usize = 228; // of `struct tcp_info`
    let mut info = [0u8; 512];
    let mut len = info.len() as libc::socklen_t;
    let (fd, level, name) = (socket.as_fd().as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the kernel writes at most `len` bytes, which is the size of the buffer.
    check(unsafe { libc::getsockopt(fd, level, name, info.as_mut_ptr().cast(), &raw mut len) })?;
    let field = info[..len as usize].get(AT..).and_then(|rest| rest.first_chunk());
    let window = field.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    Ok(Bytes(u32::from_ne_bytes(*window).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_small_receive_buffer_is_a_small_window() {
        let windows = [1 << 13, 1 << 17].map(|buffer| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            socket2::SockRef::from(&listener).set_recv_buffer_size(buffer).unwrap();
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            drop(listener.accept().unwrap());
            offered_window(&socket).unwrap().0
        });
        assert!(windows[0] > 1000 && windows[0] < 17_000 && windows[1] > windows[0], "{windows:?}");
    }
}
