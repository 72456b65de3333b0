//! Attacks on a node that one leaves running on the open internet, and what others notice of them.
//!
//! Reading order: `attacker` (what is done), `names` (its server of names), `others` (whose set-up is timed).
mod attacker;
mod names;
mod others;

use crate::error::{Result, TrialError, While};
use crate::trial::{Judgement, Trial, select};
use attacker::{Attack, Attacker, NETWORK, Targets};
use others::User;
use serde_json::{Value, json};
use shorthaul_lab::{Child, Lab, Privilege, Ready, Topology};
use shorthaul_observe::Summary;
use shorthaul_os::netlink::{NextHop, Route, interface_index};
use shorthaul_os::{Netlink, ProcessorTime};
use shorthaul_relay::{Endpoint, NetworkSecret};
use shorthaul_report::{Column, Console, Progress, Table, TableCell, Tone, Unit};
use shorthaul_types::{Bytes, Seed};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Set-up times of others may grow by this, at the 99th percentile.
const SLOWER: f64 = 1.5;
/// An interval that is no wider than this is narrow enough.
const NARROW: f64 = 0.4;
/// After an attack, what it left behind is over so much later.
const REST: Duration = Duration::from_millis(500);
/// The others.
const USERS: usize = 2;
/// What the node may reserve for sessions, and store, all together.
const ALL: Bytes = Bytes(64 << 20);
/// What allocators take beyond that, and connections of strangers: of a /48 no more than 256.
const BESIDE: u64 = 32 << 20;
/// The sessions of those whose address is enough, and descriptors beside them: strangers, pipes, what is connected ahead.
const SESSIONS: u64 = 256;
const DESCRIPTORS: usize = 2 * SESSIONS as usize + 2_048;
/// An address of the node that is none of a private range.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(11, 22, 33, 44);
/// The ports of the node, and of what is for itself alone.
const PORT: u16 = 7080;
const OWN_PORT: u16 = 8022;
/// The kernel's table of addresses that are its own.
const LOCAL_TABLE: u32 = 255;

/// Attack a node of the relay network, and see what others notice: of slow connections, 20,000 of one /48, and what somebody who is let in can do
///
/// The attacker is a host beside the node, with a /48 of its own; others set sessions up over TLS, over 10 ms. Undisturbed and attacked by turns,
/// which of the two comes first by turns, too. Of each pair the 99th percentiles are compared; the middle one of these ratios counts, with an interval that few bad moments
/// of a busy machine cannot move. It holds if their set-up takes no more than 1.5 times as long by that interval, all of it comes about,
/// memory and descriptors stay within their bounds, and nothing is had that must not be. Needs root, or a host that allows user namespaces. The
/// last line is the result as JSON.
#[derive(clap::Args)]
pub struct Siege {
    /// The attacks, by parts of their names; all if none is said
    #[arg(value_name = "ATTACK")]
    attacks: Vec<String>,
    /// Pairs of turns of each attack, at least
    #[arg(long, value_name = "NUMBER", default_value_t = 9, value_parser = clap::value_parser!(u32).range(6..=1000))]
    turns: u32,
    /// Pairs of turns of each attack, at most: there are more than --turns until the interval is no wider than 0.4
    #[arg(long, alias = "most-turns", value_name = "NUMBER", default_value_t = 25, value_parser = clap::value_parser!(u32).range(6..=1000))]
    at_most: u32,
    /// How long a turn is
    #[arg(long, alias = "turn", value_name = "TIME", default_value = "5 s", value_parser = shorthaul_types::parse_duration)]
    time: Duration,
    /// What is drawn: addresses and names
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What was seen in a turn.
#[derive(Default)]
struct Turn {
    /// Set-up times in seconds.
    took: Vec<f64>,
    failed: Vec<String>,
    anonymous_kib: u64,
    descriptors: usize,
    /// How late somebody is who wants to be woken, in seconds at the 99th percentile.
    lateness: f64,
    steal: f64,
}

impl Turn {
    fn p99(&self) -> Option<f64> {
        Some(Summary::of(self.took.iter().copied())?.percentile(0.99))
    }
}

/// An attack, with what was seen.
struct Seen {
    attack: Attack,
    tried: u64,
    had: u64,
    /// Without it and with it, by turns.
    turns: Vec<[Turn; 2]>,
}

/// How many times as long something takes: the middle of what pairs said, and what that is between.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ratio {
    middle: f64,
    /// With 95 % at least.
    within: [f64; 2],
}

impl Ratio {
    /// Nothing, of fewer than six pairs.
    fn of(ratios: impl IntoIterator<Item = f64>) -> Option<Ratio> {
        let summary = Summary::of(ratios)?;
        Some(Ratio { middle: summary.percentile(0.5), within: summary.median_confidence()? })
    }

    fn is_narrow(&self) -> bool {
        self.within[1] - self.within[0] <= NARROW
    }
}

impl Seen {
    /// The 99th percentile of a turn with it as a share of that of the turn beside it without it.
    fn ratio(&self) -> Option<Ratio> {
        let ratio = |[quiet, loud]: &[Turn; 2]| Some(loud.p99()? / quiet.p99()?);
        Ratio::of(self.turns.iter().map(ratio).collect::<Option<Vec<f64>>>()?)
    }

    fn p99(&self, which: usize) -> f64 {
        let all = self.turns.iter().flat_map(|turns| turns[which].took.iter().copied());
        Summary::of(all).map_or(f64::NAN, |summary| summary.percentile(0.99))
    }

    fn most<T: Copy + PartialOrd + Default>(&self, which: usize, of: impl Fn(&Turn) -> T) -> T {
        let all = self.turns.iter().map(|turns| of(&turns[which]));
        all.fold(T::default(), |most, one| if one > most { one } else { most })
    }

    /// What is wrong, if anything is for certain; and whether something is open.
    fn verdict(&self, before: (u64, usize)) -> (Option<String>, bool) {
        let fault = |text: String| (Some(format!("{}: {text}", self.attack.name())), false);
        if self.tried == 0 {
            return fault("nothing was tried".into());
        }
        if self.had > 0 {
            return fault(format!("{} times it had what it must not have", self.had));
        }
        if let Some(why) = self.turns.iter().flatten().flat_map(|turn| &turn.failed).next() {
            return fault(format!("a session of others could not be: {why}"));
        }
        let (anonymous, allowed) =
            (self.most(1, |turn| turn.anonymous_kib) << 10, (before.0 << 10) + ALL.0 + BESIDE);
        if anonymous > allowed {
            return fault(format!("{} of memory, of {}", Bytes(anonymous), Bytes(allowed)));
        }
        let (descriptors, allowed) = (self.most(1, |turn| turn.descriptors), before.1 + DESCRIPTORS);
        if descriptors > allowed {
            return fault(format!("{descriptors} descriptors, of {allowed}"));
        }
        match self.ratio() {
            Some(Ratio { middle, within: [low, high] }) if low > SLOWER => {
                fault(format!("set-up took {middle:.2} times as long ({low:.2} to {high:.2})"))
            }
            Some(ratio) => (None, ratio.within[1] > SLOWER),
            None => fault("in a turn no session of others came about".into()),
        }
    }
}

/// A folder of its own, that vanishes.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The node, and what it takes to start it again.
struct Besieged<'a> {
    lab: &'a Lab,
    folder: &'a Path,
}

impl Besieged<'_> {
    fn start(&self) -> Result<Child> {
        let program = std::env::current_exe().doing("looking for this program")?;
        let mut command = Command::new(program);
        command.args(["node", "--listen", &format!("[::]:{PORT}"), "--allow-store", "--secret"]);
        command.arg(self.folder.join("net.key")).arg("--settings").arg(self.folder.join("users.toml"));
        command.args(["--all-buffers", &format!("{}B", ALL.0), "--all-stored", &format!("{}B", ALL.0)]);
        let ready = Ready::Says("ready".into());
        Ok(Child::start("the node", self.lab.host("node"), &mut command, ready)?)
    }
}

impl Trial for Siege {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        shorthaul_os::limits::raise_descriptor_limit(50_000);
        let attacks = select(Attack::ALL.to_vec(), &self.attacks, |attack| attack.name().to_owned());
        let attacks = attacks.map_err(|_| {
            let names = Attack::ALL.map(Attack::name).join(", ");
            TrialError::asked(format!("there is no such attack; there are {names}"))
        })?;
        let text = "[hosts.others]\n[hosts.attacker]\n[hosts.node]\n[hosts.server]\n\
             [[links]]\nbetween = [\"others\", \"node\"]\nlink = { rate = \"100 Mbit/s\", delay = \"5 ms\" }\n\
             [[links]]\nbetween = [\"attacker\", \"node\"]\nkind = \"veth\"\n\
             [[links]]\nbetween = [\"node\", \"server\"]\nkind = \"veth\"\n";
        let mut topology = Topology::from_toml("siege", text)?;
        topology.seed = Seed(self.seed);
        let lab = Lab::start(&topology)?;
        let folder = std::env::temp_dir().join(format!("shorthaul-siege-{}", std::process::id()));
        std::fs::create_dir_all(&folder).doing("making a folder")?;
        let folder = Folder(folder);
        let stop = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| -> Result<_> {
            let outcome = self.besiege(console, &lab, &folder.0, attacks, scope, &stop);
            stop.store(true, Ordering::Relaxed);
            outcome
        });
        let (seen, before, restart) = seen?;
        Ok(self.judge(console, &seen, before, restart))
    }
}

impl Siege {
    /// What was seen of each attack; memory and descriptors before; and how often a request was good again after a restart.
    fn besiege<'scope>(
        &self,
        console: &dyn Console,
        lab: &'scope Lab,
        folder: &Path,
        attacks: Vec<Attack>,
        scope: &'scope std::thread::Scope<'scope, '_>,
        stop: &'scope AtomicBool,
    ) -> Result<(Vec<Seen>, (u64, usize), u64)> {
        let [others, attacker, node, server] =
            ["others", "attacker", "node", "server"].map(|name| lab.host(name));
        let of = |host: &shorthaul_lab::Host, peer: &str| {
            let link = host.interfaces().iter().find(|one| one.name == format!("to-{peer}"));
            link.cloned().ok_or_else(|| TrialError::failed("a link is missing"))
        };
        let (toward_attacker, toward_others) = (of(node, "attacker")?, of(node, "others")?);
        // The /48 is the attacker's; the node has a public address.
        attacker.run(|| -> std::io::Result<()> {
            let to = NextHop::Local(interface_index("lo")?);
            let network = ipnet::Ipv6Net::new_assert(NETWORK, 48).into();
            Netlink::open()?.add_route(&Route { table: Some(LOCAL_TABLE), ..Route::new(network, to) })
        })?;
        node.run(|| -> std::io::Result<()> {
            let netlink = Netlink::open()?;
            let network = ipnet::Ipv6Net::new_assert(NETWORK, 48).into();
            netlink.add_route(&Route::new(network, NextHop::Router(attacker.address_v6().into())))?;
            netlink.add_address(interface_index("lo")?, ipnet::Ipv4Net::new_assert(PUBLIC, 32).into())
        })?;
        let digits: String =
            (0..4).map(|at| format!("{:016x}", Seed(self.seed).derive("secret").nth(at).0)).collect();
        let token = &digits[..32];
        std::fs::write(folder.join("net.key"), &digits).doing("writing a secret")?;
        let secret = NetworkSecret::read(&folder.join("net.key")).map_err(TrialError::of)?;
        let authority = folder.join("net.pem");
        std::fs::write(&authority, secret.authority_pem().map_err(TrialError::of)?).doing("writing")?;
        let settings = format!(
            "allow = [\"{}/32\"]\nallow_destinations = [\"{}/32\"]\nothers = {{ sessions = {SESSIONS} }}\n\
             [users.alice]\ntoken = \"{token}\"\n",
            attacker.address_v4(),
            server.address_v4()
        );
        std::fs::write(folder.join("users.toml"), settings).doing("writing settings")?;
        // Names that others choose are looked up at the attacker's.
        let resolver = folder.join("resolv.conf");
        std::fs::write(&resolver, format!("nameserver {}\n", attacker.address_v4())).doing("writing")?;
        node.run(|| shorthaul_os::namespace::bind(&resolver, Path::new("/etc/resolv.conf")))?;
        let names = attacker.run(|| UdpSocket::bind((attacker.address_v4(), 53)))?;
        let addresses = [server.address_v4(), PUBLIC, Ipv4Addr::LOCALHOST];
        scope.spawn(move || names::serve(&names, &addresses, stop));
        let listener = server.run(|| TcpListener::bind((server.address_v4(), 0)))?;
        let target = listener.local_addr()?;
        scope.spawn(move || absorb(&listener, b"", stop));
        let own = node.run(|| TcpListener::bind(("0.0.0.0", OWN_PORT)))?;
        scope.spawn(move || absorb(&own, b"secret", stop));
        let own = [PUBLIC, Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED, toward_others.v4.addr()];
        let mut own: Vec<SocketAddr> = own.map(|address| (address, OWN_PORT).into()).to_vec();
        own.extend([PUBLIC, Ipv4Addr::LOCALHOST].map(|at| SocketAddr::from((at.to_ipv6_mapped(), OWN_PORT))));
        let besieged = Besieged { lab, folder };
        let mut process = besieged.start()?;
        let node_of = [
            SocketAddr::from((toward_attacker.v6.addr(), PORT)),
            SocketAddr::from((toward_attacker.v4.addr(), PORT)),
        ];
        let targets = Targets { node: node_of, server: target, own };
        let mut attacking = Attacker::new(targets, secret, Seed(self.seed));
        let via = Endpoint::from(SocketAddr::from((toward_others.v4.addr(), PORT)));
        let users = (0..USERS).map(|_| User::new(&via, &target.into(), ("alice", token), &authority));
        let users = users.collect::<Result<Vec<_>>>()?;
        let begins = Instant::now();
        // The first sessions are no measure: they find out what there is.
        others.run(|| users.iter().for_each(|user| drop(user.ask(begins + Duration::from_secs(1)))));
        let before = (process.usage().anonymous_kib, process.usage().descriptors);
        let mut seen = Vec::new();
        let progress = Progress::begin(console, attacks.len());
        for attack in attacks {
            let (tried, had) = (attacking.tried, attacking.had);
            let mut one = Seen { attack, tried: 0, had: 0, turns: Vec::new() };
            loop {
                let mut turn = |is_loud: bool| {
                    let turn = self.turn(lab, &users, &process, is_loud.then_some((attack, &mut attacking)));
                    std::thread::sleep(if is_loud { REST } else { Duration::ZERO });
                    turn
                };
                // What changes with time is in neither of the two then.
                let is_loud_first = one.turns.len() % 2 == 1;
                let (first, second) = (turn(is_loud_first)?, turn(!is_loud_first)?);
                one.turns.push(if is_loud_first { [second, first] } else { [first, second] });
                let count = one.turns.len();
                let is_told = one.ratio().is_some_and(|ratio| ratio.is_narrow());
                if count >= self.turns as usize && (is_told || count >= self.at_most as usize) {
                    break;
                }
            }
            (one.tried, one.had) = (attacking.tried - tried, attacking.had - had);
            seen.push(one);
            progress.step(attack.name());
        }
        // What was good once is not good again, for another process either.
        let had = attacking.had;
        attacker.run(|| -> Result<()> {
            let head = attacking.signed();
            let first = attacking.say(&head)?;
            if !first.starts_with("HTTP/1.1 200") {
                return Err(TrialError::failed(format!("a signed request is answered `{first}`")));
            }
            process.kill();
            // By then the second in which it was signed is over: clocks that agree may be in different ones.
            std::thread::sleep(Duration::from_secs(2));
            process = besieged.start()?;
            (0..20).try_for_each(|_| attacking.send_again(&head))
        })?;
        Ok((seen, before, attacking.had - had))
    }

    /// A turn: others set sessions up, while somebody attacks or nobody does.
    fn turn(
        &self,
        lab: &Lab,
        users: &[User],
        node: &Child,
        attack: Option<(Attack, &mut Attacker)>,
    ) -> Result<Turn> {
        let until = Instant::now() + self.time;
        let before = ProcessorTime::now();
        let mut turn = std::thread::scope(|scope| -> Result<Turn> {
            let attacks = attack.map(|(attack, attacker)| {
                scope.spawn(move || lab.host("attacker").run(|| attacker.attack(attack, until)))
            });
            let asking: Vec<_> = users
                .iter()
                .map(|user| scope.spawn(move || lab.host("others").run(|| user.ask(until))))
                .collect();
            let mut turn = watch(node, until);
            for user in asking {
                let (took, failed) = user.join().map_err(|_| TrialError::failed("a user panicked"))?;
                turn.took.extend(took);
                turn.failed.extend(failed);
            }
            if let Some(attacks) = attacks {
                attacks.join().map_err(|_| TrialError::failed("the attacker panicked"))??;
            }
            Ok(turn)
        })?;
        turn.steal = before.zip(ProcessorTime::now()).map_or(0.0, |(then, now)| then.stolen_until(&now));
        Ok(turn)
    }

    fn judge(
        &self,
        console: &dyn Console,
        seen: &[Seen],
        before: (u64, usize),
        after_restart: u64,
    ) -> Judgement {
        let mut table = Table::new([
            Column::left("attack"),
            Column::right("tried"),
            Column::right("p99 before"),
            Column::right("p99"),
            Column::right("pairs"),
            Column::right("times as long"),
            Column::right("95 %"),
            Column::right("failed"),
            Column::right("memory"),
            Column::right("descriptors"),
            Column::right("lateness"),
            Column::right("steal"),
        ]);
        let (mut failure, mut open, mut rows) = (None, false, Vec::<Value>::new());
        for one in seen {
            let (fault, is_open) = one.verdict(before);
            let tone = match (&fault, is_open) {
                (Some(_), _) => Tone::Bad,
                (None, true) => Tone::Plain,
                (None, false) => Tone::Good,
            };
            let nothing = Ratio { middle: f64::NAN, within: [f64::NAN; 2] };
            let Ratio { middle, within: [low, high] } = one.ratio().unwrap_or(nothing);
            let failed: usize = one.turns.iter().flatten().map(|turn| turn.failed.len()).sum();
            let counts = [0, 1].map(|at| one.turns.iter().map(|turns| turns[at].took.len()).sum::<usize>());
            let memory = one.most(1, |turn| turn.anonymous_kib) << 10;
            let descriptors = one.most(1, |turn| turn.descriptors);
            let lateness = [0, 1].map(|at| one.most(at, |turn| turn.lateness));
            let steal = one.most(0, |turn| turn.steal).max(one.most(1, |turn| turn.steal));
            table.row([
                TableCell::from(one.attack.name()),
                one.tried.to_string().into(),
                Unit::Seconds.format(one.p99(0)).into(),
                Unit::Seconds.format(one.p99(1)).into(),
                one.turns.len().to_string().into(),
                TableCell::toned(format!("{middle:.2}"), tone),
                TableCell::toned(format!("{low:.2} to {high:.2}"), tone),
                failed.to_string().into(),
                Bytes(memory).to_string().into(),
                descriptors.to_string().into(),
                format!("{:.1}, {:.1} ms", lateness[0] * 1e3, lateness[1] * 1e3).into(),
                format!("{:.1} %", steal * 100.0).into(),
            ]);
            rows.push(json!({
                "attack": one.attack.name(), "tried": one.tried, "had": one.had, "failed": failed, "set_ups": counts,
                "p99_s": [one.p99(0), one.p99(1)], "pairs": one.turns.len(), "ratio": middle, "within": [low, high], "memory": memory,
                "descriptors": descriptors, "lateness_s": lateness, "steal": steal,
            }));
            open |= is_open;
            failure = failure.or(fault);
        }
        console.table(&table);
        console.say(&format!(
            "{} of memory and {} descriptors before; after a restart {after_restart} of 20 requests were good again",
            Bytes(before.0 << 10),
            before.1
        ));
        if after_restart > 0 {
            failure = Some(format!("after a restart {after_restart} requests were good again"));
        }
        let json = json!({
            "bench": "siege", "turns": [self.turns, self.at_most], "turn_s": self.time.as_secs_f64(), "seed": self.seed,
            "memory_before": before.0 << 10, "descriptors_before": before.1, "good_after_restart": after_restart,
            "attacks": rows,
        });
        let doubt = open.then(|| format!("an interval reaches beyond {SLOWER}: more --at-most would tell"));
        Judgement { doubt: doubt.filter(|_| failure.is_none()), ..Judgement::holds(json).unless(failure) }
    }
}

/// What the node takes, most of all, and how late this process is woken, until then.
fn watch(node: &Child, until: Instant) -> Turn {
    /// How often it is looked.
    const LOOK: Duration = Duration::from_millis(500);
    /// How long a nap is.
    const NAP: Duration = Duration::from_millis(5);
    let (mut turn, mut late, mut looked) = (Turn::default(), Vec::new(), Instant::now());
    while Instant::now() + NAP < until {
        let due = Instant::now() + NAP;
        std::thread::sleep(NAP);
        late.push(due.elapsed().as_secs_f64());
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let usage = node.usage();
            turn.anonymous_kib = turn.anonymous_kib.max(usage.anonymous_kib);
            turn.descriptors = turn.descriptors.max(usage.descriptors);
        }
    }
    turn.lateness = Summary::of(late).map_or(0.0, |summary| summary.percentile(0.99));
    turn
}

/// Takes whoever comes, says some words, and reads what there is, for a while.
fn absorb(listener: &TcpListener, words: &'static [u8], stop: &AtomicBool) -> std::io::Result<()> {
    const NAP: Duration = Duration::from_millis(1);
    listener.set_nonblocking(true)?;
    let mut open = Vec::new();
    let mut looked = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((mut stream, _)) => {
                let _ = stream.write_all(words);
                if stream.set_nonblocking(true).is_ok() {
                    open.push(stream);
                }
            }
            Err(_) => std::thread::sleep(NAP),
        }
        if looked.elapsed() > 100 * NAP {
            looked = Instant::now();
            let mut block = [0; 65_536];
            open.retain_mut(|stream| match std::io::Read::read(stream, &mut block) {
                Ok(length) => length > 0,
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(loud: [f64; 2], change: impl Fn(&mut Turn)) -> Seen {
        let turn = |took: f64| Turn { took: vec![took; 100], ..Turn::default() };
        let mut turns: Vec<[Turn; 2]> =
            loud.into_iter().cycle().take(10).map(|took| [turn(0.03), turn(took)]).collect();
        change(&mut turns[1][1]);
        Seen { attack: Attack::Silent, tried: 1, had: 0, turns }
    }

    #[test]
    fn what_is_certain_is_a_fault_and_what_is_not_is_open() {
        let before = (10_000, 50);
        assert_eq!(seen([0.033, 0.033], |_| ()).verdict(before), (None, false));
        assert_eq!(seen([0.03, 0.06], |_| ()).verdict(before), (None, true));
        let is_fault = |seen: Seen, words: &str| {
            let (fault, _) = seen.verdict(before);
            assert!(fault.as_ref().is_some_and(|fault| fault.contains(words)), "{fault:?}");
        };
        is_fault(seen([0.06, 0.06], |_| ()), "2.00 times as long (2.00 to 2.00)");
        is_fault(seen([0.03, 0.03], |turn| turn.failed.push("refused".into())), "refused");
        is_fault(seen([0.03, 0.03], |turn| turn.anonymous_kib = 200_000), "of memory");
        is_fault(seen([0.03, 0.03], |turn| turn.descriptors = 5_000), "descriptors");
        is_fault(Seen { had: 1, ..seen([0.03, 0.03], |_| ()) }, "must not have");
        is_fault(Seen { tried: 0, ..seen([0.03, 0.03], |_| ()) }, "nothing was tried");
        is_fault(seen([0.03, 0.03], |turn| turn.took.clear()), "no session");
    }
}
