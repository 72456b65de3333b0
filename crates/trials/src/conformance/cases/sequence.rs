//! Sequence numbers: they wrap at 2³², and nobody notices.
use super::{MIB, handshake};
use crate::conformance::case::Case;
use crate::conformance::context::{Context, Dial, both, each};
use crate::conformance::end::End;
use crate::conformance::failure::{Failure, ensure};
use crate::conformance::place::Place;
use shorthaul_os::socket::set_initial_sequence_number;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::new(
        "sequence-wrap-upload",
        "The client's sequence numbers pass 2³² at various places of a 1 MiB stream; it arrives whole.",
        "RFC 9293 §3.4",
        |ctx| each(EDGES.len(), |i| wrap(ctx, Place::Client, EDGES[i])),
    )
    .both_families(),
    Case::new(
        "sequence-wrap-download",
        "The server opens the connection and its sequence numbers pass 2³²; the stream arrives whole.",
        "RFC 9293 §3.4",
        |ctx| each(EDGES.len(), |i| wrap(ctx, Place::Server, EDGES[i])),
    )
    .both_families(),
    Case::new(
        "sequence-wrap-both-ways",
        "Both ends' sequence numbers pass 2³² in one connection, opened by both at once.",
        "RFC 9293 §3.4",
        wrap_both_ways,
    ),
    Case::new(
        "four-gibibytes",
        "4.5 GiB in each direction: positions in the stream outgrow 32 bits.",
        "RFC 9293 §3.4",
        four_gibibytes,
    )
    .within(Duration::from_secs(600))
    .long(),
];

/// Initial sequence numbers: the SYN is the last before the wrap, the first byte is, the first
/// segment contains it, and the stream's middle and end do; and the same about 2³¹, where signs flip.
const EDGES: [u32; 9] = [
    u32::MAX,
    u32::MAX - 1,
    u32::MAX - 1000,
    u32::MAX - (512 << 10),
    u32::MAX - (1 << 20),
    u32::MAX - (1 << 20) - 1,
    (1 << 31) - 1,
    (1 << 31) - 2,
    (1 << 31) - (512 << 10),
];

/// `opener` opens the connection with sequence numbers from `isn` on, and both ends send 1 MiB.
fn wrap(ctx: &Context, opener: Place, isn: u32) -> Result<(), Failure> {
    let other = if opener == Place::Client { Place::Server } else { Place::Client };
    let dial = Dial {
        from: opener,
        to: other,
        client: &|socket| set_initial_sequence_number(socket, isn),
        ..Dial::default()
    };
    let (opened, accepted) = ctx.pair_with(&dial)?;
    exchange(opened, accepted, MIB).map_err(|f| f.within(format!("first sequence number {isn}")))
}

fn wrap_both_ways(ctx: &Context) -> Result<(), Failure> {
    let isn = u32::MAX - (512 << 10);
    let (client, server) = loop {
        let sockets = handshake::open_at_once(ctx, |socket| set_initial_sequence_number(socket, isn))?;
        match sockets {
            Some(sockets) => break sockets,
            None => ensure!(!ctx.remaining().is_zero(), "never a connection"),
        }
    };
    let (client, server) = ctx.ends(client, server);
    exchange(client, server, MIB)
}

fn four_gibibytes(ctx: &Context) -> Result<(), Failure> {
    let (client, server) = ctx.pair()?;
    exchange(client, server, 4608 * MIB)
}

/// Both send `len` bytes at the same time and close.
pub(super) fn exchange(mut a: End, mut b: End, len: u64) -> Result<(), Failure> {
    fn talk(end: &mut End, len: u64) -> Result<(), Failure> {
        let (tx, rx) = (&mut end.tx, &mut end.rx);
        both(
            || {
                tx.send(len)?;
                tx.finish()
            },
            || rx.receive_rest(len),
        )?;
        Ok(())
    }
    both(|| talk(&mut a, len), || talk(&mut b, len))?;
    b.rx.expect_all_of(&a.tx.sent())?;
    a.rx.expect_all_of(&b.tx.sent())
}
