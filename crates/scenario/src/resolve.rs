//! From the sections of a file to a [`Scenario`]: names become places, short forms are spelled out.
mod two_sided;

use crate::file::{
    BufferSection, CellSection, ChainSection, CrossSection, File, FlowSection, LinkSection, RelaySection,
    SetUpSection, ViaSection,
};
use crate::spanned::Spanned;
use crate::sweep::default_name;
use crate::{
    CellDescription, Cross, Flow, LinkDescription, Measure, Node, NodeIndex, Queues, Relay, Role, Scenario,
    ScenarioError, Served, SetUp, Workload,
};
use shorthaul_link::{Direction, LinkSpec, Rate, Trace};
use shorthaul_types::{Bytes, Seed, exact_duration, format_duration};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The smallest MTU that IPv4 requires every link to carry is 68 bytes (RFC 791); with room for a segment
/// behind 40 bytes of options there is no point in going below this.
const SMALLEST_MTU: u32 = 256;
/// The most samples of a run: a series of so many takes 160 MB.
const MOST_SAMPLES: u128 = 10_000_000;
/// More flows would need more than the ports of one host.
const MOST_FLOWS: u32 = 60_000;

/// A text with its name and the directory that file names in it are relative to.
pub(crate) struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
    pub directory: Option<&'a Path>,
}

impl Source<'_> {
    pub(crate) fn error(&self, span: Range<usize>, problem: impl Into<String>) -> ScenarioError {
        ScenarioError::at(self.name, self.text, span, problem)
    }

    fn load_trace(&self, file: &str) -> Result<Arc<Trace>, String> {
        let Some(directory) = self.directory else {
            return Err("only a scenario in a file can name a trace file".into());
        };
        let path = directory.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        text.parse::<Trace>().map(Arc::new).map_err(|error| error.to_string())
    }
}

/// Works out what `file`, read from `source`, means.
pub(crate) fn resolve(source: &Source<'_>, file: File) -> Result<Scenario, ScenarioError> {
    if file.duration.is_zero() {
        return Err(ScenarioError::whole(
            source.name,
            "`duration` is zero: write how long a run lasts, such as \"100 s\"",
        ));
    }
    if file.warm_up >= file.duration {
        let problem = "`warm_up` leaves nothing of `duration` to measure: make it shorter";
        return Err(ScenarioError::whole(source.name, problem));
    }
    let name = file.name.clone().unwrap_or_else(|| {
        Path::new(source.name)
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    });
    let measure =
        Measure { metrics: file.measure.metrics, series: file.measure.series, every: file.measure.every };
    if measure.every.is_zero() {
        return Err(ScenarioError::whole(
            source.name,
            "`measure.every` is zero: write an interval such as \"100 ms\"",
        ));
    }
    let samples = file.duration.as_nanos() / measure.every.as_nanos();
    if samples > MOST_SAMPLES {
        // No more than there can be: the duration is.
        let least = file.duration.as_nanos().div_ceil(MOST_SAMPLES);
        let least = exact_duration(Duration::from_nanos(u64::try_from(least).unwrap_or(u64::MAX)));
        let [every, duration] = [measure.every, file.duration].map(exact_duration);
        let problem = format!(
            "`measure.every` is {every}, and a run lasts {duration}: these are {samples} samples, and {MOST_SAMPLES} the most; \
             write every = \"{least}\" or more under [measure], or a shorter `duration`"
        );
        return Err(ScenarioError::whole(source.name, problem));
    }
    let scenario = Scenario {
        name,
        duration: file.duration,
        warm_up: file.warm_up,
        nodes: Vec::new(),
        links: Vec::new(),
        cells: Vec::new(),
        flows: Vec::new(),
        cross: Vec::new(),
        measure,
    };
    let mut work = Work { source, scenario, names: BTreeSet::new() };
    for (name, section) in &file.hosts {
        work.add_node(name, Role::Host(section.scheme.clone().unwrap_or_default()))?;
    }
    for name in &file.routers {
        work.add_node(name, Role::Router)?;
    }
    for (name, section) in &file.relays {
        let relay = work.relay(section)?;
        work.add_node(name, Role::Relay(relay))?;
    }
    for name in file.gateways.keys() {
        work.add_node(name, Role::Router)?; // its role needs the links
    }
    for name in file.shapers.keys() {
        work.add_node(name, Role::Router)?; // the same
    }
    for chain in &file.chains {
        work.chain(chain)?;
    }
    for link in &file.links {
        work.link(link)?;
    }
    for (number, cell) in file.cells.iter().enumerate() {
        work.cell(number, cell)?;
    }
    for (name, section) in &file.gateways {
        work.gateway(name, section)?;
    }
    for (name, section) in &file.shapers {
        work.shaper(name, section)?;
    }
    let (ends, between) =
        (file.hosts.keys().chain(file.relays.keys()), file.gateways.keys().chain(file.shapers.keys()));
    ends.map(|name| (name, 1))
        .chain(between.map(|name| (name, 2)))
        .try_for_each(|(name, links)| work.is_linked(name, links))?;
    if file.flows.is_empty() && file.cross.is_empty() {
        let problem = "there is no traffic: add a `[[flows]]` section, such as from = \"server\", to = \"client\", bulk = \"5 MB\"";
        return Err(ScenarioError::whole(source.name, problem));
    }
    for (number, flow) in file.flows.iter().enumerate() {
        work.flow(number, flow)?;
    }
    for (number, cross) in file.cross.iter().enumerate() {
        work.cross(number, cross.get_ref())?;
    }
    Ok(work.scenario)
}

struct Work<'a> {
    source: &'a Source<'a>,
    scenario: Scenario,
    /// Names that are taken, by the section that they stand in.
    names: BTreeSet<(&'static str, String)>,
}

type Result<T, E = ScenarioError> = std::result::Result<T, E>;

impl Work<'_> {
    fn add_node(&mut self, name: &Spanned<String>, role: Role) -> Result<()> {
        if name.get_ref().is_empty() {
            return Err(self.source.error(name.span(), "a node needs a name"));
        }
        if self.scenario.node(name.get_ref()).is_some() {
            let problem = format!("there are two nodes `{}`: give one of them another name", name.get_ref());
            return Err(self.source.error(name.span(), problem));
        }
        self.scenario.nodes.push(Node { name: name.get_ref().clone(), role });
        Ok(())
    }

    /// Takes a name that no other of its kind may have: randomness comes from it, and results are told apart by it.
    fn take_name(&mut self, kind: &'static str, name: &str, span: Range<usize>) -> Result<()> {
        if self.names.insert((kind, name.to_owned())) {
            return Ok(());
        }
        let problem = format!(
            "there are two `[[{kind}]]` that are called `{name}`: give one of them another name (without one it is called by its place, \
             several alike by a number behind it)"
        );
        Err(self.source.error(span, problem))
    }

    fn node(&self, name: &str, span: Range<usize>) -> Result<NodeIndex> {
        self.scenario.node(name).ok_or_else(|| {
            let known: Vec<&str> = self.scenario.nodes.iter().map(|node| node.name.as_str()).collect();
            let problem = format!("there is no node `{name}`; there are: {}", known.join(", "));
            self.source.error(span, problem)
        })
    }

    /// Whether a node has so many links, without which nothing reaches it or goes through it.
    fn is_linked(&self, name: &Spanned<String>, least: usize) -> Result<()> {
        let index = self.node(name.get_ref(), name.span())?;
        let links = self.scenario.links.iter().filter(|link| link.between.contains(&index)).count();
        if links >= least {
            return Ok(());
        }
        let problem = match links {
            0 => format!(
                "no link leads to `{}`: add a `[[links]]` section with it in `between`, or leave it out",
                name.get_ref()
            ),
            _ => format!(
                "one link alone leads to `{}`, and nothing goes through it: add the other one, or leave it out",
                name.get_ref()
            ),
        };
        Err(self.source.error(name.span(), problem))
    }

    fn host(&self, name: &Spanned<String>) -> Result<NodeIndex> {
        let index = self.node(name.get_ref(), name.span())?;
        match self.scenario.nodes[index.0].role {
            Role::Host(_) => Ok(index),
            _ => {
                let problem = format!("`{}` is no host, and only hosts have applications", name.get_ref());
                Err(self.source.error(name.span(), problem))
            }
        }
    }

    fn relay(&self, section: &RelaySection) -> Result<Relay> {
        let packet = Bytes(section.packet.0.max(1));
        if let Some(queues) =
            section.queues.as_ref().filter(|_| section.served.0 != Served::AfterAcknowledgment)
        {
            let problem = "`queues` are those of packets that TCP has acknowledged: write `served = \"after the acknowledgment\"`, or leave \
                           `queues` out";
            return Err(self.source.error(queues.span(), problem.to_owned()));
        }
        Ok(Relay {
            scheme: section.scheme.clone().unwrap_or_default(),
            buffer: match section.buffer {
                BufferSection::Packets(count) => Bytes(count.saturating_mul(packet.0)),
                BufferSection::Bytes(bytes) => bytes,
            },
            overflow: section.overflow,
            service_time: section.service_time,
            queues: section.queues.as_ref().map_or_else(Queues::default, |queues| *queues.get_ref()),
            packet,
            served: section.served.0,
            forward: section.forward.0,
        })
    }

    fn link(&mut self, section: &LinkSection) -> Result<()> {
        let span = section.between.span();
        let [a, b] = section.between.get_ref();
        let between = [self.node(a, span.clone())?, self.node(b, span.clone())?];
        if between[0] == between[1] {
            return Err(self.source.error(span, format!("this link goes from `{a}` to itself")));
        }
        self.add_link(between, &section.link, &section.mtu)
    }

    fn cell(&mut self, number: usize, section: &CellSection) -> Result<()> {
        let from = self.node(section.from.get_ref(), section.from.span())?;
        let resolved = section.channel.get_ref().resolve(section.users.len());
        let mut channel = resolved.map_err(|why| self.source.error(section.channel.span(), why))?;
        let mut ways = Vec::new();
        for (name, channel) in section.users.iter().zip(&mut channel.users) {
            let user = self.node(name.get_ref(), name.span())?;
            let leads = |between: [NodeIndex; 2]| match between {
                [a, b] if a == from && b == user => Some(Direction::Up),
                [a, b] if a == user && b == from => Some(Direction::Down),
                _ => None,
            };
            let mut links = self.scenario.links.iter().enumerate();
            let way = links.find_map(|(index, link)| Some((index, leads(link.between)?)));
            let Some((link, direction)) = way else {
                let problem = format!("`{}` has no link to `{}`", section.from.get_ref(), name.get_ref());
                return Err(self.source.error(name.span(), problem));
            };
            let taken = self.scenario.cells.iter().flat_map(|cell| &cell.ways).chain(&ways);
            if taken.into_iter().any(|taken| *taken == (link, direction)) {
                let problem = format!("`{}` is in a cell already", name.get_ref());
                return Err(self.source.error(name.span(), problem));
            }
            let config = self.scenario.links[link].config(direction, Seed(0));
            if config.rate != Rate::Unlimited {
                let problem = format!(
                    "the link to `{}` has a rate of its own in this direction, which is the cell's to set: write `{} = {{ rate = \"unlimited\" }}` in it",
                    name.get_ref(),
                    if direction == Direction::Up { "up" } else { "down" },
                );
                return Err(self.source.error(name.span(), problem));
            }
            channel.queue = config.queue;
            ways.push((link, direction));
        }
        let name = section.name.clone().unwrap_or_else(|| default_name("cell", number));
        self.take_name("cells", &name, section.from.span())?;
        self.scenario.cells.push(CellDescription { name, ways, channel });
        Ok(())
    }

    fn add_link(
        &mut self,
        between: [NodeIndex; 2],
        spec: &Spanned<LinkSpec>,
        mtu: &Spanned<u32>,
    ) -> Result<()> {
        if *mtu.get_ref() < SMALLEST_MTU || *mtu.get_ref() > 65_535 {
            let problem = format!("an MTU is a number of bytes from {SMALLEST_MTU} to 65535, such as 1500");
            return Err(self.source.error(mtu.span(), problem));
        }
        let mut traces = BTreeMap::new();
        for direction in [Direction::Up, Direction::Down] {
            let load = |file: &str| {
                let trace = self.source.load_trace(file)?;
                traces.insert(file.to_owned(), trace.clone());
                Ok(trace)
            };
            let resolved = spec.get_ref().resolve(direction, Seed(0), load);
            resolved.map_err(|error| self.source.error(spec.span(), error.to_string()))?;
        }
        let [a, b] = between.map(|NodeIndex(index)| self.scenario.nodes[index].name.as_str());
        let plain = format!("{a}-{b}");
        let alike =
            self.scenario.links.iter().filter(|link| link.name.split('#').next() == Some(&plain)).count();
        let name = if alike == 0 { plain } else { format!("{plain}#{}", alike + 1) };
        let spec = spec.get_ref().clone();
        self.scenario.links.push(LinkDescription { between, name, spec, mtu: *mtu.get_ref(), traces });
        Ok(())
    }

    /// A row of equal links with routers between them, some of which are relays.
    fn chain(&mut self, section: &Spanned<ChainSection>) -> Result<()> {
        let chain = section.get_ref();
        let span = chain.between.span();
        let [a, b] = chain.between.get_ref();
        let ends = [self.node(a, span.clone())?, self.node(b, span)?];
        let hops = *chain.hops.get_ref();
        if hops == 0 || hops > 1000 {
            return Err(self.source.error(chain.hops.span(), "a chain has 1 to 1000 hops"));
        }
        for at in &chain.relays {
            if *at.get_ref() == 0 || *at.get_ref() >= hops {
                let problem = format!(
                    "a relay stands after 1 to {} hops of a chain of {hops}, not after {}",
                    hops - 1,
                    at.get_ref()
                );
                return Err(self.source.error(at.span(), problem));
            }
        }
        let mut before = ends[0];
        for hop in 1..=hops {
            let after = if hop == hops {
                ends[1]
            } else {
                let name = Spanned::new(chain.between.span(), format!("{a}-{b}.{hop}"));
                let is_relay = chain.relays.iter().any(|at| *at.get_ref() == hop);
                let role = if is_relay { Role::Relay(self.relay(&chain.relay)?) } else { Role::Router };
                self.add_node(&name, role)?;
                NodeIndex(self.scenario.nodes.len() - 1)
            };
            let spec = chain.hop.iter().find(|(number, _)| number.get_ref().parse() == Ok(hop));
            self.add_link([before, after], spec.map_or(&chain.link, |(_, spec)| spec), &chain.mtu)?;
            before = after;
        }
        match chain
            .hop
            .keys()
            .find(|number| number.get_ref().parse().is_ok_and(|n: u32| (1..=hops).contains(&n)).eq(&false))
        {
            Some(wrong) => {
                let problem = format!("`hop.{}`: the hops of this chain are 1 to {hops}", wrong.get_ref());
                Err(self.source.error(wrong.span(), problem))
            }
            None => Ok(()),
        }
    }

    fn flow(&mut self, number: usize, section: &Spanned<FlowSection>) -> Result<()> {
        let flow = section.get_ref();
        let (from, to) = (self.host(&flow.from)?, self.host(&flow.to)?);
        let Some(way) = self.scenario.way(from, to).filter(|way| !way.is_empty()) else {
            let problem = format!("no links lead from `{}` to `{}`", flow.from.get_ref(), flow.to.get_ref());
            return Err(self.source.error(flow.from.span(), problem));
        };
        if flow.start >= self.scenario.duration {
            let problem = self.too_late("start", "this flow", flow.start);
            return Err(self.source.error(section.span(), problem));
        }
        let (workload, receiver_asks) = self.workload(section)?;
        let sender_opens = match &flow.opened_by {
            None => !receiver_asks,
            Some(who) if self.host(who)? == from => true,
            Some(who) if self.host(who)? == to => false,
            Some(who) => {
                let problem = format!("`{}` is neither end of this flow", who.get_ref());
                return Err(self.source.error(who.span(), problem));
            }
        };
        if sender_opens && receiver_asks {
            let problem = "who asks for data opens the connection: leave `opened_by` out";
            return Err(self.source.error(section.span(), problem));
        }
        let via = match &flow.via {
            None => self.relays_on(from, &way),
            Some(via) => match via.get_ref() {
                ViaSection::All(_) => self.relays_on(from, &way),
                ViaSection::Listed(names) => names
                    .iter()
                    .map(|name| {
                        let index = self.node(name, via.span())?;
                        match self.scenario.nodes[index.0].role {
                            Role::Relay(_) => Ok(index),
                            _ => Err(self.source.error(via.span(), format!("`{name}` is no relay"))),
                        }
                    })
                    .collect::<Result<_>>()?,
            },
        };
        if flow.count == 0 || self.scenario.flows.len() as u64 + u64::from(flow.count) > u64::from(MOST_FLOWS)
        {
            let problem = format!("`count` is 1 to {MOST_FLOWS}, all flows together");
            return Err(self.source.error(section.span(), problem));
        }
        let name = flow.name.clone().unwrap_or_else(|| default_name("flow", number));
        self.take_name("flows", &name, section.span())?;
        for number in 0..flow.count {
            let own = if flow.count == 1 { name.clone() } else { format!("{name}.{}", number + 1) };
            if own != name {
                self.take_name("flows", &own, section.span())?;
            }
            self.scenario.flows.push(Flow {
                name: own,
                from,
                to,
                sender_opens,
                via: via.clone(),
                set_up: match flow.set_up {
                    SetUpSection::Parallel => SetUp::Parallel,
                    SetUpSection::Sequential => SetUp::Sequential,
                },
                start: flow.start,
                spacing: flow.spacing,
                number,
                scheme: flow.scheme.clone(),
                workload: workload.clone(),
            });
        }
        Ok(())
    }

    /// What is wrong with something that happens when the run is over.
    fn too_late(&self, key: &str, what: &str, at: Duration) -> String {
        let [at, ends] = [at, self.scenario.duration].map(format_duration);
        format!(
            "`{key}` is {at}, and the run is over at {ends} (`duration`): nothing of {what} would ever be seen"
        )
    }

    /// The relays that a way from `at` passes, in order.
    fn relays_on(&self, mut at: NodeIndex, way: &[(usize, Direction)]) -> Vec<NodeIndex> {
        let mut relays = Vec::new();
        for &(link, direction) in way {
            let [first, second] = self.scenario.links[link].between;
            at = if direction == Direction::Up { second } else { first };
            if matches!(self.scenario.nodes[at.0].role, Role::Relay(_)) {
                relays.push(at);
            }
        }
        let _ = at;
        relays
    }

    /// The workload, and whether it begins with a request of the receiver.
    fn workload(&self, section: &Spanned<FlowSection>) -> Result<(Workload, bool)> {
        let flow = section.get_ref();
        let mut found = Vec::new();
        if let Some(size) = flow.bulk {
            found.push((Workload::Bulk(size), false));
        }
        if let Some(time) = flow.unlimited {
            found.push((Workload::Unlimited(time), false));
        }
        if let Some(d) = &flow.downloads {
            let (repeats, pause) = (d.repeats, d.pause);
            found.push((Workload::Downloads { size: d.size, repeats, pause, request: d.request }, true));
        }
        if let Some(r) = &flow.requests {
            let (request, response) = (r.request, r.response);
            found.push((Workload::Requests { request, response, count: r.count, pause: r.pause }, true));
        }
        if let Some(o) = &flow.on_off {
            found.push((Workload::OnOff { rate: o.rate, on: o.on, off: o.off, lasts: o.lasts }, false));
        }
        if let Some(p) = &flow.persistent {
            found.push((Workload::Persistent { burst: p.burst, idle: p.idle, count: p.count }, false));
        }
        let problem = match (found.pop(), found.is_empty()) {
            (Some((workload, asks)), true) => match workload.emptiness() {
                None => return Ok((workload, asks)),
                Some(problem) => problem,
            },
            _ => {
                "a flow has exactly one of: bulk = \"5 MB\", unlimited = \"100 s\", downloads = { size = \"30 kB\" }, \
                 requests = { response = \"10 kB\" }, on_off = { rate = \"1 Mbit/s\", on = \"1 s\", off = \"1 s\", lasts = \"60 s\" }, \
                 persistent = { burst = \"10 kB\", idle = \"30 s\" }"
            }
        };
        Err(self.source.error(section.span(), problem))
    }

    fn cross(&mut self, number: usize, section: &CrossSection) -> Result<()> {
        let from = self.node(section.from.get_ref(), section.from.span())?;
        let to = self.node(section.to.get_ref(), section.to.span())?;
        if from == to || self.scenario.way(from, to).is_none() {
            let problem = "competing traffic goes from one node to another that links lead to";
            return Err(self.source.error(section.to.span(), problem));
        }
        if section.start >= self.scenario.duration {
            let problem = self.too_late("start", "this traffic", section.start);
            return Err(self.source.error(section.from.span(), problem));
        }
        if section.rate.bits_per_sec() == 0 || section.packet.0 < 28 || section.packet.0 > 65_535 {
            let problem = "competing traffic needs a rate above zero and packets of 28 to 65535 bytes";
            return Err(self.source.error(section.from.span(), problem));
        }
        let name = section.name.clone().unwrap_or_else(|| default_name("cross", number));
        self.take_name("cross", &name, section.from.span())?;
        self.scenario.cross.push(Cross {
            name,
            from,
            to,
            rate: section.rate,
            packet: section.packet,
            arrivals: section.arrivals,
            start: section.start,
            lasts: section.lasts,
        });
        Ok(())
    }
}

impl Workload {
    /// What is wrong with a workload that does nothing.
    fn emptiness(&self) -> Option<&'static str> {
        let zero = Bytes(0);
        match self {
            Workload::Bulk(size) if *size == zero => Some("`bulk` is zero: write a size such as \"5 MB\""),
            Workload::Downloads { size, repeats, request, .. }
                if *size == zero || *repeats == 0 || *request == zero =>
            {
                Some("`downloads` need a size, a request and repeats above zero")
            }
            Workload::Requests { request, response, count, .. }
                if *request == zero || *response == zero || *count == 0 =>
            {
                Some("`requests` need a request, a response and a count above zero")
            }
            Workload::OnOff { rate, .. } if rate.bits_per_sec() == 0 => {
                Some("`on_off` needs a rate above zero")
            }
            Workload::Persistent { burst, count, .. } if *burst == zero || *count == 0 => {
                Some("`persistent` needs a burst and a count above zero")
            }
            _ => None,
        }
    }
}
