//! Closing: a FIN closes one direction and no more, and a RST stays a RST.
use super::MIB;
use crate::conformance::case::Case;
use crate::conformance::context::{Context, both};
use crate::conformance::end::{End, Prod};
use crate::conformance::failure::{Failure, ensure};
use shorthaul_os::TcpState;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::new(
        "half-close-by-client",
        "The client closes its direction; the 1 MiB that the server sends after that arrives whole.",
        "RFC 9293 §3.6",
        |ctx| half_close(ctx, ctx.pair()?),
    )
    .both_families(),
    Case::new(
        "half-close-by-server",
        "The server closes its direction; the 1 MiB that the client sends after that arrives whole.",
        "RFC 9293 §3.6",
        |ctx| half_close(ctx, swapped(ctx.pair()?)),
    )
    .both_families(),
    Case::new(
        "half-close-by-both",
        "Both send 1 MiB and close their direction at once; both streams arrive whole.",
        "RFC 9293 §3.6",
        half_close_by_both,
    )
    .both_families(),
    Case::new(
        "long-half-close",
        "A half-closed connection stays open while the other direction says nothing for three seconds.",
        "RFC 9293 §3.6",
        long_half_close,
    ),
    Case::new(
        "simultaneous-close",
        "FINs that cross each other close the connection cleanly at both ends.",
        "RFC 9293 §3.6 figure 13",
        simultaneous_close,
    )
    .both_families(),
    Case::new(
        "fin-acknowledged-when-delivered",
        "A FIN is acknowledged only when the other end has it: until then the closing end is in FIN-WAIT-1.",
        "RFC 9293 §3.6",
        fin_acknowledged_when_delivered,
    ),
    Case::new("rst-by-client", "The client's reset arrives as a reset.", "RFC 9293 §3.5.2", |ctx| {
        reset(ctx, ctx.pair()?, Unread::Nothing)
    })
    .both_families(),
    Case::new("rst-by-server", "The server's reset arrives as a reset.", "RFC 9293 §3.5.2", |ctx| {
        reset(ctx, swapped(ctx.pair()?), Unread::Nothing)
    })
    .both_families(),
    Case::new(
        "rst-by-client-behind-data",
        "The client resets with 40 kB on the way: the server sees the reset, not a clean end.",
        "RFC 9293 §3.5.2",
        |ctx| reset(ctx, ctx.pair()?, Unread::FromVillain),
    ),
    Case::new(
        "rst-by-server-behind-data",
        "The server resets with 40 kB on the way: the client sees the reset, not a clean end.",
        "RFC 9293 §3.5.2",
        |ctx| reset(ctx, swapped(ctx.pair()?), Unread::FromVillain),
    ),
    Case::new(
        "rst-by-client-with-unread-data",
        "The client closes without reading what the server sent: that is a reset.",
        "RFC 1122 §4.2.2.13",
        |ctx| reset(ctx, ctx.pair()?, Unread::FromVictim),
    ),
    Case::new(
        "rst-by-server-with-unread-data",
        "The server closes without reading what the client sent: that is a reset.",
        "RFC 1122 §4.2.2.13",
        |ctx| reset(ctx, swapped(ctx.pair()?), Unread::FromVictim),
    ),
    Case::new(
        "rst-by-client-after-half-close",
        "A reset passes in a connection of which either end had closed its direction before.",
        "RFC 9293 §3.5.2",
        |ctx| reset_after_half_close(ctx, |pair| pair),
    ),
    Case::new(
        "rst-by-server-after-half-close",
        "A reset passes in a connection of which either end had closed its direction before.",
        "RFC 9293 §3.5.2",
        |ctx| reset_after_half_close(ctx, swapped),
    ),
    Case::new(
        "rst-by-client-to-stalled-server",
        "A reset passes although the server's window is closed and data waits before it.",
        "RFC 9293 §3.5.2",
        |ctx| reset_to_stalled(ctx, ctx.pair()?),
    ),
    Case::new(
        "rst-by-server-to-stalled-client",
        "A reset passes although the client's window is closed and data waits before it.",
        "RFC 9293 §3.5.2",
        |ctx| reset_to_stalled(ctx, swapped(ctx.pair()?)),
    ),
];

fn swapped((a, b): (End, End)) -> (End, End) {
    (b, a)
}

fn prod(ctx: &Context) -> Prod {
    if ctx.lossy() { Prod::EverySecond } else { Prod::No }
}

/// `first` closes its direction after a few bytes; then the other sends 1 MiB.
fn half_close(_: &Context, (mut first, mut second): (End, End)) -> Result<(), Failure> {
    first.tx.send(1000)?;
    first.tx.finish()?;
    second.rx.receive_rest(1000)?;
    both(
        || {
            second.tx.send(MIB)?;
            second.tx.finish()
        },
        || first.rx.receive_rest(MIB),
    )?;
    first.rx.expect_all_of(&second.tx.sent())
}

fn half_close_by_both(ctx: &Context) -> Result<(), Failure> {
    fn talk(end: &mut End) -> Result<(), Failure> {
        let (tx, rx) = (&mut end.tx, &mut end.rx);
        both(
            || {
                tx.send(MIB)?;
                tx.finish()
            },
            || rx.receive_rest(MIB),
        )?;
        Ok(())
    }
    let (mut client, mut server) = ctx.pair()?;
    both(|| talk(&mut client), || talk(&mut server))?;
    server.rx.expect_all_of(&client.tx.sent())?;
    client.rx.expect_all_of(&server.tx.sent())
}

fn long_half_close(ctx: &Context) -> Result<(), Failure> {
    let (mut client, mut server) = ctx.pair()?;
    client.tx.finish()?;
    server.rx.expect_end()?;
    client.rx.expect_quiet(Duration::from_secs(3))?;
    both(
        || {
            server.tx.send(MIB / 4)?;
            server.tx.finish()
        },
        || client.rx.receive_rest(MIB / 4),
    )?;
    client.rx.expect_all_of(&server.tx.sent())
}

fn simultaneous_close(ctx: &Context) -> Result<(), Failure> {
    for round in 0..5 {
        let (mut client, mut server) = ctx.pair()?;
        client.tx.send(1000)?;
        server.rx.receive(1000)?;
        client.tx.settle()?;
        // Neither hears the other, so neither's FIN comes first.
        client.deafen(true)?;
        server.deafen(true)?;
        client.tx.finish()?;
        server.tx.finish()?;
        std::thread::sleep(Duration::from_millis(50));
        client.deafen(false)?;
        server.deafen(false)?;
        let done = both(|| client.rx.expect_end(), || server.rx.expect_end());
        done.map_err(|failure| failure.within(format!("round {round}")))?;
        both(|| client.tx.settle(), || server.tx.settle())?;
    }
    Ok(())
}

fn fin_acknowledged_when_delivered(ctx: &Context) -> Result<(), Failure> {
    let check = |(mut closing, mut other): (End, End)| {
        other.deafen(true)?;
        // Little enough for the sender's own buffer.
        closing.tx.send(20_000)?;
        closing.tx.finish()?;
        std::thread::sleep(Duration::from_millis(1000));
        let state = closing.state()?;
        ensure!(
            state == TcpState::FIN_WAIT_1,
            "{}: in state {state:?} although the other end has heard nothing; expected FIN-WAIT-1",
            closing.who()
        );
        other.deafen(false)?;
        other.rx.receive_rest(20_000)?;
        while closing.state()? != TcpState::FIN_WAIT_2 {
            let state = closing.state()?;
            ensure!(!ctx.remaining().is_zero(), "{}: still in {state:?}, not FIN-WAIT-2", closing.who());
            std::thread::sleep(Duration::from_millis(5));
        }
        other.rx.expect_all_of(&closing.tx.sent())
    };
    check(ctx.pair()?)?;
    check(swapped(ctx.pair()?))
}

/// What was sent and not read when the reset comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unread {
    Nothing,
    FromVillain,
    FromVictim,
}

/// `villain` resets, `victim` must notice.
fn reset(ctx: &Context, (mut villain, mut victim): (End, End), unread: Unread) -> Result<(), Failure> {
    villain.tx.send(100)?;
    victim.rx.receive(100)?;
    match unread {
        Unread::Nothing => villain.abort()?,
        Unread::FromVillain => {
            // Little enough for the buffers of the two ends.
            villain.tx.send(40_000)?;
            villain.abort()?;
        }
        Unread::FromVictim => {
            victim.tx.send(1000)?;
            // It is there, but nobody reads it.
            villain.wait_queued(1)?;
            drop(villain);
        }
    }
    victim.expect_reset(prod(ctx))
}

fn reset_after_half_close(ctx: &Context, order: fn((End, End)) -> (End, End)) -> Result<(), Failure> {
    // First the direction of the one who resets is closed, then the other.
    let (mut villain, mut victim) = order(ctx.pair()?);
    villain.tx.send(100)?;
    villain.tx.finish()?;
    victim.rx.receive_rest(100)?;
    villain.abort()?;
    // Reading after a FIN finds its end for ever; only writing tells.
    victim.expect_reset(Prod::AfterEnd).map_err(|f| f.within("after its own FIN"))?;

    let (mut villain, mut victim) = order(ctx.pair()?);
    if ctx.lossy() {
        // In FIN-WAIT-2 the victim cannot write to draw a second RST if the first is lost; a
        // keepalive draws it.
        victim.probe_every_second()?;
    }
    victim.tx.send(100)?;
    victim.tx.finish()?;
    villain.rx.receive_rest(100)?;
    villain.abort()?;
    victim.expect_reset(Prod::No).map_err(|f| f.within("after the other's FIN"))
}

fn reset_to_stalled(ctx: &Context, (mut villain, mut victim): (End, End)) -> Result<(), Failure> {
    villain.tx.fill(Duration::from_millis(500), 64 * MIB)?;
    villain.abort()?;
    // The victim reads only now.
    victim.expect_reset(prod(ctx))
}
