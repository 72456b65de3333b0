use crate::conformance::failure::{Failure, While, ensure, name_of};
use crate::conformance::pattern::{CHUNK, Pattern, Tape};
use shorthaul_os::socket::{self, send_without_waiting};
use shorthaul_os::{Errno, TcpInfo, TcpState};
use socket2::{SockFilter, Socket, TcpKeepalive};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One end of a connection under test. Its two directions are two fields, so that two threads can
/// have one each.
pub struct End {
    /// What this end sends.
    pub tx: Outgoing,
    /// What this end receives.
    pub rx: Incoming,
}

/// The sending direction of an [`End`].
pub struct Outgoing {
    who: &'static str,
    socket: Arc<Socket>,
    deadline: Instant,
    tape: Tape,
    was_reset: bool,
}

/// The receiving direction of an [`End`].
pub struct Incoming {
    who: &'static str,
    socket: Arc<Socket>,
    deadline: Instant,
    tape: Tape,
}

/// What an end finds when it reads.
#[derive(Debug)]
enum Found {
    Bytes(usize),
    End,
    Error(io::Error),
    Nothing,
}

impl End {
    /// Wraps the connected `socket`: it sends `sends`, expects `expects`, and gives up at `deadline`.
    pub fn new(
        who: &'static str,
        socket: Socket,
        sends: Pattern,
        expects: Pattern,
        deadline: Instant,
    ) -> Self {
        let socket = Arc::new(socket);
        End {
            tx: Outgoing {
                who,
                socket: Arc::clone(&socket),
                deadline,
                tape: Tape::new(sends),
                was_reset: false,
            },
            rx: Incoming { who, socket, deadline, tape: Tape::new(expects) },
        }
    }

    /// The socket itself, for options.
    pub(crate) fn socket(&self) -> &Socket {
        &self.tx.socket
    }

    /// "client" or "server".
    pub(crate) fn who(&self) -> &'static str {
        self.tx.who
    }

    /// The address that this end sees on the other side.
    pub(crate) fn peer(&self) -> Result<SocketAddr, Failure> {
        address(self.socket().peer_addr().doing(format!("{}: getpeername", self.who()))?)
    }

    /// The address of this end.
    pub(crate) fn local(&self) -> Result<SocketAddr, Failure> {
        address(self.socket().local_addr().doing(format!("{}: getsockname", self.who()))?)
    }

    /// Closes the connection with a RST instead of a FIN (`SO_LINGER` with a time of zero).
    pub(crate) fn abort(self) -> Result<(), Failure> {
        self.socket().set_linger(Some(Duration::ZERO)).doing(format!("{}: SO_LINGER", self.who()))
        // Both halves are dropped here, and with the last the socket closes.
    }

    /// From now on, or no longer, nothing that is sent to this end reaches it: as if the path in
    /// this direction were cut, for this connection alone.
    pub(crate) fn deafen(&self, deaf: bool) -> Result<(), Failure> {
        deafen(self.socket(), deaf).doing(format!("{}: socket filter", self.who()))
    }

    /// From now on, or no longer, nothing that this end sends leaves its host.
    pub(crate) fn silence(&self, silent: bool) -> Result<(), Failure> {
        let mark = if silent { crate::conformance::site::SILENCED } else { 0 };
        self.socket().set_mark(mark).doing(format!("{}: SO_MARK", self.who()))
    }

    /// The state of the connection at this end.
    pub(crate) fn state(&self) -> Result<TcpState, Failure> {
        TcpInfo::of(self.socket()).map(|info| info.state).doing(format!("{}: TCP_INFO", self.who()))
    }

    /// Turns keepalives on: after a second of silence, every second, and after `KEEPALIVES` without
    /// an answer the peer is taken for dead.
    pub(crate) fn probe_every_second(&self) -> Result<(), Failure> {
        let second = Duration::from_secs(1);
        let keepalive = TcpKeepalive::new().with_time(second).with_interval(second).with_retries(KEEPALIVES);
        self.socket().set_tcp_keepalive(&keepalive).doing(format!("{}: keepalive", self.who()))
    }

    /// Waits until at least `len` bytes are there to be read, without reading them.
    pub(crate) fn wait_queued(&self, len: u64) -> Result<(), Failure> {
        while self.rx.queued()? < len {
            ensure!(!self.rx.remaining().is_zero(), "{}: {len} bytes never arrived", self.who());
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Waits until the connection ends with a reset, whatever data comes before it.
    ///
    /// A RST is not retransmitted, and one that was lost is repeated only when its victim speaks.
    /// So with `prod`, every second in which nothing comes this end sends a byte.
    pub(crate) fn expect_reset(&mut self, prod: Prod) -> Result<(), Failure> {
        let who = self.who();
        loop {
            let limit = match prod {
                Prod::No => self.rx.remaining(),
                Prod::EverySecond | Prod::AfterEnd => self.rx.remaining().min(Duration::from_secs(1)),
            };
            match self.rx.look(limit) {
                Found::Bytes(_) => {}
                Found::Error(error) if is_reset(&error) => return Ok(()),
                Found::Error(error) => return Err(unexpected(who, "a reset", &error)),
                Found::Nothing if self.rx.remaining().is_zero() => {
                    return Err(Failure::new(format!("{who}: the reset never came")));
                }
                Found::End if !matches!(prod, Prod::AfterEnd) => {
                    return Err(Failure::new(format!(
                        "{who}: expected a reset, found a clean end of stream"
                    )));
                }
                // After the peer's FIN, reading says nothing any more; only writing does.
                Found::End | Found::Nothing => {
                    match send_without_waiting(&*self.tx.socket, b"?") {
                        Err(error) if is_reset(&error) => return Ok(()),
                        _ => std::thread::sleep(Duration::from_millis(20).min(self.rx.remaining())),
                    }
                    if self.rx.remaining().is_zero() {
                        return Err(Failure::new(format!(
                            "{who}: the reset never came, the connection lives on"
                        )));
                    }
                }
            }
        }
    }
}

/// How many keepalives may go unanswered.
pub(crate) const KEEPALIVES: u32 = 4;

/// What [`End::expect_reset`] does when nothing comes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Prod {
    /// Waits.
    No,
    /// Sends a byte, which a peer that is gone answers with another RST.
    EverySecond,
    /// As that, in a connection whose other end had closed its direction before.
    AfterEnd,
}

/// ECONNRESET, or EPIPE: what Linux makes of a RST when the peer had closed its direction before.
pub(crate) fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

fn unexpected(who: &str, wanted: &str, error: &io::Error) -> Failure {
    Failure::new(format!("{who}: expected {wanted}, found {}", name_of(error)))
}

fn address(address: socket2::SockAddr) -> Result<SocketAddr, Failure> {
    address.as_socket().ok_or_else(|| Failure::new("the socket has no IP address"))
}

/// Attaches, or removes, a classic BPF filter that accepts nothing.
pub(crate) fn deafen(socket: &Socket, deaf: bool) -> io::Result<()> {
    const RETURN_CONSTANT: u16 = 0x06;
    if deaf {
        socket.attach_filter(&[SockFilter::new(RETURN_CONSTANT, 0, 0, 0)])
    } else {
        socket.detach_filter()
    }
}

impl Outgoing {
    fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// What has been sent up to now, to compare with what arrives.
    pub fn sent(&self) -> Sent {
        Sent::of(self.who, &self.tape)
    }

    /// Sends the next `len` bytes of the pattern, 64 KiB at a time.
    pub fn send(&mut self, len: u64) -> Result<(), Failure> {
        self.send_in_pieces(len, CHUNK)
    }

    /// Sends the next `len` bytes with a `write` for every `piece` of them.
    pub(crate) fn send_in_pieces(&mut self, len: u64, piece: usize) -> Result<(), Failure> {
        let end = self.tape.position() + len;
        while self.tape.position() < end {
            let started = end - len;
            if !self.send_some((end - self.tape.position()).min(piece as u64) as usize, self.remaining())? {
                return Err(Failure::new(format!(
                    "{}: after {} of {len} bytes nothing more was taken",
                    self.who,
                    self.tape.position() - started
                )));
            }
        }
        Ok(())
    }

    /// Sends until nothing is taken for `pause`; returns how many bytes went. Fails beyond `limit`.
    pub(crate) fn fill(&mut self, pause: Duration, limit: u64) -> Result<u64, Failure> {
        let start = self.tape.position();
        while self.send_some(CHUNK, pause.min(self.remaining()))? {
            ensure!(
                self.tape.position() - start <= limit,
                "{}: {} bytes were taken although the other end reads nothing: somebody buffers without bound",
                self.who,
                self.tape.position() - start
            );
        }
        Ok(self.tape.position() - start)
    }

    /// One `write` of at most `len` bytes; false if nothing was taken within `limit`.
    fn send_some(&mut self, len: usize, limit: Duration) -> Result<bool, Failure> {
        if limit.is_zero() {
            return Ok(false);
        }
        self.socket.set_write_timeout(Some(limit)).doing("SO_SNDTIMEO")?;
        match (&*self.socket).write(self.tape.upcoming(len)) {
            Ok(taken) => {
                self.tape.advance(taken);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => {
                self.was_reset = is_reset(&error);
                Err(Failure::new(format!(
                    "{}: sending failed after {} bytes: {}",
                    self.who,
                    self.tape.position(),
                    name_of(&error)
                )))
            }
        }
    }

    /// Whether sending has failed because of a reset.
    pub(crate) fn was_reset(&self) -> bool {
        self.was_reset
    }

    /// Sends the last byte of the next `len` as urgent data (RFC 9293 §3.8.5).
    pub(crate) fn send_urgent(&mut self, len: usize) -> Result<(), Failure> {
        let bytes = self.tape.upcoming(len).to_vec();
        let taken = self.socket.send_out_of_band(&bytes).doing(format!("{}: urgent data", self.who))?;
        ensure!(taken == len, "{}: only {taken} of {len} urgent bytes were taken", self.who);
        self.tape.advance(taken);
        Ok(())
    }

    /// Closes this direction: a FIN.
    pub fn finish(&self) -> Result<(), Failure> {
        self.socket.shutdown(Shutdown::Write).doing(format!("{}: shutdown", self.who))
    }

    /// Waits until everything sent has been acknowledged.
    pub fn settle(&self) -> Result<(), Failure> {
        loop {
            let left = socket::unacknowledged(&*self.socket).doing("SIOCOUTQ")?.0;
            if left == 0 {
                return Ok(());
            }
            ensure!(!self.remaining().is_zero(), "{}: {left} bytes were never acknowledged", self.who);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Incoming {
    fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// What arrived up to now must be all of what was `sent`: as many bytes, and the same SHA-256.
    pub fn expect_all_of(&self, sent: &Sent) -> Result<(), Failure> {
        sent.expect_at(self.who, &self.tape)
    }

    /// How many bytes have arrived.
    pub fn position(&self) -> u64 {
        self.tape.position()
    }

    /// Receives exactly the next `len` bytes and checks them.
    pub fn receive(&mut self, len: u64) -> Result<(), Failure> {
        let start = self.tape.position();
        let mut buffer = vec![0; CHUNK.min(len as usize)];
        while self.tape.position() < start + len {
            let got = self.tape.position() - start;
            let want = ((len - got) as usize).min(buffer.len());
            match self.read(&mut buffer[..want], self.remaining()) {
                Found::Bytes(n) => self.check(&buffer[..n])?,
                Found::End => {
                    return Err(Failure::new(format!(
                        "{}: the stream ended cleanly after {got} of {len} bytes: {} are missing",
                        self.who,
                        len - got
                    )));
                }
                Found::Error(error) => {
                    return Err(Failure::new(format!(
                        "{}: {} after {got} of {len} bytes",
                        self.who,
                        name_of(&error)
                    )));
                }
                Found::Nothing => {
                    return Err(Failure::new(format!(
                        "{}: stuck after {got} of {len} bytes until the deadline",
                        self.who
                    )));
                }
            }
        }
        Ok(())
    }

    /// Receives exactly the next `len` bytes and then the end of the stream.
    pub fn receive_rest(&mut self, len: u64) -> Result<(), Failure> {
        self.receive(len)?;
        self.expect_end()
    }

    /// The peer must have closed its direction, and nothing may come before that.
    pub fn expect_end(&mut self) -> Result<(), Failure> {
        match self.look(self.remaining()) {
            Found::End => Ok(()),
            Found::Bytes(n) => Err(Failure::new(format!("{}: {n} bytes more than were sent", self.who))),
            Found::Error(error) => Err(unexpected(self.who, "the end of the stream", &error)),
            Found::Nothing => Err(Failure::new(format!(
                "{}: all {} bytes arrived but the end of the stream never did",
                self.who,
                self.tape.position()
            ))),
        }
    }

    /// Nothing at all may come for `time`.
    pub(crate) fn expect_quiet(&mut self, time: Duration) -> Result<(), Failure> {
        match self.look(time) {
            Found::Nothing => Ok(()),
            Found::Bytes(n) => Err(Failure::new(format!("{}: {n} bytes came that nobody sent", self.who))),
            Found::End => {
                Err(Failure::new(format!("{}: the stream ended although nobody ended it", self.who)))
            }
            Found::Error(error) => Err(unexpected(self.who, "silence", &error)),
        }
    }

    /// Waits for the connection to fail, and returns how; data before that is thrown away.
    pub(crate) fn failure(&mut self) -> Result<io::Error, Failure> {
        loop {
            match self.look(self.remaining()) {
                Found::Error(error) => return Ok(error),
                Found::Bytes(_) => {}
                Found::End => {
                    return Err(Failure::new(format!("{}: expected an error, found a clean end", self.who)));
                }
                Found::Nothing => return Err(Failure::new(format!("{}: the error never came", self.who))),
            }
        }
    }

    /// Reads what there is, checks it, and says how it ended: the stream ended, failed, or the
    /// deadline came.
    pub(crate) fn receive_until_over(&mut self) -> Result<Ending, Failure> {
        loop {
            if let Some(ending) = self.receive_some_or_over(CHUNK)? {
                return Ok(ending);
            }
        }
    }

    /// One `read` of at most `len` bytes, checked; or how the stream was over.
    pub(crate) fn receive_some_or_over(&mut self, len: usize) -> Result<Option<Ending>, Failure> {
        let mut buffer = vec![0; len];
        match self.read(&mut buffer, self.remaining()) {
            Found::Bytes(n) => self.check(&buffer[..n]).map(|()| None),
            Found::End => Ok(Some(Ending::Clean)),
            Found::Error(error) if is_reset(&error) => Ok(Some(Ending::Reset)),
            Found::Error(error) => Err(unexpected(self.who, "data, the end or a reset", &error)),
            Found::Nothing => Ok(Some(Ending::Hung)),
        }
    }

    /// One `read` of at most `len` bytes, checked; how many came.
    pub(crate) fn receive_some(&mut self, len: usize) -> Result<usize, Failure> {
        let mut buffer = vec![0; len];
        match self.read(&mut buffer, self.remaining()) {
            Found::Bytes(n) => self.check(&buffer[..n]).map(|()| n),
            Found::End => Ok(0),
            Found::Error(error) => Err(Failure::new(format!(
                "{}: {} after {} bytes",
                self.who,
                name_of(&error),
                self.position()
            ))),
            Found::Nothing => Err(Failure::new(format!(
                "{}: stuck after {} bytes until the deadline",
                self.who,
                self.position()
            ))),
        }
    }

    /// Waits for the urgent byte and takes it out of band.
    pub(crate) fn urgent_byte(&self) -> Result<u8, Failure> {
        loop {
            match socket::receive_urgent_byte(&*self.socket) {
                Ok(Some(byte)) => return Ok(byte),
                // "No urgent mark has arrived", or the mark has and its byte has not.
                Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::AGAIN)) => {}
                Err(error) => return Err(unexpected(self.who, "an urgent byte", &error)),
                Ok(None) => {
                    return Err(Failure::new(format!("{}: the end instead of an urgent byte", self.who)));
                }
            }
            ensure!(!self.remaining().is_zero(), "{}: the urgent byte never came", self.who);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How many bytes wait in the kernel to be read.
    pub(crate) fn queued(&self) -> Result<u64, Failure> {
        socket::readable(&*self.socket).map(|bytes| bytes.0).doing("FIONREAD")
    }

    /// Accepts a byte that reached the reader out of band as the next one of the stream.
    pub(crate) fn check(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.tape.check(bytes).map_err(|position| {
            Failure::new(format!("{}: byte {position} of the stream is not what was sent", self.who))
        })
    }

    fn look(&self, limit: Duration) -> Found {
        self.read(&mut [0; 4096], limit)
    }

    fn read(&self, buffer: &mut [u8], limit: Duration) -> Found {
        if limit.is_zero() {
            return Found::Nothing;
        }
        if let Err(error) = self.socket.set_read_timeout(Some(limit.max(Duration::from_millis(1)))) {
            return Found::Error(error);
        }
        match (&*self.socket).read(buffer) {
            Ok(0) => Found::End,
            Ok(n) => Found::Bytes(n),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Found::Nothing,
            Err(error) => Found::Error(error),
        }
    }
}

/// How a stream was over, see [`Incoming::receive_until_over`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With a FIN.
    Clean,
    /// With a RST.
    Reset,
    /// Not at all, until the deadline.
    Hung,
}

/// What an end has sent.
#[derive(Clone, Debug)]
pub struct Sent {
    who: &'static str,
    bytes: u64,
    sha256: [u8; 32],
}

impl Sent {
    /// All that has passed `tape`, sent by `who`.
    pub fn of(who: &'static str, tape: &Tape) -> Self {
        Sent { who, bytes: tape.position(), sha256: tape.digest() }
    }

    /// What `arrived` at `to` must be all of this: as many bytes, and the same SHA-256.
    ///
    /// # Errors
    /// What differs.
    pub fn expect_at(&self, to: &str, arrived: &Tape) -> Result<(), Failure> {
        let (from, bytes) = (self.who, arrived.position());
        ensure!(self.bytes == bytes, "the {from} sent {} bytes but the {to} received {bytes}", self.bytes);
        ensure!(self.sha256 == arrived.digest(), "the SHA-256 at the {to} differs from that at the {from}");
        Ok(())
    }
}
