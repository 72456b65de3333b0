//! Slow and pausing readers: the window closes and opens again, and nothing is lost or cut short.
use super::MIB;
use crate::conformance::case::Case;
use crate::conformance::context::{Context, Dial, both, each};
use crate::conformance::end::{End, Sent};
use crate::conformance::failure::Failure;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::new(
        "paused-reader-download",
        "The server sends 2 MiB and closes; the client, which reads only three seconds later, gets all of it.",
        "RFC 9293 §3.8.6",
        |ctx| paused_reader(pair_with_small_window(ctx)?),
    )
    .both_families(),
    Case::new(
        "paused-reader-upload",
        "The client sends 2 MiB and closes; the server, which reads only three seconds later, gets all of it.",
        "RFC 9293 §3.8.6",
        |ctx| paused_reader(swapped(pair_with_small_window(ctx)?)),
    ),
    Case::new(
        "two-hundred-slow-downloads",
        "Of 200 downloads at once by clients that pause at random, none is cut short.",
        "RFC 9293 §3.8.6",
        slow_downloads,
    )
    .within(Duration::from_secs(40)),
    Case::new(
        "zero-window-download",
        "The client's window stays closed over several probes; then everything arrives.",
        "RFC 9293 §3.8.6.1",
        |ctx| zero_window(swapped(pair_with_small_window(ctx)?)),
    )
    .both_families(),
    Case::new(
        "zero-window-upload",
        "The server's window stays closed over several probes; then everything arrives.",
        "RFC 9293 §3.8.6.1",
        |ctx| zero_window(pair_with_small_window(ctx)?),
    ),
    Case::new(
        "lost-window-update-download",
        "The packet that opens the client's window is lost; a probe finds out, and the stream goes on.",
        "RFC 9293 §3.8.6.1",
        |ctx| lost_window_update(swapped(pair_with_small_window(ctx)?)),
    ),
    Case::new(
        "lost-window-update-upload",
        "The packet that opens the server's window is lost; a probe finds out, and the stream goes on.",
        "RFC 9293 §3.8.6.1",
        |ctx| lost_window_update(pair_with_small_window(ctx)?),
    ),
    Case::new(
        "window-opens-and-closes",
        "Fifty streams whose readers let the window close again and again all arrive whole.",
        "RFC 9293 §3.8.6.2",
        window_opens_and_closes,
    ),
];

/// How long the window stays closed: the kernel's probes come after 0.2, 0.6, 1.4 and 3 seconds.
const SEVERAL_PROBES: Duration = Duration::from_millis(3300);

/// More than any gateway should take in for a reader that does not read.
const BUFFER_LIMIT: u64 = 64 * MIB;

fn swapped((a, b): (End, End)) -> (End, End) {
    (b, a)
}

/// A connection whose ends both advertise little, so that windows close soon.
fn pair_with_small_window(ctx: &Context) -> Result<(End, End), Failure> {
    ctx.pair_with(&Dial {
        client: &|socket| socket.set_recv_buffer_size(32 * 1024),
        server: &|socket| socket.set_recv_buffer_size(32 * 1024),
        ..Dial::default()
    })
}

fn paused_reader((mut reader, mut sender): (End, End)) -> Result<(), Failure> {
    let (sent, ()) = both(
        move || {
            sender.tx.send(2 * MIB)?;
            sender.tx.finish()?;
            // And closes: from here on only the sender's kernel, and the gateway, hold the data.
            Ok(sender.tx.sent())
        },
        || {
            std::thread::sleep(Duration::from_secs(3));
            reader.rx.receive_rest(2 * MIB)
        },
    )?;
    reader.rx.expect_all_of(&sent)
}

fn slow_downloads(ctx: &Context) -> Result<(), Failure> {
    const DOWNLOADS: usize = 200;
    each(DOWNLOADS, |i| {
        let mut random = Dice::new(ctx, "slow download", i);
        let size = 64 * 1024 + random.below(192 * 1024);
        let (mut client, mut server) = pair_with_small_window(ctx)?;
        let (sent, ()) = both(
            move || {
                server.tx.send(size)?;
                server.tx.finish()?;
                Ok::<Sent, Failure>(server.tx.sent())
            },
            || {
                while client.rx.position() < size {
                    std::thread::sleep(Duration::from_millis(random.below(400)));
                    let piece = 1 + random.below(64 * 1024);
                    client.rx.receive(piece.min(size - client.rx.position()))?;
                }
                client.rx.expect_end()
            },
        )?;
        client.rx.expect_all_of(&sent)
    })
}

fn zero_window((mut sender, mut reader): (End, End)) -> Result<(), Failure> {
    let stalled = sender.tx.fill(Duration::from_millis(700), BUFFER_LIMIT)?;
    std::thread::sleep(SEVERAL_PROBES);
    both(
        || {
            sender.tx.send(MIB)?;
            sender.tx.finish()
        },
        || reader.rx.receive_rest(stalled + MIB),
    )?;
    reader.rx.expect_all_of(&sender.tx.sent())
}

/// Where the packet that opens the window is lost.
#[derive(Clone, Copy, Debug)]
enum Lost {
    LeavingTheReader,
    ReachingTheSender,
}

fn lost_window_update((mut sender, mut reader): (End, End)) -> Result<(), Failure> {
    for lost in [Lost::LeavingTheReader, Lost::ReachingTheSender] {
        lose_window_update(&mut sender, &mut reader, lost).map_err(|f| f.within(format!("{lost:?}")))?;
    }
    sender.tx.finish()?;
    reader.rx.expect_end()?;
    reader.rx.expect_all_of(&sender.tx.sent())
}

fn lose_window_update(sender: &mut End, reader: &mut End, lost: Lost) -> Result<(), Failure> {
    let stalled = sender.tx.fill(Duration::from_millis(500), BUFFER_LIMIT)?;
    match lost {
        Lost::LeavingTheReader => reader.silence(true)?,
        Lost::ReachingTheSender => sender.deafen(true)?,
    }
    // Enough to empty the queue of the reader's kernel, which then opens the window.
    let queued = reader.rx.queued()?;
    reader.rx.receive(queued)?;
    std::thread::sleep(Duration::from_millis(50));
    match lost {
        Lost::LeavingTheReader => reader.silence(false)?,
        Lost::ReachingTheSender => sender.deafen(false)?,
    }
    reader.rx.receive(stalled - queued)
}

fn window_opens_and_closes(ctx: &Context) -> Result<(), Failure> {
    const STREAMS: usize = 50;
    const SIZE: u64 = 256 * 1024;
    each(STREAMS, |i| {
        let mut random = Dice::new(ctx, "opens and closes", i);
        let pair = pair_with_small_window(ctx)?;
        let (mut sender, mut reader) = if i % 2 == 0 { pair } else { swapped(pair) };
        both(
            || {
                sender.tx.send(SIZE)?;
                sender.tx.finish()
            },
            || {
                for _ in 0..8 {
                    std::thread::sleep(Duration::from_millis(100 + random.below(150)));
                    reader.rx.receive(SIZE / 8)?;
                }
                reader.rx.expect_end()
            },
        )?;
        reader.rx.expect_all_of(&sender.tx.sent())
    })
}

/// Seeded random numbers.
struct Dice {
    seed: shorthaul_types::Seed,
    thrown: u64,
}

impl Dice {
    fn new(ctx: &Context, name: &str, index: usize) -> Self {
        Dice { seed: ctx.seed.derive(name).nth(index as u64), thrown: 0 }
    }

    /// A number from 0 to `n` - 1.
    fn below(&mut self, n: u64) -> u64 {
        self.thrown += 1;
        self.seed.nth(self.thrown).0 % n
    }
}
