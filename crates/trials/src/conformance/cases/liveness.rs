//! Idle connections live, dead ones are noticed: the gateway answers for nobody.
use crate::conformance::case::Case;
use crate::conformance::context::{Context, both};
use crate::conformance::end::{End, KEEPALIVES, Prod};
use crate::conformance::failure::{Failure, ensure, name_of};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "idle-connection-lives",
        "A connection that is idle but for keepalives is there when it is needed.",
        "RFC 9293 §3.8.4",
        idle_connection,
    )
    .both_families(),
    Case::new(
        "dead-server-noticed",
        "When the server vanishes, the client's keepalives find out: ETIMEDOUT.",
        "RFC 9293 §3.8.4",
        |ctx| {
            let (client, server) = ctx.pair()?;
            dead_peer(client, server)
        },
    ),
    Case::new(
        "dead-client-noticed",
        "When the client vanishes, the server's keepalives find out: ETIMEDOUT.",
        "RFC 9293 §3.8.4",
        |ctx| {
            let (client, server) = ctx.pair()?;
            dead_peer(server, client)
        },
    ),
    Case::new(
        "half-open-connection-reset",
        "When one end has forgotten the connection, the other's next data is answered by a reset.",
        "RFC 9293 §3.5.1",
        half_open,
    ),
    Case::new(
        "interrupted-path-recovers",
        "A path that delivers nothing for two seconds in mid-stream does no lasting harm.",
        "RFC 9293 §3.8.1",
        interrupted_path,
    ),
];

fn idle_connection(ctx: &Context) -> Result<(), Failure> {
    let (mut client, mut server) = ctx.pair()?;
    client.probe_every_second()?;
    server.probe_every_second()?;
    for _ in 0..2 {
        client.tx.send(1000)?;
        server.rx.receive(1000)?;
        both(
            || client.rx.expect_quiet(Duration::from_millis(4500)),
            || server.rx.expect_quiet(Duration::from_millis(4500)),
        )?;
    }
    server.tx.send(1000)?;
    client.rx.receive(1000)
}

fn dead_peer(mut survivor: End, mut dead: End) -> Result<(), Failure> {
    survivor.tx.send(1000)?;
    dead.rx.receive(1000)?;
    // Its answer acknowledges all that came, to whoever had it to deliver: who has not been answered yet retransmits, and a
    // gateway that still does speaks for itself.
    dead.tx.send(1)?;
    survivor.rx.receive(1)?;
    both(|| dead.tx.settle(), || survivor.tx.settle())?;
    survivor.probe_every_second()?;
    dead.deafen(true)?;
    let start = Instant::now();
    let error = survivor.rx.failure()?;
    let took = start.elapsed();
    ensure!(
        error.kind() == std::io::ErrorKind::TimedOut,
        "{}: expected ETIMEDOUT, found {} after {took:.1?}",
        survivor.who(),
        name_of(&error)
    );
    let least = Duration::from_secs(u64::from(KEEPALIVES)) - Duration::from_millis(500);
    ensure!(took >= least, "{}: given up after {took:.1?}, before {KEEPALIVES} keepalives", survivor.who());
    Ok(())
}

fn half_open(ctx: &Context) -> Result<(), Failure> {
    let check = |mut survivor: End, mut forgetful: End| {
        survivor.tx.send(1000)?;
        forgetful.rx.receive(1000)?;
        // The reset with which it forgets the connection does not get out.
        forgetful.silence(true)?;
        forgetful.abort()?;
        survivor.rx.expect_quiet(Duration::from_millis(500))?;
        survivor.tx.send(1000)?;
        survivor.expect_reset(if ctx.lossy() { Prod::EverySecond } else { Prod::No })
    };
    let (client, server) = ctx.pair()?;
    check(client, server)?;
    let (client, server) = ctx.pair()?;
    check(server, client)
}

fn interrupted_path(ctx: &Context) -> Result<(), Failure> {
    const PART: u64 = 512 * 1024;
    let interrupt = |mut sender: End, mut reader: End| {
        both(
            || {
                sender.tx.send(4 * PART)?;
                sender.tx.finish()
            },
            || {
                reader.rx.receive(PART)?;
                reader.deafen(true)?;
                std::thread::sleep(Duration::from_secs(2));
                reader.deafen(false)?;
                reader.rx.receive_rest(3 * PART)
            },
        )?;
        reader.rx.expect_all_of(&sender.tx.sent())
    };
    let (client, server) = ctx.pair()?;
    let (other_client, other_server) = ctx.pair()?;
    both(|| interrupt(client, server), || interrupt(other_server, other_client))?;
    Ok(())
}
