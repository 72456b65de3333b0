//! Urgent data: the mark stays at its byte.
use super::MIB;
use crate::conformance::case::Case;
use crate::conformance::context::{Context, Dial, both};
use crate::conformance::end::End;
use crate::conformance::failure::{Failure, While, ensure};
use shorthaul_os::socket::at_urgent_mark;

pub(super) const CASES: &[Case] = &[
    Case::new(
        "urgent-byte-inline",
        "An urgent byte arrives at its place in the stream, and reading stops before it (SO_OOBINLINE).",
        "RFC 9293 §3.8.5, RFC 6093",
        |ctx| {
            let inline = Dial {
                client: &|socket| socket.set_out_of_band_inline(true),
                server: &|socket| socket.set_out_of_band_inline(true),
                ..Dial::default()
            };
            let (mut client, mut server) = ctx.pair_with(&inline)?;
            marks_inline(&mut client, &mut server)?;
            marks_inline(&mut server, &mut client)
        },
    ),
    Case::new(
        "urgent-byte-out-of-band",
        "An urgent byte can be read by itself, and is missing from the stream at its place.",
        "RFC 9293 §3.8.5, RFC 6093",
        |ctx| {
            let (mut client, mut server) = ctx.pair()?;
            marks_out_of_band(&mut client, &mut server)?;
            marks_out_of_band(&mut server, &mut client)
        },
    ),
    Case::new(
        "urgent-bytes-in-bulk",
        "A stream of 1 MiB with an urgent byte every 10,000 arrives whole.",
        "RFC 9293 §3.8.5",
        urgent_in_bulk,
    ),
];

const ROUNDS: usize = 10;

fn marks_inline(sender: &mut End, reader: &mut End) -> Result<(), Failure> {
    for round in 0..ROUNDS {
        sender.tx.send_urgent(11)?;
        sender.tx.send(10)?;
        reader.wait_queued(21)?;
        let before = reader.rx.receive_some(100)?;
        ensure!(before == 10, "round {round}: a read went {before} bytes far; the mark is after 10");
        let at_mark = at_urgent_mark(reader.socket()).doing("SIOCATMARK")?;
        ensure!(at_mark, "round {round}: no urgent mark after 10 bytes");
        reader.rx.receive(11)?;
        // A new mark would replace one that is still on its way.
        sender.tx.settle()?;
    }
    Ok(())
}

fn marks_out_of_band(sender: &mut End, reader: &mut End) -> Result<(), Failure> {
    for round in 0..ROUNDS {
        sender.tx.send_urgent(11)?;
        sender.tx.send(10)?;
        let urgent = reader.rx.urgent_byte().map_err(|f| f.within(format!("round {round}")))?;
        reader.rx.receive(10)?;
        let at_mark = at_urgent_mark(reader.socket()).doing("SIOCATMARK")?;
        ensure!(at_mark, "round {round}: no urgent mark after 10 bytes");
        // Its place in the stream is here, although reading skips it.
        reader.rx.check(&[urgent])?;
        reader.rx.receive(10)?;
        sender.tx.settle()?;
    }
    Ok(())
}

fn urgent_in_bulk(ctx: &Context) -> Result<(), Failure> {
    let inline = Dial { server: &|socket| socket.set_out_of_band_inline(true), ..Dial::default() };
    let (mut client, mut server) = ctx.pair_with(&inline)?;
    both(
        || {
            for _ in 0..MIB / 10_000 {
                client.tx.send(9_990)?;
                client.tx.send_urgent(10)?;
            }
            client.tx.finish()
        },
        || server.rx.receive_rest(MIB / 10_000 * 10_000),
    )?;
    server.rx.expect_all_of(&client.tx.sent())
}
