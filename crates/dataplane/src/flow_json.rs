//! A flow as JSON, written as it goes: of a million, nobody has the time to build it up first.
use serde::Serialize;
use shorthaul_proxy::{FlowInfo, LegInfo, Observed, ObservedDirection};
use std::net::SocketAddr;
use std::time::Duration;

fn micros(time: Option<Duration>) -> Option<u64> {
    time.map(|time| time.as_micros() as u64)
}

#[derive(Serialize)]
pub(crate) struct FlowJson<'a> {
    client: SocketAddr,
    server: SocketAddr,
    state: &'a str,
    age_ms: u64,
    to_server: Option<LegJson<'a>>,
    to_client: Option<LegJson<'a>>,
    observed: Option<ObservedJson>,
}

#[derive(Serialize)]
struct LegJson<'a> {
    congestion: &'a str,
    cwnd: u64,
    ssthresh: Option<u64>,
    in_flight: u64,
    held: u64,
    srtt_us: Option<u64>,
    min_rtt_us: Option<u64>,
    mss: u32,
    window: u64,
    delivered: u64,
    retransmitted: u64,
    timeouts: u64,
}

#[derive(Serialize)]
struct ObservedJson {
    to_server: DirectionJson,
    to_client: DirectionJson,
    first_byte_us: Option<u64>,
    duration_us: u64,
    /// Memory of the packets that interceptors keep, in bytes.
    kept: u64,
}

#[derive(Serialize)]
struct DirectionJson {
    bytes: u64,
    retransmitted: u64,
    srtt_us: Option<u64>,
    min_rtt_us: Option<u64>,
}

impl<'a> LegJson<'a> {
    fn of(leg: &LegInfo) -> LegJson<'a> {
        LegJson {
            congestion: leg.control,
            cwnd: leg.window,
            ssthresh: (leg.ssthresh != u64::MAX).then_some(leg.ssthresh),
            in_flight: leg.in_flight,
            held: leg.buffered,
            srtt_us: micros(leg.srtt),
            min_rtt_us: micros(leg.min_rtt),
            mss: leg.mss,
            window: leg.peer_window,
            delivered: leg.delivered,
            retransmitted: leg.retransmitted,
            timeouts: leg.timeouts,
        }
    }
}

impl DirectionJson {
    fn of(seen: &ObservedDirection) -> DirectionJson {
        DirectionJson {
            bytes: seen.bytes,
            retransmitted: seen.retransmitted,
            srtt_us: micros(seen.srtt),
            min_rtt_us: micros(seen.min_rtt),
        }
    }
}

impl<'a> FlowJson<'a> {
    pub(crate) fn of(flow: &'a FlowInfo) -> FlowJson<'a> {
        let leg = |at: usize| flow.legs.as_ref().map(|legs| LegJson::of(&legs[at]));
        let observed = |Observed { directions, first_byte, duration, kept }: &Observed| ObservedJson {
            to_server: DirectionJson::of(&directions[0]),
            to_client: DirectionJson::of(&directions[1]),
            first_byte_us: micros(*first_byte),
            duration_us: duration.as_micros() as u64,
            kept: *kept,
        };
        FlowJson {
            client: flow.key.src,
            server: flow.key.dst,
            state: flow.state,
            age_ms: flow.age.as_millis() as u64,
            to_server: leg(0),
            to_client: leg(1),
            observed: flow.observed.as_ref().map(observed),
        }
    }
}
