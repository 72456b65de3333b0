//! Hosts that speak our own TCP: the very machines of the simulator, behind TUN devices.
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use shorthaul_dataplane::HostLoop;
use shorthaul_lab::Guest;
use shorthaul_lab::workload::{TcpSample, TransferReport};
use shorthaul_os::TcpInfo;
use shorthaul_os::schedule::waited_of;
use shorthaul_scenario::{Flow, NodeIndex, Role, Scenario, Stack, Workload};
use shorthaul_sim::{EndReport, ScenarioHost, Transfer};
use shorthaul_tcp::Connection;
use shorthaul_types::{Bytes, Seed, Time};

use crate::error::LiveError;
use crate::flow::{Flown, interval};
use crate::network::Network;

/// Whether a node is a host that speaks our own TCP.
pub fn is_own(scenario: &Scenario, node: NodeIndex) -> bool {
    matches!(&scenario.nodes[node.0].role, Role::Host(scheme) if scheme.stack == Some(Stack::Own))
}

/// The hosts of a scenario that speak our own TCP, ready to run.
pub struct OwnHosts(Vec<HostLoop<ScenarioHost>>);

impl OwnHosts {
    /// Attaches them to the network.
    ///
    /// # Errors
    /// If a device cannot be made.
    pub fn attach(scenario: &Scenario, network: &Network, seed: u64) -> Result<OwnHosts, LiveError> {
        let address = |node: NodeIndex| -> IpAddr {
            let host = network.host(node);
            if is_own(scenario, node) { Guest::beside(host).v4.into() } else { host.address_v4().into() }
        };
        let nodes = (0..scenario.nodes.len()).map(NodeIndex).filter(|node| is_own(scenario, *node));
        let attach = |node: NodeIndex| -> Result<_, LiveError> {
            let host = network.host(node);
            let links = scenario.links.iter().filter(|link| link.between.contains(&node));
            let mtu = links.map(|link| link.mtu).min().unwrap_or(1500);
            let device = host.attach(Guest::beside(host), mtu)?;
            let machine = ScenarioHost::new(scenario, Seed(seed), node, address)
                .map_err(|source| LiveError::Own { node: scenario.nodes[node.0].name.clone(), source })?;
            Ok(HostLoop::new(device, machine))
        };
        nodes.map(attach).collect::<Result<_, _>>().map(OwnHosts)
    }

    /// Runs them until all flows between them have ended, or for the scenario's duration; what became of each
    /// flow, with its place in the scenario.
    pub fn run(self, scenario: &Scenario) -> Vec<(usize, Flown)> {
        let under_way = AtomicUsize::new(self.0.len());
        let seen: Vec<Seen> = thread::scope(|scope| {
            let run = |host: HostLoop<ScenarioHost>| scope.spawn(|| watch(scenario, host, &under_way));
            let threads: Vec<_> = self.0.into_iter().map(run).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        let flows = scenario.flows.iter().enumerate().filter(|(_, flow)| is_own(scenario, flow.from));
        flows.map(|(place, flow)| (place, flown(scenario, place, flow, &seen))).collect()
    }
}

/// What was seen of the flows' ends at one host. Times count from the start of the run.
#[derive(Default)]
struct Seen {
    ends: Vec<SeenEnd>,
    ended_at: Duration,
    /// How long the host's thread stood waiting for a processor.
    waited: Duration,
    failure: Option<String>,
}

#[derive(Default)]
struct SeenEnd {
    flow: usize,
    gives: bool,
    report: EndReport,
    /// When more was delivered, and how much by then.
    delivered: Vec<(Duration, u64)>,
    /// Of the sender, with the time since the start of the run.
    samples: Vec<TcpSample>,
}

/// Runs one host until no host waits for anything, and writes down what happens.
fn watch(scenario: &Scenario, host: HostLoop<ScenarioHost>, under_way: &AtomicUsize) -> Seen {
    let mut host = host.from_now();
    let (every, end) = (interval(scenario), Time::ZERO + scenario.duration);
    let mut ends: Vec<SeenEnd> =
        host.host().ends().map(|(flow, gives, _)| SeenEnd { flow, gives, ..SeenEnd::default() }).collect();
    let (mut next, mut is_done, mut failure) = (Time::ZERO, false, None);
    while under_way.load(Ordering::Relaxed) > 0 && host.now() < end {
        if let Err(error) = host.round(every.min(next.saturating_since(host.now())), |_, _| {}) {
            failure = Some(format!("the device of our TCP failed: {error}"));
            break;
        }
        let now = host.now();
        let at = now.saturating_since(Time::ZERO);
        for (seen, (_, _, report)) in ends.iter_mut().zip(host.host().ends()) {
            if seen.delivered.last().map_or(0, |(_, bytes)| *bytes) < report.delivered {
                seen.delivered.push((at, report.delivered));
            }
        }
        if now >= next {
            next += every;
            for (flow, connection) in host.host().senders() {
                if let Some(end) = ends.iter_mut().find(|end| end.flow == flow && end.gives) {
                    end.samples.push(sample(connection, at));
                }
            }
        }
        if !is_done && host.host().is_done() {
            is_done = true;
            under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }
    if !is_done {
        under_way.fetch_sub(1, Ordering::Relaxed);
    }
    for (seen, (_, _, report)) in ends.iter_mut().zip(host.host().ends()) {
        seen.report = report.clone();
    }
    let ended_at = host.now().saturating_since(Time::ZERO);
    Seen { ends, ended_at, waited: waited_of(Path::new("/proc/thread-self")), failure }
}

/// Our sender in the words of a kernel's, which counts windows in segments.
fn sample(connection: &Connection, at: Duration) -> TcpSample {
    let sender = connection.sender();
    let mss = u64::from(sender.mss()).max(1);
    let segments = |bytes: u64| u32::try_from(bytes / mss).unwrap_or(u32::MAX).min(u32::MAX >> 1);
    let stats = sender.stats();
    let info = TcpInfo {
        rtt: sender.rtt().srtt().unwrap_or_default(),
        min_rtt: sender.rtt().min_rtt().unwrap_or(Duration::MAX),
        cwnd: segments(sender.control().window()),
        mss: Bytes(mss),
        ssthresh: segments(sender.control().ssthresh()),
        unacked: segments(sender.in_flight()),
        retransmits: segments(stats.retransmitted),
        retransmitted: Bytes(stats.retransmitted),
        timeouts: Some(u16::try_from(stats.timeouts).unwrap_or(u16::MAX)),
        acked: Bytes(sender.una().saturating_sub(1)),
        ..TcpInfo::default()
    };
    TcpSample { at, info }
}

/// What became of a flow, from what its two ends have seen.
fn flown(scenario: &Scenario, place: usize, flow: &Flow, seen: &[Seen]) -> Flown {
    let end = |gives| {
        let mut all = seen.iter().flat_map(|seen| seen.ends.iter().map(move |end| (seen, end)));
        all.find(|(_, end)| end.flow == place && end.gives == gives)
    };
    let (Some((sender_host, sender)), Some((receiver_host, receiver))) = (end(true), end(false)) else {
        return Flown { failure: Some("the thread of a host ended".into()), ..Flown::default() };
    };
    let (opener, listener) = if flow.sender_opens { (sender, receiver) } else { (receiver, sender) };
    let since = |from: Duration, time: Option<Time>| {
        time.map_or(Duration::ZERO, |time| time.saturating_since(Time::ZERO).saturating_sub(from))
    };
    // Of the whole run; a transfer has its part.
    let share = |host: &Seen| host.waited.as_secs_f64() / host.ended_at.as_secs_f64().max(f64::MIN_POSITIVE);
    let starved = share(sender_host).max(share(receiver_host));
    let mut transfers = Vec::new();
    let begins: Vec<Duration> =
        opener.report.connections.iter().map(|c| c.begun.saturating_since(Time::ZERO)).collect();
    for (number, &begun) in begins.iter().enumerate() {
        let is_last = number + 1 == begins.len();
        let until = begins.get(number + 1).copied().unwrap_or(receiver_host.ended_at);
        let within = |at: Duration| at >= begun && (at < until || is_last);
        let whole = match &flow.workload {
            Workload::Downloads { .. } => receiver.report.transfers.get(number),
            _ => receiver.report.transfers.last().filter(|_| receiver.report.done),
        };
        let arrivals = arrivals(&receiver.delivered, begun, until, interval(scenario));
        let samples = sender.samples.iter().filter(|sample| within(sample.at));
        let responses =
            receiver.report.transfers.iter().map(|Transfer { started, ended }| {
                (since(begun, Some(*started)), since(begun, Some(*ended)))
            });
        let completed = whole.map_or(until.saturating_sub(begun), |whole| since(begun, Some(whole.ended)));
        let report = TransferReport {
            connected: since(begun, opener.report.connections[number].established),
            accepted: since(begun, listener.report.connections.get(number).and_then(|c| c.established)),
            first_byte: since(begun, receiver.report.first_delivery.filter(|_| number == 0)),
            completed,
            received: Bytes(arrivals.iter().map(|bytes| bytes.0).sum()),
            responses: if matches!(flow.workload, Workload::Requests { .. }) {
                responses.collect()
            } else {
                vec![]
            },
            arrivals,
            waited: completed.mul_f64(starved),
            samples: samples.map(|s| TcpSample { at: s.at.saturating_sub(begun), ..*s }).collect(),
        };
        transfers.push((begun, report));
    }
    add_unseen(&mut transfers, &sender.report);
    let reports = [&sender.report, &receiver.report];
    let failure = reports
        .iter()
        .flat_map(|report| report.failures.iter().chain(&report.corrupt))
        .chain(&sender_host.failure)
        .chain(&receiver_host.failure)
        .next();
    let ended = receiver.report.done && failure.is_none();
    Flown { transfers, ended, failure: failure.cloned(), buffers: Vec::new() }
}

/// Payload in intervals of a transfer, from `begun` on.
fn arrivals(delivered: &[(Duration, u64)], begun: Duration, until: Duration, every: Duration) -> Vec<Bytes> {
    let mut slots: Vec<Bytes> = Vec::new();
    let mut before = 0;
    for &(at, sum) in delivered {
        let more = sum - before;
        before = sum;
        if at < begun || at > until {
            continue;
        }
        let slot = ((at - begun).as_nanos() / every.as_nanos()) as usize;
        slots.resize(slots.len().max(slot + 1), Bytes(0));
        slots[slot].0 += more;
    }
    slots
}

/// What a sender did after its last sample is known from the sum of what it did.
fn add_unseen(transfers: &mut [(Duration, TransferReport)], sender: &EndReport) {
    let known = |of: fn(&TcpSample) -> u64| -> u64 {
        transfers.iter().filter_map(|(_, report)| report.samples.last()).map(of).sum()
    };
    let retransmitted = sender.sent.retransmitted.saturating_sub(known(|s| s.retransmitted.0));
    let timeouts =
        u64::from(sender.sent.timeouts).saturating_sub(known(|s| u64::from(s.timeouts.unwrap_or(0))));
    let last = transfers.iter_mut().rev().find_map(|(_, report)| report.samples.last_mut());
    if let Some(last) = last {
        last.retransmitted.0 += retransmitted;
        let all = u64::from(last.timeouts.unwrap_or(0)) + timeouts;
        last.timeouts = Some(u16::try_from(all).unwrap_or(u16::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_counted_in_the_interval_and_the_transfer_in_which_they_come() {
        let ms = Duration::from_millis;
        let delivered = [(ms(5), 100), (ms(14), 250), (ms(21), 300), (ms(47), 1000)];
        let bytes = |slots: &[u64]| slots.iter().copied().map(Bytes).collect::<Vec<_>>();
        assert_eq!(arrivals(&delivered, ms(4), ms(46), ms(10)), bytes(&[100, 200]));
        assert_eq!(arrivals(&delivered, ms(20), ms(50), ms(10)), bytes(&[50, 0, 700]));
    }
}
