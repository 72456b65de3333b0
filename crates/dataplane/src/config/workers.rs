//! Several workers: what each has of the memory, and what they cannot share.
use super::{Config, ConfigError, Memory};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer};
use shorthaul_proxy::{GatewayConfig, Policy, TailScope};
use shorthaul_types::Bytes;

/// Two queues of each are handed over at once when another process takes over, and a lock.
const MOST_WORKERS: usize = 64;
const _: () = assert!(2 * MOST_WORKERS < shorthaul_os::handover::MOST);

pub(super) fn is_one(workers: &usize) -> bool {
    *workers == 1
}

pub(super) fn workers<'de, D: Deserializer<'de>>(d: D) -> Result<usize, D::Error> {
    number_of_workers(usize::deserialize(d)?).map_err(serde::de::Error::custom)
}

/// How many workers there are, if there can be so many.
///
/// # Errors
/// What to write instead.
pub fn number_of_workers(number: usize) -> Result<usize, String> {
    match number {
        1..=MOST_WORKERS => Ok(number),
        other => Err(format!(
            "there cannot be {other} workers: write a number from 1 to {MOST_WORKERS}, at most that of processors"
        )),
    }
}

impl Config {
    /// That there are more workers than processors, which is allowed, and of no use.
    pub fn idle_workers(&self, processors: usize) -> Option<String> {
        let workers = self.workers;
        (workers > processors).then(|| {
            format!(
                "{workers} workers have {processors} processor{} among them, and take turns: `workers = {processors}` does as much with less memory",
                if processors == 1 { "" } else { "s" }
            )
        })
    }

    /// What each worker may hold: an equal part.
    pub(crate) fn share(&self) -> Memory {
        let workers = self.workers.max(1);
        let Memory { per_flow, total, max_flows, put_away } = self.memory;
        Memory { per_flow, total: Bytes(total.0 / workers as u64), max_flows: max_flows / workers, put_away }
    }

    /// What hosts share cannot be with several workers, each of which has some hosts.
    pub(super) fn check_workers(&self, machine: &GatewayConfig) -> Result<(), ConfigError> {
        let workers = self.workers;
        let value = |key, why: String| Err(ConfigError::Value { key, why });
        if workers == 1 {
            return Ok(());
        }
        if machine.flow_buffer > machine.memory {
            let why = format!(
                "each of {workers} has {} of `total`, which is less than `per_flow`, {}: write fewer, or more for `total`",
                machine.memory, machine.flow_buffer
            );
            return value("workers", why);
        }
        if machine.max_flows == 0 {
            let why = format!(
                "`max_flows` is less than one for each of {workers}: write fewer, or a larger number"
            );
            return value("workers", why);
        }
        if machine
            .policies
            .iter()
            .any(|policy| policy.aggregate.as_ref().is_some_and(|own| own.find_bottlenecks))
        {
            let why = "who shares a bottleneck is found where all hosts are in one place: leave it out, name the hosts in a \
                       [[bottleneck]], or write workers = 1";
            return value("find_bottlenecks", why.into());
        }
        let emulates_cells = |policy: &Policy| {
            policy.senders.emulated_link().is_some_and(|link| matches!(link.scope, TailScope::Cell(_)))
        };
        if machine.policies.iter().any(emulates_cells) {
            let why = "the hosts of an emulated cell share a link, and may be different workers': leave `cells` and `per` out, so that each \
                       host has its own, or write workers = 1";
            return value("cells", why.into());
        }
        for (bottleneck, number) in machine.bottlenecks.iter().zip(0..) {
            let name = &bottleneck.name;
            // Each bottleneck is one worker's, by turns, and there are no hosts but those of the first ones and of this one.
            let used = number + 1;
            if bottleneck.hosts.is_empty() && used < workers {
                let why = format!(
                    "`{name}` is shared by all {}hosts, so that one worker would have their packets and {} of {workers} none: name its hosts, \
                     or write workers = {used}",
                    if number == 0 { "" } else { "other " },
                    workers - used
                );
                return value("bottleneck", why);
            }
            let longest =
                |net: &IpNet| if net.addr().is_ipv4() { machine.hosts.v4 } else { machine.hosts.v6 };
            if let Some(net) = bottleneck.hosts.iter().find(|net| net.prefix_len() > longest(net)) {
                let why = format!(
                    "`{name}` has a part of a host, {net}: with several workers a host is whole in it or not at all; write a prefix of {} \
                     bits or less, or `hosts` with longer ones",
                    longest(net)
                );
                return value("bottleneck", why);
            }
        }
        Ok(())
    }
}
