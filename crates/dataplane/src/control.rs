use crate::{BandwidthReport, Driven, Forwarder, LoopStats};
use serde_json::{Value, json};
use shorthaul_proxy::{FlowInfo, GainFigure, GainInfo, Gateway, LegInfo, Observed, ObservedDirection};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The control socket of the gateway `name`.
pub fn control_path(run_dir: &Path, name: &str) -> PathBuf {
    run_dir.join(format!("{name}.sock"))
}

/// What the daemon asks of a machine beyond driving it.
pub trait Controlled: Driven {
    /// Flows of which it holds bytes that their sender believes delivered.
    fn held_flows(&self) -> usize {
        0
    }

    /// Every flow that it knows.
    fn flows(&self) -> Vec<FlowInfo> {
        Vec::new()
    }

    /// Its counters, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What it gains, by classes of flows.
    fn gains(&self) -> Vec<GainInfo> {
        Vec::new()
    }
}

impl Controlled for Forwarder {}

impl Controlled for Gateway {
    fn held_flows(&self) -> usize {
        Gateway::held_flows(self)
    }

    fn flows(&self) -> Vec<FlowInfo> {
        Gateway::flows(self).collect()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Gateway::counters(self).named().collect()
    }

    fn gains(&self) -> Vec<GainInfo> {
        Gateway::gains(self)
    }
}

/// The socket that a running gateway answers questions on: `flows`, `flows-json`, `counters`,
/// `counters-json`, `gain` and `gain-json`, one a connection. It also takes `bandwidth 1 Mbit/s` and `bandwidth north: 1 Mbit/s`
/// from a radio controller.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Listens at `path`, in place of a predecessor's socket that may be there.
    pub(crate) fn bind(path: PathBuf) -> Result<Self, (PathBuf, io::Error)> {
        let _ = std::fs::remove_file(&path);
        let bound = UnixListener::bind(&path).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        match bound {
            Ok(listener) => Ok(ControlSocket { listener, path }),
            Err(error) => Err((path, error)),
        }
    }

    /// Answers one question, and returns what was told instead of asked. Whoever asks gets a moment to say
    /// what, for packets wait meanwhile; to read the answer it may take longer.
    pub(crate) fn answer(&self, machine: &impl Controlled, stats: LoopStats) -> Option<BandwidthReport> {
        const TO_ASK: Duration = Duration::from_millis(20);
        const TO_READ: Duration = Duration::from_secs(10);
        let (mut stream, _) = self.listener.accept().ok()?;
        let mut request = [0; 128];
        let asked = stream.set_read_timeout(Some(TO_ASK)).and_then(|()| stream.read(&mut request));
        let request = String::from_utf8_lossy(&request[..asked.ok()?]).trim().to_owned();
        let told = request.strip_prefix("bandwidth ").map(str::parse::<BandwidthReport>);
        let text = match &told {
            None => answer(&request, machine, stats),
            Some(Ok(report)) => format!("bandwidth {report}\n"),
            Some(Err(error)) => format!("{error}\n"),
        };
        let write = move |mut stream: UnixStream| {
            let _ = stream.set_write_timeout(Some(TO_READ)).and_then(|()| stream.write_all(text.as_bytes()));
        };
        let _ = std::thread::Builder::new().name("answer".into()).spawn(move || write(stream));
        told.and_then(Result::ok)
    }
}

impl AsFd for ControlSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn answer(request: &str, machine: &impl Controlled, stats: LoopStats) -> String {
    let counters = || machine.counters().into_iter().chain(stats.named());
    let mut text = String::new();
    match request {
        "flows" => machine.flows().iter().for_each(|flow| {
            let _ = writeln!(text, "{flow}");
        }),
        "flows-json" => {
            let flows = machine.flows().iter().map(flow_json).collect();
            let _ = writeln!(text, "{}", Value::Array(flows));
        }
        "counters" => counters().for_each(|(name, count)| {
            let _ = writeln!(text, "{count:>12} {name}");
        }),
        "counters-json" => {
            let counters = counters().map(|(name, count)| (name.to_owned(), count.into())).collect();
            let _ = writeln!(text, "{}", Value::Object(counters));
        }
        "gain" => match machine.gains() {
            gains if gains.is_empty() => {
                let why = "no flow has come far enough yet, or control_group is 0";
                let _ = writeln!(text, "nothing was compared: {why}");
            }
            gains => gains.iter().for_each(|gain| {
                let _ = writeln!(text, "{gain}");
            }),
        },
        "gain-json" => {
            let gains = machine.gains().iter().map(gain_json).collect();
            let _ = writeln!(text, "{}", Value::Array(gains));
        }
        other => {
            let known = "flows, flows-json, counters, counters-json, gain or gain-json, or tell a bandwidth such as `bandwidth 1 Mbit/s`";
            let _ = writeln!(text, "unknown request `{other}`: ask for {known}");
        }
    }
    text
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
        "policy": gain.policy, "edge": gain.edge.to_string(),
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
            "srtt_us": leg.srtt.map(|srtt| srtt.as_micros() as u64), "mss": leg.mss, "window": leg.peer_window,
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
}
