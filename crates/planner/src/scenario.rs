//! A flow of a scenario in the planner's terms: its connections as legs, its relays and gateways.
use std::time::Duration;

use shorthaul_link::{Direction, LinkConfig, QueueLimit, Rate};
use shorthaul_proxy::GatewayConfig;
use shorthaul_scenario::{Flow, Forward, NodeIndex, Role, Scenario, Scheme, Workload};
use shorthaul_tcp::SenderProfile;
use shorthaul_types::{BitRate, Bytes, Seed};

use crate::{
    Forecast, Forwarding, Framing, Leg, Path, PlanError, Relay, SetUp, ThroughputModel, Transfer, Unmodelled,
    model, sender::unmodelled,
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
    /// Who sends.
    pub from: NodeIndex,
    /// Of a gateway, the key of its leg: `to_access` or `to_wan`.
    pub key: Option<&'static str>,
    /// What no model knows of how it sends.
    pub unmodelled: Vec<Unmodelled>,
}

/// The connections of a flow, and the relays and gateways between them.
#[derive(Clone, Debug)]
pub struct PlannedChain {
    /// The connections, from the sender of the data on.
    pub legs: Vec<PlannedLeg>,
    /// The relays and gateways between them: one fewer.
    pub relays: Vec<Relay>,
}

/// One end of a leg.
struct End {
    /// The node.
    node: NodeIndex,
    /// Of a gateway, the key of its leg.
    key: Option<&'static str>,
    /// How it sends.
    sender: SenderProfile,
    /// What it holds of what it sends, and of what it receives.
    buffers: [Bytes; 2],
    /// The longest packet that it sends.
    mtu: Option<u32>,
}

impl End {
    fn of(node: NodeIndex, scheme: &Scheme) -> End {
        let buffers = [scheme.send_buffer, scheme.receive_buffer];
        let mtu = scheme.mss.map(|mss| mss + 40);
        End { node, key: None, sender: scheme.profile.clone(), buffers, mtu }
    }
}

/// What the ends of a connection agree on, and gateways on its way keep to.
#[derive(Clone, Copy)]
struct Agreed {
    sack: bool,
    timestamps: bool,
    window_scaling: bool,
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
        let scheme = |node: NodeIndex| match &self.scenario.nodes[node.0].role {
            Role::Host(scheme) => Ok(flow.scheme.as_ref().unwrap_or(scheme)),
            Role::Relay(relay) => Ok(flow.scheme.as_ref().unwrap_or(&relay.scheme)),
            Role::Router | Role::Gateway(_) | Role::Shaper(_) => {
                let name = &self.scenario.nodes[node.0].name;
                Err(self.cannot(format!("a connection ends at a host or at a relay, not at `{name}`")))
            }
        };
        let stops = [&[flow.from], relays, &[flow.to]].concat();
        let mut chain = PlannedChain { legs: Vec::new(), relays: Vec::new() };
        for pair in stops.windows(2) {
            let (from, to) = (scheme(pair[0])?, scheme(pair[1])?);
            chain.relays.extend(self.relay(pair[0]));
            let way = self.scenario.way(pair[0], pair[1]);
            let way =
                way.ok_or_else(|| self.cannot("no links lead from one end of a connection to the other"))?;
            let agreed = Agreed {
                sack: from.profile.sack && to.profile.sack,
                timestamps: from.profile.timestamps && to.profile.timestamps,
                window_scaling: from.profile.window_scaling && to.profile.window_scaling,
            };
            // Up to each gateway on the way, and from the last of them on.
            let mut sender = End::of(pair[0], from);
            let mut part: Vec<(usize, Direction)> = Vec::new();
            for (number, hop) in way.iter().enumerate() {
                part.push(*hop);
                let at = self.end_of(*hop);
                if let Role::Gateway(gateway) = &self.scenario.nodes[at.0].role {
                    let next = way.get(number + 1).map(|hop| self.end_of(*hop));
                    let (key, onward) = if next == Some(gateway.access) {
                        ("to_access", &gateway.to_access)
                    } else {
                        ("to_wan", &gateway.to_wan)
                    };
                    let buffer = gateway.flow_buffer.unwrap_or(GatewayConfig::default().flow_buffer);
                    // It sends segments no longer than the end does that they come from.
                    let mtu = [from.mss.map(|mss| mss + 40), onward.mtu].into_iter().flatten().min();
                    let sends = onward.resolve(None).sender;
                    let between = End { node: at, key: Some(key), sender: sends, buffers: [buffer; 2], mtu };
                    chain.legs.push(self.leg(&part, &sender, &between, agreed)?);
                    chain.relays.push(Relay { buffer: Some(buffer) });
                    sender = between;
                    part.clear();
                }
            }
            chain.legs.push(self.leg(&part, &sender, &End::of(pair[1], to), agreed)?);
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
        from: &End,
        to: &End,
        agreed: Agreed,
    ) -> Result<PlannedLeg, PlanError> {
        let seed = Seed(0); // no fate is drawn: only what the link is like
        let links = || {
            way.iter().map(|(link, direction)| {
                let link = &self.scenario.links[*link];
                let back = if *direction == Direction::Up { Direction::Down } else { Direction::Up };
                (link, link.config(*direction, seed), link.config(back, seed))
            })
        };
        let mtu = links().map(|(link, ..)| link.mtu).min().unwrap_or(1500);
        let mtu = from.mtu.map_or(mtu, |longest| mtu.min(longest));
        let narrowest = links().map(|(_, config, _)| config).min_by_key(|config| rate(config).bits_per_sec());
        let narrowest = narrowest.ok_or_else(|| self.cannot("a connection needs a link"))?;
        let framing = Framing {
            link: narrowest.overhead.0 as u32,
            ip: 20,
            tcp: if agreed.timestamps { 32 } else { 20 },
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
        let window = from.buffers[0].min(to.buffers[1]);
        let leg = Leg {
            queue_bdp: (queue / product).min(1000.0),
            framing,
            window_limit: Some(if agreed.window_scaling { window } else { window.min(UNSCALED) }),
            ..Leg::new(rtt.max(Duration::from_micros(1)), 1.0 - arrives, capacity)
        };
        let leg = leg.sent_by(&from.sender);
        leg.check().map_err(|error| {
            let first = way.first().map(|(link, _)| self.scenario.links[*link].name.as_str());
            self.cannot(format!("the way over `{}`: {error}", first.unwrap_or_default()))
        })?;
        Ok(PlannedLeg {
            leg,
            model: model::name_for(&from.sender, agreed.sack),
            from: from.node,
            key: from.key,
            unmodelled: unmodelled(&from.sender, agreed.sack),
        })
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
        // Without a chain there is no forecast either, and it says why.
        let legs = self.chain(&self.flow.via).map_or_else(|_| Vec::new(), |chain| chain.legs);
        for part in legs.into_iter().flat_map(|leg| leg.unmodelled) {
            if !left_out.contains(&part.instead) {
                left_out.push(part.instead);
            }
        }
        left_out
    }
}

/// The mean rate.
fn rate(config: &LinkConfig) -> BitRate {
    config.rate.mean().unwrap_or(FAST)
}
