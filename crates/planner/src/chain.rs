//! A chain of legs that the planner forecasts and other engines run: the same thing for all.
use crate::{Forwarding, Path, PlanError, SetUp, ThroughputModel, Transfer};
use std::fmt::Write as _;

/// A transfer over a path, between ends that speak TCP in one way.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The legs and the relays between them.
    pub path: Path,
    /// What is moved, and how the relays go about it.
    pub transfer: Transfer,
    /// How ends and relays speak TCP.
    pub ends: Ends,
}

/// How ends and relays speak TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// A profile of the simulator.
    pub profile: &'static str,
    /// What is different from it, as keys of a scheme in TOML, each with a comma before it.
    pub differences: &'static str,
    /// The model that forecasts it.
    pub model: &'static str,
    /// How many connections share the size.
    pub streams: u32,
}

/// Buffers that bind nowhere: more than the largest window of any path here.
const AMPLE: u64 = 256 << 20;

impl Chain {
    /// How long the model says that it takes, in seconds.
    ///
    /// # Errors
    /// Those of [`Path::forecast`].
    pub fn forecast(&self, model: &dyn ThroughputModel) -> Result<f64, PlanError> {
        let transfer = Transfer { streams: self.ends.streams, ..self.transfer };
        Ok(self.path.forecast(model, &transfer)?.time.expected.as_secs_f64())
    }

    /// The scenario in TOML: a link for each leg, which loses data and no acknowledgments. It measures when transfers complete.
    pub fn scenario(&self) -> String {
        format!(
            "{}metrics = [\"completion\", \"unfinished\"]\nevery = \"1 s\"\n",
            self.scenario_without_metrics()
        )
    }

    /// The same, but for what it measures: the keys of `[measure]` may follow.
    pub fn scenario_without_metrics(&self) -> String {
        let Ends { profile, differences, streams, .. } = self.ends;
        let names: Vec<String> = (0..=self.path.legs.len())
            .map(|at| match at {
                0 => "source".to_owned(),
                at if at == self.path.legs.len() => "sink".to_owned(),
                at => format!("relay{at}"),
            })
            .collect();
        let receives = |leg: usize| self.path.legs[leg].window_limit.map_or(AMPLE, |window| window.0);
        let scheme = |receive: u64| {
            format!(
                "{{ profile = \"{profile}\"{differences}, send_buffer = \"{AMPLE} B\", receive_buffer = \"{receive} B\" }}"
            )
        };
        // Long enough for anything that ends at all: the slowest path has a segment or two a second.
        let mut text = format!("duration = \"{} s\"\n", 200 + self.transfer.size.0 / 1000);
        // Writing to a string does not fail.
        let _ = writeln!(text, "[hosts.source]\nscheme = {}", scheme(AMPLE));
        let _ = writeln!(text, "[hosts.sink]\nscheme = {}", scheme(receives(self.path.legs.len() - 1)));
        for (at, relay) in self.path.relays.iter().enumerate() {
            let buffer = relay.buffer.map_or(AMPLE, |buffer| buffer.0);
            let _ = writeln!(text, "[relays.{}]\nscheme = {}", names[at + 1], scheme(receives(at)));
            let _ = writeln!(
                text,
                "buffer = \"{buffer} B\"\npacket = \"{} B\"",
                self.path.legs[at].framing.mss()
            );
            match self.transfer.forwarding {
                Forwarding::Pipelined { wait_windows: 0 } => {}
                Forwarding::Pipelined { wait_windows } => {
                    let _ = writeln!(text, "forward = \"after {wait_windows} round trips\"");
                }
                Forwarding::Stored => text.push_str("forward = \"when complete\"\n"),
            }
        }
        for (at, leg) in self.path.legs.iter().enumerate() {
            let _ = writeln!(text, "[[links]]\nbetween = [\"{}\", \"{}\"]", names[at], names[at + 1]);
            let _ = writeln!(text, "mtu = {}", leg.framing.mtu);
            let _ = writeln!(
                text,
                "link = {{ rate = \"{} bit/s\", delay = \"{} ns\", overhead = \"{} B\", queue = \"{} packets\", up = {{ loss = {:.9} }} }}",
                leg.capacity.bits_per_sec(),
                leg.rtt.as_nanos() / 2,
                leg.framing.link,
                leg.queue_packets(),
                leg.loss,
            );
        }
        let size = self.transfer.size.0 / u64::from(streams);
        let set_up = match self.transfer.set_up {
            SetUp::Parallel => "parallel",
            SetUp::Sequential => "sequential",
        };
        let _ = writeln!(
            text,
            "[[flows]]\nname = \"data\"\nfrom = \"source\"\nto = \"sink\"\nopened_by = \"source\"\nset_up = \"{set_up}\"\ncount = {streams}\nbulk = \"{size} B\""
        );
        text.push_str("[measure]\n");
        text
    }
}
