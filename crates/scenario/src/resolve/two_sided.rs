//! Nodes with an access side: gateways and shapers.
use super::{Result, Work};
use crate::file::{AggregateSection, BandwidthSection, GatewaySection, KillSection};
use crate::shaper::{Shaper, ShaperSection};
use crate::spanned::Spanned;
use crate::{BandwidthChange, Gateway, Kill, LinkDescription, NodeIndex, Role};
use shorthaul_link::{Direction, Rate};
use shorthaul_proxy::{AggregateConfig, GatewayConfig, GatewayMode, PolicyError, TailScope};
use shorthaul_types::Seed;

impl Work<'_> {
    pub(super) fn gateway(&mut self, name: &Spanned<String>, section: &GatewaySection) -> Result<()> {
        let (index, access) = self.access_side(name, &section.access)?;
        let aggregate = section.aggregate.as_ref().and_then(|aggregate| match aggregate {
            AggregateSection::Off => None,
            AggregateSection::Clamp(clamp) => {
                Some(AggregateConfig { clamp: *clamp, ..AggregateConfig::default() })
            }
            AggregateSection::Whole(config) => Some((**config).clone()),
        });
        let held = section.flow_buffer.unwrap_or(GatewayConfig::default().flow_buffer);
        if let Some(spec) = &section.senders {
            spec.get_ref()
                .resolve(held)
                .map_err(|error| self.source.error(spec.span(), error.to_string()))?;
        }
        // Not to serve them together is to leave each by itself.
        let is_off = matches!(section.aggregate, Some(AggregateSection::Off));
        let mode = section.mode.or(is_off.then_some(GatewayMode::Split));
        let to_access = section.to_access.as_ref().map(|leg| leg.get_ref().clone()).unwrap_or_default();
        let changes = section.bandwidth_changes.iter().map(|change| {
            let BandwidthSection { at, cell, bandwidth } = change.get_ref();
            BandwidthChange { at: *at, cell: cell.clone(), bandwidth: *bandwidth }
        });
        let mut bandwidth_changes: Vec<_> = changes.collect();
        bandwidth_changes.sort_by_key(|change| change.at);
        let mut taken_over: Vec<_> =
            section.taken_over.iter().map(|taken_over| taken_over.get_ref().at).collect();
        taken_over.sort_unstable();
        let kill = |killed: &KillSection| Kill { at: killed.at, gone: killed.gone };
        let mut killed: Vec<_> = section.killed.iter().map(|killed| kill(killed.get_ref())).collect();
        killed.sort_unstable();
        let gateway = Gateway {
            mode,
            senders_as_written: section
                .senders
                .as_ref()
                .map(|spec| spec.get_ref().clone())
                .unwrap_or_default(),
            bandwidth_changes,
            access,
            to_access,
            to_wan: section.to_wan.clone(),
            flow_buffer: section.flow_buffer,
            aggregate,
            policy: section.policy.iter().map(|spec| spec.get_ref().clone()).collect(),
            hosts: section.hosts,
            bottlenecks: section.bottleneck.clone(),
            traffic: section.traffic,
            control_group: section.control_group,
            lateness: section.lateness,
            taken_over,
            killed,
        };
        self.check_policies(name, section, &gateway)?;
        self.check_events(section, &gateway)?;
        // Without, it stays the router as which it was added. What is written for it holds in other cases, and makes sense.
        if section.split {
            self.scenario.nodes[index.0].role = Role::Gateway(Box::new(gateway));
        }
        Ok(())
    }

    pub(super) fn shaper(&mut self, name: &Spanned<String>, section: &ShaperSection) -> Result<()> {
        let (index, access) = self.access_side(name, &section.access)?;
        let mut autorate = None;
        if let Some(written) = &section.autorate {
            if let Some(problem) = written.get_ref().problem() {
                return Err(self.source.error(written.span(), problem));
            }
            let reflectors: Result<Vec<NodeIndex>> =
                written.get_ref().reflectors.iter().map(|name| self.host(name)).collect();
            autorate = Some(written.get_ref().autorate(reflectors?)).filter(|_| written.get_ref().adjust);
        }
        let (down, up) = (section.down.config(), section.up.config());
        self.scenario.nodes[index.0].role = Role::Shaper(Box::new(Shaper { access, down, up, autorate }));
        Ok(())
    }

    /// A node with two sides, and its neighbour on the access side.
    fn access_side(
        &self,
        name: &Spanned<String>,
        access: &Spanned<String>,
    ) -> Result<(NodeIndex, NodeIndex)> {
        let index = self.node(name.get_ref(), name.span())?;
        let neighbour = self.node(access.get_ref(), access.span())?;
        let adjoins =
            |link: &LinkDescription| link.between.contains(&index) && link.between.contains(&neighbour);
        if !self.scenario.links.iter().any(adjoins) {
            let problem = format!("`{}` has no link to `{}`", name.get_ref(), access.get_ref());
            return Err(self.source.error(access.span(), problem));
        }
        let is_reversed = |link: &&LinkDescription| link.between == [index, neighbour] && leads_away(link);
        if let Some(link) = self.scenario.links.iter().find(is_reversed) {
            let (name, access_name) = (name.get_ref(), access.get_ref());
            let problem = format!(
                "`{access_name}` is the access side of `{name}`, and the second end of the link `{}`: so `down` leads away from it, and what does is the faster \
                 direction, or the downlink of a preset. Write between = [\"{access_name}\", \"{name}\"] there, and exchange `up` and `down` if each is \
                 meant for the way that it has now",
                link.name
            );
            return Err(self.source.error(access.span(), problem));
        }
        Ok((index, neighbour))
    }

    /// Whether a gateway's policies can be worked with, and together.
    fn check_policies(
        &self,
        name: &Spanned<String>,
        section: &GatewaySection,
        gateway: &Gateway,
    ) -> Result<()> {
        let check = || {
            let policies = gateway.policies([None; 2])?;
            let usual = GatewayConfig::default();
            let flow_buffer = gateway.flow_buffer.unwrap_or(usual.flow_buffer);
            let hosts = gateway.hosts.resolve(&policies);
            let bottlenecks = gateway.bottlenecks.clone();
            GatewayConfig { flow_buffer, hosts, bottlenecks, policies, ..usual }.check()
        };
        check().map_err(|error: PolicyError| {
            // What is outside of the list is known by its key alone.
            match error.policy.and_then(|policy| section.policy.get(policy)) {
                Some(policy) => self.source.error(policy.span(), error.to_string()),
                None => {
                    let leg = section.to_access.as_ref().filter(|_| error.key == "to_access");
                    let span = leg.map_or(name.span(), |leg| leg.span());
                    self.source.error(span, format!("{}: {}", error.key, error.why))
                }
            }
        })
    }

    /// Whether what happens to a gateway during a run can happen.
    fn check_events(&self, section: &GatewaySection, gateway: &Gateway) -> Result<()> {
        let killed = section.killed.iter().map(|kill| (kill.get_ref().at, kill.span(), "this kill"));
        let taken_over =
            section.taken_over.iter().map(|event| (event.get_ref().at, event.span(), "this take-over"));
        let changes =
            section.bandwidth_changes.iter().map(|event| (event.get_ref().at, event.span(), "this change"));
        let mut events = killed.chain(taken_over).chain(changes);
        if let Some((at, span, what)) = events.find(|(at, ..)| *at >= self.scenario.duration) {
            return Err(self.source.error(span, self.too_late("at", what, at)));
        }
        let Some(first) = section.bandwidth_changes.first() else { return Ok(()) };
        // They were checked.
        let policies = gateway.policies([None; 2]).unwrap_or_default();
        let links: Vec<_> = policies.iter().filter_map(|policy| policy.senders.emulated_link()).collect();
        if links.is_empty() {
            let problem = "this gateway emulates no link whose bandwidth could change: write senders = { policy = \"path-tail\", \
                           bandwidth = \"1 Mbit/s\" }, or leave `bandwidth_changes` out";
            return Err(self.source.error(first.span(), problem));
        }
        let cells: Vec<&str> = links
            .iter()
            .filter_map(|link| match &link.scope {
                TailScope::Cell(cells) => Some(cells),
                TailScope::Host | TailScope::Flow => None,
            })
            .flatten()
            .map(|cell| cell.name.as_str())
            .collect();
        for change in &section.bandwidth_changes {
            let Some(cell) = &change.get_ref().cell else { continue };
            if !cells.contains(&cell.as_str()) {
                let there_are = match cells.as_slice() {
                    [] => "the emulated link has no `cells`: leave `cell` out".to_owned(),
                    cells => format!("there are: {}", cells.join(", ")),
                };
                return Err(self
                    .source
                    .error(change.span(), format!("there is no cell `{cell}`; {there_are}")));
            }
        }
        Ok(())
    }
}

/// Whether of a link the way to its first end is what downloads have elsewhere: the faster one, or a preset's downlink. To have that lead away from the
/// access side is a link that was written the other way round, and nobody sees it.
fn leads_away(link: &LinkDescription) -> bool {
    let carries = |direction| match link.config(direction, Seed(0)).rate {
        Rate::Fixed(rate) => Some(rate.bits_per_sec()),
        Rate::Unlimited => Some(u64::MAX),
        Rate::Schedule { .. } | Rate::Trace(_) => None,
    };
    let is_faster = || Some(carries(Direction::Down)? > carries(Direction::Up)?);
    link.spec.has_preset_directions() || is_faster().unwrap_or(false)
}
