use super::{HostPrefix, Mode, Policy, Setting};
use crate::GatewayConfig;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use shorthaul_tcp::SenderProfile;

/// What cannot be worked with in a gateway's policies, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// Which policy, counted from 0; `None` where it is about the gateway as a whole.
    pub policy: Option<usize>,
    /// The key.
    pub key: &'static str,
    /// What is wrong, and the remedy.
    pub why: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(policy) = self.policy {
            write!(f, "policy {}: ", policy + 1)?;
        }
        write!(f, "{}: {}", self.key, self.why)
    }
}

impl core::error::Error for PolicyError {}

impl GatewayConfig {
    /// Says what cannot be combined.
    ///
    /// # Errors
    /// Names the policy, the key and the remedy.
    pub fn check(&self) -> Result<(), PolicyError> {
        let refuse = |policy, key, why: String| Err(PolicyError { policy, key, why });
        if self.flow_buffer > self.memory {
            let why = format!(
                "{} for each direction of a flow is more than the {} in all; write less here, or more for `total`",
                self.flow_buffer, self.memory
            );
            return refuse(None, "per_flow", why);
        }
        if self.max_flows == 0 {
            let why = "no flow at all would be split; write at least 1, such as 65536".into();
            return refuse(None, "max_flows", why);
        }
        if self.idle_timeout.is_zero() {
            let why =
                "every connection would be stepped out of at once; write a time such as \"7440 s\"".into();
            return refuse(None, "idle_timeout", why);
        }
        for bottleneck in &self.bottlenecks {
            if let Err(why) = bottleneck.check() {
                return refuse(None, "bottleneck", format!("`{}`: {why}", bottleneck.name));
            }
            let unpaced =
                |policy: &Policy| policy.aggregate.as_ref().is_some_and(|aggregate| !aggregate.pacing);
            if bottleneck.rate.is_some() && self.policies.iter().any(unpaced) {
                let why =
                    "its `rate` is kept by pacing: leave out `pacing = false` in `[aggregate]`, or the rate";
                return refuse(None, "bottleneck", format!("`{}`: {why}", bottleneck.name));
            }
        }
        for (index, bottleneck) in self.bottlenecks.iter().enumerate() {
            if let Err(why) = bottleneck.has_hosts_behind(&self.bottlenecks[..index]) {
                return refuse(None, "bottleneck", format!("`{}`: {why}", bottleneck.name));
            }
        }
        let serves_together = self.policies.iter().any(|policy| policy.aggregate.is_some());
        if let (Some(bottleneck), false) = (self.bottlenecks.first(), serves_together) {
            let why = "its hosts are served together in mode `auto`, and each connection is by itself here; write mode = \"auto\", or leave bottlenecks out";
            return refuse(None, "bottleneck", format!("`{}`: {why}", bottleneck.name));
        }
        let mut aggregates = self.policies.iter().filter_map(|policy| policy.aggregate.as_ref());
        if let (Some(first), false) = (aggregates.next(), self.bottlenecks.is_empty())
            && aggregates.any(|other| other != first)
        {
            let why = "the hosts of a bottleneck are served by one aggregate, and policies have different ones; make them equal, or leave bottlenecks out";
            return refuse(None, "bottleneck", why.into());
        }
        let Some(last) = self.policies.last() else {
            return refuse(
                None,
                "policy",
                "there is none; leave the list out for one that is for all flows".into(),
            );
        };
        if !last.matches.matches_all() {
            let why =
                "the last policy is for all other flows; leave its `match` out, or add one without".into();
            return refuse(Some(self.policies.len() - 1), "match", why);
        }
        for (index, policy) in self.policies.iter().enumerate() {
            if index + 1 < self.policies.len() && policy.matches.matches_all() {
                let why = "this policy is for all flows, so that those behind it are for none; put it last, or give it a `match`";
                return refuse(Some(index), "match", why.into());
            }
            let equal = |other: &Policy| other.matches == policy.matches;
            if let Some(first) = self.policies[..index].iter().position(equal) {
                let why = format!(
                    "policy {} is for the same flows, so that this one is for none; leave one of them out, or match others",
                    first + 1
                );
                return refuse(Some(index), "match", why);
            }
            policy.check(self).map_err(|(key, why)| PolicyError { policy: Some(index), key, why })?;
        }
        self.check_hosts()
    }

    /// What is one host's cannot be two things.
    fn check_hosts(&self) -> Result<(), PolicyError> {
        let aggregates = || {
            let of = |(index, policy): (usize, &'_ Policy)| Some((index, policy.aggregate.clone()?));
            self.policies.iter().enumerate().filter_map(of)
        };
        for (index, aggregate) in aggregates() {
            let HostPrefix { v4, v6 } = self.hosts;
            for (key, own, all) in
                [("prefix_v4", aggregate.prefix_v4, v4), ("prefix_v6", aggregate.prefix_v6, v6)]
            {
                let bits = if key == "prefix_v4" { 32 } else { 128 };
                if let Some(own) = own.filter(|own| *own > bits) {
                    let why =
                        format!("an address has {bits} bits, and not {own}; write a number from 0 to {bits}");
                    return Err(PolicyError { policy: Some(index), key, why });
                }
                if let Some(own) = own.filter(|own| *own != all) {
                    let why = format!(
                        "{own} bits are one host here, and {all} elsewhere; a gateway has one answer: write it once, as `hosts = {{ {key} = {all} }}`, and leave it out here"
                    );
                    return Err(PolicyError { policy: Some(index), key, why });
                }
            }
            for (other, theirs) in aggregates().take_while(|(other, _)| *other < index) {
                let shared =
                    self.policies[index].matches.may_share_a_host(&self.policies[other].matches, self.hosts);
                if shared && theirs != aggregate {
                    let why = format!(
                        "one host could have two aggregates, this one and that of policy {}; make them equal, or match hosts with different prefixes",
                        other + 1
                    );
                    return Err(PolicyError { policy: Some(index), key: "aggregate", why });
                }
            }
        }
        Ok(())
    }
}

impl Policy {
    /// The policies of a gateway: those of a list, and then `rest`, for the flows that none of these is for. Whether somebody
    /// wrote what is in it, `rest_is_written` says.
    ///
    /// # Errors
    /// If there would be two for all flows.
    pub fn list(
        mut listed: Vec<Policy>,
        rest: Policy,
        rest_is_written: bool,
    ) -> Result<Vec<Policy>, PolicyError> {
        match listed.last() {
            Some(last) if last.matches.matches_all() && rest_is_written => {
                let why = "this policy is for all flows, and so are `senders` and `aggregate` outside of the list; give it a `match`, or leave these out";
                return Err(PolicyError { policy: Some(listed.len() - 1), key: "match", why: why.into() });
            }
            Some(last) if last.matches.matches_all() => {}
            _ => listed.push(rest),
        }
        Ok(listed)
    }

    /// What of its own parts cannot be combined: the key, and why.
    fn check(&self, config: &GatewayConfig) -> Result<(), (&'static str, String)> {
        let setting = Setting { flow_buffer: config.flow_buffer, aggregate: None };
        self.senders.check(&setting).map_err(|why| ("senders", why))?;
        if !(0.0..=0.5).contains(&self.control_group) {
            let why = format!(
                "{} is no share of flows that can be spared; write one from 0 to 0.5, such as 0.02",
                self.control_group
            );
            return Err(("control_group", why));
        }
        if self.mode != Mode::Split && self.control_group > 0.0 {
            let why =
                "flows that stay whole are a control group already; leave it out, or write mode = \"split\"";
            return Err(("control_group", why.into()));
        }
        if self.mode == Mode::Split {
            if !self.intercept.is_empty() {
                let why =
                    "interceptors are for flows that stay whole; write mode = \"pass\", or leave them out";
                return Err(("intercept", why.into()));
            }
        } else if self.senders.ack.is_some() || !self.senders.window.is_empty() {
            let why = "a flow that stays whole is acknowledged by its ends alone; leave `ack`, `window` and `senders` out, or write mode = \"split\"";
            return Err(("mode", why.into()));
        } else if self.aggregate.is_some() {
            let why = "only flows that are split are served together; leave `aggregate` out, or write mode = \"split\"";
            return Err(("mode", why.into()));
        }
        if self.mode == Mode::Observe && !self.intercept.is_empty() {
            let why = "what is observed passes as it comes; write mode = \"pass\" for interceptors";
            return Err(("intercept", why.into()));
        }
        let Some(aggregate) = &self.aggregate else { return Ok(()) };
        aggregate.check_classes().map_err(|why| ("classes", why))?;
        check_aggregated(&self.access.sender).map_err(|why| ("to_access", why))?;
        let setting = Setting { aggregate: Some(aggregate), ..setting };
        self.senders.check(&setting).map_err(|why| ("aggregate", why))
    }
}

/// Whether connections into which one would send so can be served together.
///
/// # Errors
/// Names the key that would have no effect, and the remedy.
fn check_aggregated(sender: &SenderProfile) -> Result<(), String> {
    // Without `..`: `managed_by_aggregate` takes the place of some of these.
    let SenderProfile {
        name: _,
        congestion,
        loss_detection,
        discriminator,
        f_rto: _,
        undo: _,
        persist_on_shrink,
        rttm,
        black_hole_probing: _,
        pacing,
        ack: _,
        rate_report: _, // it is between the ends
        rto: _,         // each connection still looks for the end of a closed window by it
        sack: _,
        timestamps: _,
        window_scaling: _,
        ecn: _,
        initial_window,
        initial_ssthresh,
        window_validation,
        idle_restart,
        start,
        nagle: _,
    } = sender;
    let usual = SenderProfile::default();
    let overwritten = [
        ("congestion", *congestion != usual.congestion, congestion.to_string()),
        ("loss_detection", *loss_detection != usual.loss_detection, loss_detection.to_string()),
        ("discriminator", *discriminator != usual.discriminator, discriminator.to_string()),
        ("pacing", *pacing != usual.pacing, pacing.to_string()),
        ("initial_window", *initial_window != usual.initial_window, initial_window.to_string()),
        (
            "initial_ssthresh",
            *initial_ssthresh != usual.initial_ssthresh,
            initial_ssthresh.unwrap_or_default().to_string(),
        ),
        ("window_validation", *window_validation != usual.window_validation, window_validation.to_string()),
        ("persist_on_shrink", *persist_on_shrink, persist_on_shrink.to_string()),
        ("rttm", *rttm, rttm.to_string()),
        ("idle_restart", *idle_restart != usual.idle_restart, idle_restart.to_string()),
        ("start", *start != usual.start, start.to_string()),
    ];
    match overwritten.into_iter().find(|(_, differs, _)| *differs) {
        None => Ok(()),
        Some((key, _, value)) => Err(format!(
            "`{key}` toward the access side is `{value}`, but an aggregate decides that for all connections of a host together; leave it out, or the aggregate"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bottleneck;
    use crate::{
        ACK_RELEASES, AggregateConfig, Clamp, ClampedWindow, ConstantQueue, FlowMatch, HostSpec,
        INTERCEPTORS, LegConfig, PathTailConfig, SenderControl,
    };
    use alloc::sync::Arc;
    use alloc::vec;
    use shorthaul_congestion::Algorithm;
    use shorthaul_tcp::{Discrimination, LossDetection};
    use shorthaul_types::{BitRate, Bytes};

    fn class(prefix: &str) -> FlowMatch {
        FlowMatch { hosts: vec![prefix.parse().unwrap()], ..FlowMatch::default() }
    }

    fn aggregate() -> Option<Arc<AggregateConfig>> {
        Some(Arc::new(AggregateConfig::default()))
    }

    fn refused(policies: Vec<Policy>) -> Option<(Option<usize>, &'static str)> {
        let config = GatewayConfig { policies, ..GatewayConfig::default() };
        config.check().err().map(|error| (error.policy, error.key))
    }

    #[test]
    fn what_cannot_be_combined_is_refused_by_its_key() {
        let plain = Policy::default;
        let tail = PathTailConfig::of(BitRate::from_bits_per_sec(1_000_000));
        let clamp = ClampedWindow { window: Bytes(20_000) };
        let keeping = |senders: SenderControl| Policy { senders, aggregate: aggregate(), ..plain() };
        let intercept: Vec<_> = INTERCEPTORS.iter().map(|row| (row.example)()).collect();
        for (policy, key) in [
            (plain(), None),
            (keeping(SenderControl::default()), None),
            (keeping(SenderControl::acknowledging(tail.clone())), Some("aggregate")),
            (
                keeping(SenderControl::default().limited_by(ConstantQueue { queue: Bytes(9000) })),
                Some("aggregate"),
            ),
            (keeping(SenderControl::default().limited_by(clamp)), None),
            (Policy { intercept: intercept.clone(), ..plain() }, Some("intercept")),
            (Policy { intercept: intercept.clone(), mode: Mode::Observe, ..plain() }, Some("intercept")),
            (Policy { intercept, mode: Mode::Pass, ..plain() }, None),
            (Policy { mode: Mode::Observe, aggregate: aggregate(), ..plain() }, Some("mode")),
            (
                Policy { mode: Mode::Pass, senders: SenderControl::default().limited_by(clamp), ..plain() },
                Some("mode"),
            ),
            (
                Policy {
                    senders: SenderControl::acknowledging(PathTailConfig { buffer: Bytes(17 << 20), ..tail }),
                    ..plain()
                },
                Some("senders"),
            ),
        ] {
            let said = refused(vec![policy.clone()]);
            assert_eq!(said, key.map(|key| (Some(0), key)), "{policy:?}");
        }
        for row in ACK_RELEASES {
            let policy =
                Policy { senders: SenderControl { ack: Some((row.example)()), window: vec![] }, ..plain() };
            assert_eq!(refused(vec![policy.clone()]), None, "{}", row.name);
            let observing = refused(vec![Policy { mode: Mode::Observe, ..policy }]);
            assert_eq!(observing, Some((Some(0), "mode")), "{}", row.name);
        }
    }

    #[test]
    fn what_an_aggregate_decides_is_not_a_legs_to_say() {
        let sends = SenderProfile::default;
        let with = |sender: SenderProfile, aggregate| {
            let access = LegConfig { sender, ..LegConfig::default() };
            let policies = vec![Policy { access, aggregate, ..Policy::default() }];
            GatewayConfig { policies, ..GatewayConfig::default() }.check()
        };
        for (key, sender) in [
            ("`congestion`", SenderProfile { congestion: Algorithm::Bbr, ..sends() }),
            ("`loss_detection`", SenderProfile { loss_detection: LossDetection::NCR, ..sends() }),
            (
                "`discriminator`",
                SenderProfile { discriminator: Discrimination::ONE_SIDED_PROBING, ..sends() },
            ),
            ("`pacing`", SenderProfile { pacing: false, ..sends() }),
            ("`initial_window`", SenderProfile { initial_window: 64, ..sends() }),
            ("`initial_ssthresh`", SenderProfile { initial_ssthresh: Some(20), ..sends() }),
            ("`window_validation`", SenderProfile { window_validation: false, ..sends() }),
            ("`idle_restart`", SenderProfile { idle_restart: false, ..sends() }),
        ] {
            assert_eq!(with(sender.clone(), None), Ok(()), "{key}");
            let error = with(sender, aggregate()).unwrap_err();
            assert!(error.key == "to_access" && error.why.starts_with(key), "{key}: {error}");
        }
        let rest = SenderProfile { f_rto: false, nagle: true, ..sends() };
        assert_eq!(with(rest, aggregate()), Ok(()));
    }

    #[test]
    fn a_fixed_window_for_each_flow_is_no_smaller_than_the_one_they_share() {
        let with = |own, shared| {
            let config = AggregateConfig { clamp: Clamp::Fixed(Bytes(shared)), ..AggregateConfig::default() };
            let senders = SenderControl::default().limited_by(ClampedWindow { window: Bytes(own) });
            refused(vec![Policy { senders, aggregate: Some(Arc::new(config)), ..Policy::default() }])
        };
        assert_eq!(with(20_000, 30_000), Some((Some(0), "aggregate")));
        assert_eq!(with(30_000, 30_000), None);
    }

    #[test]
    fn the_last_policy_and_no_other_is_for_all_flows() {
        let one = || Policy { matches: class("10.0.0.0/8"), ..Policy::default() };
        assert_eq!(refused(vec![one(), Policy::default()]), None);
        assert_eq!(refused(vec![one()]), Some((Some(0), "match")));
        assert_eq!(refused(vec![Policy::default(), one(), Policy::default()]), Some((Some(0), "match")));
        assert_eq!(refused(vec![]), Some((None, "policy")));
        let other = || Policy { matches: class("11.0.0.0/8"), ..Policy::default() };
        assert_eq!(refused(vec![one(), other(), Policy::default()]), None);
        assert_eq!(refused(vec![one(), other(), one(), Policy::default()]), Some((Some(2), "match")));
        let list = |listed, is_written| Policy::list(listed, Policy::default(), is_written);
        assert_eq!(list(vec![one()], true).unwrap().len(), 2);
        assert_eq!(list(vec![one(), Policy::default()], false).unwrap().len(), 2);
        assert_eq!(list(vec![one(), Policy::default()], true).unwrap_err().policy, Some(1));
    }

    #[test]
    fn the_rate_of_a_bottleneck_needs_pacing() {
        let of = |pacing, rate: Option<u64>| {
            let bottleneck = Bottleneck {
                name: "backhaul".into(),
                rate: rate.map(BitRate::from_bits_per_sec),
                ..Bottleneck::default()
            };
            let config = AggregateConfig { pacing, ..AggregateConfig::default() };
            let policy = Policy { aggregate: Some(Arc::new(config)), ..Policy::default() };
            let config = GatewayConfig {
                bottlenecks: vec![bottleneck],
                policies: vec![policy],
                ..GatewayConfig::default()
            };
            config.check().err().map(|error| (error.key, error.why))
        };
        assert_eq!((of(true, Some(1_000_000)), of(false, None)), (None, None));
        let (key, why) = of(false, Some(1_000_000)).unwrap();
        assert!(key == "bottleneck" && why.contains("pacing = false"), "{why}");
        let each_by_itself = GatewayConfig {
            bottlenecks: vec![Bottleneck { name: "backhaul".into(), ..Bottleneck::default() }],
            policies: vec![Policy::default()],
            ..GatewayConfig::default()
        };
        let why = each_by_itself.check().unwrap_err().why;
        assert!(why.contains("`backhaul`") && why.contains("mode = \"auto\""), "{why}");
    }

    #[test]
    fn one_host_has_one_aggregate() {
        let with = |matches, host_buffer| {
            let config = AggregateConfig { host_buffer: Bytes(host_buffer), ..AggregateConfig::default() };
            Policy { matches, aggregate: Some(Arc::new(config)), ..Policy::default() }
        };
        let web = || FlowMatch { ports: vec![443], ..FlowMatch::default() };
        assert_eq!(refused(vec![with(web(), 1 << 20), with(FlowMatch::default(), 1 << 20)]), None);
        let two = vec![with(web(), 1 << 20), with(FlowMatch::default(), 2 << 20)];
        assert_eq!(refused(two), Some((Some(1), "aggregate")));
        let apart =
            vec![with(class("10.1.0.0/16"), 1 << 20), with(class("10.2.0.0/16"), 2 << 20), Policy::default()];
        assert_eq!(refused(apart), None);
    }

    #[test]
    fn a_gateway_has_one_answer_to_what_a_host_is() {
        let with = |matches, prefix_v4| {
            let config = AggregateConfig { prefix_v4, ..AggregateConfig::default() };
            Policy { matches, aggregate: Some(Arc::new(config)), ..Policy::default() }
        };
        let policies = vec![
            with(class("10.1.0.0/16"), Some(24)),
            with(class("10.2.0.0/16"), Some(28)),
            Policy::default(),
        ];
        let config = GatewayConfig {
            hosts: HostSpec::default().resolve(&policies),
            policies,
            ..GatewayConfig::default()
        };
        assert_eq!(config.hosts.v4, 24);
        let error = config.check().unwrap_err();
        assert_eq!((error.policy, error.key), (Some(1), "prefix_v4"));
        // What is written for the whole gateway counts, and whoever says something else is named.
        let policies = vec![with(FlowMatch::default(), Some(24))];
        for (prefix_v4, refused) in [(Some(24), false), (Some(28), true), (None, false)] {
            let hosts = HostSpec { prefix_v4, ..HostSpec::default() }.resolve(&policies);
            assert_eq!(hosts.v4, prefix_v4.unwrap_or(24));
            let config = GatewayConfig { hosts, policies: policies.clone(), ..GatewayConfig::default() };
            let said = config.check().err();
            assert_eq!(said.is_some(), refused, "{prefix_v4:?}");
            assert!(said.is_none_or(|error| error.why.contains("hosts = { prefix_v4 = 28 }")));
        }
    }

    #[test]
    fn a_flow_has_no_more_than_there_is_in_all() {
        let config =
            GatewayConfig { flow_buffer: Bytes(2 << 20), memory: Bytes(1 << 20), ..GatewayConfig::default() };
        assert_eq!(config.check().unwrap_err().key, "per_flow");
    }
}
