//! Random scenarios of a gateway in adversity, after the manner of TigerBeetle's simulator.
//!
//! A seed makes hosts of both IP versions on both sides, connections between them, and a gateway of whatever is registered, in
//! which the table and the memory may be small. For some time everything goes wrong: links lose, reorder, duplicate and
//! fragment, segments are replayed and forged, ends abort or do not read, the gateway drains, gets another configuration,
//! oversleeps, crashes and comes back with what its journal says, or hands over to another. Then all is healed.
//!
//! *Safety*, at each step ([`World::check`]): no byte is read that was not sent there, nothing is acknowledged that is neither
//! held nor delivered, memory and table are within their bounds, the journal knows of all that was acknowledged.
//! *Liveness*, after healing: each connection arrives whole, or ends with an answer to both ends where there was a reason, and the
//! gateway forgets all of them.
use crate::draw::Draw;
use crate::{Chance, Faults, Opening, World};
use shorthaul_proxy::{Gateway, GatewayConfig};
use shorthaul_tcp::{ConnectionConfig, Failure, KeepAlive};
use shorthaul_types::{Bytes, Time};
use std::net::IpAddr;
use std::time::Duration;

/// Ports that servers listen on; each may have a policy of its own.
const PORTS: [u16; 3] = [80, 443, 8080];
/// How long all goes wrong, at most.
const TROUBLE: Duration = Duration::from_secs(40);
/// After this many events all is over, or something goes round in circles.
const ENDLESS: usize = 300_000;
/// When the last connection is over, the gateway forgets it in this time.
const FORGETS: Duration = Duration::from_secs(4 * 3600);

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    /// A connection is opened.
    Open(Box<Opening>),
    /// Links get better or worse.
    Faults(Faults),
    /// The application at one end of a connection gives it up.
    Abort { flow: usize, end: usize },
    /// It reads this many bytes at once from now on.
    Appetite { flow: usize, end: usize, bytes: usize },
    /// The gateway is told to step out of everything.
    Drain,
    /// The time for draining is over.
    ResetHeld,
    /// The gateway gets another configuration.
    Reconfigure(Box<GatewayConfig>),
    /// The gateway is gone.
    Crash,
    /// The next one is there.
    Restart(Box<GatewayConfig>),
    /// The next one goes on at once in the place of this one, which hands over.
    TakeOver(Box<GatewayConfig>),
    /// What survives a crash has room for as many flows, and for bytes or for none.
    Room { flows: u32, bytes: bool },
    /// The gateway does nothing for this long.
    Oversleep(Duration),
    /// All clocks jump ahead.
    Jump(Duration),
    /// Something that was heard comes again.
    Replay,
    /// A segment comes that nobody has sent.
    Forge,
    /// A whole handshake comes that nobody has sent, of a connection that is open.
    ForgeHandshake,
}

/// What a seed stands for.
#[derive(Debug)]
struct Scenario {
    config: GatewayConfig,
    /// The addresses on the access side, and in the wide area network.
    hosts: [Vec<IpAddr>; 2],
    /// What happens, and when, in order.
    events: Vec<(Time, Event)>,
}

/// Addresses of two hosts of each IP version on a side.
fn hosts(side: u8) -> Vec<IpAddr> {
    let v4 = |host: u8| IpAddr::from([10, side, 0, host]);
    let v6 = |host| IpAddr::from([0xfd00, u16::from(side), 0, 0, 0, 0, 0, host]);
    vec![v4(1), v6(1), v4(2), v6(2)]
}

/// A gateway's bounds: usual ones, or small ones.
fn frame(chance: &mut Chance) -> GatewayConfig {
    let flow_buffer = *chance.pick(&[20_000, 100_000, 100_000, 1 << 20]);
    let memory = flow_buffer * *chance.pick(&[4, 16, 1 << 10, 1 << 10]);
    GatewayConfig {
        flow_buffer: Bytes(flow_buffer),
        memory: Bytes(memory.max(200_000)),
        max_flows: *chance.pick(&[1, 3, 100, 65_536]),
        idle_timeout: Duration::from_secs(*chance.pick(&[100, 7440])),
        hash_seed: chance.number(),
        ..GatewayConfig::default()
    }
}

/// An end whose owner notices when the other is gone.
fn end(draw: &mut Draw) -> ConnectionConfig {
    let keep_alive =
        KeepAlive { idle: Duration::from_secs(300), interval: Duration::from_secs(20), probes: 12 };
    let end = draw.end();
    // Small buffers on long paths only take time.
    let at_least = |bytes: Bytes| Bytes(bytes.0.max(8_000));
    ConnectionConfig {
        keep_alive: Some(keep_alive),
        send_buffer: at_least(end.send_buffer),
        receive_buffer: at_least(end.receive_buffer),
        ..end
    }
}

fn opening(draw: &mut Draw) -> Opening {
    let mut chance = draw.chance.split();
    let version = chance.below(2) as usize;
    // Stations are the four hosts on the access side, then those in the wide area network; even numbers are IPv4.
    let access = version + 2 * chance.below(2) as usize;
    let wan = 4 + version + 2 * chance.below(2) as usize;
    let stations = if chance.happens(750) { [access, wan] } else { [wan, access] };
    let mut total = || *chance.pick(&[0, 1, 3_000, 30_000, 150_000]);
    let totals = [total(), total()];
    Opening { stations, port: *chance.pick(&PORTS), configs: [end(draw), end(draw)], totals }
}

fn faults(chance: &mut Chance) -> Faults {
    if chance.once_in(3) {
        return Faults::default();
    }
    Faults {
        loss: *chance.pick(&[0, 5, 50, 200]),
        reorder: *chance.pick(&[0, 20, 300]),
        duplicate: *chance.pick(&[0, 20, 200]),
        fragments: *chance.pick(&[0, 0, 20, 300]),
        options: *chance.pick(&[0, 0, 20, 300]),
    }
}

fn scenario(draw: &mut Draw) -> Scenario {
    let start = Time::from_secs(1);
    let frame_of = |draw: &mut Draw| frame(&mut draw.chance);
    let ports = &PORTS[..draw.chance.below(4) as usize];
    let first = frame_of(draw);
    let config = draw.gateway(&first, ports);
    let another = |draw: &mut Draw| {
        let frame = frame(&mut draw.chance);
        Box::new(draw.gateway(&frame, ports))
    };
    let mut events = Vec::new();
    let moment =
        |chance: &mut Chance| start + Duration::from_micros(chance.below(TROUBLE.as_micros() as u64));
    let flows = 1 + draw.chance.below(6) as usize;
    for _ in 0..flows {
        let at = start + Duration::from_millis(draw.chance.below(8_000));
        events.push((at, Event::Open(Box::new(opening(draw)))));
    }
    for _ in 0..draw.chance.below(4) {
        events.push((moment(&mut draw.chance), Event::Faults(faults(&mut draw.chance))));
    }
    events.push((start, Event::Faults(faults(&mut draw.chance))));
    for _ in 0..draw.chance.below(3) {
        let (flow, end) = (draw.chance.below(flows as u64) as usize, draw.chance.below(2) as usize);
        let bytes = *draw.chance.pick(&[0, 1, 500, 20_000]);
        let chance = &mut draw.chance;
        let event =
            if chance.once_in(4) { Event::Abort { flow, end } } else { Event::Appetite { flow, end, bytes } };
        events.push((moment(chance), event));
    }
    if draw.chance.once_in(2) {
        let (replays, forgeries) = (draw.chance.below(30), draw.chance.below(30));
        events.extend((0..replays).map(|_| (moment(&mut draw.chance), Event::Replay)));
        events.extend((0..forgeries).map(|_| (moment(&mut draw.chance), Event::Forge)));
    }
    for _ in 0..draw.chance.below(3) {
        let time = Duration::from_millis(1 << draw.chance.below(14));
        events.push((moment(&mut draw.chance), Event::Oversleep(time)));
    }
    if draw.chance.once_in(6) {
        let time = Duration::from_secs(1 << draw.chance.below(12));
        events.push((moment(&mut draw.chance), Event::Jump(time)));
    }
    if draw.chance.once_in(4) {
        let config = another(draw);
        events.push((moment(&mut draw.chance), Event::Reconfigure(config)));
    }
    match draw.chance.below(6) {
        0 => {
            let at = moment(&mut draw.chance);
            events.push((at, Event::Drain));
            if draw.chance.once_in(2) {
                events.push((at + Duration::from_secs(draw.chance.below(20)), Event::ResetHeld));
            }
        }
        1 | 2 => {
            let at = moment(&mut draw.chance);
            let config = another(draw);
            let back = at + Duration::from_millis(1 << draw.chance.below(14));
            events.push((at, Event::Crash));
            events.push((back, Event::Restart(config)));
        }
        _ => {}
    }
    if draw.chance.once_in(4) {
        let at = moment(&mut draw.chance);
        let config = another(draw);
        events.push((at, Event::TakeOver(config)));
    }
    if draw.chance.once_in(4) {
        let begun = moment(&mut draw.chance);
        let flows = *draw.chance.pick(&[0, 1, u32::MAX]);
        let over = begun + Duration::from_millis(1 << draw.chance.below(14));
        events.push((begun, Event::Room { flows, bytes: draw.chance.once_in(2) }));
        events.push((over, Event::Room { flows: u32::MAX, bytes: true }));
    }
    if draw.chance.once_in(4) {
        let handshakes = 1 + draw.chance.below(4);
        events.extend((0..handshakes).map(|_| (moment(&mut draw.chance), Event::ForgeHandshake)));
    }
    events.sort_by_key(|(at, _)| *at);
    Scenario { config, hosts: [hosts(0), hosts(1)], events }
}

/// What is told of a scenario in which something does not hold.
struct Story<'a> {
    scenario: &'a Scenario,
    draw: &'a Draw,
}

impl Drop for Story<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Scenario { config, events, .. } = self.scenario;
            eprintln!("{}{config:#?}", self.draw.rows);
            events.iter().for_each(|(at, event)| match event {
                Event::Reconfigure(_) => eprintln!("{at} reconfigured"),
                Event::Restart(_) => eprintln!("{at} restarted"),
                Event::TakeOver(_) => eprintln!("{at} taken over"),
                event => eprintln!("{at} {event:?}"),
            });
        }
    }
}

/// Runs the scenario of a seed.
///
/// # Panics
/// If something does not hold.
pub fn run(seed: u64) {
    let mut draw = Draw::new(seed);
    let scenario = scenario(&mut draw);
    let _story = Story { scenario: &scenario, draw: &draw };
    let mut world = World::new(seed, scenario.config.clone());
    for (addresses, port) in scenario.hosts.iter().zip([Gateway::ACCESS, Gateway::WAN]) {
        addresses.iter().for_each(|address| {
            world.add_station(port, *address);
        });
    }
    for (at, event) in &scenario.events {
        while world.now < *at {
            world.step(*at);
        }
        happen(&mut world, event);
    }
    heal(&mut world);
    let mut steps = 0;
    while !world.flows.iter().all(|flow| flow.apps.iter().all(|app| app.is_over() || app.id.is_none())) {
        steps += 1;
        assert!(
            world.step(Time::MAX) && steps < ENDLESS,
            "an end is left without an answer: {}",
            world.describe()
        );
    }
    (0..world.flows.len()).for_each(|flow| judge(&world, flow));
    let end = world.now + FORGETS;
    let left = |world: &World| (world.gateway.flows().count(), world.gateway.allocated());
    while world.now < end && left(&world) != (0, 0) {
        world.step(end);
    }
    let left = left(&world);
    assert_eq!(left, (0, 0), "flows and bytes are left: {}", world.describe());
}

fn happen(world: &mut World, event: &Event) {
    let now = world.now;
    match event {
        Event::Open(opening) => {
            world.open((**opening).clone());
        }
        Event::Faults(faults) => world.faults = *faults,
        Event::Abort { flow, end } if *flow < world.flows.len() => world.abort(*flow, *end),
        Event::Appetite { flow, end, bytes } if *flow < world.flows.len() => {
            world.flows[*flow].apps[*end].appetite = *bytes;
        }
        Event::Abort { .. } | Event::Appetite { .. } => {}
        Event::Drain => world.gateway.drain(now),
        Event::ResetHeld => world.reset_held(),
        Event::Reconfigure(config) if !world.is_down() => world.reconfigure((**config).clone()),
        Event::Reconfigure(_) => {}
        Event::Crash => world.crash(),
        Event::Restart(config) => world.restart((**config).clone()),
        Event::TakeOver(config) if !world.is_down() => world.take_over((**config).clone()),
        Event::TakeOver(_) => {}
        Event::Room { flows, bytes } => {
            world.gateway.set_record_room(*flows);
            world.custody.is_full = !bytes;
        }
        Event::Oversleep(time) => world.oversleep(*time),
        Event::Jump(time) => world.jump(*time),
        Event::Replay => world.replay(),
        Event::Forge => world.forge(),
        Event::ForgeHandshake => world.forge_handshake(),
    }
    world.settle();
}

/// Links are good, and everybody reads.
fn heal(world: &mut World) {
    world.faults = Faults::default();
    for app in world.flows.iter_mut().flat_map(|flow| &mut flow.apps) {
        app.appetite = usize::MAX;
    }
    world.settle();
}

/// A connection is over: it arrived whole, or there was a reason, and then nobody believes that what was lost has arrived.
fn judge(world: &World, number: usize) {
    let flow = &world.flows[number];
    let [a, b] = &flow.apps;
    let excused = flow.was_cut || flow.was_aborted;
    // Whose acknowledgments were lost until the other end had forgotten the connection does not know what arrived: its last
    // retransmission is answered by a reset.
    let is_read = a.read == b.total && b.read == a.total;
    let outlived = [(a, b), (b, a)].into_iter().any(|(first, last)| {
        first.is_over() && first.failure().is_none() && last.failure() == Some(Failure::Reset)
    });
    assert!(
        excused || world.is_whole(number) || (is_read && outlived),
        "flow {number} failed without a reason: {}",
        world.describe()
    );
    if flow.was_aborted {
        return;
    }
    for (writer, reader) in [(a, b), (b, a)] {
        let believes = writer.is_over() && writer.failure().is_none() && writer.is_sure;
        let arrived = reader.read == writer.total;
        assert!(!believes || arrived, "flow {number} lost bytes in silence: {}", world.describe());
    }
}
