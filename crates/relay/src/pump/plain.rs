//! Bytes from one socket to another where neither has TLS: small messages are read and written, which takes
//! two system calls and no pipe; streams are moved within the kernel (`splice`).
use super::attention;
use super::pipe::Pipe;
use super::{Broken, COPY, Meter, SAMPLE, pause, with_scratch};
use crate::socket::Socket;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::io::{AsyncWriteExt as _, Interest};

/// What is read at once as long as no more comes at once.
const SMALL: usize = 16 << 10;
/// What one session may move before others get their turn.
const TURN: usize = 4 << 20;
/// In how many rounds, at most.
const TURN_ROUNDS: u32 = 64;

/// What a round came to.
enum Round {
    /// The bytes that went on; none, if there was nothing to read.
    Moved(usize),
    /// The stream has ended.
    End,
}

/// How bytes are moved.
enum By {
    /// Through memory, at most this many at once.
    Copy(usize),
    Splice(Pipe),
}

/// One direction, until its stream has ended.
pub async fn carry(from: &Socket, to: &Socket, meter: &Meter<'_>) -> Result<(), Broken> {
    let mut rounds = 0u32;
    let mut is_stream = false;
    meter.until_due().await;
    loop {
        wait_to_read(from, meter).await.map_err(Broken::Source)?;
        if let Some(waits) = meter.watched() {
            waits.end_wait_to_read(to);
        }
        let mut by = By::Copy(SMALL);
        // Since something was ready to be read; and since others last had their turn.
        let mut burst = 0;
        let mut turn = (0, 0);
        loop {
            if is_stream && matches!(by, By::Copy(SMALL)) {
                by = Pipe::take().map_or(By::Copy(COPY), By::Splice);
            }
            rounds = rounds.wrapping_add(1);
            let timed = rounds.is_multiple_of(SAMPLE).then(Instant::now);
            let most = meter.portion()?;
            let holdable = meter.holdable();
            let (round, waited) = match &mut by {
                By::Copy(at_once) => {
                    let (round, left) = copy(from, to, most.min(*at_once).min(holdable))?;
                    rested(meter, &round);
                    let waited = !left.is_empty();
                    if waited {
                        let _held = meter.hold(left.len());
                        if let Some(waits) = meter.watched() {
                            waits.begin();
                            waits.wait();
                        }
                        let mut to = to.clone();
                        // In a box: who is silent has no room for what waits.
                        Box::pin(async move { to.write_all(&left).await }).await.map_err(Broken::Sink)?;
                        if let Some(waits) = meter.watched() {
                            waits.end_wait_to_write(from);
                        }
                    }
                    (round, waited)
                }
                By::Splice(pipe) => {
                    let round = fill(from, pipe, most)?;
                    rested(meter, &round);
                    let mut waited = false;
                    poll_fn(|cx| poll_empty(cx, pipe, to, meter, &mut waited)).await.map_err(Broken::Sink)?;
                    if let (true, Some(waits)) = (waited, meter.watched()) {
                        waits.end_wait_to_write(from);
                    }
                    (round, waited)
                }
            };
            let moved = match round {
                Round::End => return Ok(()),
                Round::Moved(0) => break,
                Round::Moved(moved) => moved,
            };
            // What waited for the receiver says nothing of this node.
            if let Some(since) = timed.filter(|_| !waited) {
                meter.on_processing(moved, since.elapsed());
            }
            let wait = meter.count(moved)?;
            if !wait.is_zero() {
                by = By::Copy(SMALL); // others can use the pipe meanwhile
                pause(wait).await;
            }
            burst += moved;
            is_stream |= burst >= SMALL;
            turn = (turn.0 + moved, turn.1 + 1);
            if turn.0 >= TURN || turn.1 >= TURN_ROUNDS {
                turn = (0, 0);
                tokio::task::yield_now().await;
            }
        }
        is_stream = burst >= SMALL;
        if burst > 0 && !is_stream {
            attention::on_message(from, to);
        } else if burst > 0 {
            attention::on_stream();
        }
    }
}

/// Reads once, and writes what the receiver takes at once; and what it does not.
fn copy(from: &Socket, to: &Socket, most: usize) -> Result<(Round, Vec<u8>), Broken> {
    let mut left = Vec::new();
    let read = with_scratch(|scratch| {
        let bytes = &mut scratch[..most];
        let got = match from.0.try_read(bytes) {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(Broken::Source(error)),
        };
        if got > 0 {
            let sent = match to.0.try_write(&bytes[..got]) {
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(Broken::Sink(error)),
            };
            left.extend_from_slice(&bytes[sent..got]);
        }
        Ok(Some(got))
    })?;
    let round = match read {
        None => Round::Moved(0),
        Some(0) => Round::End,
        Some(got) => Round::Moved(got),
    };
    Ok((round, left))
}

/// Fills an empty pipe once.
fn fill(from: &Socket, pipe: &mut Pipe, most: usize) -> Result<Round, Broken> {
    match from.0.try_io(Interest::READABLE, || pipe.fill(from, most)) {
        Ok(0) => Ok(Round::End),
        Ok(got) => Ok(Round::Moved(got)),
        // The pipe is empty here, so it is the socket that has no more.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Round::Moved(0)),
        Err(error) => Err(Broken::Source(error)),
    }
}

/// Waits until something can be read. Only who alone reads may wait so: that takes a tenth of the memory of what the library has for several.
async fn wait_to_read(from: &Socket, meter: &Meter<'_>) -> io::Result<()> {
    poll_fn(|cx| {
        let ready = from.0.poll_read_ready(cx);
        if let (true, Some(waits)) = (ready.is_pending(), meter.watched()) {
            waits.wait();
        }
        ready
    })
    .await
}

/// Something was read, or the end.
fn rested(meter: &Meter<'_>, round: &Round) {
    if let Some(waits) = meter.watched() {
        waits.end_rest(matches!(round, Round::End));
    }
}

/// Empties a pipe; whether the receiver has to be waited for is noted.
fn poll_empty(
    cx: &mut Context<'_>,
    pipe: &mut Pipe,
    to: &Socket,
    meter: &Meter<'_>,
    waited: &mut bool,
) -> Poll<io::Result<()>> {
    while pipe.held() > 0 {
        match to.0.try_io(Interest::WRITABLE, || pipe.empty(to)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                *waited = true;
                if let Some(waits) = meter.watched() {
                    waits.begin();
                    waits.wait();
                }
                ready!(to.0.poll_write_ready(cx))?;
            }
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
    Poll::Ready(Ok(()))
}
