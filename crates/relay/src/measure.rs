use shorthaul_os::TcpInfo;
use shorthaul_os::socket::abort;
use shorthaul_types::{BitRate, Bytes};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How to measure.
#[derive(Clone, Debug)]
pub struct MeasureOptions {
    /// What is sent, and comes back.
    pub amount: Bytes,
    /// Connections that are opened to see the round-trip time.
    pub handshakes: u32,
    /// The longest that a connection or a silence may take.
    pub timeout: Duration,
    /// The kernel's congestion control for what is sent.
    pub congestion: Option<String>,
}

impl Default for MeasureOptions {
    fn default() -> Self {
        MeasureOptions {
            amount: Bytes(1_000_000),
            handshakes: 5,
            timeout: Duration::from_secs(10),
            congestion: None,
        }
    }
}

/// What is known of the way to a peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// The smallest round-trip time: that of the way without queues, as far as one was seen.
    pub min_rtt: Duration,
    /// The median round-trip time of the handshakes.
    pub median_rtt: Duration,
    /// The share of the segments that were retransmitted and not in vain: of those that we sent.
    pub loss: f64,
    /// Segments that we sent, which says how much the share of the loss is worth: with none lost in
    /// n, it is below 3/n with a probability of 95 %.
    pub segments: u32,
    /// The highest rate at which the peer was seen to receive over at least one round trip.
    pub rate: BitRate,
    /// Bytes sent.
    pub sent: Bytes,
    /// How long the sending and hearing back took.
    pub took: Duration,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The name leads nowhere.
    #[error("`{peer}` has no address: {error}")]
    Name {
        /// As it was written.
        peer: String,
        /// Why.
        error: io::Error,
    },
    /// Nobody answers there.
    #[error(
        "cannot connect to {address}: {error}; does `shorthaul node --echo` or another echo service run there?"
    )]
    Connect {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The connection broke.
    #[error("the connection to {address} broke after {received} bytes came back: {error}")]
    Broken {
        /// The address.
        address: SocketAddr,
        /// Bytes that came back.
        received: u64,
        /// Why.
        error: io::Error,
    },
    /// What came back is not what was sent.
    #[error("{address} is no echo service: byte {at} came back different")]
    NoEcho {
        /// The address.
        address: SocketAddr,
        /// Where.
        at: u64,
    },
    /// This kernel has no such congestion control.
    #[error("cannot use the congestion control `{name}`: {error}")]
    Congestion {
        /// The name.
        name: String,
        /// Why.
        error: io::Error,
    },
}

/// Measures the way to an echo service.
///
/// # Errors
/// There is none, or the connection breaks.
pub fn measure(peer: &str, options: &MeasureOptions) -> Result<Measurement, MeasureError> {
    let name = |error| MeasureError::Name { peer: peer.into(), error };
    let mut addresses = peer.to_socket_addrs().map_err(name)?.peekable();
    if addresses.peek().is_none() {
        return Err(name(io::Error::from(io::ErrorKind::NotFound)));
    }
    // As a browser would: the first address that answers.
    let mut answer = Err(MeasureError::Name { peer: peer.into(), error: io::ErrorKind::NotFound.into() });
    for address in addresses {
        answer = shake_hands(address, options).map(|trip| (address, trip));
        if answer.is_ok() {
            break;
        }
    }
    let (address, first) = answer?;
    let refused = |error| MeasureError::Connect { address, error };
    let mut trips = vec![first];
    for _ in 1..options.handshakes {
        trips.push(shake_hands(address, options)?);
    }
    trips.sort_unstable();
    let median_rtt = trips[trips.len() / 2];

    let socket = TcpStream::connect_timeout(&address, options.timeout).map_err(refused)?;
    let broken = |error, received| MeasureError::Broken { address, received, error };
    socket.set_read_timeout(Some(options.timeout)).map_err(|e| broken(e, 0))?;
    socket.set_write_timeout(Some(options.timeout)).map_err(|e| broken(e, 0))?;
    if let Some(name) = &options.congestion {
        let error = |error| MeasureError::Congestion { name: name.clone(), error };
        socket2::SockRef::from(&socket).set_tcp_congestion(name.as_bytes()).map_err(error)?;
    }
    let start = Instant::now();
    let over = AtomicBool::new(false);
    let (received, fastest) = thread::scope(|scope| {
        scope.spawn(|| send(&socket, options.amount.0));
        let watching = scope.spawn(|| watch(&socket, &over));
        let received = receive(&socket, options.amount.0);
        over.store(true, Ordering::Release);
        (received, watching.join().unwrap_or(0))
    });
    let took = start.elapsed();
    match received {
        Ok(_) => {}
        Err(Heard::Nothing { error, received }) => {
            let _ = abort(&socket); // the sender is not to wait for ever
            return Err(broken(error, received));
        }
        Err(Heard::Different { at }) => {
            let _ = abort(&socket);
            return Err(MeasureError::NoEcho { address, at });
        }
    }
    let info = TcpInfo::of(&socket).map_err(|e| broken(e, options.amount.0))?;
    let lost = info.retransmits.saturating_sub(info.dsack_duplicates);
    let sent = info.data_segments_out.max(1);
    let smallest = [Some(trips[0]), Some(info.min_rtt).filter(|rtt| !rtt.is_zero())];
    Ok(Measurement {
        min_rtt: smallest.into_iter().flatten().min().unwrap_or(trips[0]),
        median_rtt,
        loss: f64::from(lost) / f64::from(sent),
        segments: sent,
        rate: BitRate::from_bytes_per_sec(fastest.max((options.amount.0 as f64 / took.as_secs_f64()) as u64)),
        sent: options.amount,
        took,
    })
}

/// The round-trip time that a handshake takes.
fn shake_hands(address: SocketAddr, options: &MeasureOptions) -> Result<Duration, MeasureError> {
    let start = Instant::now();
    let socket = TcpStream::connect_timeout(&address, options.timeout)
        .map_err(|error| MeasureError::Connect { address, error })?;
    let trip = start.elapsed();
    // Nothing was said, so nothing is lost; and no TIME-WAIT stays behind.
    let _ = abort(&socket);
    Ok(trip)
}

/// The byte at a place: nothing that a peer would send by itself.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn send(mut socket: &TcpStream, amount: u64) -> io::Result<()> {
    let mut at = 0;
    let mut buffer = Vec::with_capacity(64 << 10);
    while at < amount {
        let end = amount.min(at + (64 << 10));
        buffer.clear();
        buffer.extend((at..end).map(byte));
        socket.write_all(&buffer)?;
        at = end;
    }
    socket.shutdown(Shutdown::Write)
}

enum Heard {
    Nothing { error: io::Error, received: u64 },
    Different { at: u64 },
}

fn receive(mut socket: &TcpStream, amount: u64) -> Result<u64, Heard> {
    let mut buffer = vec![0; 64 << 10];
    let mut received = 0;
    while received < amount {
        let len = match socket.read(&mut buffer) {
            Ok(0) => {
                let error = io::Error::new(io::ErrorKind::UnexpectedEof, "it was closed");
                return Err(Heard::Nothing { error, received });
            }
            Ok(len) => len,
            Err(error) => return Err(Heard::Nothing { error, received }),
        };
        for (&heard, at) in buffer[..len].iter().zip(received..) {
            if heard != byte(at) {
                return Err(Heard::Different { at });
            }
        }
        received += len as u64;
    }
    Ok(received)
}

/// Watches the delivery rate that the kernel measures; the highest, in bytes per second.
fn watch(socket: &TcpStream, over: &AtomicBool) -> u64 {
    let mut fastest = 0;
    while !over.load(Ordering::Acquire) {
        if let Ok(info) = TcpInfo::of(socket) {
            fastest = fastest.max(info.delivery_rate.bytes_per_sec());
        }
        thread::sleep(Duration::from_millis(5));
    }
    fastest
}
