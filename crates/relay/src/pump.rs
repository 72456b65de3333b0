//! Bytes from one leg to the other, in one direction: by `plain` where neither side has TLS, out of `pipe`s;
//! `attention` is what a thread pays to answers.
pub mod attention;
pub mod pipe;
mod plain;
mod spool;
pub mod waits;

pub use spool::Spool;
pub use waits::{AllWaits, Waits, Watched, Way};

use crate::account::{Account, Share};
use crate::progress::Progress;
use crate::resume::Moved;
use crate::socket::{Sink, Socket, Source, TLS_HOLDS};
use crate::status::NodeStatus;
use shorthaul_os::TcpInfo;
use shorthaul_os::poll::has_ended;
use shorthaul_os::socket::readable;
use shorthaul_types::Bytes;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead as _, AsyncWrite as _, AsyncWriteExt as _, Interest, ReadBuf};

/// What is copied at once where the kernel cannot move it.
const COPY: usize = 256 << 10;
/// One in this many rounds is timed.
const SAMPLE: u32 = 64;
/// What is copied at once where memory is short.
const FEW: usize = 4 << 10;

/// How bytes go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// As they come.
    Pipelined {
        /// First this many round-trip times of the way that they come by are waited, so that what is
        /// held does not run dry (the W of cascaded TCP); zero begins at once.
        wait_windows: u32,
    },
    /// When all of them are there.
    Store,
}

/// Why one direction ended early.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The side that sends.
    #[error("the side that sends: {0}")]
    Source(io::Error),
    /// The side that receives.
    #[error("the side that receives: {0}")]
    Sink(io::Error),
    /// The user has had what the user may have.
    #[error("the user's volume is used up")]
    Volume,
    /// What is taken before anything goes on has no room.
    #[error("{0}")]
    NoRoom(String),
}

/// What waits for a receiver in our own memory, as a part of what the node's sessions may hold, and those of the account.
struct Held<'a> {
    status: &'a NodeStatus,
    bytes: Bytes,
    _share: Option<Share>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.status.release(self.bytes);
    }
}

/// Who hears of what is moved.
#[derive(Clone, Copy, Debug)]
pub struct Meter<'a> {
    /// All bytes of the node in this direction.
    pub moved: &'a AtomicU64,
    /// Those of the session.
    pub of_session: &'a AtomicU64,
    /// The user's limits.
    pub account: Option<&'a Arc<Account>>,
    /// The node's service time, and memory.
    pub status: &'a NodeStatus,
    /// Room for what is taken before anything goes on.
    pub spool: Option<&'a Spool>,
    /// Of a client's session: what moves, and which way.
    pub progress: Option<(&'a Progress, Moved)>,
    /// How long there was nothing to read, or no room to write.
    pub waits: Option<(&'a Waits, Way)>,
}

impl Meter<'_> {
    /// Who is told of waits.
    fn watched(&self) -> Option<Watched<'_>> {
        self.waits.map(|(waits, way)| waits.of(way, &self.status.waits))
    }

    /// Bytes were moved, and more may be: after a while, if the user has a rate.
    pub async fn on_moved(&self, bytes: usize) -> Result<(), Broken> {
        let wait = self.count(bytes)?;
        if !wait.is_zero() {
            pause(wait).await;
        }
        Ok(())
    }

    /// Nothing is moved until the account is even.
    async fn until_due(&self) {
        let due = self.account.map_or(Duration::ZERO, |account| account.due());
        if !due.is_zero() {
            pause(due).await;
        }
    }

    /// Bytes were moved; how long to wait before there are more.
    fn count(&self, bytes: usize) -> Result<Duration, Broken> {
        if let Some(waits) = self.watched().filter(|_| bytes > 0) {
            waits.begin();
            self.status.on_active(waits.active());
        }
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
        self.of_session.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some((progress, way)) = self.progress {
            progress.moved(way, bytes);
        }
        let wait = self.account.map_or(Some(Duration::ZERO), |account| account.on_moved(bytes as u64));
        wait.ok_or(Broken::Volume)
    }

    /// How much may be moved at once: something.
    fn portion(&self) -> Result<usize, Broken> {
        match self.account.map_or(usize::MAX, |account| account.portion()) {
            0 => Err(Broken::Volume),
            portion => Ok(portion),
        }
    }

    /// How much may be read that the receiver may not take at once: little where memory is short, the node's or the
    /// account's part of it.
    fn holdable(&self) -> usize {
        let of_account = self.account.map(|account| account.reservable(self.status.buffer_of_account()));
        let free = self.status.buffer_free().min(of_account.unwrap_or(Bytes(u64::MAX)));
        if free.0 >= COPY as u64 { COPY } else { FEW }
    }

    /// So many bytes were worked on for so long.
    fn on_processing(&self, bytes: usize, took: Duration) {
        let packets = u32::try_from(bytes.div_ceil(1448)).unwrap_or(u32::MAX);
        self.status.on_processing(took / packets.max(1));
    }

    /// In a box: sessions that wait for nobody have no room for it.
    fn hold(&self, bytes: usize) -> Box<Held<'_>> {
        let wanted = Bytes(bytes as u64);
        let (may, share) = match self.account {
            Some(account) => {
                let (may, share) = account.reserve(wanted, self.status.buffer_of_account());
                (may, Some(share))
            }
            None => (wanted, None),
        };
        Box::new(Held { status: self.status, bytes: self.status.reserve(may), _share: share })
    }
}

/// Waits. A timer is large: sessions that are silent have none for this.
async fn pause(time: Duration) {
    Box::pin(tokio::time::sleep(time)).await;
}

/// One direction, to the end of its stream, which then ends on the other side too (RFC 9293 §3.6,
/// half-close).
pub async fn direction(
    from: &mut Source,
    to: &mut Sink,
    forwarding: Forwarding,
    meter: &Meter<'_>,
) -> Result<(), Broken> {
    match forwarding {
        Forwarding::Store => Box::pin(store(from, to, meter)).await?,
        Forwarding::Pipelined { wait_windows } => {
            if wait_windows > 0 {
                Box::pin(wait(&from.socket, wait_windows)).await.map_err(Broken::Source)?;
            }
            if from.tls.is_none() && to.tls.is_none() {
                plain::carry(&from.socket, &to.socket, meter).await?;
            } else {
                copy(from, to, meter).await?;
            }
        }
    }
    to.shutdown().await.map_err(Broken::Sink)
}

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of [`COPY`] bytes that all sessions of a thread use, one after the other.
pub fn with_scratch<R>(work: impl FnOnce(&mut [u8]) -> R) -> R {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.resize(COPY, 0);
        work(scratch)
    })
}

/// Through a buffer that the thread's sessions share: a session has one of its own only while the
/// receiver does not take what is there.
async fn copy(from: &mut Source, to: &mut Sink, meter: &Meter<'_>) -> Result<(), Broken> {
    let mut left: Vec<u8> = Vec::new();
    let mut rounds = 0u32;
    meter.until_due().await;
    loop {
        let (mut passed, mut waits_for_receiver) = (0, false);
        rounds = rounds.wrapping_add(1);
        let timed = rounds % SAMPLE == 1;
        let mut took = None;
        let most = meter.portion()?.min(meter.holdable());
        let ended = poll_fn(|cx| {
            let since = timed.then(Instant::now);
            with_scratch(|scratch| {
                let mut buffer = ReadBuf::new(&mut scratch[..most.min(COPY)]);
                match Pin::new(&mut *from).poll_read(cx, &mut buffer) {
                    Poll::Pending => {
                        if let Some(waits) = meter.watched() {
                            waits.wait();
                        }
                        return Poll::Pending;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(Broken::Source(error))),
                    Poll::Ready(Ok(())) => {}
                }
                let got = buffer.filled();
                if let Some(waits) = meter.watched() {
                    waits.end_wait_to_read(&to.socket);
                    waits.end_rest(got.is_empty());
                }
                if got.is_empty() {
                    return Poll::Ready(Ok(true));
                }
                while passed < got.len() {
                    match Pin::new(&mut *to).poll_write(cx, &got[passed..]) {
                        Poll::Ready(Ok(more)) => passed += more,
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(Broken::Sink(error))),
                        Poll::Pending => {
                            left.extend_from_slice(&got[passed..]);
                            break;
                        }
                    }
                }
                // TLS takes more than the kernel does.
                waits_for_receiver = match left.is_empty() {
                    true => Pin::new(&mut *to).poll_flush(cx).map_err(Broken::Sink)?.is_pending(),
                    false => true,
                };
                // Decrypted, encrypted and handed to the kernel.
                took = since.map(|since| since.elapsed());
                Poll::Ready(Ok(false))
            })
        })
        .await?;
        if ended {
            return Ok(());
        }
        let all = passed + left.len();
        // What waited for the receiver says nothing of this node.
        if let Some(took) = took.filter(|_| !waits_for_receiver) {
            meter.on_processing(all, took);
        }
        if waits_for_receiver {
            let in_tls = if to.tls.is_some() { passed.min(TLS_HOLDS) } else { 0 };
            let _held = meter.hold(left.len() + in_tls);
            if let Some(waits) = meter.watched() {
                waits.begin();
                waits.wait();
            }
            to.write_all(&left).await.map_err(Broken::Sink)?;
            to.flush().await.map_err(Broken::Sink)?;
            if let Some(waits) = meter.watched() {
                waits.end_wait_to_write(&from.socket);
            }
            left = Vec::new();
        }
        meter.on_moved(all).await?;
        tokio::task::consume_budget().await;
    }
}

/// Takes everything first, into a file that has no name.
async fn store(from: &mut Source, to: &mut Sink, meter: &Meter<'_>) -> Result<(), Broken> {
    let spool = meter.spool.ok_or_else(|| Broken::NoRoom("nothing is stored here".into()))?;
    let mut stored = None;
    let mut room = spool.room(meter.account);
    loop {
        let most = meter.portion()?.min(meter.holdable()).min(spool::BLOCK);
        let piece = some_of(from, most).await.map_err(Broken::Source)?;
        let got = piece.len();
        if got == 0 {
            break;
        }
        let held = meter.hold(got);
        room.take(got).await?;
        let file = match &mut stored {
            Some(file) => file,
            None => stored.insert(spool.begin().await?),
        };
        file.append(piece).await?;
        drop(held);
        meter.on_moved(got).await?;
    }
    let Some(mut stored) = stored else { return Ok(()) };
    stored.rewind().await?;
    let mut piece = Vec::new();
    loop {
        piece = stored.next(piece, meter.holdable()).await?;
        if piece.is_empty() {
            return Ok(());
        }
        let _held = meter.hold(piece.len());
        to.write_all(&piece).await.map_err(Broken::Sink)?;
        to.flush().await.map_err(Broken::Sink)?;
    }
}

/// What comes, at most so much; nothing at the end. There is no buffer for it before it comes.
async fn some_of(from: &mut Source, most: usize) -> io::Result<Vec<u8>> {
    poll_fn(|cx| {
        with_scratch(|scratch| {
            let most = most.min(scratch.len());
            let mut buffer = ReadBuf::new(&mut scratch[..most]);
            let read = Pin::new(&mut *from).poll_read(cx, &mut buffer);
            read.map(|read| read.map(|()| buffer.filled().to_vec()))
        })
    })
    .await
}

/// Waits this many round-trip times of the connection that data come by, or until it has closed or
/// nothing more fits into its buffer: there is nothing more to wait for then.
async fn wait(from: &Socket, windows: u32) -> io::Result<()> {
    /// How often it is looked how full the buffer is, at most.
    const LOOK: Duration = Duration::from_millis(5);
    let buffer = socket2::SockRef::from(&*from.0).recv_buffer_size()?;
    // There may be nothing for days: the kernel says when there is.
    let something = || match readable(from)? > Bytes(0) || has_ended(from)? {
        true => Ok(()),
        false => Err(io::ErrorKind::WouldBlock.into()),
    };
    from.0.async_io(Interest::READABLE, something).await?;
    let since = Instant::now();
    loop {
        let rtt = TcpInfo::of(from)?.rtt.max(Duration::from_millis(1));
        let left = (rtt * windows).saturating_sub(since.elapsed());
        // The kernel charges a buffer with more than the bytes in it: half full is full.
        if left.is_zero() || readable(from)? >= Bytes(buffer as u64 / 2) || has_ended(from)? {
            return Ok(());
        }
        tokio::time::sleep(left.min((rtt / 4).max(LOOK))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Limits;

    #[test]
    fn what_waits_for_receivers_counts_for_its_account() {
        let (status, moved) = (NodeStatus::new(Bytes(4 << 20)), AtomicU64::new(0));
        let [alice, bob] = ["alice", "bob"].map(|name| Arc::new(Account::new(name, Limits::default())));
        let meter = |account| Meter {
            moved: &moved,
            of_session: &moved,
            account: Some(account),
            status: &status,
            spool: None,
            progress: None,
            waits: None,
        };
        let (of_alice, of_bob) = (meter(&alice), meter(&bob));
        let held: Vec<_> = (0..100).map(|_| of_alice.hold(of_alice.holdable())).collect();
        assert_eq!(status.buffer_free(), Bytes(3 << 20), "she has her quarter");
        assert_eq!((of_alice.holdable(), of_bob.holdable()), (FEW, COPY));
        drop(held);
        assert_eq!((status.buffer_free(), of_alice.holdable()), (Bytes(4 << 20), COPY));
    }
}
