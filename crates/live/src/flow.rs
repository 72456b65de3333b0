//! The flows of a scenario over kernel sockets.
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use shorthaul_lab::workload::{Amount, Ends, Pace, Requests, Sender, TcpSample, Transfer, TransferReport};
use shorthaul_link::Distribution;
use shorthaul_scenario::{Flow, Scenario, Workload};
use shorthaul_sim::port_of;
use shorthaul_types::{BufferTimes, Bytes, Seed};

use crate::network::Network;
use crate::own::{OwnHosts, is_own};
use crate::relays;
use crate::scheme::{KernelScheme, available};
use crate::unsupported::scheme_at;

/// What an on/off source writes at once, as in the simulator.
const PIECE: Bytes = Bytes(1000);

/// What a flow got and what its kernel said.
#[derive(Clone, Debug, Default)]
pub struct Flown {
    /// The transfers, in order: when each was begun, counted from the start of the run, and its report.
    pub transfers: Vec<(Duration, TransferReport)>,
    /// Whether everything came within the run.
    pub ended: bool,
    /// Why it did not, if something failed.
    pub failure: Option<String>,
    /// How long the buffers of the relays were empty and full, in the order of `via`, all connections together.
    pub buffers: Vec<BufferTimes>,
}

impl Flown {
    /// What the sender's kernel said at the end of each connection.
    pub fn last_samples(&self) -> impl Iterator<Item = &TcpSample> {
        self.transfers.iter().filter_map(|(_, report)| report.samples.last())
    }
}

/// How finely arrivals are counted: what is measured from the end of the warm-up on is known that exactly.
pub fn interval(scenario: &Scenario) -> Duration {
    scenario.measure.every.clamp(Duration::from_millis(1), Duration::from_millis(50))
}

/// Runs all flows, and waits for the last: those between kernels each on a thread of its own, the others by
/// the hosts at their ends.
pub fn run_all(
    scenario: &Scenario,
    network: &Network,
    own: OwnHosts,
    seed: u64,
    began: Instant,
) -> Vec<Flown> {
    let starts = scenario.starts(Seed(seed));
    thread::scope(|scope| {
        let own = scope.spawn(|| own.run(scenario));
        let of_kernels = scenario.flows.iter().zip(starts).map(|(flow, start)| {
            let seed = Seed(seed).derive("flow").derive(&flow.name);
            let run = FlowRun { scenario, network, flow, seed, began };
            (!is_own(scenario, flow.from)).then(|| scope.spawn(move || run.all(start)))
        });
        let threads: Vec<_> = of_kernels.collect();
        let failed = || Flown { failure: Some("its thread ended".into()), ..Flown::default() };
        let join = |thread: Option<thread::ScopedJoinHandle<'_, Flown>>| {
            thread.map_or_else(failed, |thread| thread.join().unwrap_or_else(|_| failed()))
        };
        let mut flown: Vec<Flown> = threads.into_iter().map(join).collect();
        own.join().unwrap_or_default().into_iter().for_each(|(place, seen)| flown[place] = seen);
        flown
    })
}

struct FlowRun<'a> {
    scenario: &'a Scenario,
    network: &'a Network,
    flow: &'a Flow,
    seed: Seed,
    began: Instant,
}

impl FlowRun<'_> {
    /// One transfer after the other, from `start` on.
    fn all(&self, start: Duration) -> Flown {
        let (count, pause) = match &self.flow.workload {
            Workload::Downloads { repeats, pause, .. } => (*repeats, Some(pause)),
            _ => (1, None),
        };
        let mut flown = Flown::default();
        let mut next = start;
        for number in 0..count {
            if let (Some(pause), 1..) = (pause, number) {
                next = self.began.elapsed() + pause.draw(self.seed.derive("pause"), u64::from(number));
            }
            if next >= self.scenario.duration {
                return flown;
            }
            thread::sleep(next.saturating_sub(self.began.elapsed()));
            let at = self.began.elapsed();
            let Some(left) = self.scenario.duration.checked_sub(at).filter(|left| !left.is_zero()) else {
                return flown;
            };
            match self.transfer(left, u64::from(number)) {
                Ok((report, complete, buffers)) => {
                    flown.buffers.resize(buffers.len(), BufferTimes::default());
                    flown.buffers.iter_mut().zip(&buffers).for_each(|(sum, times)| sum.add(times));
                    flown.transfers.push((at, report));
                    if !complete {
                        return flown;
                    }
                }
                Err(failure) => {
                    flown.failure = Some(failure);
                    return flown;
                }
            }
        }
        flown.ended = true;
        flown
    }

    /// When the sender writes: what the simulator's applications draw from the same seed.
    fn pace(&self) -> Pace {
        match &self.flow.workload {
            Workload::OnOff { rate, on, off, lasts } => {
                let draw = |what: &Distribution, name: &str, phase| what.draw(self.seed.derive(name), phase);
                let (mut from, mut phases) = (Duration::ZERO, Vec::new());
                for phase in 0.. {
                    if from >= *lasts {
                        break;
                    }
                    let to = from + draw(on, "on", phase);
                    phases.push((from, to.min(*lasts)));
                    // A phase of no length must not keep this going for ever.
                    from = (to + draw(off, "off", phase)).max(from + Duration::from_millis(1));
                }
                Pace::Phases { piece: PIECE, rate: *rate, phases }
            }
            Workload::Persistent { burst, idle, count } => Pace::Bursts {
                burst: *burst,
                idle: (1..u64::from(*count))
                    .map(|number| idle.draw(self.seed.derive("idle"), number))
                    .collect(),
            },
            _ => Pace::AtOnce,
        }
    }

    /// What the receiver asks for.
    fn requests(&self) -> Option<Requests> {
        let Workload::Requests { request, response, count, pause } = &self.flow.workload else { return None };
        let pauses = (1..u64::from(*count)).map(|number| pause.draw(self.seed.derive("pause"), number));
        Some(Requests { request: *request, response: *response, pauses: pauses.collect() })
    }

    /// One connection, which has this much time `left`; whether it came to its own end, and what its relays say of their buffers.
    fn transfer(
        &self,
        left: Duration,
        number: u64,
    ) -> Result<(TransferReport, bool, Vec<BufferTimes>), String> {
        let amount = match &self.flow.workload {
            Workload::Unlimited(time) => Amount::Time(left.min(*time)),
            Workload::Downloads { size, .. } => Amount::Within { bytes: *size, time: left },
            Workload::Bulk(size) => Amount::Within { bytes: *size, time: left },
            Workload::Requests { response, count, .. } => {
                Amount::Within { bytes: Bytes(response.0 * u64::from(*count)), time: left }
            }
            Workload::OnOff { .. } | Workload::Persistent { .. } => {
                let bytes = self.pace().total().unwrap_or_default();
                Amount::Within { bytes, time: left }
            }
        };
        let kernel = available().map_err(|error| error.to_string())?;
        let scheme = |gives| {
            let scheme = scheme_at(self.scenario, self.flow, gives).ok_or("an end is no host")?;
            KernelScheme::of(scheme, &kernel).map_err(|lacking| lacking.join("; "))
        };
        let (sender, receiver) = (scheme(true)?, scheme(false)?);
        let send_buffer = scheme_at(self.scenario, self.flow, true).map(|scheme| scheme.send_buffer);
        let (from, to) = (self.network.host(self.flow.from), self.network.host(self.flow.to));
        // Who opens the connection is the client; if that is the receiver, its request makes the sender begin.
        let (client, server, sender, ends) = match self.flow.sender_opens {
            true => (from, to, Sender::Client, Ends { client: sender, server: receiver }),
            false => (to, from, Sender::Server, Ends { client: receiver, server: sender }),
        };
        // As simulated: policies of gateways match flows by their ports.
        let place = self.scenario.flows.iter().position(|flow| std::ptr::eq(flow, self.flow));
        let port = port_of(place.ok_or("the flow is none of the scenario's")? as u32);
        let transfer = Transfer {
            sender,
            amount,
            pace: self.pace(),
            requests: self.requests(),
            congestion: Ends { client: ends.client.congestion.into(), server: ends.server.congestion.into() },
            paced: Ends { client: ends.client.paced, server: ends.server.paced },
            nodelay: Ends { client: ends.client.nodelay, server: ends.server.nodelay },
            send_buffer,
            // The amount has its time; this only ends a run that hangs.
            limit: left + Duration::from_secs(10),
            port: Some(port),
            interval: interval(self.scenario),
            seed: self.seed.derive("content").nth(number),
            ..Transfer::default()
        };
        let mut relays = None;
        let by_relays = |server: SocketAddr| {
            let chain = relays::start(self.scenario, self.network, self.flow, server, &kernel)?;
            Ok(relays.insert(chain).entrance)
        };
        let report = transfer.run_through(client, server, by_relays).map_err(|error| error.to_string())?;
        let buffers = relays.map(|chain| chain.buffer_times(self.flow.sender_opens)).unwrap_or_default();
        let complete = match &self.flow.workload {
            Workload::Unlimited(time) => report.completed >= *time,
            _ => report.completed < left,
        };
        Ok((report, complete, buffers))
    }
}
