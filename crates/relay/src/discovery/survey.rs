use std::net::SocketAddr;
use std::time::Duration;

use super::message::Onward;
use super::prober::{By, Findings, Found};
use super::ranking::View;

/// What several rounds of probing found together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Rounds so far.
    pub rounds: u32,
    /// Round-trip times to the destination, one for each round in which it answered.
    pub rtts: Vec<Duration>,
    /// What told them: its responder, if that ever answered.
    pub by: Option<By>,
    /// Relays that ever answered, nearest first.
    pub relays: Vec<Surveyed>,
    /// Those that were asked themselves in each round, and never answered.
    pub silent: Vec<SocketAddr>,
}

/// A relay in a [`Survey`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// What it said last, with its shortest round-trip time.
    pub found: Found,
    /// Its round-trip times, one for each round in which it answered.
    pub rtts: Vec<Duration>,
}

impl Survey {
    /// Adds a round.
    pub fn add(&mut self, findings: &Findings) {
        match self.rounds {
            0 => self.silent.clone_from(&findings.silent),
            _ => self.silent.retain(|relay| findings.silent.contains(relay)),
        }
        self.rounds += 1;
        self.rtts.extend(findings.rtt);
        self.by = match self.by {
            Some(By::Responder) => self.by,
            by => findings.by.or(by),
        };
        for found in &findings.relays {
            match self.position(found.offer.session) {
                Some(at) => {
                    let known = &mut self.relays[at];
                    known.rtts.push(found.rtt);
                    let mut offer = found.offer;
                    if offer.onward == Onward::Unknown {
                        offer.onward = known.found.offer.onward;
                    }
                    let rtt = known.found.rtt.min(found.rtt);
                    let on_path = known.found.on_path || found.on_path;
                    known.found = Found { offer, rtt, on_path, hops: found.hops.or(known.found.hops) };
                }
                None => self.relays.push(Surveyed { found: *found, rtts: vec![found.rtt] }),
            }
        }
        self.relays.sort_by_key(|relay| (relay.found.rtt, relay.found.offer.session));
    }

    fn position(&self, session: SocketAddr) -> Option<usize> {
        self.relays.iter().position(|relay| relay.found.offer.session == session)
    }

    /// The shortest times, which are those without queues.
    pub fn view(&self) -> View {
        View {
            rtt: self.rtts.iter().min().copied(),
            relays: self.relays.iter().map(|relay| relay.found).collect(),
        }
    }
}

/// The middle one of some times.
pub fn median(times: &[Duration]) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::{Name, Offer, Service};

    fn round(rtts: &[(u8, u64)], whole: Option<u64>, onward: Onward) -> Findings {
        let found = |&(n, ms): &(u8, u64)| Found {
            offer: Offer {
                session: ([10, 0, 0, n], 7001).into(),
                service_time: Duration::ZERO,
                buffer: 1,
                sessions: 0,
                capacity: None,
                onward,
                name: Name::default(),
                service: Service::Sessions,
            },
            rtt: Duration::from_millis(ms),
            hops: None,
            on_path: true,
        };
        let relays = rtts.iter().map(found).collect();
        let by = whole.map(|_| By::Responder);
        Findings {
            rtt: whole.map(Duration::from_millis),
            by,
            relays,
            silent: Vec::new(),
            cookie: None,
            tries: 1,
        }
    }

    #[test]
    fn rounds_add_up_to_the_shortest_times_and_forget_nobody() {
        let way = Onward::RoundTrip(Duration::from_millis(9));
        let mut survey = Survey::default();
        survey.add(&round(&[(1, 20), (2, 12)], Some(90), way));
        survey.add(&round(&[], None, Onward::Unknown));
        survey.add(&round(&[(1, 10)], Some(80), Onward::Unknown));
        let view = survey.view();
        assert_eq!(view.rtt, Some(Duration::from_millis(80)));
        assert_eq!(view.relays.iter().map(|found| found.rtt.as_millis()).collect::<Vec<_>>(), [10, 12]);
        assert_eq!(view.relays[0].offer.onward, way, "what was once measured is kept");
        assert_eq!((survey.rounds, survey.rtts.len(), survey.relays[0].rtts.len()), (3, 2, 2));
        assert_eq!(median(&survey.relays[0].rtts), Some(Duration::from_millis(20)));
        // A responder that answered once is there, whatever told the distance before and after.
        let by_handshake = Findings { by: Some(By::Handshake), ..round(&[], Some(80), Onward::Unknown) };
        let mut other = Survey::default();
        let told = [&by_handshake, &round(&[], None, way), &round(&[], Some(80), way), &by_handshake];
        let by = told.map(|findings| {
            other.add(findings);
            other.by
        });
        assert_eq!(by, [By::Handshake, By::Handshake, By::Responder, By::Responder].map(Some));
    }
}
