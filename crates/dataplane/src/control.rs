use crate::desk::{Bell, Desk, Part, Told, Topic, desk};
use crate::flow_json::FlowJson;
use crate::request::Request;
use serde_json::{Value, json};
use shorthaul_monitor::{About as AboutGateway, Monitor, Source, State, WorkerRow};
use shorthaul_os::schedule::run_first_by_turns;
use shorthaul_proxy::{Brief, FlowInfo, GainFigure, GainInfo, KnownGains};
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The control socket of the gateway `name`.
pub fn control_path(run_dir: &Path, name: &str) -> PathBuf {
    run_dir.join(format!("{name}.sock"))
}

/// Requests that are answered at once; whoever comes then is sent away.
const AT_ONCE: usize = 16;
/// How long one may take to ask, and to read each part of the answer.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(10);
/// Who asks as soon as this is heard at once; who takes longer waits for a thread.
const SOON: Duration = Duration::from_millis(20);
/// How long one may take to prepare itself that wants to take over.
const PREPARING: Duration = Duration::from_secs(120);
/// What is written at once of a listing, in bytes.
const PIECE: usize = 1 << 17;
/// All flows of a worker.
const ALL: Topic = Topic::Flows(0..usize::MAX);
/// Places of a worker's table, as pages count them: behind them are the next worker's.
const PLACES: u64 = 1 << 32;

/// The socket that a running gateway answers questions on: `flows`, `flows-json`, `counters`,
/// `counters-json`, `workers`, `workers-json`, `gain`, `gain-json`, `snapshot` and `find TEXT`, one a connection; `flows-json 0 1000` is a
/// page of them. It also takes `bandwidth 1 Mbit/s` and `bandwidth north: 1 Mbit/s` from a radio controller.
///
/// Threads of its own listen, write the text and send it. The threads that have the packets are asked for what only they know, each at
/// its [`Desk`].
#[derive(Debug)]
pub(crate) struct ControlSocket {
    path: Option<PathBuf>,
    /// Until it listens.
    listener: Option<(UnixListener, Front)>,
}

impl ControlSocket {
    /// Takes `path`, in place of a predecessor's socket that may be there. Only its owner may ask. Whoever has packets answers at
    /// one of the desks, of which there are `workers`.
    pub(crate) fn bind(path: PathBuf, workers: usize) -> io::Result<(Self, Vec<Desk>)> {
        let _ = std::fs::remove_file(&path);
        let (mut socket, desks) = Self::adopt(shorthaul_os::files::listen_privately(&path)?, workers)?;
        socket.path = Some(path);
        Ok((socket, desks))
    }

    /// Takes a socket that somebody else has made, and who sees to its file, too.
    pub(crate) fn adopt(listener: UnixListener, workers: usize) -> io::Result<(Self, Vec<Desk>)> {
        listener.set_nonblocking(false)?;
        let (bells, desks) = (0..workers).map(|_| desk(AT_ONCE)).collect::<io::Result<(Vec<_>, Vec<_>)>>()?;
        Ok((ControlSocket { path: None, listener: Some((listener, Front { bells })) }, desks))
    }

    /// Begins to take questions, with no more privileges than the calling thread has now; `promptly`, before ordinary threads. Who asked
    /// before waits. What watches the gateway from now on is returned, the first time.
    pub(crate) fn listen(&mut self, about: AboutGateway, promptly: bool) -> io::Result<Option<Arc<Monitor>>> {
        let Some((listener, front)) = self.listener.take() else { return Ok(None) };
        let monitor = Monitor::start(about, front.clone())?;
        let watched = Arc::clone(&monitor);
        std::thread::Builder::new().name("control".into()).spawn(move || {
            // Packets do not wait for it, but whoever wants to take over does, on a machine that is busy.
            let _ = if promptly { run_first_by_turns() } else { Ok(()) };
            front.listen(&listener, &watched, promptly);
        })?;
        Ok(Some(monitor))
    }

    /// Takes the place of the socket at `path`.
    pub(crate) fn put_in_place(&mut self, path: PathBuf) -> io::Result<()> {
        if let Some(beside) = &self.path {
            std::fs::rename(beside, &path)?;
            self.path = Some(path);
        }
        Ok(())
    }

    /// The socket's place is a successor's.
    pub(crate) fn leave(&mut self) {
        self.path = None;
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The side of the socket: it asks at every desk.
#[derive(Clone, Debug)]
struct Front {
    bells: Vec<Bell>,
}

impl Front {
    fn listen(&self, listener: &UnixListener, monitor: &Arc<Monitor>, promptly: bool) {
        let busy = Arc::new(AtomicUsize::new(0));
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else {
                // No descriptors are left, perhaps: there will be.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            let request = match Request::hear(&mut stream, SOON) {
                Ok(Some(request)) => Some(request),
                Ok(None) => continue,
                Err(_) => None,
            };
            if busy.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
                busy.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (front, monitor, counted) = (self.clone(), Arc::clone(monitor), Arc::clone(&busy));
            let serve = move || {
                let _ = match request {
                    Some(Request::Announce) => front.await_successor(stream, promptly),
                    request => front.serve(stream, request, &monitor),
                };
                counted.fetch_sub(1, Ordering::Relaxed);
            };
            if std::thread::Builder::new().name("answer".into()).spawn(serve).is_err() {
                busy.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until whoever wants to take over has prepared itself. From then on it is waited for, on a machine that is busy as well.
    fn await_successor(&self, mut stream: UnixStream, promptly: bool) -> io::Result<()> {
        let _ = if promptly { run_first_by_turns() } else { Ok(()) };
        if let Some(Request::TakeOver { claims }) = Request::hear(&mut stream, PREPARING)? {
            self.tell(Told::TakeOver(stream, claims));
        }
        Ok(())
    }

    /// Answers what was asked, or is asked by and by.
    fn serve(&self, mut stream: UnixStream, request: Option<Request>, monitor: &Monitor) -> io::Result<()> {
        stream.set_write_timeout(Some(SOCKET_TIMEOUT))?;
        let request = match request {
            Some(request) => request,
            None => match Request::hear(&mut stream, SOCKET_TIMEOUT)? {
                Some(request) => request,
                None => return Ok(()),
            },
        };
        self.write_answer(request, stream, monitor)
    }

    /// Asks, and writes what is said.
    fn write_answer(&self, request: Request, stream: UnixStream, monitor: &Monitor) -> io::Result<()> {
        if let Request::TakeOver { claims } = request {
            self.tell(Told::TakeOver(stream, claims));
            return Ok(());
        }
        let out = &mut BufWriter::with_capacity(PIECE, stream);
        match request {
            Request::Flows => {
                for flows in self.listed() {
                    flows.iter().try_for_each(|flow| writeln!(out, "{flow}"))?;
                }
            }
            Request::FlowsJson => {
                write_flows(out, self.bells.iter().flat_map(|bell| bell.ask(ALL)))?;
                writeln!(out)?;
            }
            Request::FlowsPage { from, most } => self.write_page(out, from, most)?,
            Request::Counters => {
                for (name, count) in self.counters() {
                    writeln!(out, "{count:>12} {name}")?;
                }
            }
            Request::CountersJson => writeln!(out, "{}", counters_json(self.counters()))?,
            Request::Workers => {
                for (number, counters) in self.counters_by_worker().into_iter().enumerate() {
                    writeln!(out, "worker {number}")?;
                    for (name, count) in counters {
                        writeln!(out, "{count:>12} {name}")?;
                    }
                }
            }
            Request::WorkersJson => {
                let workers = self.counters_by_worker().into_iter().map(counters_json);
                writeln!(out, "{}", Value::Array(workers.collect()))?;
            }
            Request::Gain => match self.gains() {
                gains if gains.is_empty() => {
                    let why = "no flow has come far enough yet, or control_group is 0";
                    writeln!(out, "nothing was compared: {why}")?;
                }
                gains => gains.iter().try_for_each(|gain| writeln!(out, "{gain}"))?,
            },
            Request::GainJson => {
                writeln!(out, "{}", Value::Array(self.gains().iter().map(gain_json).collect()))?;
            }
            Request::Snapshot => writeln!(out, "{}", monitor.json().as_deref().unwrap_or("null"))?,
            Request::Find(sought) => writeln!(out, "{}", serde_json::to_string(&monitor.flows(&sought))?)?,
            Request::Bandwidth(Ok(report)) => {
                writeln!(out, "bandwidth {report}")?;
                self.tell(Told::Bandwidth(report));
            }
            Request::Bandwidth(Err(error)) => writeln!(out, "{error}")?,
            Request::Announce | Request::TakeOver { .. } => {} // these have no answer but what is handed over
            Request::Unknown(other) => {
                let known = "flows, flows-json, a page of them such as `flows-json 0 1000`, counters, counters-json, workers, workers-json, gain, gain-json, snapshot or find TEXT, or tell a bandwidth such as `bandwidth 1 Mbit/s`";
                writeln!(out, "unknown request `{other}`: ask for {known}")?;
            }
        }
        out.flush()
    }

    /// Writes the flows of `most` places from one on, and where there are more. A page ends with a worker's table.
    fn write_page(&self, out: &mut impl Write, from: u64, most: usize) -> io::Result<()> {
        let worker = from / PLACES;
        let first = (from % PLACES) as usize;
        let places = Topic::Flows(first..first.saturating_add(most));
        let bell = usize::try_from(worker).ok().and_then(|worker| self.bells.get(worker));
        write!(out, "{{\"flows\":")?;
        let next = write_flows(out, bell.into_iter().flat_map(|bell| bell.ask(places.clone())))?;
        let more = (worker + 1 < self.bells.len() as u64).then(|| (worker + 1) * PLACES);
        let next = next.map(|place| worker * PLACES + place as u64).or(more);
        writeln!(out, ",\"next\":{}}}", json!(next))
    }

    /// Tells the first worker, who has the others know.
    fn tell(&self, told: Told) {
        if let Some(first) = self.bells.first() {
            first.tell(told);
        }
    }

    /// All flows, a few at a time, of one worker after the other.
    fn listed(&self) -> impl Iterator<Item = Vec<FlowInfo>> + '_ {
        self.bells.iter().flat_map(|bell| bell.ask(ALL)).filter_map(|part| match part {
            Part::Flows(flows) => Some(flows),
            _ => None,
        })
    }

    /// What is counted, by name and by worker.
    fn counters_by_worker(&self) -> Vec<Vec<(&'static str, u64)>> {
        let parts = self.bells.iter().map(|bell| bell.ask(Topic::Counters));
        let counted = |part| if let Part::Counters(counters) = part { counters } else { Vec::new() };
        parts.map(|parts| parts.flat_map(counted).collect()).collect()
    }

    fn states(&self) -> Vec<State> {
        let parts = self.bells.iter().flat_map(|bell| bell.ask(Topic::State));
        parts.filter_map(|part| if let Part::State(state) = part { Some(state) } else { None }).collect()
    }
}

/// Each name once, with the sum of its counts, in the order in which the names came up.
fn summed(counters: Vec<Vec<(&'static str, u64)>>) -> Vec<(&'static str, u64)> {
    let mut lists = counters.into_iter();
    let mut sums = lists.next().unwrap_or_default();
    let mut places: HashMap<&str, usize> = sums.iter().map(|(name, _)| *name).zip(0..).collect();
    for (name, count) in lists.flatten() {
        let place = *places.entry(name).or_insert_with(|| {
            sums.push((name, 0));
            sums.len() - 1
        });
        sums[place].1 += count;
    }
    sums
}

/// Writes flows as a JSON array, and says at which place there are more, if there are.
fn write_flows(out: &mut impl Write, parts: impl Iterator<Item = Part>) -> io::Result<Option<usize>> {
    let (mut between, mut next) = ("[", None);
    for part in parts {
        match part {
            Part::Flows(flows) => {
                for flow in &flows {
                    out.write_all(between.as_bytes())?;
                    serde_json::to_writer(&mut *out, &FlowJson::of(flow))?;
                    between = ",";
                }
            }
            Part::Next(place) => next = Some(place),
            _ => {}
        }
    }
    write!(out, "{}]", if between == "[" { "[" } else { "" })?;
    Ok(next)
}

impl Source for Front {
    fn flows(&self, each: &mut dyn FnMut(Vec<FlowInfo>) -> ControlFlow<()>) {
        // Whoever drops the listing is told no more of it.
        let _ = self.listed().try_for_each(each);
    }

    fn flows_in_brief(&self, each: &mut dyn FnMut(Brief)) {
        let parts = self.bells.iter().flat_map(|bell| bell.ask(Topic::Brief));
        parts
            .filter_map(|part| if let Part::Brief(brief) = part { Some(brief) } else { None })
            .for_each(each);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        summed(self.counters_by_worker())
    }

    fn gains(&self) -> Vec<GainInfo> {
        let parts = self.bells.iter().flat_map(|bell| bell.ask(Topic::Gains));
        let known = parts.filter_map(|part| if let Part::Gains(known) = part { Some(known) } else { None });
        let mut all = KnownGains::default();
        known.for_each(|known| all.join(known));
        all.info()
    }

    fn state(&self) -> Option<State> {
        let states = self.states();
        let all = states.iter().copied().reduce(|a, b| State {
            held: a.held + b.held,
            memory: a.memory + b.memory,
            lateness: a.lateness.max(b.lateness),
            flows: a.flows + b.flows,
            max_flows: a.max_flows + b.max_flows,
        });
        all.filter(|_| states.len() == self.bells.len())
    }

    fn workers(&self) -> Vec<WorkerRow> {
        if self.bells.len() < 2 {
            return Vec::new();
        }
        let rows = self.states().into_iter().zip(self.counters_by_worker());
        let row = |(state, counters): (State, Vec<(&'static str, u64)>)| {
            let count =
                |sought| counters.iter().find(|(name, _)| *name == sought).map_or(0, |(_, count)| *count);
            WorkerRow {
                flows: state.flows,
                held: state.held,
                packets: count("packets_in"),
                handed_on: count("packets_handed_on"),
                lateness_us: state.lateness.as_micros() as u64,
            }
        };
        rows.map(row).collect()
    }
}

fn counters_json(counters: Vec<(&'static str, u64)>) -> Value {
    Value::Object(counters.into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect())
}

fn gain_json(gain: &GainInfo) -> Value {
    let figure = |figure: &GainFigure| {
        let [split, control] = figure.flows;
        let micros = |time: Option<Duration>| time.map(|time| time.as_micros() as u64);
        json!({
            "direction": if figure.to_host { "down" } else { "up" }, "bytes": figure.bytes,
            "split_us": micros(figure.split), "whole_us": micros(figure.control),
            "split_flows": split, "whole_flows": control,
            "gain": figure.gain, "interval": figure.interval.map(|(low, high)| [low, high]),
        })
    };
    json!({
        "policy": gain.policy, "edge": gain.access.to_string(),
        "servers": gain.server.map(|server| server.to_string()),
        "verdict": gain.verdict.name(),
        "harmed_hosts": gain.harmed_hosts,
        "first": gain.figures.iter().map(figure).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::Controlled;
    use crate::{Driven, Forwarder, LoopStats};
    use shorthaul_proxy::Gateway;
    use shorthaul_types::{FlowKey, PortId, Time};
    use std::io::Read as _;
    use std::os::fd::AsFd;

    /// What is written to whoever asks a machine this.
    fn answer(request: &str, machine: &impl Controlled, stats: LoopStats) -> String {
        answer_of_all(request, &[(machine, stats)])
    }

    /// The same of several workers.
    fn answer_of_all(request: &str, workers: &[(&impl Controlled, LoopStats)]) -> String {
        let name = format!("shorthaul-control-{}-{request}-{}", std::process::id(), workers.len());
        let path = std::env::temp_dir().join(name);
        let (mut control, mut desks) = ControlSocket::bind(path.clone(), workers.len()).unwrap();
        let _ = control.listen(AboutGateway::default(), false).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        });
        while !reader.is_finished() {
            let asked = desks.iter().map(|desk| desk.as_fd());
            shorthaul_os::poll::wait_any_readable(asked, Duration::from_millis(10)).unwrap();
            for (desk, (machine, stats)) in desks.iter_mut().zip(workers) {
                desk.answer(*machine, *stats);
            }
        }
        reader.join().unwrap()
    }

    #[test]
    fn what_several_workers_know_is_told_together_and_by_each() {
        let stats = |packets_read| LoopStats { packets_read, ..LoopStats::default() };
        let counted = [(&Many(300), stats(7)), (&Many(20), stats(35))];
        let json = |request| -> Value { serde_json::from_str(&answer_of_all(request, &counted)).unwrap() };
        assert_eq!(json("flows-json").as_array().map(Vec::len), Some(320));
        assert_eq!(json("counters-json")["packets_read"], 42);
        let each = json("workers-json");
        assert_eq!((&each[0]["packets_read"], &each[1]["packets_read"]), (&7.into(), &35.into()));
        let text = answer_of_all("workers", &counted);
        assert!(text.starts_with("worker 0\n") && text.contains("worker 1\n"), "{text}");
    }

    #[test]
    fn a_counter_that_one_worker_alone_has_is_in_the_sum() {
        let all = summed(vec![vec![("a", 1), ("b", 2)], vec![("a", 10), ("c", 5), ("b", 20)]]);
        assert_eq!(all, [("a", 11), ("b", 22), ("c", 5)]);
    }

    #[test]
    fn counters_of_machine_and_loop_are_listed_together() {
        let stats = LoopStats { packets_read: 7, ..LoopStats::default() };
        let gateway = Gateway::new(shorthaul_proxy::GatewayConfig::default());
        let text = answer("counters", &gateway, stats);
        assert!(text.contains("           7 packets_read\n") && text.contains("0 flows_split\n"), "{text}");
        let json: Value = serde_json::from_str(&answer("counters-json", &gateway, stats)).unwrap();
        assert_eq!(json["packets_read"], 7);
        assert_eq!(json["flows_split"], 0);
    }

    #[test]
    fn a_request_that_is_none_is_told_what_would_be() {
        let text = answer("flwos", &Forwarder::default(), LoopStats::default());
        assert!(text.contains("`flwos`") && text.contains("flows-json"), "{text}");
    }

    /// A machine with many flows, which notes how many are asked for at once.
    struct Many(usize);

    impl shorthaul_wire::Machine for Many {
        fn handle_packet(&mut self, _: Time, _: PortId, _: shorthaul_wire::Packet) {}
        fn handle_timeout(&mut self, _: Time) {}
        fn poll_transmit(&mut self, _: Time, _: &mut shorthaul_wire::TxBatch) -> bool {
            false
        }
        fn poll_timeout(&self) -> Option<shorthaul_types::Deadline> {
            None
        }
    }

    impl Driven for Many {}

    impl Controlled for Many {
        fn flows(&self, from: usize, most: usize) -> (Vec<FlowInfo>, Option<usize>) {
            assert!(most <= 64, "{most} flows in one round");
            let to = (from + most).min(self.0);
            let from = from.min(to);
            let flow = |i: usize| FlowInfo {
                key: FlowKey {
                    src: ([10, 0, (i / 256) as u8, i as u8], 1).into(),
                    dst: ([10, 9, 0, 1], 80).into(),
                },
                state: "opening",
                client_at_access: true,
                policy: 0,
                age: Duration::ZERO,
                legs: None,
                observed: None,
            };
            ((from..to).map(flow).collect(), (to < self.0).then_some(to))
        }
    }

    #[test]
    fn flows_are_listed_a_few_a_round_and_all_of_them() {
        for count in [0, 1, 256, 5_000] {
            let json: Value =
                serde_json::from_str(&answer("flows-json", &Many(count), LoopStats::default())).unwrap();
            let flows = json.as_array().unwrap();
            assert_eq!(flows.len(), count);
            assert!(count < 2 || flows[count - 1]["client"] != flows[0]["client"]);
        }
        assert_eq!(answer("flows", &Many(300), LoopStats::default()).lines().count(), 300);
        for (from, most, listed, next) in
            [(0, 1_000, 1_000, json!(1_000)), (1_000, 3_000, 2_000, json!(null)), (5_000, 1, 0, json!(null))]
        {
            let question = format!("flows-json {from} {most}");
            let page: Value =
                serde_json::from_str(&answer(&question, &Many(3_000), LoopStats::default())).unwrap();
            assert_eq!((page["flows"].as_array().unwrap().len(), &page["next"]), (listed, &next));
        }
    }

    #[test]
    fn pages_go_through_the_tables_of_all_workers() {
        let stats = LoopStats::default();
        let (mut from, mut seen, mut pages) = (json!(0), 0, 0);
        while !from.is_null() {
            let question = format!("flows-json {from} 200");
            let answer = answer_of_all(&question, &[(&Many(300), stats), (&Many(20), stats)]);
            let page: Value = serde_json::from_str(&answer).unwrap();
            seen += page["flows"].as_array().unwrap().len();
            from = page["next"].clone();
            pages += 1;
        }
        assert_eq!((seen, pages), (320, 3));
    }

    /// The gateway's memory is not for what somebody does not read.
    #[test]
    fn who_reads_no_listing_is_told_no_more_of_it() {
        let (bell, mut desk) = desk(AT_ONCE).unwrap();
        let mut parts = bell.ask(ALL);
        let machine = Many(1_000_000);
        for _ in 0..1_000 {
            desk.answer(&machine, LoopStats::default());
        }
        let asked = std::cell::Cell::new(0);
        let count = |part: Option<Part>| asked.set(asked.get() + usize::from(part.is_some()));
        count(parts.next());
        let others = bell.ask(Topic::State);
        while desk.answer(&machine, LoopStats::default()).is_some() {}
        for _ in 0..4 {
            desk.answer(&machine, LoopStats::default());
        }
        assert_eq!(others.count(), 1, "others are answered meanwhile");
        drop(desk);
        parts.for_each(|part| count(Some(part)));
        // Those that wait, the one that was taken, and one that found no room.
        let most = crate::desk::PARTS + 2;
        assert!((most - 1..=most).contains(&asked.get()), "{} parts were made", asked.get());
    }

    #[test]
    fn whoever_asks_nothing_keeps_nobody_waiting() {
        let path = std::env::temp_dir().join(format!("shorthaul-control-silent-{}", std::process::id()));
        let (mut control, mut desks) = ControlSocket::bind(path.clone(), 1).unwrap();
        let _ = control.listen(AboutGateway::default(), false).unwrap();
        let silent: Vec<_> = (0..5).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "others may not ask");
        let before = std::time::Instant::now();
        for _ in 0..100 {
            assert!(desks[0].answer(&Forwarder::default(), LoopStats::default()).is_none());
        }
        assert!(before.elapsed() < Duration::from_millis(500), "the packets wait for who says nothing");
        drop(silent);
    }
}
