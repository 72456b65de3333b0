use super::{BufferOutcome, Fidelity, FlowOutcome, LinkOutcome, Outcome, TimeSeries};
use shorthaul_scenario::{Metric, Scenario};
use shorthaul_types::{BitRate, BufferTimes};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that an engine saw of a run. What it cannot see stays `None`, or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    /// What each flow got.
    pub flows: Vec<FlowOutcome>,
    /// What each direction of each link did.
    pub links: Vec<LinkObservation>,
    /// How long buffers between legs were empty or full.
    pub buffers: Vec<BufferOutcome>,
    /// Values over time.
    pub series: Vec<TimeSeries>,
    /// What hosts and relays sent.
    pub sent: Sent,
    /// Smoothed round-trip times of the senders at hosts, in seconds, at the samples after the warm-up.
    pub rtt: Mean,
    /// How long senders were kept waiting by a closed window though they had data and credit, in seconds.
    pub window_limited: Option<f64>,
    /// The smallest window that a sender with data under way was offered after the warm-up, in bytes.
    pub smallest_window: Option<u64>,
    /// What a packet would have waited in all queues, there and back, at 95 of 100 samples after the warm-up at most; in seconds.
    pub queue_delay_95: Option<f64>,
    /// Payload held by gateways at the samples after the warm-up, in bytes.
    pub held: Mean,
    /// The most of it.
    pub held_most: Option<f64>,
    /// How often gateways found that splitting makes a class of flows slower.
    pub harm_verdicts: Option<u64>,
    /// Segments that relays had no room for.
    pub relay_drops: Option<u64>,
    /// When the run ended, in seconds.
    pub ended_at: f64,
    /// How many events there were.
    pub events: u64,
    /// A hash over all events in order.
    pub trace_hash: u64,
    /// What must not happen and did, in sentences.
    pub problems: Vec<String>,
    /// How true the run was to what it emulates.
    pub fidelity: Option<Fidelity>,
    /// The same where things go as badly, and as well, as they do in 95 % of cases: of an engine that knows. Metrics lie between.
    pub bounds: Option<Box<[Observations; 2]>>,
}

/// What was seen of one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkObservation {
    /// What it did.
    pub outcome: LinkOutcome,
    /// Its rate, where that does not change.
    pub rate: Option<BitRate>,
    /// What it could have carried in the run, in bytes, where its rate changes and that was asked for.
    pub capacity: Option<u64>,
    /// Packets in its queue at the samples after the warm-up.
    pub queue_packets: Mean,
    /// Seconds that a packet would have waited in it at the same samples.
    pub queue_delay: Mean,
}

/// What hosts and relays sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sent {
    /// IP bytes of hosts.
    pub by_hosts: Option<u64>,
    /// IP bytes of relays.
    pub by_relays: Option<u64>,
    /// TCP bytes, headers included, of the hosts that data comes from.
    pub tcp_by_senders: Option<u64>,
    /// Payload that was retransmitted, by hosts and relays, in bytes.
    pub retransmitted: Option<u64>,
    /// Retransmission timeouts of hosts and relays.
    pub timeouts: Option<u64>,
    /// Those of them that their sender itself found to have been mistakes.
    pub spurious_timeouts: Option<u64>,
    /// Reductions of the window that their sender itself found to have been mistakes.
    pub undone: Option<u64>,
}

/// A mean that is made value by value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    /// The mean of what was added; `None` if nothing was.
    pub fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

impl Extend<f64> for Mean {
    fn extend<T: IntoIterator<Item = f64>>(&mut self, values: T) {
        values.into_iter().for_each(|value| self.add(value));
    }
}

impl FromIterator<f64> for Mean {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        let mut mean = Mean::default();
        mean.extend(values);
        mean
    }
}

impl Observations {
    /// A metric of the run; `None` if the engine did not see what it takes, or nothing happened that it measures.
    pub fn metric(&self, metric: Metric) -> Option<f64> {
        let Sent { by_hosts, by_relays, tcp_by_senders, .. } = self.sent;
        let delivered: u64 = self.flows.iter().map(|flow| flow.delivered).sum();
        let count = |value: Option<u64>| value.map(|value| value as f64);
        match metric {
            Metric::Goodput => Some(self.flows.iter().map(|flow| flow.goodput).sum()),
            Metric::Completion => mean(self.flows.iter().flat_map(|flow| &flow.transfers)),
            Metric::SetUp => mean(self.flows.iter().flat_map(|flow| &flow.set_ups)),
            Metric::WireBytes => Some((by_hosts? + by_relays?) as f64),
            Metric::Overhead => {
                let sent = by_hosts?;
                (delivered > 0).then(|| (sent as f64 - delivered as f64) / delivered as f64 * 100.0)
            }
            Metric::SenderOverhead => {
                let sent = tcp_by_senders?;
                (delivered > 0).then(|| (sent as f64 / delivered as f64 - 1.0) * 100.0)
            }
            Metric::Retransmitted => count(self.sent.retransmitted),
            Metric::Timeouts => count(self.sent.timeouts),
            Metric::Rtt => self.rtt.value(),
            Metric::QueueLength => self.fullest_queue()?.queue_packets.value(),
            Metric::QueueDelay => self.fullest_queue()?.queue_delay.value(),
            Metric::QueueDelay95 => self.queue_delay_95,
            Metric::Fairness => fairness(&self.flows),
            Metric::Utilization => self.utilization(),
            Metric::Unfinished => Some(self.flows.iter().filter(|flow| !flow.ended).count() as f64),
            Metric::SpuriousTimeouts => count(self.sent.spurious_timeouts),
            Metric::Undone => count(self.sent.undone),
            Metric::WindowLimited => self.window_limited,
            Metric::SmallestWindow => count(self.smallest_window),
            Metric::Held => self.held.value(),
            Metric::HeldMost => self.held_most,
            Metric::HarmVerdicts => count(self.harm_verdicts),
            Metric::RelayDrops => count(self.relay_drops),
            Metric::Drought => self.worst_buffer(BufferTimes::drought_share),
            Metric::Overflow => self.worst_buffer(BufferTimes::overflow_share),
        }
    }

    /// The largest share of its time, in percent, that a buffer was so.
    fn worst_buffer(&self, share: fn(&BufferTimes) -> f64) -> Option<f64> {
        self.buffers.iter().map(|buffer| 100.0 * share(&buffer.times)).max_by(f64::total_cmp)
    }

    /// The direction of a link with the longest queue on average, in packets.
    fn fullest_queue(&self) -> Option<&LinkObservation> {
        let length = |link: &LinkObservation| link.queue_packets.value().unwrap_or(0.0);
        self.links.iter().max_by(|a, b| length(a).total_cmp(&length(b)))
    }

    /// The largest share, in percent, of what a link could have carried that it did.
    fn utilization(&self) -> Option<f64> {
        let share = |link: &LinkObservation| {
            let possible = match (link.rate, link.capacity) {
                (Some(rate), _) => rate.bits_per_sec() as f64 * self.ended_at,
                (None, capacity) => capacity? as f64 * 8.0,
            };
            Some(link.outcome.delivered_bytes as f64 * 8.0 / possible * 100.0)
        };
        self.links.iter().filter_map(share).max_by(f64::total_cmp)
    }

    /// The outcome of a run of a scenario, with the metrics that it wants and that have a value.
    pub fn outcome_of(self, scenario: &Scenario, seed: u64) -> Outcome {
        let wanted = &scenario.measure.metrics;
        let ended: BTreeSet<&str> =
            self.flows.iter().filter(|flow| flow.ended).map(|flow| flow.name.as_str()).collect();
        let sized = scenario.flows.iter().filter(|flow| flow.workload.has_a_size());
        let unended = sized.filter(|flow| !ended.contains(flow.name.as_str())).count() as u64;
        let unended = if wanted.contains(&Metric::Completion) { unended } else { 0 };
        Outcome { unended, ..self.outcome(seed, wanted) }
    }

    /// The outcome with these metrics, of those that have a value.
    pub fn outcome(self, seed: u64, wanted: &[Metric]) -> Outcome {
        let metrics: BTreeMap<Metric, f64> =
            wanted.iter().filter_map(|&metric| Some((metric, self.metric(metric)?))).collect();
        let interval = |(&metric, &value): (&Metric, &f64)| {
            let [a, b] = self.bounds.as_deref()?;
            let (a, b) = (a.metric(metric)?, b.metric(metric)?);
            Some((metric, [a.min(b).min(value), a.max(b).max(value)]))
        };
        Outcome {
            intervals: metrics.iter().filter_map(interval).collect(),
            seed,
            metrics,
            unended: 0,
            flows: self.flows,
            links: self.links.into_iter().map(|link| link.outcome).collect(),
            buffers: self.buffers,
            series: self.series,
            ended_at: self.ended_at,
            events: self.events,
            trace_hash: self.trace_hash,
            problems: self.problems,
            fidelity: self.fidelity,
        }
    }
}

fn mean<'a>(values: impl Iterator<Item = &'a f64>) -> Option<f64> {
    values.copied().collect::<Mean>().value()
}

/// Jain's fairness index of the flows' goodput.
pub fn fairness(flows: &[FlowOutcome]) -> Option<f64> {
    jain_index(flows.iter().map(|flow| flow.goodput))
}

/// Jain's fairness index: the square of the sum over the sum of the squares, by the number. `None` where all are zero, or none is.
pub fn jain_index(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(delivered: u64, goodput: f64, transfers: &[f64]) -> FlowOutcome {
        FlowOutcome {
            name: "flow".into(),
            delivered,
            goodput,
            transfers: transfers.to_vec(),
            set_ups: Vec::new(),
            ended: true,
        }
    }

    fn link(delivered_bytes: u64, packets: &[f64], delays: &[f64]) -> LinkObservation {
        let outcome = LinkOutcome {
            name: "a>b".into(),
            offered: 0,
            delivered: 0,
            delivered_bytes,
            queue_full: 0,
            lost: 0,
            outage: 0,
            max_queue: 0,
        };
        LinkObservation {
            outcome,
            rate: Some(BitRate::from_bits_per_sec(8_000)),
            capacity: None,
            queue_packets: packets.iter().copied().collect(),
            queue_delay: delays.iter().copied().collect(),
        }
    }

    #[test]
    fn metrics_are_formulas_over_what_was_seen() {
        let seen = Observations {
            flows: vec![flow(1000, 8000.0, &[1.0, 3.0]), flow(1000, 8000.0, &[])],
            links: vec![link(500, &[1.0, 3.0], &[0.5, 0.7]), link(250, &[1.0, 1.0], &[0.9, 0.9])],
            sent: Sent { by_hosts: Some(2200), by_relays: Some(300), ..Sent::default() },
            ended_at: 1.0,
            ..Observations::default()
        };
        let value = |metric| seen.metric(metric);
        assert_eq!(value(Metric::Goodput), Some(16_000.0));
        assert_eq!(value(Metric::Completion), Some(2.0));
        assert_eq!(value(Metric::WireBytes), Some(2500.0));
        assert_eq!(value(Metric::Overhead), Some(10.0));
        assert_eq!(value(Metric::Fairness), Some(1.0));
        assert_eq!(value(Metric::Utilization), Some(50.0));
        // The delay is that of the fullest queue, though another was slower.
        assert_eq!(value(Metric::QueueLength), Some(2.0));
        assert_eq!(value(Metric::QueueDelay), Some(0.6));
    }

    #[test]
    fn what_was_not_seen_is_no_metric() {
        let seen = Observations::default();
        for metric in [Metric::WireBytes, Metric::Retransmitted, Metric::Rtt, Metric::Held, Metric::SetUp] {
            assert_eq!(seen.metric(metric), None, "{metric}");
        }
        let outcome = seen.outcome(1, &[Metric::Unfinished, Metric::Timeouts]);
        assert_eq!(outcome.metrics.into_iter().collect::<Vec<_>>(), [(Metric::Unfinished, 0.0)]);
    }
}
