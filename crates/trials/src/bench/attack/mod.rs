//! Attacks on a gateway with packets that no kernel sends, and what others notice of them.
mod attacker;
mod others;

use crate::error::{Result, TrialError};
use crate::trial::{Judgement, Trial};
use attacker::{Attack, Attacker, Targets, lead};
use others::{SlowStream, load_page, serve};
use serde_json::{Value, json};
use shorthaul_dataplane::Config;
use shorthaul_lab::{GatewayProcess, Lab, Privilege, Topology};
use shorthaul_observe::Summary;
use shorthaul_os::ProcessorTime;
use shorthaul_proxy::GatewayMode;
use shorthaul_report::{Column, Console, Progress, Table, TableCell, Tone, Unit};
use shorthaul_types::{Bytes, Seed};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Page times of others may grow by this.
const SLOWER: f64 = 1.2;
/// Of these, what others keep open all the while.
const STREAMS: usize = 6;
/// A flow takes this much memory beside what is held of it, at most: its entry, its two directions, its host.
const OF_A_FLOW: u64 = 8 << 10;
/// What allocators and the journal take beyond that.
const BESIDE: u64 = 16 << 20;

/// Attack a gateway with raw packets, and see what others notice: of a flood of SYNs, readers that never read, SACKs by the byte,
/// fragments, IP options, forgeries, a storm of acknowledgments; of acknowledgments of what did not come, in pieces, and taken back
///
/// A host on the access side attacks; another one loads pages there and keeps connections open. Undisturbed and attacked by turns.
/// It holds if pages take no more than 1.2 times as long (by the interval of the pairs), no connection of others breaks, those that
/// they open are split throughout, and the gateway stays within its memory and its table. Needs root, or a host that allows user
/// namespaces. The last line is the result as JSON.
#[derive(clap::Args)]
pub struct AttackBench {
    /// The attacks, by parts of their names; all if none is said
    #[arg(value_name = "ATTACK")]
    attacks: Vec<String>,
    /// Pairs of turns of each attack
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=100))]
    turns: u32,
    /// How long a turn is
    #[arg(long, alias = "turn", value_name = "TIME", default_value = "2 s", value_parser = shorthaul_types::parse_duration)]
    time: Duration,
    /// The gateway's mode: auto or split
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: GatewayMode,
    /// The gateway's memory
    #[arg(long, value_name = "SIZE", default_value = "32 MiB")]
    memory: Bytes,
    /// The most flows that it knows
    #[arg(long, value_name = "NUMBER", default_value_t = 8_192)]
    max_flows: usize,
    /// Seed of what is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What was seen in a turn.
#[derive(Default)]
struct Turn {
    /// Page times in seconds.
    pages: Vec<f64>,
    /// Pages that did not come.
    failed: usize,
    /// Pages that were looked at, and what those were whose connection was not split.
    looked: usize,
    whole: Vec<String>,
    /// The most flows that were known, and the most memory in KiB.
    flows: usize,
    resident_kib: u64,
    steal: f64,
    waited: Duration,
}

/// An attack, with what was seen.
struct Seen {
    attack: Attack,
    sent: u64,
    /// Without it and with it, by turns.
    turns: Vec<[Turn; 2]>,
}

impl Seen {
    /// The median page time of a turn with it as a share of that of the turn before, in the mean, and half of the interval of that.
    fn ratio(&self) -> Option<(f64, f64)> {
        let median = |turn: &Turn| Some(Summary::of(turn.pages.iter().copied())?.percentile(0.5));
        let ratios = self.turns.iter().filter_map(|[quiet, loud]| Some(median(loud)? / median(quiet)?));
        let summary = Summary::of(ratios)?;
        Some((summary.mean, summary.confidence()?))
    }

    fn sum(&self, which: usize, of: impl Fn(&Turn) -> usize) -> usize {
        self.turns.iter().map(|turns| of(&turns[which])).sum()
    }

    fn most(&self, of: impl Fn(&Turn) -> u64) -> u64 {
        self.turns.iter().flatten().map(of).max().unwrap_or(0)
    }

    /// What is wrong, if anything is for certain; and whether something is open.
    fn verdict(&self, bench: &AttackBench, resident_before: u64) -> (Option<String>, bool) {
        let fault = |text: String| (Some(format!("{}: {text}", self.attack.name())), false);
        let failed = self.sum(1, |turn| turn.failed);
        if failed > 0 {
            return fault(format!("{failed} pages of others did not come"));
        }
        // 2 % of the flows are a control group in mode auto.
        let (looked, whole) = (self.sum(1, |turn| turn.looked), self.sum(1, |turn| turn.whole.len()));
        if whole * 5 > looked {
            return fault(format!("{whole} of {looked} connections of others were not split"));
        }
        let flows = self.most(|turn| turn.flows as u64);
        if flows > bench.max_flows as u64 {
            return fault(format!("{flows} flows in a table of {}", bench.max_flows));
        }
        let resident = self.most(|turn| turn.resident_kib) << 10;
        let allowed = resident_before + bench.memory.0 + OF_A_FLOW * bench.max_flows as u64 + BESIDE;
        if resident > allowed {
            return fault(format!("{} resident, of {}", Bytes(resident), Bytes(allowed)));
        }
        match self.ratio() {
            Some((ratio, within)) if ratio - within > SLOWER => {
                fault(format!("pages took {ratio:.2} ± {within:.2} times as long"))
            }
            Some((ratio, within)) => (None, ratio + within > SLOWER),
            None => fault("no pages came".into()),
        }
    }
}

impl Trial for AttackBench {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        let attacks: Vec<Attack> = Attack::ALL
            .into_iter()
            .filter(|attack| {
                self.attacks.is_empty()
                    || self.attacks.iter().any(|part| attack.name().contains(part.as_str()))
            })
            .collect();
        if attacks.is_empty() {
            let names = Attack::ALL.map(Attack::name).join(", ");
            return Err(TrialError::asked(format!("there is no such attack; there are {names}")));
        }
        let text = "[hosts.client]\n[hosts.attacker]\nforward = true\n[hosts.gateway]\n[hosts.server]\n\
             [[links]]\nbetween = [\"client\", \"gateway\"]\nlink = { rate = \"50 Mbit/s\", delay = \"10 ms\" }\n\
             [[links]]\nbetween = [\"attacker\", \"gateway\"]\nlink = { rate = \"50 Mbit/s\", delay = \"10 ms\" }\n\
             [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = { rate = \"1 Gbit/s\", delay = \"2 ms\" }\n";
        let mut topology = Topology::from_toml("attack", text)?;
        topology.seed = Seed(self.seed);
        let lab = Lab::start(&topology)?;
        let (client, attacker, server) = (lab.host("client"), lab.host("attacker"), lab.host("server"));
        let gateway_host = lab.host("gateway");
        lead(gateway_host, [attacker.address_v4().into(), attacker.address_v6().into()])?;
        let uplink = gateway_host.interfaces().iter().find(|interface| interface.name == "to-server");
        let uplink =
            uplink.ok_or_else(|| TrialError::Failed("the gateway has no link to the server".into()))?;
        lead(server, [uplink.v4.addr().into(), uplink.v6.addr().into()])?;
        let mut config = Config {
            access: vec!["to-client".into(), "to-attacker".into()],
            wan: vec!["to-server".into()],
            mode: Some(self.mode),
            ..Config::default()
        };
        config.memory.total = self.memory;
        config.memory.max_flows = self.max_flows;
        let gateway = GatewayProcess::start(gateway_host, config)?;
        let v4 = server.run(|| TcpListener::bind((server.address_v4(), 0)))?;
        let v6 = server.run(|| TcpListener::bind((server.address_v6(), 0)))?;
        let servers = [v4.local_addr()?, v6.local_addr()?];
        // They wait until somebody accepts them.
        let streams = (0..STREAMS)
            .map(|number| client.run(|| SlowStream::open(servers[number % 2])))
            .collect::<std::io::Result<Vec<_>>>()?;
        let connections = streams.iter().map(SlowStream::ends).collect::<std::io::Result<Vec<_>>>()?;
        let mut attacker_side = Attacker::new(attacker, Targets { servers, connections }, Seed(self.seed))?;
        let stop = AtomicBool::new(false);
        let (seen, faults, before) = std::thread::scope(|scope| -> Result<_> {
            for listener in [&v4, &v6] {
                let stop = &stop;
                scope.spawn(move || serve(listener, stop));
            }
            let result = (|| -> Result<_> {
                let reading: Vec<_> = streams
                    .iter()
                    .map(|stream| {
                        let stop = &stop;
                        std::thread::Builder::new().spawn_scoped(scope, move || stream.read(stop))
                    })
                    .collect::<std::io::Result<_>>()?;
                // The first pages find out what the path is like.
                std::thread::sleep(Duration::from_secs(1));
                let before = gateway.usage().resident_kib << 10;
                let mut seen = Vec::new();
                let progress = Progress::begin(console, attacks.len());
                for attack in attacks {
                    let sent = attacker_side.sent;
                    let mut turns = Vec::new();
                    for _ in 0..self.turns {
                        let quiet = self.turn(&lab, &gateway, servers, None);
                        let loud = self.turn(&lab, &gateway, servers, Some((attack, &mut attacker_side)));
                        turns.push([quiet, loud]);
                    }
                    seen.push(Seen { attack, sent: attacker_side.sent - sent, turns });
                    progress.step(attack.name());
                }
                stop.store(true, Ordering::Relaxed);
                let faults: Vec<String> = reading
                    .into_iter()
                    .filter_map(|reader| match reader.join() {
                        Ok(Ok(())) => None,
                        Ok(Err(error)) => Some(error.to_string()),
                        Err(_) => Some("panicked".into()),
                    })
                    .collect();
                Ok((seen, faults, before))
            })();
            stop.store(true, Ordering::Relaxed);
            // Whoever waits for a connection sees that all is over.
            for address in servers {
                let _ = client.run(|| std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1)));
            }
            result
        })?;
        Ok(self.judge(console, &seen, &faults, before))
    }
}

impl AttackBench {
    /// A turn: pages are loaded one after the other, while somebody attacks or nobody does.
    fn turn(
        &self,
        lab: &Lab,
        gateway: &GatewayProcess,
        servers: [SocketAddr; 2],
        attack: Option<(Attack, &mut Attacker)>,
    ) -> Turn {
        let until = Instant::now() + self.time;
        let before = (ProcessorTime::now(), gateway.waited());
        let mut turn = std::thread::scope(|scope| {
            if let Some((attack, attacker)) = attack {
                let host = lab.host("attacker");
                scope.spawn(move || host.run(|| attacker.attack(attack, until)));
            }
            lab.host("client").run(|| load_pages(gateway, servers, until))
        });
        turn.steal = before.0.zip(ProcessorTime::now()).map_or(0.0, |(then, now)| then.stolen_until(&now));
        turn.waited = gateway.waited().saturating_sub(before.1);
        turn.resident_kib = gateway.usage().resident_kib;
        turn
    }

    fn judge(&self, console: &dyn Console, seen: &[Seen], faults: &[String], before: u64) -> Judgement {
        let mut table = Table::new([
            Column::left("attack"),
            Column::right("packets"),
            Column::right("page before"),
            Column::right("times as long"),
            Column::right("not split"),
            Column::right("failed"),
            Column::right("flows"),
            Column::right("resident"),
            Column::right("gateway waited"),
            Column::right("steal"),
        ]);
        let (mut failure, mut open) = (None, false);
        let mut rows: Vec<Value> = Vec::new();
        for one in seen {
            let (fault, is_open) = one.verdict(self, before);
            let tone = match (&fault, is_open) {
                (Some(_), _) => Tone::Bad,
                (None, true) => Tone::Plain,
                (None, false) => Tone::Good,
            };
            let (ratio, within) = one.ratio().unwrap_or((f64::NAN, f64::NAN));
            let pages = one.turns.iter().flat_map(|[quiet, _]| quiet.pages.iter().copied());
            let page = Summary::of(pages).map_or(f64::NAN, |summary| summary.percentile(0.5));
            let (looked, whole) = (one.sum(1, |turn| turn.looked), one.sum(1, |turn| turn.whole.len()));
            let failed = one.sum(1, |turn| turn.failed);
            let flows = one.most(|turn| turn.flows as u64);
            let resident = one.most(|turn| turn.resident_kib) << 10;
            let steal = one.turns.iter().flatten().map(|turn| turn.steal).fold(0.0, f64::max);
            let waited = one.most(|turn| turn.waited.as_micros() as u64) as f64 / 1e6;
            table.row([
                TableCell::from(one.attack.name()),
                one.sent.to_string().into(),
                Unit::Seconds.format(page).into(),
                TableCell::toned(format!("{ratio:.2} ± {within:.2}"), tone),
                format!("{whole} of {looked}").into(),
                failed.to_string().into(),
                flows.to_string().into(),
                Bytes(resident).to_string().into(),
                Unit::Seconds.format(waited).into(),
                format!("{:.0} %", steal * 100.0).into(),
            ]);
            rows.push(json!({
                "attack": one.attack.name(), "packets": one.sent, "page_s": page, "ratio": ratio, "within": within,
                "looked_at": looked, "not_split": whole, "failed": failed, "flows": flows,
                "instead_of_split": one.turns.iter().flat_map(|[_, loud]| loud.whole.iter()).collect::<Vec<_>>(), "resident": resident,
                "gateway_waited_s": waited, "steal": steal,
            }));
            open |= is_open;
            failure = failure.or(fault);
        }
        console.table(&table);
        console.say(&format!(
            "{} of {STREAMS} connections of others broken; {} resident before",
            faults.len(),
            Bytes(before)
        ));
        if let Some(fault) = faults.first() {
            failure = Some(format!("{} connections of others broke: {fault}", faults.len()));
        }
        let json = json!({
            "bench": "attack", "turns": self.turns, "turn_s": self.time.as_secs_f64(), "memory": self.memory.0,
            "max_flows": self.max_flows, "resident_before": before, "broken": faults.len(), "attacks": rows,
        });
        let doubt = open.then(|| format!("an interval reaches beyond {SLOWER}: more --turns would tell"));
        Judgement { doubt: doubt.filter(|_| failure.is_none()), ..Judgement::holds(json).unless(failure) }
    }
}

fn load_pages(gateway: &GatewayProcess, servers: [SocketAddr; 2], until: Instant) -> Turn {
    let mut turn = Turn::default();
    for number in 0.. {
        if Instant::now() >= until {
            break;
        }
        let mut own = None;
        // To look takes the gateway's time, and ours: those pages do not count.
        let looks = number % 7 == 1;
        let page = load_page(servers[number % 2], |address| {
            if looks {
                own = gateway.flows().map(|flows| (address, flows));
            }
        });
        match page {
            Ok(took) if !looks => turn.pages.push(took.as_secs_f64()),
            Ok(_) => {}
            Err(_) => turn.failed += 1,
        }
        let Some((address, flows)) = own else { continue };
        let flows = flows.as_array().cloned().unwrap_or_default();
        turn.flows = turn.flows.max(flows.len());
        let of = |flow: &&Value| flow["client"] == address.to_string();
        turn.looked += 1;
        match flows.iter().find(of) {
            Some(flow) if !flow["to_client"].is_null() => {} // it may be closing
            found => {
                let state = found.and_then(|flow| flow["state"].as_str()).unwrap_or("unknown");
                turn.whole.push(state.to_owned());
            }
        }
    }
    turn
}
