//! A sample as Prometheus reads it. Names follow its conventions: base units, `_total` for what only grows.
use crate::sampler::Sampler;
use crate::snapshot::{About, GainRow, Snapshot, WorkerRow};
use prometheus_client::encoding::text::encode as encode_text;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;

/// Counters of which there are several by a label: the label, its value, and what is counted under which name.
struct ByLabel {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    of: &'static [(&'static str, &'static str)],
}

const BY_LABEL: &[ByLabel] = &[
    ByLabel {
        name: "flows_opened",
        help: "Flows that were opened, by what is done to them",
        label: "mode",
        of: &[("split", "flows_split"), ("observed", "flows_observed")],
    },
    ByLabel {
        name: "flows_not_split",
        help: "Flows that were not split though their policy would, by reason",
        label: "reason",
        of: &[
            ("control", "flows_control"),
            ("withdrawn", "flows_withdrawn"),
            ("overload", "unsplit_overload"),
            ("options", "unsplit_options"),
            ("unkept", "unsplit_unkept"),
        ],
    },
    ByLabel {
        name: "flows_ended",
        help: "Split flows that ended, by how",
        label: "how",
        of: &[
            ("finished", "flows_finished"),
            ("reset", "flows_reset"),
            ("given_up", "flows_given_up"),
            ("stepped_out", "flows_stepped_out"),
            ("lost_in_crash", "flows_lost_in_crash"),
        ],
    },
    ByLabel {
        name: "packets_dropped",
        help: "Packets that a device did not take, by reason",
        label: "reason",
        of: &[
            ("queue_full", "dropped_queue_full"),
            ("no_memory", "dropped_no_memory"),
            ("device_down", "dropped_device_down"),
            ("refused", "dropped_refused"),
            ("handed_on", "dropped_handed_on"),
            ("without_header", "dropped_without_header"),
            ("source_elsewhere", "dropped_source_elsewhere"),
            ("path_tail", "path_tail_dropped"),
        ],
    },
    ByLabel {
        name: "packets",
        help: "Packets that were read from devices and written to them",
        label: "way",
        of: &[("in", "packets_read"), ("out", "packets_written")],
    },
];

/// Counters without a label: name, help, and what they are called inside.
const PLAIN: &[(&str, &str, &str)] = &[
    ("flows_resumed", "Flows that a predecessor left and that went on", "flows_resumed"),
    ("packets_passed_untouched", "Packets that were forwarded as they came", "forwarded_untouched"),
    (
        "segments_unacceptable",
        "Segments outside of the window of their connection, or old by their timestamp: beyond it, or sent again though all of it was acknowledged",
        "segments_unacceptable",
    ),
    ("half_open_forgotten", "Connections that were forgotten before they were open", "half_open_forgotten"),
    ("gain_harms", "How often splitting was found to make a class slower", "gain_harms"),
    ("rounds", "Rounds of the event loop", "rounds"),
    ("late_rounds", "Rounds that began a millisecond or more too late", "late_rounds"),
];

/// The bytes of all packets, and of the payload of split flows, by direction.
const BYTES: &[(&str, &str)] = &[("down", "bytes_from_wan"), ("up", "bytes_from_access")];
const PAYLOAD: &[(&str, &str)] = &[("down", "split_bytes_down"), ("up", "split_bytes_up")];

pub(crate) fn encode(snapshot: &Snapshot, sampler: &Sampler) -> Result<String, fmt::Error> {
    let mut all = Registry::default();
    let registry = all.sub_registry_with_prefix("shorthaul").sub_registry_with_prefix("gateway");
    let count = |name: &str| snapshot.counters.get(name).copied().unwrap_or(0);
    let about = &snapshot.about;
    let info = vec![("version", about.version.clone()), ("name", about.name.clone())];
    registry.register("build", "What runs", Info::new(info));

    let flows = Family::<Labels, Gauge>::default();
    for (state, number) in &snapshot.flows {
        flows.get_or_create(&vec![("state", state.clone())]).set(*number as i64);
    }
    registry.register("flows", "Flows in the table, by state", flows);
    registry.register(
        "hosts",
        "Hosts at the access side that have flows",
        gauge(snapshot.hosts_known as f64),
    );
    for ByLabel { name, help, label, of } in BY_LABEL {
        let family = Family::<Labels, Counter>::default();
        for (value, counter) in *of {
            family.get_or_create(&vec![(*label, (*value).into())]).inc_by(count(counter));
        }
        registry.register(*name, *help, family);
    }
    for (name, help, counter) in PLAIN {
        registry.register(*name, *help, ConstCounter::new(count(counter)));
    }
    for (name, help, of) in [
        ("traffic", "Bytes of packets that came, by direction", BYTES),
        ("payload", "Payload of split flows that came, by direction", PAYLOAD),
    ] {
        let family = Family::<Labels, Counter>::default();
        for (direction, counter) in of {
            family.get_or_create(&vec![("direction", (*direction).into())]).inc_by(count(counter));
        }
        registry.register_with_unit(name, help, Unit::Bytes, family);
    }
    let payload = ConstCounter::new(count("observed_bytes"));
    registry.register_with_unit("observed", "Payload of flows that are observed", Unit::Bytes, payload);

    let bytes = |value: u64| gauge(value as f64);
    registry.register_with_unit("memory_held", "Held for flows", Unit::Bytes, bytes(snapshot.held));
    registry.register_with_unit("memory_limit", "May be held", Unit::Bytes, bytes(snapshot.memory));
    let lateness = gauge(snapshot.lateness_us as f64 / 1e6);
    registry.register_with_unit("lateness", "The latest timer of the last seconds", Unit::Seconds, lateness);
    let help = "Time in queues between the gateway and busy hosts, once a sample";
    registry.register_with_unit("access_queueing_delay", help, Unit::Seconds, sampler.queueing.clone());
    let help = "Round trips between the gateway and busy hosts, once a sample";
    registry.register_with_unit("access_round_trip", help, Unit::Seconds, sampler.round_trips.clone());
    register_gains(registry, snapshot);
    register_workers(registry, snapshot);

    let mut text = String::new();
    encode_text(&mut text, &all)?;
    Ok(text)
}

/// The metrics of a gateway that has one of everything: what there is to be read, for documents.
///
/// ```
/// assert!(shorthaul_monitor::metrics_of_everything().contains("# TYPE shorthaul_gateway_flows gauge"));
/// ```
pub fn metrics_of_everything() -> String {
    let snapshot = Snapshot {
        flows: [("split".to_owned(), 1)].into(),
        gains: vec![GainRow {
            gain: Some(1.0),
            interval: Some((1.0, 1.0)),
            split_s: Some(1.0),
            ..GainRow::default()
        }],
        workers: vec![WorkerRow::default()],
        ..Snapshot::default()
    };
    // A string takes everything.
    encode(&snapshot, &Sampler::new(About::default())).unwrap_or_default()
}

/// The same in the older text format of Prometheus (0.0.4), which `promtool check metrics` reads: there a counter's type and help stand
/// under the name of its samples, and neither units nor infos are known.
pub(crate) fn as_text(openmetrics: &str) -> String {
    let types = openmetrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let types: HashMap<&str, &str> = types.collect();
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("UNIT" | "EOF"), ..) => continue,
            (Some("#"), Some(what), Some(name), Some(rest)) => {
                let (suffix, usual) = match types.get(name) {
                    Some(&"counter") => ("_total", rest),
                    Some(&"info") => ("_info", "gauge"),
                    _ => ("", rest),
                };
                let rest = if what == "TYPE" { usual } else { rest };
                let _ = writeln!(text, "# {what} {name}{suffix} {rest}");
            }
            _ => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

fn gauge(value: f64) -> ConstGauge<f64> {
    ConstGauge::new(value)
}

/// What each of several event loops has.
fn register_workers(registry: &mut Registry, snapshot: &Snapshot) {
    if snapshot.workers.is_empty() {
        return;
    }
    let [packets, handed_on] = [(); 2].map(|()| Family::<Labels, Counter>::default());
    let (flows, lateness) = (Family::<Labels, Gauge>::default(), FloatFamily::default());
    for (number, row) in snapshot.workers.iter().enumerate() {
        let labels = vec![("worker", number.to_string())];
        packets.get_or_create(&labels).inc_by(row.packets);
        handed_on.get_or_create(&labels).inc_by(row.handed_on);
        flows.get_or_create(&labels).set(row.flows as i64);
        lateness.get_or_create(&labels).set(row.lateness_us as f64 / 1e6);
    }
    registry.register("worker_packets", "Packets of a worker's hosts", packets);
    let help = "Packets of other workers' hosts that came to a worker, and that it handed on";
    registry.register("worker_packets_handed_on", help, handed_on);
    registry.register("worker_flows", "Flows in a worker's table", flows);
    registry.register_with_unit(
        "worker_lateness",
        "A worker's latest timer of the last seconds",
        Unit::Seconds,
        lateness,
    );
}

type FloatFamily = Family<Labels, Gauge<f64, AtomicU64>>;

/// What splitting gains against the control group.
fn register_gains(registry: &mut Registry, snapshot: &Snapshot) {
    let [gain, low, high, times, flows] = [(); 5].map(|()| FloatFamily::default());
    for row in &snapshot.gains {
        let class: Labels = vec![
            ("policy", (row.policy + 1).to_string()),
            ("access", row.access.clone()),
            ("servers", row.servers.clone().unwrap_or_else(|| "all".into())),
            ("direction", if row.down { "down" } else { "up" }.into()),
            ("bytes", row.bytes.to_string()),
        ];
        if let Some(value) = row.gain {
            gain.get_or_create(&class).set(value);
        }
        if let Some((from, to)) = row.interval {
            low.get_or_create(&class).set(from);
            high.get_or_create(&class).set(to);
        }
        for (group, time, number) in
            [("split", row.split_s, row.flows[0]), ("control", row.whole_s, row.flows[1])]
        {
            let labels: Labels = class.iter().cloned().chain([("group", group.into())]).collect();
            flows.get_or_create(&labels).set(f64::from(number));
            if let Some(time) = time {
                times.get_or_create(&labels).set(time);
            }
        }
    }
    let help = "How many times as fast the first bytes of split flows arrive as those of the control group";
    registry.register_with_unit("gain", help, Unit::Other("ratio".into()), gain);
    registry.register_with_unit(
        "gain_low",
        "The lower end of its 95 % interval",
        Unit::Other("ratio".into()),
        low,
    );
    registry.register_with_unit(
        "gain_high",
        "The upper end of its 95 % interval",
        Unit::Other("ratio".into()),
        high,
    );
    let help = "The geometric mean of the time from the SYN until the first bytes have arrived";
    registry.register_with_unit("gain_time", help, Unit::Seconds, times);
    registry.register("gain_flows", "How many flows were compared", flows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_comes_out_under_its_name_and_label() {
        let gain = GainRow {
            policy: 0,
            access: "10.0.0.0/24".into(),
            servers: None,
            verdict: "gains".into(),
            down: true,
            bytes: 30_000,
            split_s: Some(0.2),
            whole_s: Some(0.5),
            flows: [40, 9],
            gain: Some(2.5),
            interval: Some((2.0, 3.0)),
        };
        let snapshot = Snapshot {
            flows: [("split".to_owned(), 3)].into(),
            counters: [("flows_control".to_owned(), 4), ("bytes_from_wan".to_owned(), 77)].into(),
            gains: vec![gain],
            ..Snapshot::default()
        };
        let sampler = Sampler::new(About::default());
        sampler.queueing.observe(0.03);
        let text = encode(&snapshot, &sampler).unwrap();
        for line in [
            "shorthaul_gateway_flows_not_split_total{reason=\"control\"} 4",
            "shorthaul_gateway_traffic_bytes_total{direction=\"down\"} 77",
            "shorthaul_gateway_access_queueing_delay_seconds_bucket{le=\"0.05\"} 1",
            "shorthaul_gateway_access_queueing_delay_seconds_bucket{le=\"0.02\"} 0",
            "shorthaul_gateway_gain_ratio{policy=\"1\",access=\"10.0.0.0/24\",servers=\"all\",direction=\"down\",bytes=\"30000\"} 2.5",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let older = as_text(&text);
        for line in [
            "# TYPE shorthaul_gateway_flows_not_split_total counter",
            "# TYPE shorthaul_gateway_build_info gauge",
            "# TYPE shorthaul_gateway_access_queueing_delay_seconds histogram",
            "shorthaul_gateway_flows_not_split_total{reason=\"control\"} 4",
        ] {
            assert!(older.contains(line), "{line} is not in\n{older}");
        }
        assert!(!older.contains("# EOF") && !older.contains("# UNIT"));
        // What alerts and the dashboard of the package ask for is there.
        for file in [
            include_str!("../../../packaging/prometheus/shorthaul.rules.yml"),
            include_str!("../../../packaging/grafana/shorthaul-gateway.json"),
        ] {
            let words = file.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            for name in words.filter(|word| word.starts_with("shorthaul_gateway_")) {
                let family = name.strip_suffix("_bucket").unwrap_or(name);
                assert!(older.contains(&format!("# TYPE {family} ")), "{name} is not in\n{older}");
            }
        }
    }

    /// What is exported is what gateways count: a counter that is renamed is missed here.
    #[test]
    fn every_counter_that_is_exported_is_one_of_the_gateways() {
        let known: Vec<&str> = shorthaul_proxy::Counters::default().named().map(|(name, _)| name).collect();
        let of_loop = [
            "packets_read",
            "packets_written",
            "rounds",
            "late_rounds",
            "bytes_from_access",
            "bytes_from_wan",
            "dropped_queue_full",
            "dropped_no_memory",
            "dropped_device_down",
            "dropped_refused",
            "dropped_handed_on",
            "dropped_without_header",
            "dropped_source_elsewhere",
        ];
        let labelled = BY_LABEL.iter().flat_map(|family| family.of.iter().map(|(_, counter)| *counter));
        let bytes = BYTES.iter().chain(PAYLOAD).map(|(_, counter)| *counter);
        for name in labelled.chain(bytes).chain(PLAIN.iter().map(|(.., counter)| *counter)) {
            assert!(known.contains(&name) || of_loop.contains(&name), "{name}");
        }
    }
}
