//! A small language for what a peer sends and what must come back, in virtual time.
//!
//! One end is a [`Host`]; the other is the script. A segment is written as
//!
//! ```text
//! P. 1:1001(1000) ack 1 win 5000 <mss 1460,sackOK,TS val 5 ecr 7,wscale 3,probes,sack 9:12> [ect0]
//! ```
//!
//! (and `probe1 7`, `probe1ack 7`, `probe2 8`, `probe2ack 8`, `timed 9`, `timedack 9 20000`, `rates`, `rate 2500`)
//! with the flags `S F R P . E W`, sequence numbers counted from each end's SYN, and the ECN field
//! of the IP header in brackets. What an expected segment does not mention may be anything, except
//! flags, sequence numbers and acknowledgment. Times are milliseconds since the script began; our
//! timestamps count the same milliseconds.

use shorthaul_tcp::{Addresses, Connection, ConnectionConfig, ConnectionId, Event, Host, HostConfig};
use shorthaul_testkit::packets::ip;
use shorthaul_types::{FlowKey, PortId, Seed, SeqNum, SeqSpace, Time};
use shorthaul_wire::{
    IcmpError, IcmpErrorKind, Machine, Packet, Payload, ProbeOption, RateOption, SackBlock, TcpFlags,
    TcpHeader, TcpSegment, Timestamps, Transport, TxBatch,
};
use std::collections::VecDeque;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER_PORT: u16 = 4000;
pub const PORT: u16 = 80;
/// The peer's first sequence number: its numbers wrap within the first bytes.
const PEER_ISN: SeqNum = SeqNum(0xffff_fff0);

const FLAGS: [(char, TcpFlags); 7] = [
    ('S', TcpFlags::SYN),
    ('F', TcpFlags::FIN),
    ('R', TcpFlags::RST),
    ('P', TcpFlags::PSH),
    ('.', TcpFlags::ACK),
    ('E', TcpFlags::ECE),
    ('W', TcpFlags::CWR),
];

/// A segment as it is written.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line {
    flags: u16,
    seq: i64,
    len: usize,
    ack: Option<i64>,
    win: Option<u16>,
    mss: Option<u16>,
    sack_ok: Option<bool>,
    timestamps: Option<(i64, i64)>,
    wscale: Option<u8>,
    sack: Option<Vec<(i64, i64)>>,
    ecn: Option<u8>,
    probe: Option<ProbeOption>,
    rate: Option<RateOption>,
}

fn number<T: std::str::FromStr>(text: &str, line: &str) -> T {
    text.trim().parse().unwrap_or_else(|_| panic!("`{text}` is no number in `{line}`"))
}

impl Line {
    fn parse(text: &str) -> Line {
        let mut line = Line::default();
        let mut rest = text.to_string();
        if let Some(at) = rest.find('[') {
            line.ecn = Some(match rest[at..].trim() {
                "[noecn]" => 0,
                "[ect0]" => 2,
                "[ce]" => 3,
                other => panic!("`{other}` is no ECN field in `{text}`"),
            });
            rest.truncate(at);
        }
        if let Some(at) = rest.find('<') {
            let options = rest[at + 1..].trim().trim_end_matches('>').to_string();
            rest.truncate(at);
            line.parse_options(&options, text);
        }
        let words: Vec<&str> = rest.split_whitespace().collect();
        for letter in words[0].chars() {
            let flag = FLAGS.iter().find(|(l, _)| *l == letter);
            line.flags |= flag.unwrap_or_else(|| panic!("`{letter}` is no flag in `{text}`")).1.0;
        }
        let (seq, after) = words[1].split_once(':').unwrap_or_else(|| panic!("no range in `{text}`"));
        let (end, len) = after.split_once('(').unwrap_or_else(|| panic!("no length in `{text}`"));
        line.seq = number(seq, text);
        line.len = number(len.trim_end_matches(')'), text);
        let end: i64 = number(end, text);
        assert_eq!(end, line.seq + line.len as i64, "the range does not fit the length in `{text}`");
        for pair in words[2..].chunks(2) {
            match pair {
                ["ack", n] => line.ack = Some(number(n, text)),
                ["win", n] => line.win = Some(number(n, text)),
                other => panic!("`{other:?}` is unknown in `{text}`"),
            }
        }
        line
    }

    fn parse_options(&mut self, options: &str, text: &str) {
        self.sack_ok = Some(false);
        for option in options.split(',').filter(|option| !option.is_empty()) {
            match option.split_whitespace().collect::<Vec<_>>()[..] {
                ["mss", n] => self.mss = Some(number(n, text)),
                ["wscale", n] => self.wscale = Some(number(n, text)),
                ["sackOK"] => self.sack_ok = Some(true),
                ["probes"] => self.probe = Some(ProbeOption::Offered),
                ["rates"] => self.rate = Some(RateOption::Offered),
                ["rate", n] => self.rate = Some(RateOption::BytesPerSecond(number(n, text))),
                ["probe1", n] => self.probe = Some(ProbeOption::Probe1(number(n, text))),
                ["probe1ack", n] => self.probe = Some(ProbeOption::Probe1Ack(number(n, text))),
                ["probe2", n] => self.probe = Some(ProbeOption::Probe2(number(n, text))),
                ["probe2ack", n] => self.probe = Some(ProbeOption::Probe2Ack(number(n, text))),
                ["timed", n] => self.probe = Some(ProbeOption::Timed(number(n, text))),
                ["timedack", n, at] => {
                    let (number, arrived) = (number(n, text), number(at, text));
                    self.probe = Some(ProbeOption::TimedAck { number, arrived });
                }
                ["TS", "val", val, "ecr", ecr] => {
                    self.timestamps = Some((number(val, text), number(ecr, text)));
                }
                ["sack", ref blocks @ ..] => {
                    let block = |block: &&str| {
                        let (left, right) = block.split_once(':').unwrap();
                        (number(left, text), number(right, text))
                    };
                    self.sack = Some(blocks.iter().map(block).collect());
                }
                ref other => panic!("`{other:?}` is no option in `{text}`"),
            }
        }
    }

    /// Whether a segment is what this line asks for. An option list, where there is one, is whole.
    fn admits(&self, actual: &Line) -> bool {
        let listed = self.sack_ok.is_some();
        self.flags == actual.flags
            && self.seq == actual.seq
            && self.len == actual.len
            && self.ack.unwrap_or(0) == actual.ack.unwrap_or(0)
            && (self.win.is_none() || self.win == actual.win)
            && (self.ecn.is_none() || self.ecn == actual.ecn)
            && (!listed
                || (self.mss == actual.mss
                    && self.sack_ok == actual.sack_ok
                    && self.timestamps == actual.timestamps
                    && self.wscale == actual.wscale
                    && self.probe == actual.probe
                    && self.rate == actual.rate
                    && self.sack.as_deref().unwrap_or(&[]) == actual.sack.as_deref().unwrap_or(&[])))
    }

    fn show(&self) -> String {
        let mut out = String::new();
        for (letter, flag) in FLAGS {
            if self.flags & flag.0 != 0 {
                out.push(letter);
            }
        }
        let _ = write!(out, " {}:{}({})", self.seq, self.seq + self.len as i64, self.len);
        if let Some(ack) = self.ack {
            let _ = write!(out, " ack {ack}");
        }
        if let Some(win) = self.win {
            let _ = write!(out, " win {win}");
        }
        let mut options = Vec::new();
        options.extend(self.mss.map(|mss| format!("mss {mss}")));
        options.extend((self.sack_ok == Some(true)).then(|| "sackOK".to_string()));
        options.extend(self.timestamps.map(|(val, ecr)| format!("TS val {val} ecr {ecr}")));
        options.extend(self.wscale.map(|shift| format!("wscale {shift}")));
        options.extend(self.probe.map(|probe| format!("{probe:?}")));
        options.extend(self.rate.map(|rate| format!("{rate:?}")));
        if let Some(blocks) = self.sack.as_ref().filter(|blocks| !blocks.is_empty()) {
            let blocks: Vec<String> = blocks.iter().map(|(l, r)| format!("{l}:{r}")).collect();
            options.push(format!("sack {}", blocks.join(" ")));
        }
        let _ = write!(out, " <{}>", options.join(","));
        out.push_str(match self.ecn {
            Some(2) => " [ect0]",
            Some(3) => " [ce]",
            _ => "",
        });
        out
    }
}

/// A host, and the script as its peer.
pub struct Script {
    pub host: Host,
    start: Time,
    now: Time,
    id: Option<ConnectionId>,
    /// The port of our end, once known.
    port: u16,
    own: Option<SeqSpace>,
    clock: Option<u32>,
    /// What left and was not yet looked at, with its time.
    left: VecDeque<(Time, Line)>,
    events: VecDeque<Event>,
    log: Vec<String>,
}

impl Script {
    fn new() -> Script {
        let start = Time::from_secs(1_000);
        Script {
            host: Host::new(HostConfig::new(US.into(), Seed(1))),
            start,
            now: start,
            id: None,
            port: PORT,
            own: None,
            clock: None,
            left: VecDeque::new(),
            events: VecDeque::new(),
            log: Vec::new(),
        }
    }

    /// A host that listens.
    pub fn listening(config: ConnectionConfig) -> Script {
        let mut script = Script::new();
        script.host.listen(PORT, config);
        script
    }

    /// A host that connects to the script; its SYN is on the way.
    pub fn connecting(config: ConnectionConfig) -> Script {
        let mut script = Script::new();
        script.port = 5000;
        let path = Addresses {
            local: SocketAddr::new(US.into(), 5000),
            remote: SocketAddr::new(PEER.into(), PEER_PORT),
        };
        script.id = Some(script.host.connect(script.now, path, config).unwrap());
        script.poll();
        script
    }

    /// An established connection that the script opened, without options but for an MSS of 1000
    /// bytes, and with a window of 65535 bytes.
    pub fn established(config: ConnectionConfig) -> Script {
        Script::established_with(config, "mss 1000", "")
    }

    /// An established connection whose SYN has these options; `echo` stands in the third segment.
    pub fn established_with(config: ConnectionConfig, syn: &str, echo: &str) -> Script {
        let mut script = Script::listening(config);
        script.inject(&format!("S 0:0(0) win 65535 <{syn}>"));
        script.expect("S. 0:0(0) ack 1");
        script.at(20);
        let options = if echo.is_empty() { String::new() } else { format!("<{echo}>") };
        script.inject(&format!(". 1:1(0) ack 1 win 65535 {options}"));
        script.quiet();
        script.event(Event::Connected);
        script
    }

    fn fail(&self, message: &str) -> ! {
        panic!("{message}\nthe script so far:\n{}", self.log.join("\n"))
    }

    fn millis(&self, at: Time) -> u64 {
        at.saturating_since(self.start).as_millis() as u64
    }

    fn note(&mut self, what: &str) {
        let line = format!("{:>8} {what}", self.millis(self.now));
        self.log.push(line);
    }

    /// Lets the host send what it can now.
    fn poll(&mut self) {
        let mut batch = TxBatch::new();
        loop {
            let more = self.host.poll_transmit(self.now, &mut batch);
            while let Some(id) = self.host.poll_accept() {
                self.id = Some(id);
            }
            let mut heard = false;
            while let Some((_, event)) = self.host.poll_event() {
                heard = true;
                self.events.push_back(event);
                self.note(&format!("event {event:?}"));
            }
            if !more && !heard {
                break;
            }
        }
        for (_, packet) in batch {
            let line = self.read(&packet);
            self.note(&format!("< {}", line.show()));
            self.left.push_back((self.now, line));
        }
    }

    fn read(&mut self, packet: &Packet) -> Line {
        let segment = packet.as_tcp().expect("a TCP segment");
        let header = &segment.header;
        if header.flags.contains(TcpFlags::SYN) {
            self.own = Some(SeqSpace::new(header.seq));
        }
        let own = self.own.unwrap_or(SeqSpace::new(SeqNum(0)));
        let relative = |space: SeqSpace, seq: SeqNum| i64::from(seq.diff(space.seq(0)));
        let theirs = SeqSpace::new(PEER_ISN);
        let millis = self.millis(self.now) as u32;
        let options = &header.options;
        let timestamps = options.timestamps.map(|ts| {
            let clock = *self.clock.get_or_insert(ts.val.wrapping_sub(millis));
            (i64::from(ts.val.wrapping_sub(clock)), i64::from(ts.ecr))
        });
        Line {
            flags: header.flags.0,
            // The reset that answers a segment without acknowledgment has no number of anybody.
            seq: if header.seq == SeqNum(0) { 0 } else { relative(own, header.seq) },
            len: segment.payload.len(),
            ack: header.flags.contains(TcpFlags::ACK).then(|| relative(theirs, header.ack)),
            win: Some(header.window),
            mss: options.mss,
            sack_ok: Some(options.sack_permitted),
            timestamps,
            wscale: options.window_scale,
            sack: Some(
                options.sack.iter().map(|b| (relative(theirs, b.left), relative(theirs, b.right))).collect(),
            ),
            ecn: Some(packet.ip.ecn()),
            probe: ProbeOption::find(&options.unknown),
            rate: RateOption::find(&options.unknown),
        }
    }

    /// The peer sends a segment now.
    pub fn inject(&mut self, text: &str) -> &mut Self {
        self.note(&format!("> {text}"));
        let line = Line::parse(text);
        let own = self.own.unwrap_or(SeqSpace::new(SeqNum(0)));
        let theirs = SeqSpace::new(PEER_ISN);
        let (from, to) = (PEER_PORT, self.port);
        let mut header = TcpHeader {
            src_port: from,
            dst_port: to,
            seq: theirs.seq(0) + line.seq as u32,
            ack: line.ack.map_or(SeqNum(0), |ack| own.seq(0) + ack as u32),
            flags: TcpFlags(line.flags),
            window: line.win.unwrap_or(65_535),
            ..TcpHeader::default()
        };
        header.options.mss = line.mss;
        header.options.unknown = line.probe.map(ProbeOption::to_options).unwrap_or_default();
        header.options.unknown.extend(line.rate.map(RateOption::to_options).unwrap_or_default());
        header.options.window_scale = line.wscale;
        header.options.sack_permitted = line.sack_ok == Some(true);
        header.options.timestamps = line.timestamps.map(|(val, ecr)| Timestamps {
            val: val as u32,
            ecr: (ecr as u32).wrapping_add(self.clock.unwrap_or(0)),
        });
        for (left, right) in line.sack.unwrap_or_default() {
            let block = SackBlock { left: own.seq(0) + left as u32, right: own.seq(0) + right as u32 };
            header.options.sack.push(block);
        }
        let bytes: Vec<u8> = (0..line.len).map(|i| (line.seq as usize + i) as u8).collect();
        let payload = Payload::copy_of(&bytes).into();
        let mut ip = ip(PEER, US);
        ip.set_ecn(line.ecn.unwrap_or(0));
        let packet = Packet::tcp(ip, TcpSegment { header, payload, gso_size: None });
        self.host.handle_packet(self.now, PortId(0), packet);
        self.poll();
        self
    }

    /// The network reports an error about the segment of ours that began at `seq`.
    pub fn inject_icmp(&mut self, seq: u64, kind: IcmpErrorKind) -> &mut Self {
        self.note(&format!("> ICMP {kind:?} about {seq}"));
        let flow = FlowKey {
            src: SocketAddr::new(US.into(), self.port),
            dst: SocketAddr::new(PEER.into(), PEER_PORT),
        };
        let seq = self.own.expect("nothing was sent yet").seq(seq);
        let error = IcmpError { kind, flow, seq, message: Payload::copy_of(&[]) };
        let packet = Packet {
            ip: ip(Ipv4Addr::new(10, 0, 0, 254), US),
            transport: Transport::IcmpError(error),
            original: None,
        };
        self.host.handle_packet(self.now, PortId(0), packet);
        self.poll();
        self
    }

    /// This segment left just now.
    pub fn expect(&mut self, text: &str) -> &mut Self {
        self.note(&format!("= {text}"));
        let Some((at, actual)) = self.left.pop_front() else {
            self.fail(&format!("nothing left where `{text}` was expected"));
        };
        if at != self.now {
            self.fail(&format!("`{}` left at {} ms, and nobody looked", actual.show(), self.millis(at)));
        }
        if !Line::parse(text).admits(&actual) {
            self.fail(&format!("expected `{text}`\n    left `{}`", actual.show()));
        }
        self
    }

    /// Nothing leaves until then, and then this segment does.
    pub fn expect_at(&mut self, millis: u64, text: &str) -> &mut Self {
        self.at(millis).expect(text)
    }

    /// Nothing else left.
    pub fn quiet(&mut self) -> &mut Self {
        if let Some((at, line)) = self.left.front() {
            self.fail(&format!("`{}` left at {} ms, unexpected", line.show(), self.millis(*at)));
        }
        self
    }

    /// Nothing leaves until then.
    pub fn quiet_until(&mut self, millis: u64) -> &mut Self {
        self.at(millis).quiet()
    }

    /// Time goes on until `millis`; the host's timers fire. What leaves must be looked at before.
    pub fn at(&mut self, millis: u64) -> &mut Self {
        let end = self.start + Duration::from_millis(millis);
        assert!(end >= self.now, "time does not go back to {millis} ms");
        for _ in 0..100_000 {
            match self.host.poll_timeout().map(|deadline| deadline.at.max(self.now)) {
                Some(at) if at <= end => {
                    self.now = at;
                    self.host.handle_timeout(at);
                    self.poll();
                    if at < end {
                        self.quiet();
                    }
                }
                _ => {
                    self.now = end;
                    return self;
                }
            }
        }
        self.fail("the host asks to be called again and again")
    }

    /// The next thing that the owner hears is this.
    pub fn event(&mut self, event: Event) -> &mut Self {
        match self.events.pop_front() {
            Some(heard) if heard == event => self,
            heard => self.fail(&format!("expected the event {event:?}, heard {heard:?}")),
        }
    }

    /// The owner hears of nothing more.
    pub fn no_event(&mut self) -> &mut Self {
        match self.events.pop_front() {
            None => self,
            Some(heard) => self.fail(&format!("unexpected event {heard:?}")),
        }
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        let connection = self.id.and_then(|id| self.host.connection(id));
        connection.unwrap_or_else(|| self.fail("there is no connection"))
    }

    /// The sequence number of our SYN.
    pub fn own_isn(&self) -> SeqNum {
        self.own.expect("nothing was sent yet").seq(0)
    }

    /// Whether the host still knows the connection.
    pub fn is_forgotten(&self) -> bool {
        self.id.and_then(|id| self.host.connection(id)).is_none()
    }

    fn with(&mut self, what: &str, call: impl FnOnce(&mut Connection, Time)) -> &mut Self {
        self.note(what);
        let now = self.now;
        let Some(connection) = self.id.and_then(|id| self.host.connection_mut(id)) else {
            self.fail("there is no connection");
        };
        call(connection, now);
        self.poll();
        self
    }

    /// The owner writes `len` bytes.
    pub fn write(&mut self, len: usize) -> &mut Self {
        self.with(&format!("write {len}"), |connection, _| {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            connection.write(Payload::copy_of(&bytes));
        })
    }

    /// The owner writes this many segments of 1000 bytes, one by one, and they leave.
    pub fn write_segments(&mut self, count: u64) -> &mut Self {
        for _ in 0..count {
            self.write(1_000);
        }
        assert_eq!(self.take().len() as u64, count);
        self
    }

    /// The owner reads up to `max` bytes.
    pub fn read_up_to(&mut self, max: usize) -> &mut Self {
        self.with(&format!("read {max}"), |connection, now| {
            let mut left = max;
            while left > 0 {
                let list = connection.read(now, left);
                if list.is_empty() {
                    break;
                }
                left -= list.len();
            }
        })
    }

    /// The owner closes.
    pub fn close(&mut self) -> &mut Self {
        self.with("close", |connection, now| connection.close(now))
    }

    /// The owner aborts.
    pub fn abort(&mut self) -> &mut Self {
        self.with("abort", |connection, now| connection.abort(now))
    }

    /// Takes everything that the owner has heard.
    pub fn drain_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events).into()
    }

    /// Whether there ever was a connection.
    pub fn had_connection(&self) -> bool {
        let stats = self.host.stats();
        stats.accepted + stats.connected > 0
    }

    /// The next timer of the connection fires, if it has one.
    pub fn next_timer(&mut self) -> &mut Self {
        let connection = self.host.connections().next().map(|(_, connection)| connection);
        if let Some(deadline) = connection.and_then(|connection| connection.poll_timeout()) {
            self.now = deadline.at.max(self.now);
            self.host.handle_timeout(self.now);
            self.poll();
        }
        self
    }

    /// Calls a connection that is not yet accepted.
    pub fn on_unaccepted(&mut self, call: impl FnOnce(&mut Connection, Time)) -> &mut Self {
        self.id = self.host.connections().next().map(|(id, _)| id);
        self.with("call", call)
    }

    /// Takes everything that has left, as text, for tables.
    pub fn take(&mut self) -> Vec<String> {
        let left = std::mem::take(&mut self.left);
        let short = |line: &Line| line.show().split(" win").next().unwrap_or_default().to_string();
        left.iter().map(|(_, line)| short(line)).collect()
    }

    /// Time goes on until `millis`, whatever leaves.
    pub fn pass(&mut self, millis: u64) -> &mut Self {
        let end = self.start + Duration::from_millis(millis);
        for _ in 0..100_000 {
            match self.host.poll_timeout().map(|deadline| deadline.at.max(self.now)) {
                Some(at) if at <= end => {
                    self.now = at;
                    self.host.handle_timeout(at);
                    self.poll();
                }
                _ => {
                    self.now = end;
                    return self;
                }
            }
        }
        self.fail("the host asks to be called again and again")
    }
}
