//! The two ends of a running transfer.
use super::transfer::{Requests, Sender, Transfer, TransferError, TransferReport, check_congestion, failed};
use super::{Content, TcpSample};
use shorthaul_os::{schedule, socket as options};
use shorthaul_types::Bytes;
use socket2::{SockAddr, Socket};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Nobody waits longer than this without looking at the clock.
const TIMEOUT: Duration = Duration::from_millis(50);

/// How long a sender waits for acknowledgments before it looks for room again.
const FOR_ROOM: Duration = Duration::from_millis(1);

/// What both ends share.
pub(super) struct Run<'a> {
    transfer: &'a Transfer,
    content: Content,
    start: Instant,
    connected: OnceLock<Duration>,
    accepted: OnceLock<Duration>,
    /// One end has failed, so the other need not go on.
    failed: AtomicBool,
    /// The receiver has all that it wants.
    satisfied: AtomicBool,
}

/// What one end did.
pub(super) enum Part {
    Sent { bytes: Bytes, samples: Vec<TcpSample>, waited: Duration },
    Received(TransferReport),
}

impl<'a> Run<'a> {
    pub(super) fn new(transfer: &'a Transfer) -> Self {
        Run {
            transfer,
            content: Content::new(transfer.seed),
            start: Instant::now(),
            connected: OnceLock::new(),
            accepted: OnceLock::new(),
            failed: AtomicBool::new(false),
            satisfied: AtomicBool::new(false),
        }
    }

    /// When the client was connected.
    pub(super) fn connected(&self) -> Duration {
        self.connected.get().copied().unwrap_or_default()
    }

    /// When the server was.
    pub(super) fn accepted(&self) -> Duration {
        self.accepted.get().copied().unwrap_or_default()
    }

    /// Does the part of one end, on the socket that `open` provides.
    pub(super) fn end(
        &self,
        end: Sender,
        open: impl FnOnce() -> Result<Socket, TransferError>,
    ) -> Result<Part, TransferError> {
        let part = open().and_then(|socket| {
            check_congestion(&socket, self.transfer.congestion_of(end))?;
            socket.set_read_timeout(Some(TIMEOUT)).map_err(failed("setting SO_RCVTIMEO"))?;
            socket.set_write_timeout(Some(TIMEOUT)).map_err(failed("setting SO_SNDTIMEO"))?;
            let before = schedule::waited();
            let waited = || schedule::waited().saturating_sub(before);
            if end == self.transfer.sender {
                let (bytes, samples) = self.send(&socket)?;
                Ok(Part::Sent { bytes, samples, waited: waited() })
            } else {
                let report = self.receive(&socket)?;
                Ok(Part::Received(TransferReport { waited: waited(), ..report }))
            }
        });
        if part.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        part
    }

    pub(super) fn connect(&self, socket: Socket, address: SocketAddr) -> Result<Socket, TransferError> {
        socket
            .connect_timeout(&SockAddr::from(address), self.transfer.limit)
            .map_err(failed("connecting"))?;
        self.connected.get_or_init(|| self.start.elapsed());
        Ok(socket)
    }

    pub(super) fn accept(&self, listener: &Socket) -> Result<Socket, TransferError> {
        listener.set_read_timeout(Some(TIMEOUT)).map_err(failed("setting SO_RCVTIMEO"))?;
        loop {
            match listener.accept() {
                Ok((socket, _)) => {
                    self.accepted.get_or_init(|| self.start.elapsed());
                    return Ok(socket);
                }
                Err(error) => self.go_on_after(error, 0, "accepting a connection")?,
            }
        }
    }

    /// Whether a system call that failed is to be repeated: if it only took long, and there is time.
    fn go_on_after(&self, error: io::Error, received: u64, doing: &'static str) -> Result<(), TransferError> {
        use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
        // Before the error: when the time is over, the end that notices first resets the connection, and the other has an error of
        // that. And first of all, so that the receiver says how much it has even when the sender noticed earlier.
        if self.start.elapsed() >= self.transfer.limit {
            return Err(TransferError::Late { limit: self.transfer.limit, received: Bytes(received) });
        }
        if self.failed.load(Ordering::Relaxed) {
            return Err(TransferError::Abandoned);
        }
        if !matches!(error.kind(), WouldBlock | TimedOut | Interrupted) {
            return Err(failed(doing)(error));
        }
        Ok(())
    }

    /// Sends all there is, while the socket is observed.
    fn send(&self, socket: &Socket) -> Result<(Bytes, Vec<TcpSample>), TransferError> {
        std::thread::scope(|scope| {
            let (done, ended) = mpsc::channel::<()>();
            let sampler = scope.spawn(move || self.observe(socket, &ended));
            let sent = self.send_all(socket);
            drop(done);
            let samples = sampler.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sent.map(|bytes| (bytes, samples))
        })
    }

    fn send_all(&self, mut socket: &Socket) -> Result<Bytes, TransferError> {
        match &self.transfer.requests {
            None if self.transfer.sender == Sender::Server => self.await_byte(socket)?,
            _ => {}
        }
        let limit = self.transfer.amount.bytes().map_or(u64::MAX, |bytes| bytes.0);
        let began = Instant::now();
        let (mut written, mut asked) = (Duration::ZERO, 0);
        let mut buffer = vec![0; 1 << 16];
        let mut filled = 0..0;
        let mut sent = 0;
        while sent < limit {
            if filled.is_empty() {
                if let Some(Requests { request, response, .. }) = &self.transfer.requests
                    && sent == asked * response.0
                {
                    if !self.await_bytes(socket, request.0)? {
                        return Ok(Bytes(sent));
                    }
                    asked += 1;
                }
                let asked_for = self.transfer.requests.as_ref().map_or(u64::MAX, |r| asked * r.response.0);
                let due = self.transfer.pace.due(began.elapsed(), sent, written);
                if due.bytes <= sent {
                    let wait = due.next.unwrap_or(Duration::MAX).saturating_sub(began.elapsed());
                    std::thread::sleep(wait.min(TIMEOUT));
                    if self.satisfied.load(Ordering::Relaxed) {
                        abandon(socket)?;
                        return Ok(Bytes(sent));
                    }
                    self.go_on_after(io::ErrorKind::WouldBlock.into(), 0, "waiting to send")?;
                    continue;
                }
                let most = limit.min(due.bytes).min(asked_for);
                let len = (most - sent).min(buffer.len() as u64) as usize;
                self.content.fill(sent, &mut buffer[..len]);
                filled = 0..len;
            }
            let room = self.room(socket, filled.len())?;
            if room == 0 {
                if self.satisfied.load(Ordering::Relaxed) {
                    abandon(socket)?;
                    return Ok(Bytes(sent));
                }
                std::thread::sleep(FOR_ROOM);
                self.go_on_after(io::ErrorKind::WouldBlock.into(), 0, "waiting for room to send")?;
                continue;
            }
            match socket.write(&buffer[filled.start..filled.start + room]) {
                Ok(n) => {
                    filled.start += n;
                    sent += n as u64;
                    written = began.elapsed();
                }
                Err(_) if self.satisfied.load(Ordering::Relaxed) => {
                    abandon(socket)?;
                    return Ok(Bytes(sent));
                }
                Err(error) => self.go_on_after(error, 0, "sending")?,
            }
        }
        match socket.shutdown(Shutdown::Write) {
            Ok(()) => {}
            // The receiver has all that it wants, and has reset the connection.
            Err(_) if self.satisfied.load(Ordering::Relaxed) => {
                abandon(socket)?;
                return Ok(Bytes(sent));
            }
            Err(error) => self.go_on_after(error, 0, "ending what is sent")?,
        }
        // The receiver closes when it has everything.
        self.await_byte(socket)?;
        Ok(Bytes(sent))
    }

    /// How much of `wanted` bytes may be written now: what is missing to the sender's buffer, if that is bounded. Not
    /// every acknowledged segment is made up for at once, but an eighth of the buffer.
    fn room(&self, socket: &Socket, wanted: usize) -> Result<usize, TransferError> {
        let Some(Bytes(buffer)) = self.transfer.send_buffer else { return Ok(wanted) };
        let Bytes(held) =
            options::unacknowledged(socket).map_err(failed("asking for what is unacknowledged"))?;
        let room = usize::try_from(buffer.saturating_sub(held)).unwrap_or(usize::MAX).min(wanted);
        Ok(if room as u64 >= (buffer / 8).min(wanted as u64) { room } else { 0 })
    }

    /// Waits for one byte from the other end, or for the end of what it sends.
    fn await_byte(&self, mut socket: &Socket) -> Result<(), TransferError> {
        loop {
            match socket.read(&mut [0]) {
                Ok(0..) => return Ok(()), // the byte, or the end
                Err(_) if self.satisfied.load(Ordering::Relaxed) => return abandon(socket),
                Err(error) => self.go_on_after(error, 0, "waiting for the receiver")?,
            }
        }
    }

    /// Waits for this many bytes of a request; whether they came before the receiver had all that it wants.
    fn await_bytes(&self, mut socket: &Socket, count: u64) -> Result<bool, TransferError> {
        let (mut buffer, mut left) = (vec![0; 1 << 14], count);
        while left > 0 {
            let most = left.min(buffer.len() as u64) as usize;
            match socket.read(&mut buffer[..most]) {
                Ok(0) => return Ok(false),
                Ok(n) => left -= n as u64,
                Err(_) if self.satisfied.load(Ordering::Relaxed) => {
                    abandon(socket)?;
                    return Ok(false);
                }
                Err(error) => self.go_on_after(error, 0, "waiting for a request")?,
            }
        }
        Ok(true)
    }

    /// Sends a request, all of it.
    fn ask(&self, mut socket: &Socket, size: u64) -> Result<(), TransferError> {
        let (chunk, mut left) = ([1; 1 << 12], size);
        while left > 0 {
            match socket.write(&chunk[..left.min(chunk.len() as u64) as usize]) {
                Ok(n) => left -= n as u64,
                Err(error) => self.go_on_after(error, 0, "sending a request")?,
            }
        }
        Ok(())
    }

    fn receive(&self, mut socket: &Socket) -> Result<TransferReport, TransferError> {
        let requests = self.transfer.requests.as_ref();
        let mut asked_at = Duration::ZERO; // the first response is counted from the SYN
        match requests {
            Some(requests) => self.ask(socket, requests.request.0)?,
            None if self.transfer.sender == Sender::Server => {
                socket.write_all(&[1]).map_err(failed("sending the request"))?;
            }
            None => {}
        }
        let end = self.transfer.amount.time().unwrap_or(Duration::MAX);
        let mut buffer = vec![0; 1 << 18];
        let mut report = TransferReport::default();
        let mut first_byte = None;
        loop {
            let result = socket.read(&mut buffer);
            let at = self.start.elapsed();
            if at >= end {
                self.satisfied.store(true, Ordering::Relaxed);
                abandon(socket)?;
                report.completed = end;
                break;
            }
            match result {
                Ok(0) => {
                    report.completed = at;
                    break;
                }
                Ok(n) => {
                    first_byte.get_or_insert(at);
                    let checked = self.content.check(report.received.0, &buffer[..n]);
                    checked.map_err(|at| TransferError::Corrupted { at })?;
                    report.received.0 += n as u64;
                    let slot = (at.as_nanos() / self.transfer.interval.as_nanos().max(1)) as usize;
                    if report.arrivals.len() <= slot {
                        report.arrivals.resize(slot + 1, Bytes(0));
                    }
                    report.arrivals[slot].0 += n as u64;
                    if let Some(requests) = requests
                        && report.received.0 == (report.responses.len() as u64 + 1) * requests.response.0
                    {
                        report.responses.push((asked_at, at));
                        if let Some(pause) = requests.pauses.get(report.responses.len() - 1) {
                            std::thread::sleep((*pause).min(end.saturating_sub(at)));
                            asked_at = self.start.elapsed();
                            self.ask(socket, requests.request.0)?;
                        }
                    }
                }
                Err(error) => self.go_on_after(error, report.received.0, "receiving")?,
            }
        }
        report.first_byte = first_byte.unwrap_or(report.completed);
        Ok(report)
    }

    /// Looks at the socket at every interval until `ended` is closed, and once more then.
    fn observe(&self, socket: &Socket, ended: &mpsc::Receiver<()>) -> Vec<TcpSample> {
        let mut samples = Vec::new();
        let mut next = Instant::now();
        loop {
            samples.extend(TcpSample::take(socket, self.start.elapsed()).ok());
            next += self.transfer.interval;
            let wait = next.saturating_duration_since(Instant::now());
            if ended.recv_timeout(wait) != Err(mpsc::RecvTimeoutError::Timeout) {
                samples.extend(TcpSample::take(socket, self.start.elapsed()).ok());
                return samples;
            }
        }
    }
}

/// When the time is over, nothing that is still under way matters: closing the socket is to abort.
fn abandon(socket: &Socket) -> Result<(), TransferError> {
    socket.set_linger(Some(Duration::ZERO)).map_err(failed("setting SO_LINGER"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end that notices first that the time is over closes with a reset. What the other then sees is no failure of its own.
    #[test]
    fn an_error_after_the_time_is_over_is_that_of_being_late() {
        let reset = || io::Error::from(io::ErrorKind::NotConnected);
        let over = Transfer { limit: Duration::ZERO, ..Transfer::default() };
        let late = Run::new(&over).go_on_after(reset(), 7, "ending what is sent");
        assert!(matches!(late, Err(TransferError::Late { received: Bytes(7), .. })), "{late:?}");
        let under_way = Transfer { limit: Duration::from_secs(3600), ..Transfer::default() };
        let failure = Run::new(&under_way).go_on_after(reset(), 7, "ending what is sent");
        assert!(failure.unwrap_err().to_string().contains("ending what is sent"));
        Run::new(&under_way).go_on_after(io::ErrorKind::WouldBlock.into(), 7, "sending").unwrap();
    }
}
