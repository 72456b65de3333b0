use crate::routes::is_forwarding;
use crate::sys::{Signals, Tun, interface_index, monotonic, sharpen_timers};
use crate::{Config, ConfigError, Driven, EventLoop, Forwarder, Interception, Journal, Routes};
use shorthaul_proxy::Gateway;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

/// Why a gateway did not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An interface is not there.
    #[error("there is no interface `{name}`; this host has {present}")]
    NoInterface {
        /// The one that was named.
        name: String,
        /// Those that are there.
        present: String,
    },
    /// The host does not pass packets on.
    #[error(
        "this host does not forward packets: run `sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1`"
    )]
    NotForwarding,
    /// A device cannot be made.
    #[error(
        "cannot make the device `{name}`: {error} (it takes CAP_NET_ADMIN, so run it as root or in a user namespace, and /dev/net/tun)"
    )]
    Device {
        /// The device.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// A file or socket of ours cannot be made.
    #[error("{path}: {error}")]
    File {
        /// The path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The kernel refused something else.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        error: io::Error,
    },
}

/// The control socket of the gateway `name`.
pub fn control_path(run_dir: &std::path::Path, name: &str) -> PathBuf {
    run_dir.join(format!("{name}.sock"))
}

/// Runs a gateway until it is asked to end and has delivered what it holds. `ready` is called once,
/// when packets are being intercepted.
///
/// # Errors
/// Says what is missing and what to do.
pub fn run_gateway(config: &Config, ready: impl FnOnce()) -> Result<(), DaemonError> {
    let hash_seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    let mut gateway = Gateway::new(config.gateway(hash_seed)?);
    make_run_dir(config)?;
    let path = config.run_dir.join(format!("{}.custody", config.name));
    let (mut journal, left) = Journal::open(&path, config.memory.max_flows)
        .map_err(|error| DaemonError::File { path: path.clone(), error })?;
    gateway.adopt(monotonic(), left.into_iter());
    run(config, gateway, ready, |slot, record| journal.store(slot, record))?;
    drop(journal);
    let _ = std::fs::remove_file(path);
    Ok(())
}

/// Forwards every packet as it is: what a gateway is measured against.
///
/// # Errors
/// Says what is missing and what to do.
pub fn run_forwarder(config: &Config, ready: impl FnOnce()) -> Result<(), DaemonError> {
    config.gateway(0)?;
    make_run_dir(config)?;
    run(config, Forwarder::default(), ready, |_, _| ())
}

/// What the daemon asks of a machine beyond driving it.
pub trait Controlled: Driven {
    /// Begin to step out of everything.
    fn drain(&mut self) {}
    /// Whether nothing is held any more.
    fn is_drained(&self) -> bool {
        true
    }
    /// Give up what is still held.
    fn abandon(&mut self) {}
    /// The answer to a line on the control socket.
    fn answer(&self, request: &str) -> String;
}

impl Controlled for Forwarder {
    fn answer(&self, _request: &str) -> String {
        "[]\n".into()
    }
}

impl Controlled for Gateway {
    fn drain(&mut self) {
        Gateway::drain(self, monotonic());
    }

    fn is_drained(&self) -> bool {
        self.held_flows() == 0
    }

    fn abandon(&mut self) {
        self.reset_held(monotonic());
    }

    fn answer(&self, request: &str) -> String {
        let mut text = String::new();
        match request {
            "flows" => self.flows().for_each(|flow| {
                let _ = writeln!(text, "{flow}");
            }),
            "flows-json" => {
                let flows: Vec<_> = self.flows().map(|flow| flow_json(&flow)).collect();
                let _ = writeln!(text, "{}", serde_json::Value::Array(flows));
            }
            "counters" => self.counters().named().for_each(|(name, count)| {
                let _ = writeln!(text, "{count:>12} {name}");
            }),
            other => {
                let _ = writeln!(text, "unknown request `{other}`: ask for flows, flows-json or counters");
            }
        }
        text
    }
}

fn flow_json(flow: &shorthaul_proxy::FlowInfo) -> serde_json::Value {
    let leg = |leg: &shorthaul_proxy::LegInfo| {
        serde_json::json!({
            "congestion": leg.control, "cwnd": leg.window, "in_flight": leg.in_flight, "held": leg.buffered,
            "srtt_us": leg.srtt.map(|srtt| srtt.as_micros() as u64), "mss": leg.mss, "window": leg.peer_window,
            "delivered": leg.delivered, "retransmitted": leg.retransmitted, "timeouts": leg.timeouts,
        })
    };
    serde_json::json!({
        "client": flow.key.src.to_string(), "server": flow.key.dst.to_string(), "state": flow.state,
        "age_ms": flow.age.as_millis() as u64,
        "to_server": flow.legs.as_ref().map(|legs| leg(&legs[0])),
        "to_client": flow.legs.as_ref().map(|legs| leg(&legs[1])),
    })
}

fn run<M: Controlled>(
    config: &Config,
    machine: M,
    ready: impl FnOnce(),
    mut journal: impl FnMut(u32, Option<shorthaul_proxy::CustodyRecord>),
) -> Result<(), DaemonError> {
    let system = |what| move |error| DaemonError::System { what, error };
    for name in config.edge.iter().chain(&config.wan) {
        if interface_index(name).is_err() {
            return Err(DaemonError::NoInterface { name: name.clone(), present: interfaces() });
        }
    }
    if !is_forwarding() {
        return Err(DaemonError::NotForwarding);
    }
    sharpen_timers();
    let signals = Signals::take_over().map_err(system("signals"))?;
    let names = [format!("sh-{}-e", config.name), format!("sh-{}-w", config.name)];
    let device =
        |name: &String| Tun::create(name).map_err(|error| DaemonError::Device { name: name.clone(), error });
    let devices = [device(&names[0])?, device(&names[1])?];
    let socket_path = control_path(&config.run_dir, &config.name);
    let _ = std::fs::remove_file(&socket_path);
    let control = UnixListener::bind(&socket_path)
        .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
        .map_err(|error| DaemonError::File { path: socket_path.clone(), error })?;
    let routes = Routes::install(Interception {
        interfaces: [config.edge.clone(), config.wan.clone()],
        devices: names,
        tables: [config.table, config.table + 1],
        priority: config.table,
    })
    .map_err(system("routing"))?;
    let mut event_loop = EventLoop::new(devices, machine);
    ready();
    let mut end = None;
    loop {
        let others = [signals.as_fd(), control.as_fd()];
        let longest = Duration::from_millis(if end.is_some() { 10 } else { 1000 });
        let [signal, asked] =
            event_loop.round(others, longest, &mut journal).map_err(system("a device is gone"))?;
        if asked && let Ok((stream, _)) = control.accept() {
            answer(stream, event_loop.machine());
        }
        if signal && signals.arrived() {
            if end.is_some() {
                break;
            }
            event_loop.machine().drain();
            end = Some(monotonic() + config.drain_timeout);
        }
        if let Some(end) = end {
            if monotonic() >= end {
                event_loop.machine().abandon();
            }
            if event_loop.machine().is_drained() {
                // One more round, for the last acknowledgments.
                let others = [signals.as_fd(), control.as_fd()];
                let _ = event_loop.round(others, Duration::ZERO, &mut journal);
                break;
            }
        }
    }
    drop(routes);
    let _ = std::fs::remove_file(socket_path);
    Ok(())
}

fn make_run_dir(config: &Config) -> Result<(), DaemonError> {
    std::fs::create_dir_all(&config.run_dir)
        .map_err(|error| DaemonError::File { path: config.run_dir.clone(), error })
}

/// Answers one request. Whoever asks gets a fifth of a second to say what, and to read the answer:
/// packets wait meanwhile.
fn answer(mut stream: UnixStream, machine: &impl Controlled) {
    let patience = Some(Duration::from_millis(200));
    let _ = stream.set_read_timeout(patience);
    let _ = stream.set_write_timeout(patience);
    let mut request = [0; 64];
    let Ok(len) = stream.read(&mut request) else { return };
    let request = String::from_utf8_lossy(&request[..len]);
    let _ = stream.write_all(machine.answer(request.trim()).as_bytes());
}

fn interfaces() -> String {
    let mut names: Vec<String> = std::fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.join(", ")
}
