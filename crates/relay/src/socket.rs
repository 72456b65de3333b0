//! One leg of a session: a kernel socket, and TLS on it where there is.
use crate::authority::Holder;
use rustls_pki_types::CertificateDer;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// What TLS holds of what was written and the kernel has not taken, at most.
pub(crate) const TLS_HOLDS: usize = 64 << 10;

/// A socket that both directions of a session have.
#[derive(Clone, Debug)]
pub struct Socket(pub(crate) Arc<TcpStream>);

impl Socket {
    /// Whatever ends this socket from now on, ends it with a reset: the process, too.
    pub fn end_with_reset(&self) -> io::Result<()> {
        socket2::SockRef::from(&*self.0).set_linger(Some(Duration::ZERO))
    }

    /// Closing it from now on delivers what was sent, as usual.
    pub fn end_well(&self) -> io::Result<()> {
        socket2::SockRef::from(&*self.0).set_linger(None)
    }

    /// Waits until the connection has broken.
    pub async fn broken(&self) -> io::Error {
        loop {
            match self.0.ready(Interest::ERROR).await {
                Ok(ready) if !ready.is_error() => tokio::task::yield_now().await,
                Ok(_) => {
                    let error = self.0.take_error().ok().flatten();
                    return error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into());
                }
                Err(error) => return error,
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buf.initialize_unfilled()) {
                Ok(read) => {
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// All records that TLS has ready at once. When it fails in a handshake it writes once and no more: what it says last comes behind others.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write_vectored(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match socket2::SockRef::from(&*self.0).shutdown(std::net::Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()), // it has closed both ways
            done => done,
        })
    }
}

/// A socket, and TLS on it where there is: all of it, or what one direction has of it.
#[derive(Debug)]
pub struct End<T> {
    pub(crate) socket: Socket,
    pub(crate) tls: Option<T>,
}

/// A connection to a client, a node or a target.
pub type Leg = End<Box<TlsStream<Socket>>>;
/// What comes in on a leg.
pub type Source = End<ReadHalf<TlsStream<Socket>>>;
/// What goes out on a leg.
pub type Sink = End<WriteHalf<TlsStream<Socket>>>;

impl Leg {
    /// Without TLS.
    pub fn plain(socket: Socket) -> Leg {
        Leg { socket, tls: None }
    }

    /// With it.
    pub fn tls(socket: Socket, mut tls: TlsStream<Socket>) -> Leg {
        match &mut tls {
            TlsStream::Client(client) => client.get_mut().1.set_buffer_limit(Some(TLS_HOLDS)),
            TlsStream::Server(server) => server.get_mut().1.set_buffer_limit(Some(TLS_HOLDS)),
        }
        Leg { socket, tls: Some(Box::new(tls)) }
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether anybody on the way can read along.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The certificates by which the other side has proven who it is, its own first; none if it has not.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        self.tls.as_ref().and_then(|tls| tls.get_ref().1.peer_certificates()).unwrap_or_default()
    }

    /// Who the other side has proven to be by a certificate, as far as that names somebody.
    pub fn holder(&self) -> Option<Holder> {
        Holder::of(self.certificates().first()?)
    }

    /// Its two directions.
    pub fn into_halves(self) -> (Source, Sink) {
        match self.tls {
            None => {
                (Source { socket: self.socket.clone(), tls: None }, Sink { socket: self.socket, tls: None })
            }
            Some(tls) => {
                let (read, write) = tokio::io::split(*tls);
                (
                    Source { socket: self.socket.clone(), tls: Some(read) },
                    Sink { socket: self.socket, tls: Some(write) },
                )
            }
        }
    }
}

/// An end without TLS's own end, in words of ours; a library names its documentation.
fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "it was cut off on the way")
        }
        _ => error,
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for End<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let End { socket, tls } = &mut *self;
        match tls {
            Some(tls) => Pin::new(tls).poll_read(cx, buf).map_err(in_words),
            None => Pin::new(socket).poll_read(cx, buf),
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for End<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let End { socket, tls } = &mut *self;
        match tls {
            Some(tls) => Pin::new(tls).poll_write(cx, bytes),
            None => Pin::new(socket).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tls.as_mut().map_or(Poll::Ready(Ok(())), |tls| Pin::new(tls).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let End { socket, tls } = &mut *self;
        match tls {
            Some(tls) => Pin::new(tls).poll_shutdown(cx),
            None => Pin::new(socket).poll_shutdown(cx),
        }
    }
}

/// Whether a socket at `address` leaves IPv4 alone. One at `[::]` has all of IPv4, too (ipv6(7)), so that nothing else can listen at that port
/// of an address of IPv4: where one is among `all`, each has its own.
pub(crate) fn is_for_ipv6_alone(address: SocketAddr, all: &[SocketAddr]) -> bool {
    let is_beside = |other: &SocketAddr| other.is_ipv4() && other.port() == address.port();
    address.ip() == IpAddr::from(Ipv6Addr::UNSPECIFIED) && address.port() != 0 && all.iter().any(is_beside)
}

/// What helps where a port cannot be listened to; empty where nothing is known that does.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; `ss -ltnp` says who has it: end that, or take another port",
        io::ErrorKind::AddrNotAvailable => "; it is no address of this host: `ip address` shows those",
        io::ErrorKind::PermissionDenied => "; ports below 1024 take root or CAP_NET_BIND_SERVICE",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_ipv6_leaves_any_ipv4_address_of_its_port_alone() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let alone = |all: &[&str]| {
            let all: Vec<SocketAddr> = all.iter().map(|one| at(one)).collect();
            is_for_ipv6_alone(at("[::]:7080"), &all)
        };
        assert!(alone(&["[::]:7080", "0.0.0.0:7080"]) && alone(&["127.0.0.1:7080", "[::]:7080"]));
        assert!(!alone(&["[::]:7080", "0.0.0.0:7081", "[::1]:7080"]));
        assert!(!is_for_ipv6_alone(at("[::1]:7080"), &[at("0.0.0.0:7080")]));
    }
}
