//! Relays as a scenario file has them: its path, its relays, and what its hosts speak.
use crate::ending::asked;
use std::path::Path as File;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use shorthaul_congestion::{Algorithm, RtoFloor};
use shorthaul_link::{Direction, LinkConfig, LossModel, QueueLimit, Rate};
use shorthaul_planner::{
    Advice, Forecast, Forwarding, Framing, Leg, Path, Relay, ThroughputModel, Transfer, model,
};
use shorthaul_report::plot::Figure;
use shorthaul_scenario::{Flow, Forward, NodeIndex, Role, Scenario, Scheme, Study, Workload};
use shorthaul_tcp::Profile;
use shorthaul_types::{BitRate, Bytes, Seed, format_duration};

use super::{Answer, Args, Row, line};

/// With more relays than this only all of them are forecast, and none.
const MOST_SUBSETS: usize = 10;
/// For links that serialize in no time.
const FAST: BitRate = BitRate::from_bits_per_sec(1_000_000_000_000);
/// A window without scaling (RFC 9293 §3.1).
const UNSCALED: Bytes = Bytes(65_535);

/// Plans one flow of a scenario: directly, and by way of each set of the relays that the scenario sends it through.
pub fn answer(args: &Args, file: &File) -> Result<Answer> {
    let study = Study::from_file(file)?;
    let points = study.points();
    let number = args.point.unwrap_or(1);
    let point = number.checked_sub(1).and_then(|at| points.get(at));
    let point = point.ok_or_else(|| asked!("--point is a number from 1 to {}", points.len()))?;
    let scenario = study.scenario(point)?;
    let flow = flow(&scenario, args.flow.as_deref())?;
    let planned = Planned { scenario: &scenario, flow, model: args.model.as_deref() };
    let transfer = planned.transfer(args)?;

    let direct = planned.forecast(&[], &transfer)?;
    let mut relayed: Vec<(Vec<NodeIndex>, Forecast)> = Vec::new();
    for relays in planned.sets() {
        let forecast = planned.forecast(&relays, &transfer)?;
        relayed.push((relays, forecast));
    }
    // The fastest of each number of relays, and all of them: that is the scenario as it stands.
    let best_of = |count: usize| {
        let alike = relayed.iter().filter(|(relays, _)| relays.len() == count);
        alike.min_by_key(|(_, forecast)| forecast.time.expected)
    };
    let best: Vec<&(Vec<NodeIndex>, Forecast)> = (1..=flow.via.len()).filter_map(best_of).collect();
    let forecasts: Vec<Forecast> = best.iter().map(|(_, forecast)| forecast.clone()).collect();
    let advice = Advice::new(Some(&direct), &forecasts, args.policy());
    let name = |index: NodeIndex| scenario.nodes[index.0].name.as_str();
    let way = |relays: &[NodeIndex]| match relays {
        [] => "direct".to_owned(),
        relays => relays.iter().map(|relay| name(*relay)).collect::<Vec<_>>().join(" → "),
    };
    let seconds = |forecast: &Forecast| forecast.time.expected.as_secs_f64();
    let row = |relays: &[NodeIndex], forecast: &Forecast| Row {
        way: way(relays),
        gain: Some(seconds(&direct) / seconds(forecast)),
        price: None,
        buffers: relays.iter().filter_map(|relay| planned.relay(*relay)?.buffer).collect(),
        advised: relays.len() == advice.relays(),
        forecast: forecast.clone(),
    };
    let rows: Vec<Row> = std::iter::once(row(&[], &direct))
        .chain(best.iter().map(|(relays, forecast)| row(relays, forecast)))
        .collect();
    let mut sentences = vec![advice.to_string()];
    sentences.extend(
        best.iter()
            .find(|(relays, _)| relays.len() == advice.relays())
            .map(|(relays, _)| format!("Way: {} → {} → {}.", name(flow.from), way(relays), name(flow.to))),
    );
    let left_out = planned.left_out();
    if !left_out.is_empty() {
        sentences.push(format!("Not in the forecast: {}.", left_out.join("; ")));
    }
    let legs = planned.chain(&[])?.legs;
    let round_trip: Duration = legs.iter().map(|leg| leg.leg.rtt).sum();
    Ok(Answer {
        question: format!(
            "{}: {} from {} to {} ({}), round trip {}; TCP by the model `{}`.",
            scenario.name,
            transfer.size,
            name(flow.from),
            name(flow.to),
            flow.name,
            format_duration(round_trip),
            planned.models(&legs),
        ),
        table: line::table(&rows),
        sentences,
        figure: figure(&scenario, &rows),
        rows,
        file: Some((scenario.name.clone(), study.text().to_owned())),
    })
}

/// Throughput against the number of relays.
fn figure(scenario: &Scenario, rows: &[Row]) -> Figure {
    let most = rows.iter().map(|row| row.forecast.throughput_interval().1.bits_per_sec()).max().unwrap_or(1);
    Figure::new(&format!("{}: throughput with its relays", scenario.name))
        .caption(
            "Size over expected time, from the first SYN to the last byte; of each number of relays the best. Intervals \
             hold what the model cannot know and what random losses do to a transfer of this length.",
        )
        .panel_height(160.0)
        .panel(line::numbers("", rows, most as f64))
}

/// The flow of that name, or the first that moves a known amount.
fn flow<'s>(scenario: &'s Scenario, name: Option<&str>) -> Result<&'s Flow> {
    let Some(name) = name else {
        let first = scenario.flows.first();
        return Ok(first.ok_or_else(|| asked!("the scenario has no flow, so there is nothing to plan"))?);
    };
    let names = || scenario.flows.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = scenario.flows.iter().find(|flow| flow.name == name || family(flow) == name);
    Ok(found.ok_or_else(|| asked!("there is no flow `{name}`; there are {}", names()))?)
}

/// The name of several alike.
fn family(flow: &Flow) -> &str {
    let numbered = |(_, number): &(&str, &str)| number.parse::<u32>() == Ok(flow.number + 1);
    flow.name.rsplit_once('.').filter(numbered).map_or(flow.name.as_str(), |(family, _)| family)
}

/// A flow and what it passes.
struct Planned<'s> {
    scenario: &'s Scenario,
    flow: &'s Flow,
    /// Instead of the one that goes with each sender's congestion control.
    model: Option<&'s str>,
}

/// A connection of a chain.
struct PlannedLeg {
    leg: Leg,
    /// The model that goes with its sender.
    model: &'static str,
}

/// The connections of a flow, and the relays and gateways between them.
struct Chain {
    legs: Vec<PlannedLeg>,
    relays: Vec<Relay>,
}

/// Who ends a connection, and how it speaks TCP there.
struct Stop<'s> {
    node: NodeIndex,
    scheme: &'s Scheme,
}

impl Planned<'_> {
    fn transfer(&self, args: &Args) -> Result<Transfer> {
        let own = match &self.flow.workload {
            Workload::Bulk(size) => Some(*size),
            Workload::Downloads { size, .. } => Some(*size),
            Workload::Requests { response, .. } => Some(*response),
            Workload::Persistent { burst, .. } => Some(*burst),
            Workload::Unlimited(_) | Workload::OnOff { .. } => None,
        };
        let alike =
            self.scenario.flows.iter().filter(|other| family(other) == family(self.flow)).count() as u32;
        let streams = args.streams.max(alike);
        let given = args.size.or(own.map(|size| Bytes(size.0 * u64::from(alike))));
        let size = given.ok_or_else(|| {
            asked!("flow `{}` has no size of its own: say how much it moves with --size", self.flow.name)
        })?;
        // Relays of one transfer may wait differently; the longest wait is what counts.
        let forwards = || self.flow.via.iter().filter_map(|relay| self.relay_role(*relay)).map(|r| r.forward);
        let waits = forwards().map(|forward| if let Forward::AfterRoundTrips(n) = forward { n } else { 0 });
        let forwarding = if args.stored || forwards().any(|forward| forward == Forward::WhenComplete) {
            Forwarding::Stored
        } else {
            Forwarding::Pipelined { wait_windows: waits.max().unwrap_or(0).max(args.wait) }
        };
        let transfer = Transfer { forwarding, streams, ..Transfer::new(size) };
        transfer.check().context("--size or --streams")?;
        Ok(transfer)
    }

    /// Each set of the flow's relays but the empty one, in the order of the way.
    fn sets(&self) -> Vec<Vec<NodeIndex>> {
        let via = &self.flow.via;
        if via.len() > MOST_SUBSETS {
            return vec![via.clone()];
        }
        let set = |bits: u32| via.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1);
        (1..1u32 << via.len()).map(|bits| set(bits).map(|(_, relay)| *relay).collect()).collect()
    }

    fn relay_role(&self, node: NodeIndex) -> Option<&shorthaul_scenario::Relay> {
        match &self.scenario.nodes[node.0].role {
            Role::Relay(relay) => Some(relay),
            _ => None,
        }
    }

    fn relay(&self, node: NodeIndex) -> Option<Relay> {
        Some(Relay { buffer: Some(self.relay_role(node)?.buffer) })
    }

    fn forecast(&self, relays: &[NodeIndex], transfer: &Transfer) -> Result<Forecast> {
        let Chain { legs, relays } = self.chain(relays)?;
        let models = legs
            .iter()
            .map(|leg| model::by_name(self.model.unwrap_or(leg.model)))
            .collect::<Result<Vec<Box<dyn ThroughputModel>>, _>>()?;
        let path = Path { legs: legs.into_iter().map(|leg| leg.leg).collect(), relays };
        Ok(path.forecast_by_leg(|at| &*models[at], transfer)?)
    }

    /// The models of a chain's legs, each once.
    fn models(&self, legs: &[PlannedLeg]) -> String {
        let mut names: Vec<&str> = legs.iter().map(|leg| self.model.unwrap_or(leg.model)).collect();
        names.dedup();
        names.join("`, `")
    }

    /// The connections by way of `relays`; gateways on the way split them, too.
    fn chain(&self, relays: &[NodeIndex]) -> Result<Chain> {
        let flow = self.flow;
        let stop = |node: NodeIndex| -> Result<Stop<'_>> {
            let scheme = match &self.scenario.nodes[node.0].role {
                Role::Host(scheme) => flow.scheme.as_ref().unwrap_or(scheme),
                Role::Relay(relay) => flow.scheme.as_ref().unwrap_or(&relay.scheme),
                Role::Router | Role::Gateway(_) => bail!("a connection ends at a host or at a relay"),
            };
            Ok(Stop { node, scheme })
        };
        let stops = [&[flow.from], relays, &[flow.to]].concat();
        let mut chain = Chain { legs: Vec::new(), relays: Vec::new() };
        for pair in stops.windows(2) {
            let (from, to) = (stop(pair[0])?, stop(pair[1])?);
            chain.relays.extend(self.relay(from.node));
            let way = self.scenario.way(from.node, to.node).context("no links lead between two relays")?;
            // Up to each gateway on the way, and from the last of them on.
            let mut sender = model_of(from.scheme)?;
            let mut part: Vec<(usize, Direction)> = Vec::new();
            for (number, hop) in way.iter().enumerate() {
                part.push(*hop);
                let at = self.end_of(*hop);
                if let Role::Gateway(gateway) = &self.scenario.nodes[at.0].role {
                    chain.legs.push(self.leg(&part, &from, &to, sender)?);
                    let next = way.get(number + 1).map(|hop| self.end_of(*hop));
                    let onward = if next == Some(gateway.edge) { &gateway.to_edge } else { &gateway.to_wan };
                    sender = name_of(onward.congestion.unwrap_or(Algorithm::Cubic), true);
                    let buffer = gateway.flow_buffer;
                    chain.relays.push(Relay { buffer: buffer.or(Some(Bytes(4 << 20))) });
                    part.clear();
                }
            }
            chain.legs.push(self.leg(&part, &from, &to, sender)?);
        }
        Ok(chain)
    }

    /// The node to which a hop leads.
    fn end_of(&self, (link, direction): (usize, Direction)) -> NodeIndex {
        let [first, second] = self.scenario.links[link].between;
        if direction == Direction::Up { second } else { first }
    }

    /// Links in a row, as one connection sees them.
    fn leg(
        &self,
        way: &[(usize, Direction)],
        from: &Stop<'_>,
        to: &Stop<'_>,
        model: &'static str,
    ) -> Result<PlannedLeg> {
        let seed = Seed(0); // no fate is drawn: only what the link is like
        let profile = profile(from.scheme)?;
        let links = || {
            way.iter().map(|(link, direction)| {
                let link = &self.scenario.links[*link];
                let back = if *direction == Direction::Up { Direction::Down } else { Direction::Up };
                (link, link.config(*direction, seed), link.config(back, seed))
            })
        };
        let mtu = links().map(|(link, ..)| link.mtu).min().unwrap_or(1500);
        let mtu = from.scheme.mss.map_or(mtu, |mss| mtu.min(mss + 40));
        let narrowest = links().map(|(_, config, _)| config).min_by_key(|config| rate(config).bits_per_sec());
        let narrowest = narrowest.context("a connection needs a link")?;
        let framing = Framing {
            link: narrowest.overhead.0 as u32,
            ip: 20,
            tcp: if profile.timestamps { 32 } else { 20 },
            mtu,
        };
        let mut rtt = Duration::ZERO;
        let mut arrives = 1.0;
        let mut serialized = Duration::ZERO;
        for (_, config, back) in links() {
            rtt += config.delay + back.delay;
            for jitter in [&config.jitter, &back.jitter].into_iter().flatten() {
                rtt += jitter.distribution.mean();
            }
            arrives *= 1.0 - mean_loss(&config.loss);
            serialized += rate(&config).time_to_send(Bytes(u64::from(framing.frame())));
        }
        // The narrowest link's own time is in the models already.
        let capacity = rate(&narrowest);
        rtt += serialized.saturating_sub(capacity.time_to_send(Bytes(u64::from(framing.frame()))));
        ensure!(capacity.bits_per_sec() > 0, "a link on the way has no rate at all");
        let product =
            capacity.bits_per_sec() as f64 / 8.0 * rtt.as_secs_f64() / f64::from(framing.frame()) + 1.0;
        let queue = match narrowest.queue {
            QueueLimit::Unlimited => f64::INFINITY,
            QueueLimit::Packets(packets) => packets as f64,
            QueueLimit::Bytes(bytes) => bytes as f64 / f64::from(mtu),
        };
        let window = from.scheme.send_buffer.min(to.scheme.receive_buffer);
        let scales = profile.window_scaling && self::profile(to.scheme)?.window_scaling;
        let min_rto = match from.scheme.rto.unwrap_or(profile.rtt).floor {
            RtoFloor::Whole(least) | RtoFloor::Variance(least) => least,
        };
        let leg = Leg {
            queue_bdp: (queue / product).min(1000.0),
            framing,
            window_limit: Some(if scales { window } else { window.min(UNSCALED) }),
            min_rto,
            initial_window: from.scheme.initial_window.unwrap_or(profile.initial_window),
            ..Leg::new(rtt.max(Duration::from_micros(1)), 1.0 - arrives, capacity)
        };
        leg.check().with_context(|| {
            format!("the way of `{}` from {}", self.flow.name, self.scenario.nodes[from.node.0].name)
        })?;
        Ok(PlannedLeg { leg, model })
    }

    /// What of the scenario has no part in a forecast, in words.
    fn left_out(&self) -> Vec<String> {
        let mut left_out = Vec::new();
        let way = self.scenario.way(self.flow.from, self.flow.to).unwrap_or_default();
        let configs = || way.iter().map(|(link, d)| self.scenario.links[*link].config(*d, Seed(0)));
        let mut say = |found: bool, what: &str| {
            if found {
                left_out.push(what.to_owned());
            }
        };
        say(!self.scenario.cross.is_empty(), "the competing datagrams");
        let others = self.scenario.flows.iter().filter(|other| family(other) != family(self.flow)).count();
        say(others > 0, "the other flows");
        say(
            configs().any(|config| !matches!(config.rate, Rate::Fixed(_) | Rate::Unlimited)),
            "that a link's rate changes (its mean is)",
        );
        say(configs().any(|config| config.outages != Default::default()), "outages");
        say(
            configs().any(|config| {
                matches!(config.loss, LossModel::GilbertElliott { .. } | LossModel::OnOff { .. })
            }),
            "that losses come in bursts (their share is)",
        );
        let serves = |relay: &NodeIndex| {
            self.relay_role(*relay).is_some_and(|relay| !relay.service_time.mean().is_zero())
        };
        say(self.flow.via.iter().any(serves), "the relays' service times");
        left_out
    }
}

fn profile(scheme: &Scheme) -> Result<Profile> {
    let mut profile = Profile::named(&scheme.profile).map_err(|error| anyhow::anyhow!("{error}"))?;
    profile.control = scheme.congestion.unwrap_or(profile.control);
    profile.sack = scheme.sack.unwrap_or(profile.sack);
    profile.timestamps = scheme.timestamps.unwrap_or(profile.timestamps);
    profile.window_scaling = scheme.window_scaling.unwrap_or(profile.window_scaling);
    Ok(profile)
}

/// The model that goes with how a sender speaks TCP.
fn model_of(scheme: &Scheme) -> Result<&'static str> {
    let profile = profile(scheme)?;
    Ok(name_of(profile.control, profile.recovery.for_peer(profile.sack).uses_sack()))
}

/// Those without a model of their own are taken for Reno: all of them halve about their window.
fn name_of(control: Algorithm, sack: bool) -> &'static str {
    match control {
        Algorithm::Cubic => "cubic",
        Algorithm::Bbr => "bbr1",
        Algorithm::Bbr3 => "bbr",
        _ if sack => "reno",
        _ => "newreno",
    }
}

/// The mean rate.
fn rate(config: &LinkConfig) -> BitRate {
    match &config.rate {
        Rate::Unlimited => FAST,
        Rate::Fixed(rate) => *rate,
        Rate::Schedule { phases, .. } => {
            let whole: f64 = phases.iter().map(|(lasts, _)| lasts.as_secs_f64()).sum();
            let bits: f64 =
                phases.iter().map(|(lasts, rate)| lasts.as_secs_f64() * rate.bits_per_sec() as f64).sum();
            BitRate::from_bits_per_sec((bits / whole.max(1e-9)) as u64)
        }
        Rate::Trace(trace) => trace.mean_rate(),
    }
}

/// The share of packets that are lost in the long run.
fn mean_loss(loss: &LossModel) -> f64 {
    match *loss {
        LossModel::None => 0.0,
        LossModel::Bernoulli { probability } => probability,
        LossModel::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
            let bad = if to_bad > 0.0 { to_bad / (to_bad + to_good) } else { 0.0 };
            bad * loss_bad + (1.0 - bad) * loss_good
        }
        LossModel::OnOff { on, off, rate, .. } => {
            let (on, off) = (on.as_secs_f64(), off.as_secs_f64());
            if on > 0.0 { rate * on / (on + off) } else { 0.0 }
        }
    }
}
