//! Competing datagrams, sent when the simulator sends them.
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::Scope;
use std::time::Instant;

use shorthaul_scenario::{Cross, Scenario};
use shorthaul_sim::CrossSource;
use shorthaul_types::{Seed, Time};

use crate::error::LiveError;
use crate::network::Network;

/// IPv4 and UDP headers, in bytes: no datagram of a scenario is shorter.
const HEADERS: u64 = 28;

/// Where competing datagrams go, which nobody reads.
const PORT: u16 = 9;

/// The sockets of all sources of a scenario.
pub struct CrossTraffic(Vec<Lane>);

struct Lane {
    source: CrossSource,
    sender: UdpSocket,
    /// Without it, the far end would answer each datagram that there is nobody.
    _sink: UdpSocket,
}

impl CrossTraffic {
    /// Opens the sockets.
    ///
    /// # Errors
    /// If one cannot be made.
    pub fn prepare(scenario: &Scenario, network: &Network, seed: Seed) -> Result<CrossTraffic, LiveError> {
        let lane = |(number, cross): (usize, &Cross)| -> Result<Lane, LiveError> {
            let source = CrossSource::new(cross, seed);
            let sockets = || -> io::Result<(UdpSocket, UdpSocket)> {
                let (from, to) = (network.host(source.from), network.host(source.to));
                let at = SocketAddr::new(to.address_v4().into(), PORT + number as u16);
                let sink = to.run(|| UdpSocket::bind(at))?;
                let sender = from.run(|| UdpSocket::bind((from.address_v4(), 0)))?;
                sender.connect(at)?;
                Ok((sender, sink))
            };
            let (sender, sink) =
                sockets().map_err(LiveError::io(format!("competing traffic `{}`", cross.name)))?;
            Ok(Lane { source, sender, _sink: sink })
        };
        scenario.cross.iter().enumerate().map(lane).collect::<Result<_, _>>().map(CrossTraffic)
    }

    /// Sends on threads of `scope`, from `began` on, until what is returned is dropped.
    pub fn start<'scope>(self, scope: &'scope Scope<'scope, '_>, began: Instant) -> impl Sized + use<> {
        let start = |lane: Lane| {
            let (stop, stopped) = channel::<()>();
            scope.spawn(move || lane.send(began, &stopped));
            stop
        };
        self.0.into_iter().map(start).collect::<Vec<_>>()
    }
}

impl Lane {
    fn send(mut self, began: Instant, stopped: &Receiver<()>) {
        let payload = vec![0; u64::from(self.source.size).saturating_sub(HEADERS) as usize];
        while let Some(at) = self.source.next() {
            let at = at.saturating_since(Time::ZERO);
            if stopped.recv_timeout(at.saturating_sub(began.elapsed())) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            // What finds the device's queue full is lost as on any link.
            let _ = self.sender.send(&payload);
            self.source.advance();
        }
    }
}
