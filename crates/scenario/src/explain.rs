//! A study in words: what would be run.
use crate::{Flow, Node, NodeIndex, Point, Role, Scenario, Study, Workload};
use serde_json::{Value, json};
use shorthaul_types::{Seed, format_duration};
use std::fmt::Write as _;

impl Study {
    /// What the study would run, in words: its points and seeds, and the first point's nodes, links and flows.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        let _ = self.write_explanation(&mut text); // a String takes everything
        text
    }

    /// The same for programs: times in seconds, names as they are written.
    pub fn explain_to_programs(&self) -> Value {
        let point = |point: &Point| {
            let values: serde_json::Map<String, Value> =
                point.values.iter().map(|(path, value)| (path.clone(), value.clone().into())).collect();
            json!({ "label": point.label(), "case": point.case, "values": values })
        };
        let first = self.points().first().and_then(|point| self.scenario(point).ok());
        json!({
            "name": self.name(),
            "about": self.about(),
            "seeds": self.seeds().collect::<Vec<u64>>(),
            "points": self.points().iter().map(point).collect::<Vec<Value>>(),
            "first": first.map(|scenario| scenario.explain_to_programs()),
        })
    }

    fn write_explanation(&self, out: &mut String) -> std::fmt::Result {
        write!(out, "{}", self.name())?;
        if !self.about().is_empty() {
            write!(out, ": {}", self.about())?;
        }
        let (points, seeds) = (self.points().len(), self.seeds().count());
        writeln!(out, "\n\n{} runs: {points} points, each with {seeds} seeds.", points * seeds)?;
        if points > 1 {
            for point in self.points().iter().take(20) {
                writeln!(out, "  {}", point.label())?;
            }
            if points > 20 {
                writeln!(out, "  and {} more", points - 20)?;
            }
        }
        let Some(Ok(scenario)) = self.points().first().map(|point| self.scenario(point)) else {
            return Ok(());
        };
        if points > 1 {
            writeln!(out, "\nThe first of them:")?;
        }
        scenario.write_explanation(out)
    }
}

impl Scenario {
    fn explain_to_programs(&self) -> Value {
        let name = |index: &NodeIndex| self.nodes[index.0].name.as_str();
        let node = |node: &Node| {
            let role = match &node.role {
                Role::Router => "router",
                Role::Host(_) => "host",
                Role::Relay(_) => "relay",
                Role::Gateway(_) => "gateway",
                Role::Shaper(_) => "shaper",
            };
            json!({ "name": node.name, "role": role })
        };
        let flow = |flow: &Flow| {
            json!({
                "name": flow.name, "from": name(&flow.from), "to": name(&flow.to),
                "via": flow.via.iter().map(name).collect::<Vec<_>>(), "workload": flow.workload.to_string(),
            })
        };
        let metrics = self.measure.metrics.iter().map(|metric| metric.name());
        json!({
            "duration_s": self.duration.as_secs_f64(),
            "warm_up_s": self.warm_up.as_secs_f64(),
            "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(),
            "links": self.links.iter().map(|link| {
                let directions = link.directions(&self.nodes).map(|(name, direction)| {
                    (name, json!(link.config(direction, Seed(1)).to_string()))
                });
                json!({ "name": link.name, "mtu": link.mtu, "directions": serde_json::Map::from_iter(directions) })
            }).collect::<Vec<_>>(),
            "flows": self.flows.iter().map(flow).collect::<Vec<_>>(),
            "metrics": metrics.collect::<Vec<_>>(),
        })
    }

    fn write_explanation(&self, out: &mut String) -> std::fmt::Result {
        let (duration, warm_up) = (format_duration(self.duration), format_duration(self.warm_up));
        writeln!(out, "\nA run lasts {duration} at most; the first {warm_up} are not measured.")?;
        writeln!(out, "\nNodes:")?;
        for node in &self.nodes {
            match &node.role {
                Role::Router => writeln!(out, "  {}: router", node.name)?,
                Role::Host(scheme) => writeln!(out, "  {}: host, {}", node.name, scheme.profile.name)?,
                Role::Relay(relay) => writeln!(
                    out,
                    "  {}: relay, {}, {} a session, service time {} for {}",
                    node.name, relay.scheme.profile.name, relay.buffer, relay.service_time, relay.packet
                )?,
                Role::Gateway(gateway) => writeln!(
                    out,
                    "  {}: transparent gateway, its access side toward {}",
                    node.name, self.nodes[gateway.access.0].name
                )?,
                Role::Shaper(shaper) => {
                    let rate = |rate: Option<shorthaul_types::BitRate>| {
                        rate.map_or_else(|| "as it comes".to_owned(), |rate| rate.to_string())
                    };
                    let rates = match shaper.autorate {
                        Some(_) => "rates that cake-autorate adjusts".to_owned(),
                        None => format!("{} down, {} up", rate(shaper.down.rate), rate(shaper.up.rate)),
                    };
                    let access = &self.nodes[shaper.access.0].name;
                    writeln!(
                        out,
                        "  {}: shaper with CAKE, its access side toward {access}, {rates}",
                        node.name
                    )?;
                }
            }
        }
        writeln!(out, "\nLinks:")?;
        for link in &self.links {
            writeln!(out, "  {}, MTU {}", link.name, link.mtu)?;
            for (name, direction) in link.directions(&self.nodes) {
                writeln!(out, "    {name}: {}", link.config(direction, Seed(1)))?;
            }
        }
        writeln!(out, "\nFlows:")?;
        for flow in self.flows.iter().take(20) {
            let (from, to) = (&self.nodes[flow.from.0].name, &self.nodes[flow.to.0].name);
            let via: Vec<&str> = flow.via.iter().map(|index| self.nodes[index.0].name.as_str()).collect();
            let via = if via.is_empty() { String::new() } else { format!(" via {}", via.join(", ")) };
            writeln!(out, "  {}: {} from {from} to {to}{via}", flow.name, flow.workload)?;
        }
        if self.flows.len() > 20 {
            writeln!(out, "  and {} more", self.flows.len() - 20)?;
        }
        for cross in &self.cross {
            let (from, to) = (&self.nodes[cross.from.0].name, &self.nodes[cross.to.0].name);
            writeln!(out, "  {}: competing datagrams, {} from {from} to {to}", cross.name, cross.rate)?;
        }
        let metrics: Vec<&str> = self.measure.metrics.iter().map(|metric| metric.name()).collect();
        writeln!(out, "\nMeasured: {}", metrics.join(", "))
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Workload::Bulk(size) => write!(f, "{size}"),
            Workload::Unlimited(time) => write!(f, "as much as goes through in {}", format_duration(*time)),
            Workload::Downloads { size, repeats, .. } => write!(f, "{repeats} downloads of {size}"),
            Workload::Requests { response, count, .. } => write!(f, "{count} responses of {response}"),
            Workload::OnOff { rate, lasts, .. } => {
                write!(f, "{rate} on and off for {}", format_duration(*lasts))
            }
            Workload::Persistent { burst, count, .. } => write!(f, "{count} bursts of {burst}"),
        }
    }
}
