//! Survival: connections through a gateway that is killed again and again, or taken over.
use crate::error::{Result, TrialError};
use crate::trial::{Judgement, Trial};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shorthaul_dataplane::Config;
use shorthaul_lab::{GatewayControl, GatewayProcess, Lab, Privilege, Topology};
use shorthaul_os::ProcessorTime;
use shorthaul_proxy::GatewayMode;
use shorthaul_report::{Console, Progress, Unit};
use shorthaul_types::{BitRate, Bytes, Seed};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Nobody waits longer for a byte.
const TIMEOUT: Duration = Duration::from_secs(90);
/// What an application writes at once.
const BLOCK: usize = 16 << 10;
/// No connection may pause longer when a gateway is taken over.
const LONGEST_TAKE_OVER: Duration = Duration::from_millis(50);

/// What connections notice when the gateway is killed (`kill -9`) and started again, or taken over by another: again and again
///
/// Kernel TCP at both ends; of the connections some are busy in both directions all the while, and the others wait. It holds
/// if none is reset and every SHA-256 is right; with --take-over, also if no busy connection pauses for more than 50 ms, or than
/// some do in as long a time in which nothing is done to them, or another gateway is only started and refused. Needs root, or a host that allows user namespaces. The last line is the result as JSON.
#[derive(clap::Args)]
pub struct Survive {
    /// Connections that are open
    #[arg(long, alias = "connections", value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2000))]
    flows: u32,
    /// Of these, connections that are busy in both directions
    #[arg(long, value_name = "NUMBER", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=200))]
    busy: u32,
    /// How often the gateway is killed, or taken over
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
    /// The links of each half, as in a topology
    #[arg(
        long,
        value_name = "LINK",
        default_value = "{ rate = \"100 Mbit/s\", delay = \"5 ms\", queue = \"500 kB\" }"
    )]
    half: String,
    /// What each busy stream writes at most. Without it, as much as goes: then pauses are those of losses and of a machine that has
    /// nothing left
    #[arg(long, value_name = "RATE")]
    pace: Option<BitRate>,
    /// How long it is gone
    #[arg(long, value_name = "TIME", default_value = "300 ms", value_parser = shorthaul_types::parse_duration)]
    gone: Duration,
    /// How long it is there before it goes
    #[arg(long, value_name = "TIME", default_value = "3 s", value_parser = shorthaul_types::parse_duration)]
    there: Duration,
    /// Another takes over, instead of the gateway being killed
    #[arg(long)]
    take_over: bool,
    /// How long a busy stream may bring nothing: then all ends, and it is said how far it came and what the gateways knew of it
    #[arg(long, value_name = "TIME", default_value = "60 s", value_parser = shorthaul_types::parse_duration)]
    patience: Duration,
    /// The gateway's mode: auto or split
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: GatewayMode,
    /// Seed of what the links draw by chance, and of the data sent
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Pauses that begin or go on within this time after another has taken over are put beside those of as long a time without that.
const AFTER: Duration = Duration::from_secs(1);

/// What was seen, each time that the gateway went.
#[derive(Default)]
struct Seen {
    /// The longest pause of a busy stream in the second after the packets stood still, each time that another took over.
    after: Vec<Duration>,
    /// The same in each of the seconds in which nothing was done.
    seconds: Vec<Duration>,
    /// The longest pause of a busy stream.
    pauses: Vec<Duration>,
    /// The same in as long a time before, in which nothing was done.
    undisturbed: Vec<Duration>,
    /// The same where another was started that prepared all and was then refused: what the machine does to the streams.
    in_vain: Vec<Duration>,
    /// For how long nobody read packets while another took over, in seconds.
    standstills: Vec<f64>,
}

/// What a reader has seen.
struct Reading {
    begun: Instant,
    /// When it read last, and the longest pause since that was last asked, in nanoseconds.
    last: AtomicU64,
    longest: AtomicU64,
    bytes: AtomicU64,
    /// What was written on the other side.
    written: AtomicU64,
    /// Nothing more is read.
    is_over: AtomicBool,
    /// Each time that it read, since that was last asked, and the one before.
    times: Mutex<Vec<u64>>,
}

impl Reading {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn new(begun: Instant) -> Self {
        Reading {
            begun,
            last: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            written: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            times: Mutex::default(),
        }
    }

    /// For how long it has brought nothing, if more is to come.
    fn silence(&self) -> Duration {
        let silent = self.now().saturating_sub(self.last.load(Ordering::Relaxed));
        if self.is_over.load(Ordering::Relaxed) { Duration::ZERO } else { Duration::from_nanos(silent) }
    }

    fn note(&self, bytes: usize) {
        let now = self.now();
        let before = self.last.swap(now, Ordering::Relaxed);
        self.longest.fetch_max(now.saturating_sub(before), Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.times.lock().unwrap_or_else(PoisonError::into_inner).push(now);
    }

    /// When it read since this was asked last, in nanoseconds, the time before that first.
    fn times(&self) -> Vec<u64> {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let last: Vec<u64> = times.last().copied().into_iter().collect();
        std::mem::replace(&mut *times, last)
    }

    /// The longest pause since this was asked last, one that is still going on included.
    fn pause(&self) -> Duration {
        let still = self.now().saturating_sub(self.last.load(Ordering::Relaxed));
        Duration::from_nanos(self.longest.swap(0, Ordering::Relaxed).max(still))
    }
}

/// The longest of the pauses between these times that overlap a while.
fn longest_within(times: &[u64], from: u64, to: u64) -> Duration {
    let pauses = times.windows(2).filter(|pair| pair[1] > from && pair[0] < to);
    Duration::from_nanos(pauses.map(|pair| pair[1] - pair[0]).max().unwrap_or(0))
}

/// The middle one.
fn median(of: &[Duration]) -> Duration {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Writes until it is to stop; what it wrote, as a hash.
fn write(
    mut stream: &TcpStream,
    seed: Seed,
    pace: Option<BitRate>,
    reading: &Reading,
    stop: &AtomicBool,
) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut block = vec![0; BLOCK];
    let mut due = Instant::now();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if let Some(rate) = pace {
            // Whoever was held up does not make up for it.
            due = Instant::now().max(due + rate.time_to_send(Bytes(BLOCK as u64)));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let mut word = seed.nth(number).0 | 1;
        for bytes in block.chunks_mut(8) {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.copy_from_slice(&word.to_ne_bytes()[..bytes.len()]);
        }
        stream.write_all(&block)?;
        hash.update(&block);
        reading.written.fetch_add(BLOCK as u64, Ordering::Relaxed);
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(hash.finalize().into())
}

/// Reads to the end; what it read, as a hash.
fn read(stream: &TcpStream, reading: &Reading) -> io::Result<[u8; 32]> {
    let read = read_on(stream, reading);
    reading.is_over.store(true, Ordering::Relaxed);
    read
}

fn read_on(mut stream: &TcpStream, reading: &Reading) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut block = vec![0; 4 * BLOCK];
    loop {
        let read = stream.read(&mut block)?;
        if read == 0 {
            return Ok(hash.finalize().into());
        }
        reading.note(read);
        hash.update(&block[..read]);
    }
}

/// Both ends of a connection.
struct Pair([TcpStream; 2]);

impl Pair {
    fn open(lab: &Lab, listener: &TcpListener) -> io::Result<Pair> {
        let to = listener.local_addr()?;
        let client = lab.host("client").run(|| TcpStream::connect_timeout(&to, TIMEOUT))?;
        let (server, _) = listener.accept()?;
        for end in [&client, &server] {
            end.set_read_timeout(Some(TIMEOUT))?;
            end.set_write_timeout(Some(TIMEOUT))?;
        }
        Ok(Pair([client, server]))
    }

    /// A few bytes each way.
    fn exchange(&self) -> io::Result<()> {
        let [client, server] = &self.0;
        for (mut from, mut to) in [(client, server), (server, client)] {
            from.write_all(&[7; 1_000])?;
            let mut read = [0; 1_000];
            to.read_exact(&mut read)?;
            if read != [7; 1_000] {
                return Err(io::Error::other("other bytes arrived than were sent"));
            }
        }
        Ok(())
    }
}

/// The two hashes of a stream.
struct Stream<'scope> {
    written: ScopedJoinHandle<'scope, io::Result<[u8; 32]>>,
    read: ScopedJoinHandle<'scope, io::Result<[u8; 32]>>,
}

impl Stream<'_> {
    /// What is wrong with it, if anything is.
    fn fault(self) -> Option<String> {
        let joined = |handle: ScopedJoinHandle<'_, io::Result<[u8; 32]>>| {
            handle.join().unwrap_or_else(|_| Err(io::Error::other("panicked")))
        };
        match (joined(self.written), joined(self.read)) {
            (Ok(written), Ok(read)) if written == read => None,
            (Ok(_), Ok(_)) => Some("a SHA-256 is wrong".into()),
            (Err(error), _) => Some(format!("writing: {error}")),
            (_, Err(error)) => Some(format!("reading: {error}")),
        }
    }
}

/// Looks whether all busy streams go on.
struct Watch {
    patience: Duration,
    control: GatewayControl,
    /// What the gateway before knew of all flows, when it went.
    before: Mutex<Option<Value>>,
    /// What was found of a stream that does not go on.
    found: Mutex<Option<String>>,
    /// All streams are over.
    is_over: AtomicBool,
}

impl Watch {
    /// How often it looks.
    const EVERY: Duration = Duration::from_millis(100);

    fn new(patience: Duration, control: GatewayControl) -> Self {
        let (before, found, is_over) = Default::default();
        Watch { patience, control, before, found, is_over }
    }

    /// Looks until all is over, or a stream has brought nothing for too long: then nobody waits for it any longer.
    fn keep(&self, busy: &[Pair], readings: &[[Reading; 2]]) {
        while !self.is_over.load(Ordering::Relaxed) {
            let each =
                busy.iter().zip(readings).flat_map(|(pair, of)| of.iter().map(move |one| (pair, of, one)));
            if let Some((pair, of, _)) = each.into_iter().find(|(_, _, one)| one.silence() > self.patience) {
                let text = self.describe(pair, of);
                *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
                for end in busy.iter().flat_map(|Pair(ends)| ends) {
                    let _ = end.shutdown(Shutdown::Both);
                }
                return;
            }
            std::thread::sleep(Self::EVERY);
        }
    }

    /// Where both streams of a connection stand, and what the gateways knew of it.
    fn describe(&self, Pair([client, server]): &Pair, readings: &[Reading; 2]) -> String {
        let name =
            |end: &TcpStream| end.local_addr().map_or_else(|error| error.to_string(), |at| at.to_string());
        let (client, server) = (name(client), name(server));
        let mut text = format!("the connection {client} to {server} does not go on:");
        for (way, reading) in ["to the server", "to the client"].iter().zip(readings) {
            let (written, read) =
                (reading.written.load(Ordering::Relaxed), reading.bytes.load(Ordering::Relaxed));
            text += &format!(
                " {way} {written} bytes were written and {read} read, the last {:.1} s ago;",
                reading.silence().as_secs_f64()
            );
        }
        let of = |flows: Option<Value>| {
            let known = flows?.as_array()?.iter().find(|flow| flow["client"] == client.as_str())?.to_string();
            Some(known)
        };
        let now = of(self.control.flows()).unwrap_or("nothing".into());
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before = of(before).unwrap_or("nothing".into());
        text + &format!(" the gateway knows of it {now}; the one before knew, when it went, {before}")
    }

    /// The gateway goes now: what it knows is kept.
    fn remember(&self) {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = self.control.flows();
    }

    fn fault(&self) -> Result<()> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        found.map_or(Ok(()), |text| Err(TrialError::Failed(text)))
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// If a stream does not go on.
    fn pause(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.fault()?;
            std::thread::sleep(left.min(Self::EVERY));
        }
        Ok(())
    }

    /// All streams are over.
    ///
    /// # Errors
    /// If one did not go on.
    fn end(&self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        self.fault()
    }
}

impl Trial for Survive {
    fn run(&self, console: &dyn Console) -> Result<Judgement> {
        // First of all, while the process has a single thread: the kernel asks for that.
        Privilege::obtain()?;
        let half = &self.half;
        let text = format!(
            "[hosts.client]\n[hosts.gateway]\n[hosts.server]\n\
             [[links]]\nbetween = [\"client\", \"gateway\"]\nlink = {half}\n\
             [[links]]\nbetween = [\"gateway\", \"server\"]\nlink = {half}\n"
        );
        let mut topology = Topology::from_toml("survive", &text)?;
        topology.seed = Seed(self.seed);
        let lab = Lab::start(&topology)?;
        let config = Config {
            access: vec!["to-client".into()],
            wan: vec!["to-server".into()],
            mode: Some(self.mode),
            ..Config::default()
        };
        let mut gateway = GatewayProcess::start(lab.host("gateway"), config)?;
        let server = lab.host("server");
        let listener = server.run(|| TcpListener::bind((server.address_v4(), 0)))?;
        let mut idle = Vec::new();
        for _ in self.busy..self.flows.max(self.busy) {
            let pair = Pair::open(&lab, &listener)?;
            pair.exchange()?;
            idle.push(pair);
        }
        let busy = (0..self.busy).map(|_| Pair::open(&lab, &listener)).collect::<io::Result<Vec<_>>>()?;
        let begun = Instant::now();
        let readings: Vec<[Reading; 2]> =
            busy.iter().map(|_| [(); 2].map(|()| Reading::new(begun))).collect();
        let stop = AtomicBool::new(false);
        let before = ProcessorTime::now();
        let watch = Watch::new(self.patience, gateway.control());
        let (seen, faults) = std::thread::scope(|scope| -> Result<_> {
            let streams = self.begin(scope, &busy, &readings, &stop);
            scope.spawn(|| watch.keep(&busy, &readings));
            let seen = self.disturb(console, &lab, &mut gateway, &readings, &watch);
            stop.store(true, Ordering::Relaxed);
            let faults: Vec<String> = streams.into_iter().filter_map(Stream::fault).collect();
            watch.end()?;
            Ok((seen?, faults))
        })?;
        let Seen { after, seconds, pauses, undisturbed, in_vain, standstills } = seen;
        let steal = before.zip(ProcessorTime::now()).map_or(0.0, |(then, now)| then.stolen_until(&now));
        let time = begun.elapsed();
        let bytes: u64 = readings.iter().flatten().map(|reading| reading.bytes.load(Ordering::Relaxed)).sum();
        let broken = idle.iter().filter_map(|pair| pair.exchange().err()).count();
        let rate = bytes as f64 * 8.0 / time.as_secs_f64();
        let longest = pauses.iter().max().copied().unwrap_or_default();
        let without = undisturbed.iter().chain(&in_vain).max().copied().unwrap_or_default();
        console.say(&format!(
            "{} busy streams, {} together; {} of them and {broken} of {} idle connections broken; longest pause {:.3} s, \
             without that {:.3} s; steal {:.0} %",
            2 * busy.len(),
            Unit::BitsPerSecond.format(rate),
            faults.len(),
            idle.len(),
            longest.as_secs_f64(),
            without.as_secs_f64(),
            steal * 100.0
        ));
        if self.take_over {
            let said = |of: &[Duration]| {
                let longest = of.iter().max().copied().unwrap_or_default();
                format!("{:.3} s (median {:.3} s)", longest.as_secs_f64(), median(of).as_secs_f64())
            };
            console.say(&format!(
                "the longest pause in the second after the switch, of {} times: {}; in {} seconds in which nothing was done: {}",
                after.len(),
                said(&after),
                seconds.len(),
                said(&seconds)
            ));
        }
        // Where streams pause as long while nothing is done to them, or another only starts, it is links and machine that do it.
        let too_long = self.take_over && longest > LONGEST_TAKE_OVER.max(without);
        let failure = match faults.first() {
            Some(fault) => Some(format!("{} of {} busy streams: {fault}", faults.len(), 2 * busy.len())),
            None if broken > 0 => Some(format!("{broken} of {} idle connections are broken", idle.len())),
            None if too_long => Some(format!(
                "a busy connection paused for {:.3} s, and for {:.3} s at most where none took over",
                longest.as_secs_f64(),
                without.as_secs_f64()
            )),
            None => None,
        };
        let json = json!({
            "way": if self.take_over { "take-over" } else { "kill" }, "times": self.times, "half": self.half,
            "connections": self.flows, "busy": self.busy, "pace": self.pace.map(BitRate::bits_per_sec), "gone_s": self.gone.as_secs_f64(),
            "goodput": rate, "broken_streams": faults.len(), "broken_idle": broken,
            "after_s": after.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
            "seconds_s": seconds.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
            "pauses_s": pauses.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
            "longest_pause_s": longest.as_secs_f64(),
            "undisturbed_s": undisturbed.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
            "in_vain_s": in_vain.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(), "standstills_s": standstills, "steal": steal,
        });
        Ok(Judgement::holds(json).unless(failure))
    }
}

impl Survive {
    fn begin<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        busy: &'scope [Pair],
        readings: &'scope [[Reading; 2]],
        stop: &'scope AtomicBool,
    ) -> Vec<Stream<'scope>> {
        let mut streams = Vec::new();
        for (number, (Pair(ends), readings)) in (0..).zip(busy.iter().zip(readings)) {
            for side in 0..2 {
                let (seed, pace) = (Seed(self.seed).nth(2 * number + side as u64), self.pace);
                streams.push(Stream {
                    written: scope.spawn(move || write(&ends[side], seed, pace, &readings[side], stop)),
                    read: scope.spawn(move || read(&ends[1 - side], &readings[side])),
                });
            }
        }
        streams
    }

    /// The gateway goes and comes.
    fn disturb(
        &self,
        console: &dyn Console,
        lab: &Lab,
        gateway: &mut GatewayProcess,
        readings: &[[Reading; 2]],
        watch: &Watch,
    ) -> Result<Seen> {
        let begun = readings[0][0].begun;
        let times = || readings.iter().flatten().map(Reading::times).collect::<Vec<_>>();
        let longest = || readings.iter().flatten().map(Reading::pause).max().unwrap_or_default();
        let progress = Progress::begin(console, self.times as usize);
        let mut seen = Seen::default();
        watch.pause(self.there)?;
        for _ in 0..self.times {
            longest();
            times();
            let since = begun.elapsed();
            watch.pause(self.there)?;
            let (before, quiet) = (longest(), times());
            let whole = self.there.as_secs().min(60) as u32;
            seen.seconds.extend((0..whole).map(|second| {
                let [from, to] =
                    [second, second + 1].map(|second| (since + second * AFTER).as_nanos() as u64);
                quiet.iter().map(|times| longest_within(times, from, to)).max().unwrap_or_default()
            }));
            let in_vain = if self.take_over {
                gateway.take_over_in_vain(lab.host("gateway"))?;
                watch.pause(self.there)?;
                Some(longest())
            } else {
                None
            };
            times();
            watch.remember();
            if self.take_over {
                if !gateway.take_over(lab.host("gateway"))? {
                    return Err(TrialError::Failed(
                        "the gateway that was taken over did not end in good order".into(),
                    ));
                }
            } else {
                gateway.crash();
                watch.pause(self.gone)?;
                gateway.start_again(lab.host("gateway"))?;
            }
            watch.pause(self.there)?;
            let pause = longest();
            let counters = gateway.counters();
            let standstill = counters.as_ref().and_then(|counters| counters["standstill_us"].as_f64());
            // Both processes have the clock of this one.
            let stopped = counters.as_ref().and_then(|counters| counters["standstill_began_us"].as_u64());
            if let Some(stopped) = stopped.filter(|_| self.take_over) {
                let now = shorthaul_os::monotonic().as_nanos();
                let from =
                    (begun.elapsed().as_nanos() as u64).saturating_sub(now.saturating_sub(stopped * 1_000));
                let to = from + AFTER.as_nanos() as u64;
                let all = times();
                seen.after
                    .push(all.iter().map(|times| longest_within(times, from, to)).max().unwrap_or_default());
            }
            progress.step(&format!(
                "longest pause {:.3} s, {:.3} s where nothing was done{}{}",
                pause.as_secs_f64(),
                before.as_secs_f64(),
                in_vain.map_or(String::new(), |pause| format!(", {:.3} s in vain", pause.as_secs_f64())),
                match standstill {
                    Some(micros) if self.take_over => format!(
                        ", {:.3} s in the second after the switch, nobody read for {:.1} ms",
                        seen.after.last().copied().unwrap_or_default().as_secs_f64(),
                        micros / 1e3
                    ),
                    _ => String::new(),
                }
            ));
            seen.pauses.push(pause);
            seen.undisturbed.push(before);
            seen.in_vain.extend(in_vain);
            seen.standstills.extend(standstill.filter(|_| self.take_over).map(|micros| micros / 1e6));
        }
        Ok(seen)
    }
}
