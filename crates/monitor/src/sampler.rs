//! What is made of two listings of the flows: rates, queueing delays, the busiest hosts and flows.
use crate::snapshot::{
    About, Event, FlowRow, HalfRow, HostRow, Point, Reason, Snapshot, State, WorkerRow, gain_rows, why_whole,
};
use prometheus_client::metrics::histogram::Histogram;
use shorthaul_proxy::{Brief, FlowInfo, GainInfo, LegInfo};
use shorthaul_types::FlowKey;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// Points of the access side that are kept: five minutes at one a second.
const POINTS: usize = 300;
/// Points that are kept of a host, and hosts that have some.
const HOST_POINTS: usize = 60;
const HOSTS_WITH_POINTS: usize = 512;
/// Rows of a snapshot.
const HOST_ROWS: usize = 50;
const FLOW_ROWS: usize = 50;
/// Classes of flows whose gain is shown, or exported.
pub(crate) const CLASSES: usize = 20;
/// Events that are kept.
const EVENTS: usize = 50;
/// A host is busy that is sent more than this, in bits per second: what it waits for says something of its link.
const BUSY: f64 = 10_000.0;
/// Bounds of the histograms, in seconds: from a cable to a satellite with a full queue.
const BOUNDS: [f64; 14] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 2.0, 5.0];

/// What is kept from sample to sample.
#[derive(Debug)]
pub struct Sampler {
    about: About,
    /// What each flow had delivered when it was last seen: down and up.
    former: HashMap<FlowKey, [u64; 2]>,
    taken_at: Option<Duration>,
    points: VecDeque<Point>,
    host_points: HashMap<IpAddr, VecDeque<(f64, f64)>>,
    former_counters: BTreeMap<String, u64>,
    events: VecDeque<Event>,
    /// Of busy hosts, one observation a sample.
    pub(crate) queueing: Histogram,
    /// The same of round trips.
    pub(crate) round_trips: Histogram,
}

/// A listing that is under way.
#[derive(Debug)]
pub(crate) struct Listing {
    interval: f64,
    seen: HashMap<FlowKey, [u64; 2]>,
    states: BTreeMap<&'static str, u64>,
    hosts: HashMap<IpAddr, HostSum>,
    busiest: BinaryHeap<Reverse<Rated>>,
    rates: [f64; 2],
}

/// A flow and its rates, in the order of both together.
#[derive(Debug)]
struct Rated {
    order: (u64, FlowKey),
    rates: [f64; 2],
    flow: FlowInfo,
}

impl PartialEq for Rated {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Rated {}

impl PartialOrd for Rated {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rated {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

/// What a host's flows amount to.
#[derive(Clone, Copy, Debug, Default)]
struct HostSum {
    flows: u64,
    split: u64,
    rates: [f64; 2],
    held: u64,
    /// Round trip and queueing delay of the flow that was sent most.
    times: Option<(f64, f64)>,
    most: f64,
}

/// What happens beside the flows, at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moment {
    /// Since the first sample may have been taken.
    pub at: Duration,
    pub unix_ms: u64,
    pub listing: Duration,
    pub state: State,
    pub counters: Vec<(&'static str, u64)>,
    pub gains: Vec<GainInfo>,
    pub workers: Vec<WorkerRow>,
}

fn millis(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64() * 1e3)
}

/// The legs toward the access side and toward the rest of the world.
fn halves(flow: &FlowInfo) -> Option<[&LegInfo; 2]> {
    let [server, client] = flow.legs.as_ref()?;
    Some(if flow.client_at_access { [client, server] } else { [server, client] })
}

/// The bytes of its streams so far: down and up.
fn delivered(flow: &FlowInfo) -> [u64; 2] {
    match (&flow.observed, halves(flow)) {
        (_, Some([access, wan])) => [access.delivered, wan.delivered],
        (Some(observed), None) => {
            let [to_server, to_client] = [0, 1].map(|at| observed.directions[at].bytes);
            if flow.client_at_access { [to_client, to_server] } else { [to_server, to_client] }
        }
        (None, None) => [0, 0],
    }
}

/// Round trip to the access side and how much of it is queueing, in milliseconds.
fn times(flow: &FlowInfo) -> Option<(f64, f64)> {
    let (srtt, min) = match (&flow.observed, halves(flow)) {
        (_, Some([access, _])) => (access.srtt?, access.min_rtt?),
        (Some(observed), None) => {
            let direction = &observed.directions[usize::from(flow.client_at_access)];
            (direction.srtt?, direction.min_rtt?)
        }
        (None, None) => return None,
    };
    Some((srtt.as_secs_f64() * 1e3, srtt.saturating_sub(min).as_secs_f64() * 1e3))
}

impl Sampler {
    /// Nothing has been seen yet.
    pub fn new(about: About) -> Self {
        Sampler {
            about,
            former: HashMap::new(),
            taken_at: None,
            points: VecDeque::new(),
            host_points: HashMap::new(),
            former_counters: BTreeMap::new(),
            events: VecDeque::new(),
            queueing: Histogram::new(BOUNDS),
            round_trips: Histogram::new(BOUNDS),
        }
    }

    /// Something happened.
    pub fn note(&mut self, at_ms: u64, what: String) {
        self.events.push_front(Event { at_ms, what });
        self.events.truncate(EVENTS);
    }

    pub(crate) fn begin(&self, at: Duration) -> Listing {
        Listing {
            interval: self.taken_at.map_or(0.0, |before| at.saturating_sub(before).as_secs_f64()),
            seen: HashMap::with_capacity(self.former.len()),
            states: BTreeMap::new(),
            hosts: HashMap::new(),
            busiest: BinaryHeap::new(),
            rates: [0.0; 2],
        }
    }

    /// In bits per second: down and up. A flow that was there before it was first seen has none yet.
    fn rates(&self, flow: &FlowInfo, interval: f64) -> [f64; 2] {
        let now = delivered(flow);
        match self.former.get(&flow.key) {
            Some(former) if interval > 0.0 => {
                [0, 1].map(|way| now[way].saturating_sub(former[way]) as f64 * 8.0 / interval)
            }
            None if interval > 0.0 && flow.age.as_secs_f64() <= interval => {
                now.map(|bytes| bytes as f64 * 8.0 / interval)
            }
            _ => [0.0; 2],
        }
    }

    pub(crate) fn host_of(&self, flow: &FlowInfo) -> IpAddr {
        let end = if flow.client_at_access { flow.key.src } else { flow.key.dst };
        self.about.hosts.of(end.ip())
    }

    pub(crate) fn add(&self, listing: &mut Listing, Brief { flows, silent }: Brief) {
        if !silent.is_empty() {
            *listing.states.entry("split").or_default() += silent.len() as u64;
        }
        for address in silent {
            let host = listing.hosts.entry(self.about.hosts.of(address)).or_default();
            host.flows += 1;
            host.split += 1;
        }
        for flow in flows {
            let rates = self.rates(&flow, listing.interval);
            listing.seen.insert(flow.key, delivered(&flow));
            *listing.states.entry(flow.state).or_default() += 1;
            let host = listing.hosts.entry(self.host_of(&flow)).or_default();
            host.flows += 1;
            host.split += u64::from(flow.legs.is_some());
            if let Some([access, wan]) = halves(&flow) {
                host.held += access.buffered + wan.buffered;
            }
            for way in [0, 1] {
                host.rates[way] += rates[way];
                listing.rates[way] += rates[way];
            }
            if (host.times.is_none() || rates[0] > host.most)
                && let Some(times) = times(&flow)
            {
                (host.times, host.most) = (Some(times), rates[0]);
            }
            let order = ((rates[0] + rates[1]) as u64, flow.key);
            if listing.busiest.len() < FLOW_ROWS {
                listing.busiest.push(Reverse(Rated { order, rates, flow }));
            } else if listing.busiest.peek().is_some_and(|Reverse(least)| least.order < order) {
                listing.busiest.pop();
                listing.busiest.push(Reverse(Rated { order, rates, flow }));
            }
        }
    }

    pub(crate) fn finish(&mut self, listing: Listing, moment: Moment) -> Snapshot {
        let Listing { interval, seen, states, hosts, busiest, rates } = listing;
        let mut busiest: Vec<Rated> = busiest.into_iter().map(|Reverse(rated)| rated).collect();
        busiest.sort_by(|a, b| b.cmp(a));
        let top_flows = busiest.iter().map(|rated| self.row(&rated.flow, rated.rates)).collect();
        self.former = seen;
        self.taken_at = Some(moment.at);
        let counters: BTreeMap<String, u64> =
            moment.counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        self.note_changes(moment.unix_ms, &counters);
        self.note_point(moment.unix_ms, rates, &hosts);
        let hosts_known = hosts.len();
        let flows: BTreeMap<String, u64> = states.iter().map(|(s, n)| ((*s).to_owned(), *n)).collect();
        Snapshot {
            about: self.about.clone(),
            at_ms: moment.unix_ms,
            uptime_s: moment.at.as_secs_f64(),
            interval_s: interval,
            listing_ms: moment.listing.as_secs_f64() * 1e3,
            whole: reasons(&flows, &counters),
            flows,
            down: rates[0],
            up: rates[1],
            held: moment.state.held,
            memory: moment.state.memory,
            lateness_us: moment.state.lateness.as_micros() as u64,
            workers: moment.workers,
            counters,
            gains: gain_rows(&moment.gains, CLASSES),
            history: self.points.iter().copied().collect(),
            hosts_known,
            hosts: self.host_rows(hosts),
            top_flows,
            events: self.events.iter().cloned().collect(),
        }
    }

    fn note_point(&mut self, at_ms: u64, [down, up]: [f64; 2], hosts: &HashMap<IpAddr, HostSum>) {
        let mut waits = Vec::new();
        for sum in hosts.values().filter(|sum| sum.rates[0] > BUSY) {
            let Some((rtt, queue)) = sum.times else { continue };
            self.round_trips.observe(rtt / 1e3);
            self.queueing.observe(queue / 1e3);
            waits.push(queue);
        }
        waits.sort_by(f64::total_cmp);
        let at =
            |share: f64| waits.get(((waits.len() as f64 * share) as usize).min(waits.len() - 1)).copied();
        let [queue_ms, queue95_ms] = if waits.is_empty() { [None, None] } else { [at(0.5), at(0.95)] };
        self.points.push_back(Point { at_ms, down, up, queue_ms, queue95_ms });
        if self.points.len() > POINTS {
            self.points.pop_front();
        }
    }

    fn host_rows(&mut self, hosts: HashMap<IpAddr, HostSum>) -> Vec<HostRow> {
        let mut hosts: Vec<(IpAddr, HostSum)> = hosts.into_iter().collect();
        let rate = |sum: &HostSum| sum.rates[0] + sum.rates[1];
        hosts.sort_by(|a, b| rate(&b.1).total_cmp(&rate(&a.1)).then(a.0.cmp(&b.0)));
        hosts.truncate(HOSTS_WITH_POINTS);
        let mut former = std::mem::take(&mut self.host_points);
        for (host, sum) in &hosts {
            let mut points = former.remove(host).unwrap_or_default();
            points.push_back((sum.rates[0], sum.times.map_or(0.0, |(_, queue)| queue)));
            if points.len() > HOST_POINTS {
                points.pop_front();
            }
            self.host_points.insert(*host, points);
        }
        hosts.truncate(HOST_ROWS);
        let row = |(host, sum): (IpAddr, HostSum)| HostRow {
            host,
            flows: sum.flows,
            split: sum.split,
            down: sum.rates[0],
            up: sum.rates[1],
            held: sum.held,
            rtt_ms: sum.times.map(|(rtt, _)| rtt),
            queue_ms: sum.times.map(|(_, queue)| queue),
            history: self.host_points.get(&host).into_iter().flatten().copied().collect(),
        };
        hosts.into_iter().map(row).collect()
    }

    /// What the counters say that has happened since the last sample.
    fn note_changes(&mut self, at_ms: u64, counters: &BTreeMap<String, u64>) {
        let former = std::mem::replace(&mut self.former_counters, counters.clone());
        if former.is_empty() {
            return;
        }
        for (name, what) in [
            ("gain_harms", "splitting was found to make a class of flows slower: new ones stay whole"),
            ("unsplit_overload", "flows were not split: memory or table is full"),
            ("unsplit_unkept", "flows were not split: the run directory is full"),
            (
                "custody_bytes_without_room",
                "bytes are held that a crash would lose: the run directory is full",
            ),
            ("flows_resumed", "flows went on that a predecessor had left"),
            ("flows_lost_in_crash", "flows were reset, for a crash had lost bytes of theirs"),
            ("flows_given_up", "flows were reset whose end no longer answered"),
            ("dropped_queue_full", "packets were dropped: a device's queue was full"),
            ("dropped_handed_on", "packets were dropped: the worker of their host had no room for them"),
            ("dropped_no_memory", "packets were dropped: the kernel had no memory"),
            ("half_open_forgotten", "half-open connections were forgotten: many are opened at once"),
        ] {
            let count = |counters: &BTreeMap<String, u64>| counters.get(name).copied().unwrap_or(0);
            let more = count(counters).saturating_sub(count(&former));
            if more > 0 {
                self.note(at_ms, format!("{what} ({more})"));
            }
        }
    }

    /// A flow for people, with its rates as far as they are known.
    pub(crate) fn row(&self, flow: &FlowInfo, rates: [f64; 2]) -> FlowRow {
        let half = |leg: &LegInfo| HalfRow {
            control: leg.control.into(),
            window: leg.window,
            in_flight: leg.in_flight,
            held: leg.buffered,
            rtt_ms: millis(leg.srtt),
            min_rtt_ms: millis(leg.min_rtt),
            delivered: leg.delivered,
            retransmitted: leg.retransmitted,
            timeouts: leg.timeouts,
        };
        let [access, wan] = match (&flow.observed, halves(flow)) {
            (_, Some(legs)) => legs.map(|leg| Some(half(leg))),
            (Some(observed), None) => {
                let seen = |at: usize| {
                    let direction = &observed.directions[at];
                    Some(HalfRow {
                        rtt_ms: millis(direction.srtt),
                        min_rtt_ms: millis(direction.min_rtt),
                        delivered: direction.bytes,
                        retransmitted: direction.retransmitted,
                        ..HalfRow::default()
                    })
                };
                let to_access = usize::from(flow.client_at_access);
                [seen(to_access), seen(1 - to_access)]
            }
            (None, None) => [None, None],
        };
        let held = halves(flow).map(|[access, _]| access.buffered.saturating_sub(access.in_flight));
        let policy = self.about.policies.get(usize::from(flow.policy));
        FlowRow {
            client: flow.key.src.to_string(),
            server: flow.key.dst.to_string(),
            host: self.host_of(flow),
            state: flow.state.into(),
            policy: policy.cloned().unwrap_or_else(|| format!("policy {}", flow.policy + 1)),
            why: why_whole(flow.state).map(Into::into),
            age_s: flow.age.as_secs_f64(),
            down: rates[0],
            up: rates[1],
            access,
            wan,
            wait_ms: held.filter(|_| rates[0] > BUSY).map(|held| held as f64 * 8e3 / rates[0]),
        }
    }

    /// The same, with the rates of the time since the last sample, at `at`.
    pub(crate) fn row_at(&self, flow: &FlowInfo, at: Duration) -> FlowRow {
        let since = self.taken_at.map_or(0.0, |taken| at.saturating_sub(taken).as_secs_f64());
        // A moment says little of a rate.
        let interval = if since < 0.2 { 0.0 } else { since };
        self.row(flow, self.rates(flow, interval))
    }
}

/// Why flows are not split: of those that are known and of those that are not.
fn reasons(flows: &BTreeMap<String, u64>, counters: &BTreeMap<String, u64>) -> Vec<Reason> {
    let now = |state: &str| flows.get(state).copied().unwrap_or(0);
    let ever = |name: &str| counters.get(name).copied().unwrap_or(0);
    let by_policy = ever("flows_observed").saturating_sub(ever("flows_control") + ever("flows_withdrawn"));
    let all = [
        ("control group, to compare with", now("control"), ever("flows_control")),
        ("splitting makes their class slower", now("withdrawn"), ever("flows_withdrawn")),
        ("their policy says observe or pass", now("observed") + now("passed"), by_policy),
        ("memory or table was full", 0, ever("unsplit_overload") + ever("unobserved_overload")),
        ("the run directory was full", 0, ever("unsplit_unkept")),
        ("TCP or IP options that are not known", 0, ever("unsplit_options")),
        ("their handshake is not complete yet", now("opening"), 0),
    ];
    let row = |(why, now, ever): (&str, u64, u64)| Reason { why: why.into(), now, ever: ever.max(now) };
    all.into_iter().map(row).filter(|reason| reason.ever > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorthaul_proxy::HostPrefix;
    use std::net::SocketAddr;

    fn leg(delivered: u64, srtt_ms: u64) -> LegInfo {
        LegInfo {
            buffer: Default::default(),
            control: "cubic",
            window: 0,
            ssthresh: u64::MAX,
            in_flight: 0,
            buffered: 1000,
            srtt: Some(Duration::from_millis(srtt_ms)),
            min_rtt: Some(Duration::from_millis(20)),
            mss: 1448,
            peer_window: 0,
            delivered,
            retransmitted: 0,
            timeouts: 0,
        }
    }

    /// A flow of the host `10.0.0.n`, which called or was called.
    fn flow(n: u8, calls: bool, [down, up]: [u64; 2]) -> FlowInfo {
        let (host, server): (SocketAddr, SocketAddr) =
            (([10, 0, 0, n], 1000).into(), ([192, 0, 2, 1], 80).into());
        let (src, dst) = if calls { (host, server) } else { (server, host) };
        let (access, wan) = (leg(down, 50), leg(up, 10));
        FlowInfo {
            key: FlowKey { src, dst },
            state: "split",
            client_at_access: calls,
            policy: 0,
            age: Duration::from_secs(60),
            legs: Some(if calls { [wan, access] } else { [access, wan] }),
            observed: None,
        }
    }

    fn sample(sampler: &mut Sampler, at_s: u64, flows: Vec<FlowInfo>) -> Snapshot {
        let at = Duration::from_secs(at_s);
        let mut listing = sampler.begin(at);
        sampler.add(&mut listing, Brief { flows, silent: Vec::new() });
        sampler.finish(listing, Moment { at, ..Moment::default() })
    }

    /// One that is silent is counted, and what it had delivered before is no rate when it goes on.
    #[test]
    fn silent_flows_are_counted_and_no_more() {
        let mut sampler = Sampler::new(About { hosts: HostPrefix::default(), ..About::default() });
        let mut listing = sampler.begin(Duration::from_secs(1));
        let silent = [[10, 0, 0, 7], [10, 0, 0, 7], [10, 0, 0, 8]].map(IpAddr::from).to_vec();
        sampler.add(&mut listing, Brief { flows: Vec::new(), silent });
        let at = Duration::from_secs(1);
        let first = sampler.finish(listing, Moment { at, ..Moment::default() });
        assert_eq!((first.flows["split"], first.hosts_known), (3, 2));
        assert_eq!(first.hosts.iter().map(|host| host.flows).sum::<u64>(), 3);
        let second = sample(&mut sampler, 2, vec![flow(7, true, [1_000_000, 500])]);
        assert_eq!((second.down, second.up), (0.0, 0.0), "of a flow that is a minute old");
    }

    #[test]
    fn rates_are_of_the_time_between_samples_whoever_opened_the_flow() {
        for calls in [true, false] {
            let mut sampler = Sampler::new(About { hosts: HostPrefix::default(), ..About::default() });
            let first = sample(&mut sampler, 1, vec![flow(7, calls, [1_000_000, 500])]);
            assert_eq!((first.down, first.up), (0.0, 0.0), "nothing is known of a rate yet");
            let second = sample(&mut sampler, 3, vec![flow(7, calls, [2_000_000, 750])]);
            assert_eq!((second.down, second.up), (4_000_000.0, 1_000.0));
            let [host] = &second.hosts[..] else { panic!("{:?}", second.hosts) };
            assert_eq!((host.host.to_string().as_str(), host.flows, host.held), ("10.0.0.7", 1, 2000));
            assert_eq!((host.rtt_ms, host.queue_ms), (Some(50.0), Some(30.0)));
            let row = &second.top_flows[0];
            assert_eq!(row.access.as_ref().and_then(|half| half.rtt_ms), Some(50.0), "{row:?}");
            assert_eq!(row.wan.as_ref().and_then(|half| half.rtt_ms), Some(10.0));
            let last = second.history.last().unwrap();
            assert_eq!((last.queue_ms, last.queue95_ms), (Some(30.0), Some(30.0)));
        }
    }

    #[test]
    fn a_flow_that_is_new_has_the_rate_of_all_that_it_carried() {
        let mut sampler = Sampler::new(About { hosts: HostPrefix::default(), ..About::default() });
        sample(&mut sampler, 1, Vec::new());
        let young = FlowInfo { age: Duration::from_millis(900), ..flow(7, true, [500_000, 0]) };
        let snapshot = sample(&mut sampler, 2, vec![young, flow(8, true, [9_000_000, 0])]);
        assert_eq!(snapshot.down, 4_000_000.0, "of the old one nothing is known");
    }

    #[test]
    fn a_snapshot_is_bounded_and_has_the_busiest() {
        let mut sampler = Sampler::new(About { hosts: HostPrefix::default(), ..About::default() });
        let many = |factor: u64| -> Vec<FlowInfo> {
            (0..250).map(|n| flow(n, true, [factor * u64::from(n) * 1000, 0])).collect()
        };
        sample(&mut sampler, 1, many(1));
        let snapshot = sample(&mut sampler, 2, many(2));
        assert_eq!((snapshot.hosts_known, snapshot.flows["split"]), (250, 250));
        assert_eq!((snapshot.hosts.len(), snapshot.top_flows.len()), (HOST_ROWS, FLOW_ROWS));
        assert_eq!(snapshot.hosts[0].host.to_string(), "10.0.0.249");
        assert_eq!(snapshot.top_flows[0].client, "10.0.0.249:1000");
        let least = snapshot.top_flows.last().unwrap();
        assert_eq!(least.client, "10.0.0.200:1000");
        for at in 3..500 {
            let later = sample(&mut sampler, at, Vec::new());
            assert!(later.history.len() <= POINTS && later.hosts.is_empty());
        }
        assert!(sampler.host_points.is_empty() && sampler.former.is_empty(), "who is gone is forgotten");
    }

    #[test]
    fn why_flows_are_whole_is_said_with_those_of_now_and_of_ever() {
        let mut sampler = Sampler::new(About::default());
        let mut listing = sampler.begin(Duration::ZERO);
        let control = FlowInfo { state: "control", legs: None, ..flow(1, true, [0, 0]) };
        sampler.add(&mut listing, Brief { flows: vec![control], silent: Vec::new() });
        let counters =
            vec![("flows_observed", 9), ("flows_control", 4), ("unsplit_overload", 3), ("unsplit_unkept", 2)];
        let snapshot = sampler.finish(listing, Moment { counters, ..Moment::default() });
        let said: Vec<(u64, u64)> = snapshot.whole.iter().map(|r| (r.now, r.ever)).collect();
        assert_eq!(said, [(1, 4), (0, 5), (0, 3), (0, 2)], "{:?}", snapshot.whole);
        assert!(snapshot.top_flows[0].why.as_deref().is_some_and(|why| why.contains("control group")));
    }

    #[test]
    fn what_counters_tell_is_an_event_once() {
        let mut sampler = Sampler::new(About::default());
        for (count, events) in [(5, 0), (5, 0), (7, 1), (7, 1)] {
            let listing = sampler.begin(Duration::ZERO);
            let counters = vec![("gain_harms", count)];
            let snapshot = sampler.finish(listing, Moment { counters, ..Moment::default() });
            assert_eq!(snapshot.events.len(), events);
        }
    }
}
