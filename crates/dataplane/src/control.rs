use crate::{BandwidthReport, Driven, Forwarder, LoopStats, ParseBandwidthError};
use serde_json::{Value, json};
use shorthaul_monitor::{About as AboutGateway, Monitor, Source, State};
use shorthaul_os::poll::Waker;
use shorthaul_os::schedule::run_first_by_turns;
use shorthaul_proxy::{FlowInfo, GainFigure, GainInfo, Gateway, LegInfo, Observed, ObservedDirection};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::time::Duration;

/// The control socket of the gateway `name`.
pub fn control_path(run_dir: &Path, name: &str) -> PathBuf {
    run_dir.join(format!("{name}.sock"))
}

/// What the daemon asks of a machine beyond driving it.
pub trait Controlled: Driven {
    /// Flows that it would harm if it went away: of which it holds bytes that their sender believes delivered, or whose ends do not hear each
    /// other yet.
    fn held_flows(&self) -> usize {
        0
    }

    /// Flows that a predecessor left, of which it is not yet known what became.
    fn inherited_flows(&self) -> usize {
        0
    }

    /// Flows that it knows, among `most` places from `from` on, and where to go on, if there are more.
    fn flows(&self, from: usize, most: usize) -> (Vec<FlowInfo>, Option<usize>) {
        let _ = (from, most);
        (Vec::new(), None)
    }

    /// Its counters, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What it gains, by classes of flows.
    fn gains(&self) -> Vec<GainInfo> {
        Vec::new()
    }

    /// What else is shown of it.
    fn state(&self) -> State {
        State::default()
    }
}

impl Controlled for Forwarder {}

impl Controlled for Gateway {
    fn held_flows(&self) -> usize {
        Gateway::held_flows(self)
    }

    fn inherited_flows(&self) -> usize {
        Gateway::inherited_flows(self)
    }

    fn flows(&self, from: usize, most: usize) -> (Vec<FlowInfo>, Option<usize>) {
        self.flows_among(from, most)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Gateway::counters(self).named().collect()
    }

    fn gains(&self) -> Vec<GainInfo> {
        Gateway::gains(self)
    }

    fn state(&self) -> State {
        State {
            held: self.allocated() as u64,
            memory: self.config().memory.0,
            lateness: self.lateness(),
            flows: self.flows_known() as u64,
            max_flows: self.config().max_flows as u64,
        }
    }
}

/// What a process asks that wants to go on in the place of this one; `take_over.rs` has what follows.
pub(crate) const TAKE_OVER: &str = "take-over";
/// What it says when it comes, and begins to prepare itself.
pub(crate) const ANNOUNCE: &str = "take-over-soon";
/// Flows that are looked at in one round: a fraction of a millisecond.
const FLOWS_A_ROUND: usize = 256;
/// Requests that are answered at once; whoever comes then is sent away.
const AT_ONCE: usize = 16;
/// How long one may take to ask, and to read each part of the answer.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(10);
/// Who asks as soon as this is heard at once; who takes longer waits for a thread.
const SOON: Duration = Duration::from_millis(20);
/// How long one may take to prepare itself that wants to take over.
const PREPARING: Duration = Duration::from_secs(120);
/// The longest request.
const LONGEST_REQUEST: usize = 128;

/// What somebody asks on the control socket, or tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The flows, as text.
    Flows,
    /// The flows, as JSON.
    FlowsJson,
    /// The counters, as text.
    Counters,
    /// The counters, as JSON.
    CountersJson,
    /// What splitting gains, as text.
    Gain,
    /// What splitting gains, as JSON.
    GainJson,
    /// All that is shown of it, as JSON.
    Snapshot,
    /// The flows that this is about.
    Find(String),
    /// What the access side carries.
    Bandwidth(Result<BandwidthReport, ParseBandwidthError>),
    /// To be handed everything, by and by.
    Announce,
    /// To be handed everything.
    TakeOver,
    /// Something else.
    Unknown(String),
}

impl Request {
    /// Understands what came.
    pub fn read(bytes: &[u8]) -> Request {
        let text = String::from_utf8_lossy(bytes).trim().to_owned();
        // What was announced may be asked by the time that this is read.
        let asked = text.strip_prefix(ANNOUNCE).filter(|rest| !rest.is_empty()).unwrap_or(&text);
        match asked {
            "flows" => Request::Flows,
            "flows-json" => Request::FlowsJson,
            "counters" => Request::Counters,
            "counters-json" => Request::CountersJson,
            "gain" => Request::Gain,
            "gain-json" => Request::GainJson,
            "snapshot" => Request::Snapshot,
            ANNOUNCE => Request::Announce,
            TAKE_OVER => Request::TakeOver,
            other => match (other.strip_prefix("find "), other.strip_prefix("bandwidth ")) {
                (Some(sought), _) => Request::Find(sought.to_owned()),
                (_, Some(report)) => Request::Bandwidth(report.parse()),
                (None, None) => Request::Unknown(text),
            },
        }
    }

    /// Waits this long for a request; `None` if whoever would ask is gone.
    fn hear(stream: &mut UnixStream, longest: Duration) -> io::Result<Option<Request>> {
        stream.set_read_timeout(Some(longest))?;
        let mut request = [0; LONGEST_REQUEST];
        let length = stream.read(&mut request)?;
        Ok((length > 0).then(|| Request::read(&request[..length])))
    }
}

/// The socket that a running gateway answers questions on: `flows`, `flows-json`, `counters`,
/// `counters-json`, `gain`, `gain-json`, `snapshot` and `find TEXT`, one a connection. It also takes `bandwidth 1 Mbit/s` and `bandwidth north: 1 Mbit/s`
/// from a radio controller.
///
/// Threads of its own listen, write the text and send it. The thread that has the packets is asked for what only it knows, and
/// lists flows a few at a time, with packets in between.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    waker: Arc<Waker>,
    questions: Receiver<Question>,
    /// A listing of flows that is under way, and where it goes on.
    listing: Option<(Sender<Part>, usize)>,
    path: Option<PathBuf>,
    /// Until it listens.
    listener: Option<(UnixListener, Front)>,
}

/// What the thread with the packets is asked.
#[derive(Debug)]
struct Question {
    about: About,
    answer: Sender<Part>,
}

#[derive(Debug)]
enum About {
    Flows,
    Counters,
    Gains,
    State,
    /// It is told something.
    Bandwidth(BandwidthReport),
    /// Another process wants to go on in its place, and is to be handed all that takes over this.
    TakeOver(UnixStream),
}

/// What the thread with the packets is told.
#[derive(Debug)]
pub(crate) enum Told {
    /// The access side carries another bandwidth.
    Bandwidth(BandwidthReport),
    /// Another process wants to go on in its place.
    TakeOver(UnixStream),
}

/// A part of an answer.
#[derive(Debug)]
enum Part {
    Flows(Vec<FlowInfo>),
    Counters(Vec<(&'static str, u64)>),
    Gains(Vec<GainInfo>),
    State(State),
}

impl ControlSocket {
    /// Takes `path`, in place of a predecessor's socket that may be there. Only its owner may ask.
    pub(crate) fn bind(path: PathBuf) -> io::Result<Self> {
        let _ = std::fs::remove_file(&path);
        let mut socket = Self::adopt(shorthaul_os::files::listen_privately(&path)?)?;
        socket.path = Some(path);
        Ok(socket)
    }

    /// Takes a socket that somebody else has made, and who sees to its file, too.
    pub(crate) fn adopt(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(false)?;
        let waker = Arc::new(Waker::new()?);
        let (ask, questions) = mpsc::sync_channel(AT_ONCE);
        let front = Front { ask, waker: Arc::clone(&waker) };
        Ok(ControlSocket { waker, questions, listing: None, path: None, listener: Some((listener, front)) })
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

    /// Says what was asked, a little at a time, and returns what was told instead.
    pub(crate) fn answer(&mut self, machine: &impl Controlled, stats: LoopStats) -> Option<Told> {
        self.waker.clear();
        if let Some((answer, from)) = self.listing.take() {
            let (flows, next) = machine.flows(from, FLOWS_A_ROUND);
            // Whoever asked may be gone.
            if answer.send(Part::Flows(flows)).is_ok()
                && let Some(next) = next
            {
                self.listing = Some((answer, next));
            }
            self.waker.wake();
            return None;
        }
        let Question { about, answer } = self.questions.try_recv().ok()?;
        self.waker.wake(); // there may be another
        let _ = match about {
            About::Flows => {
                self.listing = Some((answer, 0));
                return None;
            }
            About::Counters => {
                answer.send(Part::Counters(machine.counters().into_iter().chain(stats.named()).collect()))
            }
            About::Gains => answer.send(Part::Gains(machine.gains())),
            About::State => answer.send(Part::State(machine.state())),
            About::Bandwidth(report) => return Some(Told::Bandwidth(report)),
            About::TakeOver(stream) => return Some(Told::TakeOver(stream)),
        };
        None
    }
}

impl ControlSocket {
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

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The side of the socket.
#[derive(Clone, Debug)]
struct Front {
    ask: SyncSender<Question>,
    waker: Arc<Waker>,
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
        if Request::hear(&mut stream, PREPARING)? == Some(Request::TakeOver) {
            drop(self.ask(About::TakeOver(stream)));
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
        if request == Request::TakeOver {
            drop(self.ask(About::TakeOver(stream)));
            return Ok(());
        }
        let out = &mut BufWriter::new(stream);
        match request {
            Request::Flows => {
                for part in self.ask(About::Flows) {
                    let Part::Flows(flows) = part else { continue };
                    flows.iter().try_for_each(|flow| writeln!(out, "{flow}"))?;
                }
            }
            Request::FlowsJson => {
                let mut between = "[";
                for part in self.ask(About::Flows) {
                    let Part::Flows(flows) = part else { continue };
                    for flow in &flows {
                        write!(out, "{between}{}", flow_json(flow))?;
                        between = ",";
                    }
                }
                writeln!(out, "{}]", if between == "[" { "[" } else { "" })?;
            }
            Request::Counters => {
                for (name, count) in self.counters() {
                    writeln!(out, "{count:>12} {name}")?;
                }
            }
            Request::CountersJson => {
                let counters =
                    self.counters().into_iter().map(|(name, count)| (name.to_owned(), count.into()));
                writeln!(out, "{}", Value::Object(counters.collect()))?;
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
                drop(self.ask(About::Bandwidth(report)));
            }
            Request::Bandwidth(Err(error)) => writeln!(out, "{error}")?,
            Request::Announce | Request::TakeOver => {} // these have no answer but what is handed over
            Request::Unknown(other) => {
                let known = "flows, flows-json, counters, counters-json, gain, gain-json, snapshot or find TEXT, or tell a bandwidth such as `bandwidth 1 Mbit/s`";
                writeln!(out, "unknown request `{other}`: ask for {known}")?;
            }
        }
        out.flush()
    }

    /// The parts of the answer, until there are no more.
    fn ask(&self, about: About) -> impl Iterator<Item = Part> + use<> {
        let (answer, parts) = mpsc::channel();
        let _ = self.ask.send(Question { about, answer });
        self.waker.wake();
        parts.into_iter()
    }
}

impl Source for Front {
    fn flows(&self, each: &mut dyn FnMut(Vec<FlowInfo>)) {
        self.ask(About::Flows).for_each(|part| {
            if let Part::Flows(flows) = part {
                each(flows)
            }
        });
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let parts = self.ask(About::Counters);
        parts
            .flat_map(|part| if let Part::Counters(counters) = part { counters } else { Vec::new() })
            .collect()
    }

    fn gains(&self) -> Vec<GainInfo> {
        let parts = self.ask(About::Gains);
        parts.flat_map(|part| if let Part::Gains(gains) = part { gains } else { Vec::new() }).collect()
    }

    fn state(&self) -> Option<State> {
        self.ask(About::State).find_map(|part| if let Part::State(state) = part { Some(state) } else { None })
    }
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
        "first": gain.figures.iter().map(figure).collect::<Vec<_>>(),
    })
}

fn flow_json(flow: &FlowInfo) -> Value {
    let leg = |leg: &LegInfo| {
        json!({
            "congestion": leg.control, "cwnd": leg.window, "in_flight": leg.in_flight, "held": leg.buffered,
            "ssthresh": (leg.ssthresh != u64::MAX).then_some(leg.ssthresh),
            "srtt_us": leg.srtt.map(|srtt| srtt.as_micros() as u64),
            "min_rtt_us": leg.min_rtt.map(|rtt| rtt.as_micros() as u64), "mss": leg.mss, "window": leg.peer_window,
            "delivered": leg.delivered, "retransmitted": leg.retransmitted, "timeouts": leg.timeouts,
        })
    };
    let micros = |time: Option<Duration>| time.map(|time| time.as_micros() as u64);
    let direction = |seen: &ObservedDirection| {
        json!({
            "bytes": seen.bytes, "retransmitted": seen.retransmitted,
            "srtt_us": micros(seen.srtt), "min_rtt_us": micros(seen.min_rtt),
        })
    };
    let observed = |Observed { directions, first_byte, duration }: &Observed| {
        json!({
            "to_server": direction(&directions[0]), "to_client": direction(&directions[1]),
            "first_byte_us": micros(*first_byte), "duration_us": duration.as_micros() as u64,
        })
    };
    json!({
        "observed": flow.observed.as_ref().map(observed),
        "client": flow.key.src.to_string(), "server": flow.key.dst.to_string(), "state": flow.state,
        "age_ms": flow.age.as_millis() as u64,
        "to_server": flow.legs.as_ref().map(|legs| leg(&legs[0])),
        "to_client": flow.legs.as_ref().map(|legs| leg(&legs[1])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_types::{FlowKey, PortId, Time};

    /// What is written to whoever asks a machine this.
    fn answer(request: &str, machine: &impl Controlled, stats: LoopStats) -> String {
        let path = std::env::temp_dir().join(format!("shorthaul-control-{}-{request}", std::process::id()));
        let mut control = ControlSocket::bind(path.clone()).unwrap();
        let _ = control.listen(AboutGateway::default(), false).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        });
        while !reader.is_finished() {
            shorthaul_os::poll::wait_readable([control.as_fd()], Some(Duration::from_millis(10))).unwrap();
            control.answer(machine, stats);
        }
        reader.join().unwrap()
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
            assert!(most <= 256, "{most} flows in one round");
            let to = (from + most).min(self.0);
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
    }

    #[test]
    fn whoever_asks_nothing_keeps_nobody_waiting() {
        let path = std::env::temp_dir().join(format!("shorthaul-control-silent-{}", std::process::id()));
        let mut control = ControlSocket::bind(path.clone()).unwrap();
        let _ = control.listen(AboutGateway::default(), false).unwrap();
        let silent: Vec<_> = (0..5).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "others may not ask");
        let before = std::time::Instant::now();
        for _ in 0..100 {
            assert!(control.answer(&Forwarder::default(), LoopStats::default()).is_none());
        }
        assert!(before.elapsed() < Duration::from_millis(500), "the packets wait for who says nothing");
        drop(silent);
    }
}
