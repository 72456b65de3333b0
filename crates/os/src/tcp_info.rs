//! `TCP_INFO`: what the kernel says of a connection at one moment.
use crate::socket::check;
use linux_raw_sys::net::{TCP_INFO, tcp_info};
use shorthaul_types::{BitRate, Bytes};
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// What the kernel says of a TCP connection (`tcp(7)`, `TCP_INFO`). What a kernel does not know is zero, but for
/// what is said to be `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// The state of RFC 9293 §3.3.2.
    pub state: TcpState,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The smallest round-trip time so far.
    pub min_rtt: Duration,
    /// The congestion window in segments.
    pub cwnd: u32,
    /// The segment size, without headers.
    pub mss: Bytes,
    /// The slow-start threshold in segments; `u32::MAX >> 1` before there is one.
    pub ssthresh: u32,
    /// Segments sent and not yet acknowledged.
    pub unacked: u32,
    /// Bytes in the send queue that were never sent.
    pub unsent: Bytes,
    /// Segments that are still on their way, as far as is known: neither acknowledged (SACK included) nor lost.
    pub in_flight: u32,
    /// The window that this end has advertised, without the data that came after it was; `None` before Linux 6.2.
    pub window: Option<Bytes>,
    /// What was read within a round trip, at most.
    pub read_in_round_trip: Bytes,
    /// The window that the peer advertises now, counted from what it has acknowledged; `None` before Linux 5.4.
    pub peer_window: Option<Bytes>,
    /// Segments with data sent so far.
    pub data_segments_out: u32,
    /// Segments retransmitted so far.
    pub retransmits: u32,
    /// Payload bytes retransmitted so far.
    pub retransmitted: Bytes,
    /// D-SACKs received so far: segments retransmitted in vain.
    pub dsack_duplicates: u32,
    /// Retransmission timeouts so far; `None` before Linux 6.7.
    pub timeouts: Option<u16>,
    /// Bytes acknowledged by the other end so far.
    pub acked: Bytes,
    /// How long something that was sent was not acknowledged so far.
    pub busy: Duration,
    /// How long the receiver's window has kept it from sending so far.
    pub window_limited: Duration,
    /// The latest delivery rate that the kernel measured.
    pub delivery_rate: BitRate,
    /// Questions to a closed window, or to a silent peer, that were not answered.
    pub probes: u8,
    /// How long ago data was last sent; since the connection began, if none was.
    pub last_sent: Duration,
    /// How long ago data last came.
    pub last_received: Duration,
    /// How long ago the other end was last heard of.
    pub last_heard: Duration,
}

/// A state of RFC 9293 §3.3.2, by the kernel's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpState(pub u8);

impl TcpState {
    /// FIN-WAIT-1.
    pub const FIN_WAIT_1: TcpState = TcpState(4);
    /// FIN-WAIT-2.
    pub const FIN_WAIT_2: TcpState = TcpState(5);
}

impl TcpInfo {
    /// Asks the kernel.
    ///
    /// # Errors
    /// If this is no TCP socket.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        // SAFETY: all zeros is a valid tcp_info, which has numbers only.
        let mut info: tcp_info = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&info) as libc::socklen_t;
        let fd = socket.as_fd().as_raw_fd();
        // rustix does not ask for this.
        // SAFETY: the kernel writes at most `len` bytes, which is the size of `info`.
        check(unsafe {
            libc::getsockopt(
                fd,
                libc::IPPROTO_TCP,
                TCP_INFO as libc::c_int,
                (&raw mut info).cast(),
                &raw mut len,
            )
        })?;
        let has = |end: usize| len as usize >= end;
        let micros = |value: u32| Duration::from_micros(value.into());
        Ok(TcpInfo {
            state: TcpState(info.tcpi_state),
            rtt: micros(info.tcpi_rtt),
            min_rtt: micros(info.tcpi_min_rtt),
            cwnd: info.tcpi_snd_cwnd,
            mss: Bytes(info.tcpi_snd_mss.into()),
            ssthresh: info.tcpi_snd_ssthresh,
            unacked: info.tcpi_unacked,
            unsent: Bytes(info.tcpi_notsent_bytes.into()),
            in_flight: info
                .tcpi_unacked
                .saturating_add(info.tcpi_retrans)
                .saturating_sub(info.tcpi_sacked.saturating_add(info.tcpi_lost)),
            window: has(offset_of!(tcp_info, tcpi_rehash)).then_some(Bytes(info.tcpi_rcv_wnd.into())),
            read_in_round_trip: Bytes(info.tcpi_rcv_space.into()),
            peer_window: has(offset_of!(tcp_info, tcpi_rcv_wnd)).then_some(Bytes(info.tcpi_snd_wnd.into())),
            data_segments_out: info.tcpi_data_segs_out,
            retransmits: info.tcpi_total_retrans,
            retransmitted: Bytes(info.tcpi_bytes_retrans),
            dsack_duplicates: info.tcpi_dsack_dups,
            timeouts: has(offset_of!(tcp_info, tcpi_total_rto_recoveries)).then_some(info.tcpi_total_rto),
            acked: Bytes(info.tcpi_bytes_acked),
            busy: Duration::from_micros(info.tcpi_busy_time),
            window_limited: Duration::from_micros(info.tcpi_rwnd_limited),
            delivery_rate: BitRate::from_bytes_per_sec(info.tcpi_delivery_rate),
            probes: info.tcpi_probes,
            last_sent: Duration::from_millis(info.tcpi_last_data_sent.into()),
            last_received: Duration::from_millis(info.tcpi_last_data_recv.into()),
            last_heard: Duration::from_millis(info.tcpi_last_ack_recv.into()),
        })
    }
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
            TcpInfo::of(&socket).unwrap().peer_window.unwrap().0
        });
        assert!(windows[0] > 1000 && windows[0] < 17_000 && windows[1] > windows[0], "{windows:?}");
    }

    #[test]
    fn what_is_sent_and_acknowledged_is_counted() {
        use std::io::{Read as _, Write as _};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 1000]).unwrap();
        far.read_exact(&mut [0; 1000]).unwrap();
        far.write_all(b"!").unwrap();
        near.read_exact(&mut [0]).unwrap(); // which carries an acknowledgment of all before it
        let info = TcpInfo::of(&near).unwrap();
        assert!(info.data_segments_out >= 1 && info.acked.0 >= 1000, "{info:?}");
        assert!(info.cwnd >= 1 && info.mss.0 > 500 && info.rtt > Duration::ZERO, "{info:?}");
        assert_eq!((info.state, info.retransmits), (TcpState(1), 0), "{info:?}");
        TcpInfo::of(&std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap_err();
    }
}
