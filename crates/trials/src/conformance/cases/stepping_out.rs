//! The gateway comes and goes: what it has promised it keeps, or says that it cannot.
use super::sequence::exchange;
use crate::conformance::case::{Case, Setting};
use crate::conformance::context::{Context, Dial, both, each};
use crate::conformance::end::{End, Ending};
use crate::conformance::failure::{Failure, ensure};
use shorthaul_types::format_duration;
use socket2::Socket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "gateway-starts-in-mid-stream",
        "Connections that were open, idle or busy, before the gateway started go on through it.",
        "fail-open",
        starts_in_mid_stream,
    )
    .setting(Setting::Own)
    .both_families(),
    Case::new(
        "gateway-killed",
        "After kill -9, idle and drained connections go on and new ones open, without the gateway.",
        "fail-open",
        killed,
    )
    .setting(Setting::OwnAlone)
    .within(Duration::from_secs(30)),
    Case::new(
        "gateway-killed-and-restarted",
        "Restarted after kill -9, it serves old and new connections, and goes on with those that were busy: none is reset.",
        "fail-open",
        killed_and_restarted,
    )
    .setting(Setting::OwnAlone)
    .within(Duration::from_secs(40)),
    Case::new(
        "gateway-terminated",
        "After SIGTERM the gateway delivers what it holds and exits; all connections go on.",
        "fail-open",
        terminated,
    )
    .setting(Setting::OwnAlone)
    .within(Duration::from_secs(40)),
    Case::new(
        "gateway-replaced",
        "Stopped by SIGTERM and started again, three times in one transfer: every byte arrives.",
        "fail-open",
        |ctx| swapped(ctx, &stop_and_start),
    )
    .setting(Setting::Own)
    .within(Duration::from_secs(40)),
    Case::new(
        "gateway-taken-over",
        "Another goes on in its place (--take-over), three times in one transfer: every byte arrives, and the one before ends in good order.",
        "fail-open",
        |ctx| swapped(ctx, &|ctx| ctx.site.take_over_gateway(ctx.deadline)),
    )
    .setting(Setting::Own)
    .within(Duration::from_secs(40)),
];

const IDLE: usize = 80;
const DRAINED: usize = 80;
const BUSY: usize = 40;
/// What a busy connection carries.
const CARGO: u64 = 1 << 20;

/// `count` connections that have been used, with nothing on the way any more.
fn quiet_connections(ctx: &Context, count: usize, bytes: u64) -> Result<Vec<(End, End)>, Failure> {
    let pairs = Mutex::new(Vec::with_capacity(count));
    each(count, |_| {
        let pair = ctx.pair()?;
        pairs.lock().expect("no holder panics").push(pair);
        Ok(())
    })?;
    let mut pairs = pairs.into_inner().expect("no holder panics");
    exchange_in_all(&mut pairs, bytes)?;
    Ok(pairs)
}

/// `bytes` there and back in each of the connections, until both ends have all acknowledgments.
fn exchange_in_all(pairs: &mut [(End, End)], bytes: u64) -> Result<(), Failure> {
    let pairs: Vec<_> = pairs.iter_mut().map(Mutex::new).collect();
    each(pairs.len(), |i| {
        let mut pair = pairs[i].lock().expect("nobody else locks it");
        let (client, server) = &mut **pair;
        both(
            || {
                client.tx.send(bytes)?;
                client.rx.receive(bytes)?;
                client.tx.settle()
            },
            || {
                server.rx.receive(bytes)?;
                server.tx.send(bytes)?;
                server.tx.settle()
            },
        )?;
        Ok(())
    })
}

fn new_connections(ctx: &Context, count: usize) -> Result<(), Failure> {
    each(count, |_| {
        let (client, server) = ctx.pair()?;
        exchange(client, server, 64 * 1024)
    })
    .map_err(|f| f.within("new connections"))
}

/// Transfers that are under way while the gateway comes or goes.
struct Busy {
    /// Readers take their time until this is set.
    hurry: AtomicBool,
    under_way: Barrier,
}

impl Busy {
    fn new() -> Self {
        // Every transfer, and the case itself.
        Busy { hurry: AtomicBool::new(false), under_way: Barrier::new(BUSY + 1) }
    }

    /// Runs the transfers, half of them up and half down, and `meanwhile` when all are under way.
    fn run(
        &self,
        ctx: &Context,
        meanwhile: impl FnOnce() -> Result<(), Failure> + Send,
    ) -> Result<(), Failure> {
        let transfers = || {
            each(BUSY, |i| {
                // Readers that take little at a time leave much to the gateway; others may have it
                // all, or nearly, when the gateway goes.
                let little = |socket: &Socket| match i % 4 {
                    0 | 1 => socket.set_recv_buffer_size(32 * 1024),
                    _ => Ok(()),
                };
                let pair = ctx.pair_with(&Dial { client: &little, server: &little, ..Dial::default() });
                if pair.is_err() {
                    // The others wait for this one too.
                    self.under_way.wait();
                }
                let (client, server) = pair?;
                let name = client.local()?;
                let (sender, reader) = if i % 2 == 0 { (client, server) } else { (server, client) };
                self.transfer(sender, reader).map_err(|f| f.within(format!("that of {name}")))
            })
            .map_err(|f| f.within("busy connections"))
        };
        let case = || {
            self.under_way.wait();
            let result = meanwhile();
            self.hurry.store(true, Ordering::Relaxed);
            result
        };
        both(transfers, case)?;
        Ok(())
    }

    fn transfer(&self, mut sender: End, mut reader: End) -> Result<(), Failure> {
        let ((sent, sender_end), reader_end) = both(
            || {
                let sending = sender.tx.send(CARGO).and_then(|()| sender.tx.finish());
                // The reader closes when it has everything, so here the end comes, or a reset.
                // An error that `write` has told, `read` does not tell again.
                let ending =
                    if sender.tx.was_reset() { Ending::Reset } else { sender.rx.receive_until_over()? };
                Ok((sending, ending))
            },
            || {
                let start = reader.rx.receive(CARGO / 8);
                self.under_way.wait();
                start?;
                while !self.hurry.load(Ordering::Relaxed) && reader.rx.position() < CARGO {
                    std::thread::sleep(Duration::from_millis(50));
                    match reader.rx.receive_some_or_over(16 * 1024)? {
                        None => {}
                        Some(ending) => return Ok(ending),
                    }
                }
                let ending = reader.rx.receive_until_over()?;
                if ending == Ending::Clean {
                    reader.tx.finish()?;
                }
                Ok(ending)
            },
        )?;
        match (reader_end, sender_end) {
            (Ending::Clean, Ending::Clean) => {
                sent?;
                reader.rx.expect_all_of(&sender.tx.sent())
            }
            (Ending::Clean, _) if reader.rx.position() < CARGO => Err(Failure::new(format!(
                "{}: a clean end after {} of {CARGO} bytes",
                reader.who(),
                reader.rx.position()
            ))),
            (at_reader, at_sender) => Err(Failure::new(format!(
                "{} (reader) ended {at_reader:?} after {} of {CARGO} bytes, {} (sender) ended {at_sender:?}",
                reader.who(),
                reader.rx.position(),
                sender.who()
            ))),
        }
    }
}

fn starts_in_mid_stream(ctx: &Context) -> Result<(), Failure> {
    let mut idle = quiet_connections(ctx, 20, 1000)?;
    let busy = Busy::new();
    busy.run(ctx, || ctx.site.start_gateway())?;
    exchange_in_all(&mut idle, 100_000)?;
    new_connections(ctx, 10)
}

fn killed(ctx: &Context) -> Result<(), Failure> {
    ctx.site.start_gateway()?;
    let mut idle = quiet_connections(ctx, IDLE, 1000)?;
    let mut drained = quiet_connections(ctx, DRAINED, 64 * 1024)?;
    ctx.site.kill_gateway();
    new_connections(ctx, 20)?;
    exchange_in_all(&mut drained, 10_000).map_err(|f| f.within("drained connections"))?;
    exchange_in_all(&mut idle, 10_000).map_err(|f| f.within("idle connections"))
}

fn killed_and_restarted(ctx: &Context) -> Result<(), Failure> {
    const PROMPTLY: Duration = Duration::from_secs(10);
    ctx.site.start_gateway()?;
    let mut idle = quiet_connections(ctx, IDLE, 1000)?;
    let mut drained = quiet_connections(ctx, DRAINED, 64 * 1024)?;
    let busy = Busy::new();
    let mut restarted = Instant::now();
    busy.run(ctx, || {
        ctx.site.kill_gateway();
        new_connections(ctx, 20).map_err(|f| f.within("after the kill"))?;
        exchange_in_all(&mut drained, 10_000).map_err(|f| f.within("after the kill: drained connections"))?;
        exchange_in_all(&mut idle, 10_000).map_err(|f| f.within("after the kill: idle connections"))?;
        ctx.site.start_gateway()?;
        restarted = Instant::now();
        Ok(())
    })?;
    let took = restarted.elapsed();
    ctx.note(format!("all {BUSY} busy ones whole, {} after the restart", format_duration(took)));
    ensure!(
        ctx.lossy() || took <= PROMPTLY,
        "the busy connections were over only {} after the restart",
        format_duration(took)
    );
    new_connections(ctx, 20).map_err(|f| f.within("after the restart"))?;
    exchange_in_all(&mut drained, 10_000).map_err(|f| f.within("after the restart: drained connections"))?;
    exchange_in_all(&mut idle, 10_000).map_err(|f| f.within("after the restart: idle connections"))
}

fn terminated(ctx: &Context) -> Result<(), Failure> {
    ctx.site.start_gateway()?;
    let mut idle = quiet_connections(ctx, IDLE, 1000)?;
    let mut drained = quiet_connections(ctx, DRAINED, 64 * 1024)?;
    let mut gateway = ctx.site.take_gateway();
    let busy = Busy::new();
    let asked = Instant::now();
    busy.run(ctx, || {
        if let Some(gateway) = &gateway {
            gateway.ask_to_stop();
        }
        new_connections(ctx, 20).map_err(|f| f.within("while it stops"))
    })?;
    if let Some(gateway) = &mut gateway {
        gateway.wait(ctx.deadline)?;
        ctx.note(format!("exited {} after SIGTERM", format_duration(asked.elapsed())));
    }
    new_connections(ctx, 20).map_err(|f| f.within("after it stopped"))?;
    exchange_in_all(&mut drained, 10_000).map_err(|f| f.within("drained connections"))?;
    exchange_in_all(&mut idle, 10_000).map_err(|f| f.within("idle connections"))
}

/// Stops the gateway in good order, and starts it again.
fn stop_and_start(ctx: &Context) -> Result<(), Failure> {
    if let Some(mut gateway) = ctx.site.take_gateway() {
        gateway.ask_to_stop();
        gateway.wait(ctx.deadline)?;
    }
    ctx.site.start_gateway()
}

/// A transfer in whose midst there is another gateway, three times.
fn swapped(ctx: &Context, swap: &(dyn Fn(&Context) -> Result<(), Failure> + Sync)) -> Result<(), Failure> {
    const PIECES: u64 = 50;
    const PIECE: u64 = 32 * 1024;
    ctx.site.start_gateway()?;
    let (mut client, mut server) = ctx.pair()?;
    for round in 0..3 {
        let swap = || swap(ctx);
        // Slow enough to be under way all the while.
        let slowly = |end: &mut crate::conformance::end::Incoming| {
            for _ in 0..PIECES {
                end.receive(PIECE)?;
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        };
        let transfer = || {
            let (client_tx, client_rx) = (&mut client.tx, &mut client.rx);
            let (server_tx, server_rx) = (&mut server.tx, &mut server.rx);
            let up = || both(|| client_tx.send(PIECES * PIECE), || slowly(server_rx));
            let down = || both(|| server_tx.send(PIECES * PIECE), || slowly(client_rx));
            both(up, down)
        };
        both(swap, transfer).map_err(|f| f.within(format!("round {round}")))?;
    }
    server.rx.expect_all_of(&client.tx.sent())?;
    client.rx.expect_all_of(&server.tx.sent())
}
