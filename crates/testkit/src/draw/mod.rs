//! Configurations made of what is registered.
//!
//! Every part is picked from its registry, so that a new row is drawn without being listed here. What was drawn is noted
//! ([`Rows`]); that all rows come up is a test.
mod written;

use crate::Chance;
use shorthaul_congestion::{Algorithm, RttConfig};
use shorthaul_proxy::{
    ACK_RELEASES, AggregateConfig, Clamp, FlowMatch, GatewayConfig, HostSpec, INTERCEPTORS, LegConfig, Mode,
    PathTailCell, PathTailConfig, Policy, SenderControl, TailScope, UplinkWindow, WINDOW_LIMITS,
};
use shorthaul_tcp::{
    AckPolicy, ConnectionConfig, Discrimination, KeepAlive, LossDetection, RateReporting, SenderProfile,
    Starting,
};
use shorthaul_types::{BitRate, Bytes};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Retransmission timers that the standard has, that Linux has, and that hosts had.
const TIMERS: [RttConfig; 3] = [RttConfig::LINUX, RttConfig::RFC6298, RttConfig::COARSE];

/// Rows of registries, by the registry and the row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows(BTreeSet<(&'static str, String)>);

impl Rows {
    fn note(&mut self, registry: &'static str, row: impl fmt::Display) {
        self.0.insert((registry, row.to_string()));
    }

    /// Adds what `other` has.
    pub fn extend(&mut self, other: &Rows) {
        self.0.extend(other.0.iter().cloned());
    }

    /// What is here and not in `other`.
    pub fn missing_in<'a>(&'a self, other: &'a Rows) -> Vec<&'a (&'static str, String)> {
        self.0.difference(&other.0).collect()
    }

    /// Everything that is registered, and so has to be drawn sometimes.
    pub fn registered() -> Rows {
        let mut rows = Rows::default();
        for mode in Mode::ALL {
            rows.note("mode", mode.name());
        }
        for control in Algorithm::NAMED {
            rows.note("congestion control", control.name());
        }
        for detection in LossDetection::ALL {
            rows.note("loss detector", detection.name());
        }
        for discrimination in Discrimination::ALL {
            rows.note("loss discriminator", discrimination.name());
        }
        for reporting in RateReporting::ALL {
            rows.note("rate report", reporting.name());
        }
        for starting in Starting::ALL {
            rows.note("start", starting.name());
        }
        for row in ACK_RELEASES {
            rows.note("ACK release", row.name);
        }
        for row in WINDOW_LIMITS {
            rows.note("window limit", row.name);
        }
        for row in INTERCEPTORS {
            rows.note("interceptor", row.name);
        }
        rows
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (registry, row) in &self.0 {
            writeln!(f, "{registry}: {row}")?;
        }
        Ok(())
    }
}

/// Draws parts and configurations, and notes the rows that it took.
#[derive(Clone, Debug)]
pub struct Draw {
    /// Where the choices come from.
    pub chance: Chance,
    /// What was taken so far.
    pub rows: Rows,
}

impl Draw {
    /// What belongs to a seed.
    pub fn new(seed: u64) -> Draw {
        Draw { chance: Chance(seed), rows: Rows::default() }
    }

    /// A congestion control, or a fixed window.
    pub fn control(&mut self) -> Algorithm {
        if self.chance.once_in(1 + Algorithm::NAMED.len() as u64) {
            return Algorithm::Fixed(Bytes(*self.chance.pick(&[5_000, 30_000, 100_000])));
        }
        let control = *self.chance.pick(Algorithm::NAMED);
        self.rows.note("congestion control", control.name());
        control
    }

    /// A loss detector.
    pub fn detection(&mut self) -> LossDetection {
        let detection = *self.chance.pick(LossDetection::ALL);
        self.rows.note("loss detector", detection.name());
        detection
    }

    /// A loss discriminator: half of the time, that every loss is congestion.
    pub fn discrimination(&mut self) -> Discrimination {
        let usual = self.chance.happens(500).then_some(Discrimination::EVERY_LOSS);
        let discrimination = usual.unwrap_or_else(|| *self.chance.pick(Discrimination::ALL));
        self.rows.note("loss discriminator", discrimination.name());
        discrimination
    }

    /// A profile, with parts exchanged.
    pub fn profile(&mut self) -> SenderProfile {
        let names: Vec<&str> = SenderProfile::names().collect();
        let profile = SenderProfile::named(self.chance.pick::<&str>(&names)).expect("a name of the list");
        let most = if self.chance.happens(200) { *SenderProfile::INITIAL_WINDOWS.end() } else { 10 };
        let initial_window = 1 + self.chance.below(u64::from(most)) as u32;
        let rate_report = RateReporting::ALL[initial_window as usize % RateReporting::ALL.len()];
        self.rows.note("rate report", rate_report.name());
        // A rare one, for it is not put away.
        let start = Starting::ALL[usize::from(initial_window % 11 == 4) % Starting::ALL.len()];
        self.rows.note("start", start.name());
        let rto = if self.chance.happens(300) { *self.chance.pick(&TIMERS) } else { profile.rto };
        SenderProfile {
            congestion: self.control(),
            loss_detection: self.detection(),
            discriminator: self.discrimination(),
            f_rto: self.chance.happens(500),
            // Rare, of numbers that are drawn already.
            undo: initial_window % 11 != 7,
            persist_on_shrink: initial_window % 11 == 6,
            rttm: initial_window % 11 == 5,
            start,
            rate_report,
            black_hole_probing: self.chance.happens(500),
            sack: self.chance.happens(700),
            timestamps: self.chance.happens(600),
            window_scaling: self.chance.happens(700),
            ecn: self.chance.happens(300),
            nagle: self.chance.happens(300),
            pacing: self.chance.happens(500),
            idle_restart: self.chance.happens(700),
            initial_window,
            // Rare ones, of a number that is drawn already.
            initial_ssthresh: (initial_window % 7 == 5).then_some(2 + initial_window / 2),
            window_validation: initial_window % 7 != 6,
            rto,
            ack: if self.chance.happens(300) { AckPolicy::Immediate } else { profile.ack },
            ..profile
        }
    }

    /// One end of a connection.
    pub fn end(&mut self) -> ConnectionConfig {
        let profile = self.profile();
        let chance = &mut self.chance;
        let mtu = *chance.pick(&[576, 1280, 1500, 1500, 9000]);
        ConnectionConfig {
            profile,
            send_buffer: Bytes(1 << (11 + chance.below(10))),
            receive_buffer: Bytes(1 << (11 + chance.below(10))),
            autotuning: chance.happens(700),
            window_shift: chance.happens(300).then(|| chance.below(15) as u8),
            mss: mtu - 40,
            mtu,
            super_segments: chance.happens(300),
            keep_alive: chance.happens(200).then(KeepAlive::default),
            syn_retries: 12,
            ..ConnectionConfig::default()
        }
    }

    /// How a gateway sends into a leg.
    pub fn leg(&mut self) -> LegConfig {
        let sender = self.profile();
        LegConfig { sender, mtu: *self.chance.pick(&[65_535, 65_535, 1500, 1280]) }
    }

    /// How senders are kept back: any release or none, with any set of window limits.
    pub fn senders(&mut self) -> SenderControl {
        let mut senders = SenderControl::default();
        match self.chance.below(4) {
            0 | 1 => {}
            2 => {
                let row = self.chance.pick(ACK_RELEASES);
                self.rows.note("ACK release", row.name);
                senders.ack = Some((row.example)());
            }
            _ => senders.ack = Some(Arc::new(self.path_tail())),
        }
        for row in WINDOW_LIMITS {
            if self.chance.happens(200) {
                self.rows.note("window limit", row.name);
                senders.window.push((row.example)());
            }
        }
        senders
    }

    /// An emulated link, for whomever.
    fn path_tail(&mut self) -> PathTailConfig {
        let all = ["0.0.0.0/0", "::/0"].map(|prefix| prefix.parse().expect("a prefix"));
        let cell = PathTailCell { name: "all".into(), prefixes: all.into(), bandwidth: None };
        let scopes = [TailScope::Host, TailScope::Flow, TailScope::Cell(vec![cell])];
        let rate = *self.chance.pick(&[300_000, 2_000_000, 20_000_000]);
        PathTailConfig {
            is_estimated: self.chance.happens(300),
            queue: Bytes(12_000),
            buffer: Bytes(25_000),
            scope: self.chance.pick(&scopes).clone(),
            ..PathTailConfig::of(BitRate::from_bits_per_sec(rate))
        }
    }

    /// How the connections of a host are served together.
    pub fn aggregate(&mut self) -> AggregateConfig {
        let chance = &mut self.chance;
        let size = Bytes(1_000 + chance.below(50_000));
        let usual = AggregateConfig::default();
        AggregateConfig {
            clamp: *chance.pick(&[Clamp::Auto, Clamp::Auto, Clamp::Fixed(size)]),
            uplink: *chance.pick(&[UplinkWindow::Auto, UplinkWindow::None, UplinkWindow::Fixed(size)]),
            host_buffer: Bytes(*chance.pick(&[200_000, 2 << 20, 16 << 20])),
            interactive: Bytes(*chance.pick(&[0, 4_000])),
            pacing: chance.happens(700),
            window_share: usual.window_share.filter(|_| chance.happens(700)),
            remember: Duration::from_secs(1 + chance.below(600)),
            ..usual
        }
    }

    /// What is done to the flows of a class, for a gateway that is otherwise as `frame` says.
    pub fn policy(&mut self, frame: &GatewayConfig, matches: FlowMatch) -> Policy {
        loop {
            // What cannot be combined is drawn anew.
            let rows = self.rows.clone();
            let policy = self.any_policy();
            let alone = GatewayConfig { policies: vec![policy.clone()], ..frame.clone() };
            if alone.check().is_ok() {
                return Policy { matches, ..policy };
            }
            self.rows = rows;
        }
    }

    fn any_policy(&mut self) -> Policy {
        let mode = if self.chance.happens(500) { Mode::Split } else { *self.chance.pick(&Mode::ALL) };
        self.rows.note("mode", mode.name());
        let mut policy = Policy { mode, ..Policy::default() };
        if mode == Mode::Split {
            policy.access = self.leg();
            policy.wan = self.leg();
            policy.senders = self.senders();
            if self.chance.happens(200) {
                policy.control_group = 0.5;
            }
            if self.chance.happens(400) {
                policy.access.sender = SenderProfile {
                    f_rto: policy.access.sender.f_rto,
                    black_hole_probing: policy.access.sender.black_hole_probing,
                    ack: policy.access.sender.ack,
                    rto: policy.access.sender.rto,
                    nagle: policy.access.sender.nagle,
                    // The rest is the aggregate's to decide, or the ends'.
                    ..SenderProfile::default()
                };
                policy.aggregate = Some(Arc::new(self.aggregate()));
            }
        } else if mode != Mode::Observe {
            for _ in 0..self.chance.below(3) {
                let row = self.chance.pick(INTERCEPTORS);
                self.rows.note("interceptor", row.name);
                policy.intercept.push((row.example)());
            }
        }
        policy
    }

    /// A gateway with a policy for each of these ports, and one for all others.
    pub fn gateway(&mut self, frame: &GatewayConfig, ports: &[u16]) -> GatewayConfig {
        loop {
            let rows = self.rows.clone();
            let mut policies = Vec::new();
            for &port in ports {
                policies.push(self.policy(frame, FlowMatch { ports: vec![port], ..FlowMatch::default() }));
            }
            policies.push(self.policy(frame, FlowMatch::default()));
            let hosts = HostSpec::default().resolve(&policies);
            let config = GatewayConfig { policies, hosts, ..frame.clone() };
            if config.check().is_ok() {
                return config;
            }
            self.rows = rows;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many draws as a short run of the tests that use them has.
    const DRAWS: u64 = 200;

    #[test]
    fn every_row_of_every_registry_is_drawn() {
        let mut drawn = Rows::default();
        for seed in 0..DRAWS {
            let mut draw = Draw::new(seed);
            let frame = GatewayConfig { flow_buffer: Bytes(100_000), ..GatewayConfig::default() };
            draw.gateway(&frame, &[80]).check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            drawn.extend(&draw.rows);
        }
        let registered = Rows::registered();
        assert!(registered.0.len() > 25, "{registered}");
        assert_eq!(registered.missing_in(&drawn), Vec::<&(&str, String)>::new(), "of {DRAWS} draws");
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let draw = |seed| {
            let mut draw = Draw::new(seed);
            format!("{:?}", draw.gateway(&GatewayConfig::default(), &[80, 443]))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
