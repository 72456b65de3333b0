//! A flow of a scenario in the planner's terms: its connections as legs, its relays and gateways.
use std::time::Duration;

use shorthaul_congestion::{Algorithm, RtoFloor};
use shorthaul_link::{Direction, LinkConfig, QueueLimit, Rate};
use shorthaul_scenario::{Flow, Forward, NodeIndex, Role, Scenario, Scheme, Workload};
use shorthaul_tcp::{Discrimination, LossDetection, Profile};
use shorthaul_types::{BitRate, Bytes, Seed};

use crate::{
    Forecast, Forwarding, Framing, Leg, Path, PlanError, Relay, SetUp, ThroughputModel, Transfer, model,
};

/// For links that serialize in no time.
const FAST: BitRate = BitRate::from_bits_per_sec(1_000_000_000_000);
/// A window without scaling (RFC 9293 §3.1).
const UNSCALED: Bytes = Bytes(65_535);
/// With more relays than this only all of them are forecast, and none.
const MOST_SUBSETS: usize = 10;

/// The name that several flows alike share: their own without its number.
pub fn family(flow: &Flow) -> &str {
    let numbered = |(_, number): &(&str, &str)| number.parse::<u32>() == Ok(flow.number + 1);
    flow.name.rsplit_once('.').filter(numbered).map_or(flow.name.as_str(), |(family, _)| family)
}

/// A flow and what it passes.
#[derive(Clone, Copy, Debug)]
pub struct Planned<'s> {
    /// The scenario.
    pub scenario: &'s Scenario,
    /// One of its flows.
    pub flow: &'s Flow,
    /// The model for every connection, instead of the one that goes with each sender's congestion control.
    pub model: Option<&'s str>,
}

/// A connection of a chain.
#[derive(Clone, Debug)]
pub struct PlannedLeg {
    /// What it is like.
    pub leg: Leg,
    /// The model that goes with its sender.
    pub model: &'static str,
}

/// The connections of a flow, and the relays and gateways between them.
#[derive(Clone, Debug)]
pub struct PlannedChain {
    /// The connections, from the sender of the data on.
    pub legs: Vec<PlannedLeg>,
    /// The relays and gateways between them: one fewer.
    pub relays: Vec<Relay>,
}

/// Who ends a connection, and how it speaks TCP there.
struct Stop<'s> {
    node: NodeIndex,
    scheme: &'s Scheme,
}

impl Planned<'_> {
    /// What the flow moves together with those alike, and how its relays go about it; `size` instead of the flow's own,
    /// which not every application has.
    pub fn transfer(&self, size: Option<Bytes>) -> Option<Transfer> {
        let own = match &self.flow.workload {
            Workload::Bulk(size) => Some(*size),
            Workload::Downloads { size, .. } => Some(*size),
            Workload::Requests { response, .. } => Some(*response),
            Workload::Persistent { burst, .. } => Some(*burst),
            Workload::Unlimited(_) | Workload::OnOff { .. } => None,
        };
        let streams = self.alike();
        let size = size.or(own.map(|size| Bytes(size.0 * u64::from(streams))))?;
        // Relays of one transfer may wait differently; the longest wait is what counts.
        let forwards = || self.flow.via.iter().filter_map(|relay| self.relay_role(*relay)).map(|r| r.forward);
        let waits = forwards().map(|forward| if let Forward::AfterRoundTrips(n) = forward { n } else { 0 });
        let forwarding = if forwards().any(|forward| forward == Forward::WhenComplete) {
            Forwarding::Stored
        } else {
            Forwarding::Pipelined { wait_windows: waits.max().unwrap_or(0) }
        };
        let set_up = match self.flow.set_up {
            shorthaul_scenario::SetUp::Parallel => SetUp::Parallel,
            shorthaul_scenario::SetUp::Sequential => SetUp::Sequential,
        };
        Some(Transfer { size, forwarding, set_up, streams })
    }

    /// How many flows of the scenario are like this one, itself included.
    pub fn alike(&self) -> u32 {
        self.scenario.flows.iter().filter(|other| family(other) == family(self.flow)).count() as u32
    }

    /// Each set of the flow's relays but the empty one, in the order of the way; with many relays, only all of them.
    pub fn sets(&self) -> Vec<Vec<NodeIndex>> {
        let via = &self.flow.via;
        if via.len() > MOST_SUBSETS {
            return vec![via.clone()];
        }
        let set = |bits: u32| via.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1);
        (1..1u32 << via.len()).map(|bits| set(bits).map(|(_, relay)| *relay).collect()).collect()
    }

    pub(crate) fn relay_role(&self, node: NodeIndex) -> Option<&shorthaul_scenario::Relay> {
        match &self.scenario.nodes[node.0].role {
            Role::Relay(relay) => Some(relay),
            _ => None,
        }
    }

    /// A node as a relay, if it is one.
    pub fn relay(&self, node: NodeIndex) -> Option<Relay> {
        Some(Relay { buffer: Some(self.relay_role(node)?.buffer) })
    }

    /// What comes of a transfer by way of `relays`.
    ///
    /// # Errors
    /// Those of [`chain`](Self::chain) and of [`Path::forecast`].
    pub fn forecast(&self, relays: &[NodeIndex], transfer: &Transfer) -> Result<Forecast, PlanError> {
        let PlannedChain { legs, relays } = self.chain(relays)?;
        let models = legs
            .iter()
            .map(|leg| model::by_name(self.model.unwrap_or(leg.model)))
            .collect::<Result<Vec<Box<dyn ThroughputModel>>, _>>()?;
        let path = Path { legs: legs.into_iter().map(|leg| leg.leg).collect(), relays };
        path.forecast_by_leg(|at| &*models[at], transfer)
    }

    /// The models of a chain's legs, each once.
    pub fn models(&self, legs: &[PlannedLeg]) -> String {
        let mut names: Vec<&str> = legs.iter().map(|leg| self.model.unwrap_or(leg.model)).collect();
        names.dedup();
        names.join("`, `")
    }

    /// The connections by way of `relays`; gateways on the way split them, too.
    ///
    /// # Errors
    /// If a connection would end elsewhere than at a host or relay, a profile does not exist, or a leg is one for which
    /// models are not defined.
    pub fn chain(&self, relays: &[NodeIndex]) -> Result<PlannedChain, PlanError> {
        let flow = self.flow;
        let stop = |node: NodeIndex| -> Result<Stop<'_>, PlanError> {
            let scheme = match &self.scenario.nodes[node.0].role {
                Role::Host(scheme) => flow.scheme.as_ref().unwrap_or(scheme),
                Role::Relay(relay) => flow.scheme.as_ref().unwrap_or(&relay.scheme),
                Role::Router | Role::Gateway(_) => {
                    let name = &self.scenario.nodes[node.0].name;
                    return Err(
                        self.cannot(format!("a connection ends at a host or at a relay, not at `{name}`"))
                    );
                }
            };
            Ok(Stop { node, scheme })
        };
        let stops = [&[flow.from], relays, &[flow.to]].concat();
        let mut chain = PlannedChain { legs: Vec::new(), relays: Vec::new() };
        for pair in stops.windows(2) {
            let (from, to) = (stop(pair[0])?, stop(pair[1])?);
            chain.relays.extend(self.relay(from.node));
            let way = self.scenario.way(from.node, to.node);
            let way =
                way.ok_or_else(|| self.cannot("no links lead from one end of a connection to the other"))?;
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
    ) -> Result<PlannedLeg, PlanError> {
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
        let narrowest = narrowest.ok_or_else(|| self.cannot("a connection needs a link"))?;
        let framing = Framing {
            link: narrowest.overhead.0 as u32,
            ip: 20,
            tcp: if profile.timestamps { 32 } else { 20 },
            mtu,
        };
        let frame = Bytes(u64::from(framing.frame()));
        let mut rtt = Duration::ZERO;
        let mut arrives = 1.0;
        let mut serialized = Duration::ZERO;
        for (_, config, back) in links() {
            rtt += config.delay + back.delay;
            for jitter in [&config.jitter, &back.jitter].into_iter().flatten() {
                rtt += jitter.distribution.mean();
            }
            arrives *= 1.0 - config.loss.mean(frame);
            serialized += rate(&config).time_to_send(frame);
        }
        // The narrowest link's own time is in the models already.
        let capacity = rate(&narrowest);
        rtt += serialized.saturating_sub(capacity.time_to_send(frame));
        if capacity.bits_per_sec() == 0 {
            return Err(self.cannot("a link on the way has no rate at all"));
        }
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
        let from = &self.scenario.nodes[from.node.0].name;
        leg.check().map_err(|error| self.cannot(format!("the way from `{from}`: {error}")))?;
        Ok(PlannedLeg { leg, model })
    }

    fn cannot(&self, problem: impl Into<String>) -> PlanError {
        PlanError::Flow { flow: self.flow.name.clone(), problem: problem.into() }
    }

    /// What of the scenario has no part in a forecast, in words.
    pub fn left_out(&self) -> Vec<String> {
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
            configs().any(|config| !config.loss.is_independent()),
            "that losses come in bursts (their share is)",
        );
        let serves = |relay: &NodeIndex| {
            self.relay_role(*relay).is_some_and(|relay| !relay.service_time.mean().is_zero())
        };
        say(self.flow.via.iter().any(serves), "the relays' service times");
        left_out
    }
}

fn profile(scheme: &Scheme) -> Result<Profile, PlanError> {
    let mut profile =
        Profile::named(&scheme.profile).map_err(|error| PlanError::Profile(error.to_string()))?;
    profile.control = scheme.congestion.unwrap_or(profile.control);
    profile.sack = scheme.sack.unwrap_or(profile.sack);
    profile.timestamps = scheme.timestamps.unwrap_or(profile.timestamps);
    profile.window_scaling = scheme.window_scaling.unwrap_or(profile.window_scaling);
    Ok(profile)
}

/// The model that goes with how a sender speaks TCP.
fn model_of(scheme: &Scheme) -> Result<&'static str, PlanError> {
    let profile = profile(scheme)?;
    Ok(name_of(profile.control, detection(&profile).uses_sack()))
}

/// What finds losses when both ends speak TCP as the profile says.
fn detection(profile: &Profile) -> LossDetection {
    profile.recovery.for_peer(profile.sack)
}

/// Those without a model of their own are taken for Reno: all of them halve about their window.
fn name_of(control: Algorithm, sack: bool) -> &'static str {
    match own_model(control) {
        Some(name) => name,
        None if sack => "reno",
        None => "newreno",
    }
}

/// The model of a congestion control, if it has one of its own; Reno's depends on how losses are repaired.
fn own_model(control: Algorithm) -> Option<&'static str> {
    const MODELS: [(Algorithm, &str); 3] =
        [(Algorithm::Cubic, "cubic"), (Algorithm::Bbr, "bbr1"), (Algorithm::Bbr3, "bbr")];
    MODELS.iter().find(|(other, _)| *other == control).map(|(_, name)| *name)
}

/// Whether there is a model of just how a sender of this scheme behaves.
///
/// # Errors
/// Names what no model knows.
pub(crate) fn forecastable(scheme: &Scheme) -> Result<(), String> {
    let profile = profile(scheme).map_err(|error| error.to_string())?;
    let control = profile.control;
    if own_model(control).is_none() && control != Algorithm::Reno {
        return Err(format!("there is no model of `{control}`"));
    }
    let detection = detection(&profile);
    if !detection.uses_sack() && detection != LossDetection::NEW_RENO {
        return Err(format!("there is no model of `{detection}`"));
    }
    if scheme.arbiter.unwrap_or(profile.arbiter) != Discrimination::EveryLoss {
        return Err("the models take every loss for congestion".to_owned());
    }
    Ok(())
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
