//! Draws how the profiles repair losses: a transfer over one and the same path, in which the same three
//! segments of one window are lost, or marked where both ends know marks.
//! `cargo run -p shorthaul-tcp --example profile_plots -- DIR` writes `DIR/<name>.svg`, by default into
//! `docs/schemes`; a second directory takes the same as PNG. The same program writes the same files.
use shorthaul_report::plot::{Axis, Figure, Hue, Panel, Series, Share};
use shorthaul_report::{Manifest, Unit};
use shorthaul_tcp::{Addresses, ConnectionConfig, ConnectionId, Host, HostConfig, SenderProfile};
use shorthaul_types::{PortId, Seed, SeqNum, SeqSpace, Time};
use shorthaul_wire::{Machine, Packet, Payload, TcpFlags, Transport, TxBatch};
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Each profile, and the page that shows it.
const PAGES: [(&str, &str); 5] = [
    ("tahoe", "tahoe"),
    ("reno", "reno-1990"),
    ("newreno", "newreno"),
    ("sack-reno", "sack-reno"),
    ("cubic-ecn", "cubic-ecn"),
];
/// The segments of the stream whose first transmissions are lost, by their number.
const LOST: [u64; 3] = [60, 63, 70];
/// From one end to the other.
const DELAY: Duration = Duration::from_millis(50);
/// A full packet takes this long at 10 Mbit/s.
const PACKET_TIME: Duration = Duration::from_micros(1_200);
/// A router that marks does so where a packet waits longer than this.
const MARKING: Duration = Duration::from_millis(20);
const END: Time = Time::from_millis(3_000);
const PORT: u16 = 80;

/// What is drawn: times in seconds, offsets and windows in bytes.
#[derive(Default)]
struct Seen {
    sent: Vec<(f64, f64)>,
    retransmitted: Vec<(f64, f64)>,
    dropped: Vec<(f64, f64)>,
    marked: Vec<(f64, f64)>,
    acknowledged: Vec<(f64, f64)>,
    window: Vec<(f64, f64)>,
    in_flight: Vec<(f64, f64)>,
}

/// Two hosts, and a path between them.
struct Transfer {
    now: Time,
    hosts: [Host; 2],
    id: ConnectionId,
    wire: BTreeMap<(Time, u64), (usize, Packet)>,
    count: u64,
    free_at: Time,
    marks: bool,
    space: SeqSpace,
    /// Up to where the stream was sent.
    highest: u64,
    seen: Seen,
}

fn address(side: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, side as u8 + 1])
}

impl Transfer {
    fn new(profile: SenderProfile) -> Transfer {
        let marks = profile.ecn;
        let config = ConnectionConfig { profile, ..ConnectionConfig::default() };
        let mut hosts = [0, 1].map(|side| Host::new(HostConfig::new(address(side), Seed(side as u64))));
        hosts[1].listen(PORT, config.clone());
        let [local, remote] = [(0, 0), (1, PORT)].map(|(side, port)| SocketAddr::new(address(side), port));
        let id = hosts[0].connect(Time::ZERO, Addresses { local, remote }, config).expect("a free path");
        let wire = BTreeMap::new();
        let seen = Seen::default();
        let space = SeqSpace::new(SeqNum(0)); // until the SYN says
        let (now, free_at) = (Time::ZERO, Time::ZERO);
        Transfer { now, hosts, id, wire, count: 0, free_at, marks, space, highest: 1, seen }
    }

    /// What the two applications do: one writes without end, the other reads.
    fn run_applications(&mut self) {
        if let Some(connection) = self.hosts[0].connection_mut(self.id) {
            while connection.writable() > 0 {
                connection.write(Payload::copy_of(&[7; 4 << 10]));
            }
        }
        while let Some((id, _)) = self.hosts[1].poll_event() {
            let now = self.now;
            if let Some(connection) = self.hosts[1].connection_mut(id) {
                while !connection.read(now, usize::MAX).is_empty() {}
            }
        }
        while self.hosts[1].poll_accept().is_some() {}
        while self.hosts[0].poll_event().is_some() {}
    }

    fn settle(&mut self) {
        loop {
            self.run_applications();
            let mut quiet = true;
            for side in 0..2 {
                let mut out = TxBatch::new();
                while self.hosts[side].poll_transmit(self.now, &mut out) {}
                quiet &= out.is_empty();
                out.into_iter().for_each(|(_, packet)| self.send(side, packet));
            }
            if quiet {
                return;
            }
        }
    }

    fn send(&mut self, from: usize, mut packet: Packet) {
        let mut leaves = self.now;
        if from == 0 {
            let waits = self.free_at.saturating_since(self.now);
            if !self.passes(&mut packet, waits) {
                return;
            }
            leaves = self.free_at.max(self.now) + PACKET_TIME;
            self.free_at = leaves;
        }
        self.count += 1;
        self.wire.insert((leaves + DELAY, self.count), (1 - from, packet));
    }

    /// Notes a segment of the stream, and drops or marks it.
    fn passes(&mut self, packet: &mut Packet, waits: Duration) -> bool {
        let Some(connection) = self.hosts[0].connection(self.id) else { return true };
        let mss = u64::from(connection.sender().mss());
        let Transport::Tcp(segment) = &packet.transport else { return true };
        if segment.header.flags.contains(TcpFlags::SYN) {
            self.space = SeqSpace::new(segment.header.seq);
        }
        if segment.payload.is_empty() {
            return true;
        }
        let first = self.space.offset(segment.header.seq, self.highest).expect("a byte of the stream");
        let point = (self.now.as_secs_f64(), first as f64);
        let again = first < self.highest;
        self.highest = self.highest.max(first + segment.payload.len() as u64);
        if again { &mut self.seen.retransmitted } else { &mut self.seen.sent }.push(point);
        if self.marks {
            if waits > MARKING && packet.ip.ecn() == 2 {
                packet.ip.set_ecn(3);
                self.seen.marked.push(point);
            }
        } else if !again && LOST.contains(&((first - 1) / mss)) {
            self.seen.dropped.push(point);
            return false;
        }
        true
    }

    fn run(mut self) -> Seen {
        self.settle();
        loop {
            let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
            let timers = self.hosts.iter().filter_map(|host| host.poll_timeout().map(|due| due.at));
            let Some(next) = timers.chain(arrival).min().filter(|next| *next <= END) else {
                return self.seen;
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (side, packet) = entry.remove();
                self.hosts[side].handle_packet(self.now, PortId(0), packet);
            }
            self.hosts.iter_mut().for_each(|host| host.handle_timeout(self.now));
            self.settle();
            let sender = self.hosts[0].connection(self.id).expect("it lasts").sender();
            let at = self.now.as_secs_f64();
            self.seen.acknowledged.push((at, sender.una() as f64));
            self.seen.window.push((at, sender.control().window() as f64));
            self.seen.in_flight.push((at, sender.in_flight() as f64));
        }
    }
}

fn draw(profile: &str, seen: Seen) -> Figure {
    let marks = !seen.marked.is_empty();
    let what = if marks { "marks above 20 ms of queue" } else { "three segments of one window lost" };
    let time = || Axis::new("time", Unit::Seconds).from(0.0).to(END.as_secs_f64());
    let top = seen.sent.last().map_or(1.0, |last| last.1);
    let mut offsets = Panel::new("What was sent, and what was acknowledged")
        .x(time())
        .y(Axis::new("offset", Unit::Bytes).from(0.0).to(1.05 * top))
        .series(Series::step("sent", Hue::Sky).points(seen.sent))
        .series(Series::step("acknowledged", Hue::Black).points(seen.acknowledged));
    if marks {
        offsets = offsets.series(Series::dots("marked", Hue::Orange).points(seen.marked));
    } else {
        offsets = offsets
            .series(Series::dots("lost", Hue::Purple).points(seen.dropped))
            .series(Series::dots("retransmitted", Hue::Vermillion).points(seen.retransmitted));
    }
    Figure::new(profile)
        .subtitle(&format!("One flow over 10 Mbit/s, 100 ms; {what}"))
        .share_x(Share::All)
        .dots_per_inch(150.0)
        .panel(offsets)
        .panel(
            Panel::new("What may be and what is in flight")
                .x(time())
                .y(Axis::new("window", Unit::Bytes).from(0.0))
                .series(Series::step("in flight", Hue::Orange).points(seen.in_flight))
                .series(Series::step("window", Hue::Blue).points(seen.window)),
        )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "docs/schemes".to_string()));
    let png_dir = std::env::args().nth(2).map(PathBuf::from);
    for dir in [Some(&dir), png_dir.as_ref()].into_iter().flatten() {
        fs::create_dir_all(dir)?;
    }
    println!("| profile | acknowledged after 3 s | retransmitted |");
    println!("|---|---:|---:|");
    for (profile, page) in PAGES {
        let seen = Transfer::new(SenderProfile::named(profile)?).run();
        let kilobytes = seen.acknowledged.last().map_or(0.0, |last| last.1) / 1e3;
        println!("| [{profile}]({page}.md) | {kilobytes:.0} kB | {} |", seen.retransmitted.len());
        let figure = draw(profile, seen);
        let mut manifest = Manifest::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).seed(0);
        manifest.command = "cargo run -p shorthaul-tcp --example profile_plots".to_string();
        fs::write(dir.join(format!("{page}.svg")), figure.to_svg(&manifest))?;
        if let Some(dir) = &png_dir {
            fs::write(dir.join(format!("{page}.png")), figure.to_png(&manifest)?)?;
        }
    }
    Ok(())
}
