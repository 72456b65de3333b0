use super::{HostPrefix, Policy};
use crate::GatewayConfig;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

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
                if let Some(own) = own.filter(|own| *own != all) {
                    let why = format!(
                        "{own} bits are one host here, and {all} elsewhere; a gateway has one answer: write it once"
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
    /// What of its own parts cannot be combined: the key, and why.
    fn check(&self, config: &GatewayConfig) -> Result<(), (&'static str, String)> {
        if let Some(ack) = &self.senders.ack {
            ack.check(config.flow_buffer).map_err(|why| ("senders", why.to_string()))?;
        }
        let Some(aggregate) = &self.aggregate else { return Ok(()) };
        if self.senders.ack.as_ref().is_some_and(|ack| ack.emulated_link().is_some()) {
            let why = "a host that is served by an aggregate cannot be behind an emulated link too: both set the pace of its senders; leave out one of them";
            return Err(("aggregate", why.into()));
        }
        if self.senders.follows_host_queue() {
            let why = "the aggregate and this bound on the window both steer the queue of a host; leave out one of them";
            return Err(("aggregate", why.into()));
        }
        if aggregate.window_share.is_some() && self.senders.window.iter().any(|limit| limit.fixed().is_some())
        {
            let why = "a fixed window for each flow contradicts the shares that the aggregate gives them; leave it out, or write `window_share = \"buffer\"`";
            return Err(("aggregate", why.into()));
        }
        Ok(())
    }
}
