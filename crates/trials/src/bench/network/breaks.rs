//! What there is enough of, and what not: what is asked of each part, beside what it can.
use super::costs::Costs;
use super::outcome::Figures;
use super::scenario::{DirectoryKind, Scenario};
use serde::Serialize;
use shorthaul_relay::discovery::{Limits, ONWARD_AGE, TableConfig};

/// A part of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Links of the directory's members.
    DirectoryLinks,
    /// Their processors.
    DirectoryProcessors,
    /// A client's link, for its readings of the directory.
    ClientLink,
    /// A client's allowance of rounds, of the client that looks most.
    ClientRounds,
    /// A node's table of ways, and its allowance of measurements.
    NodeWays,
    /// The thread that answers probes, at the busiest node.
    NodeProcessor,
    /// The same at the busiest destination.
    ResponderProcessor,
    /// Challenges of the busiest host.
    Challenges,
    /// What a host answers to a network: refused answers, beside one in a hundred. It is known only where all clients are simulated.
    Answers,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 9] = [
        Part::DirectoryLinks,
        Part::DirectoryProcessors,
        Part::ClientLink,
        Part::ClientRounds,
        Part::NodeWays,
        Part::NodeProcessor,
        Part::ResponderProcessor,
        Part::Challenges,
        Part::Answers,
    ];

    /// As people say it.
    pub fn name(self) -> &'static str {
        match self {
            Part::DirectoryLinks => "links of the directory",
            Part::DirectoryProcessors => "its processors",
            Part::ClientLink => "a client's link, for the directory",
            Part::ClientRounds => "a client's allowance of looks",
            Part::NodeWays => "a node's table of ways",
            Part::NodeProcessor => "the answering thread of a node",
            Part::ResponderProcessor => "that of a destination",
            Part::Challenges => "challenges of a host",
            Part::Answers => "answers to a network",
        }
    }

    /// What is asked of it, beside what it can: above 1 it breaks.
    pub fn load(self, figures: &Figures, scenario: &Scenario, costs: &Costs) -> f64 {
        let bootstrap = &scenario.bootstrap;
        let members = bootstrap.members as f64;
        let answered = costs.probe.answered.as_secs_f64();
        let limits = Limits::default();
        match self {
            Part::DirectoryLinks => {
                figures.bytes_read * 8.0 / (members * bootstrap.rate.bits_per_sec() as f64)
            }
            Part::DirectoryProcessors if bootstrap.directory == DirectoryKind::Etcd => {
                figures.directory_processors / (members * bootstrap.cores as f64)
            }
            Part::DirectoryProcessors => 0.0,
            Part::ClientLink => {
                figures.reads_of_client.most * figures.bytes_of_reading * 8.0
                    / scenario.clients.rate.bits_per_sec() as f64
            }
            Part::ClientRounds => {
                figures.destinations_of_client.most
                    / TableConfig::default().refresh.as_secs_f64()
                    / TableConfig::default().traffic.per_second
            }
            Part::NodeWays => {
                let places = limits.ways as f64 / ONWARD_AGE.as_secs_f64();
                figures.wanted_of_node.mean / places.min(limits.measurements.per_second)
            }
            Part::NodeProcessor => figures.probes_of_node.most * answered,
            Part::ResponderProcessor => figures.probes_of_responder.most * answered,
            Part::Challenges => figures.challenges_of_busiest / limits.challenges.per_second,
            // A limit that is divided by so many stands for networks of a fraction of a client: what it refuses says nothing.
            Part::Answers if figures.thin > 1 => 0.0,
            Part::Answers => figures.too_often_at_busiest / 0.01,
        }
    }
}

/// How much is asked of each part, those first of which most is asked.
pub fn loads(figures: &Figures, scenario: &Scenario, costs: &Costs) -> Vec<(Part, f64)> {
    let mut all: Vec<(Part, f64)> =
        Part::ALL.iter().map(|part| (*part, part.load(figures, scenario, costs))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// The factor at which a load that was found at some factors first reaches 1: between two of them as a power law. `None` if it does not within them.
pub fn breaks_at(found: &[(f64, f64)]) -> Option<f64> {
    let at = found.iter().position(|(_, load)| *load >= 1.0)?;
    let (factor, load) = found[at];
    let Some((before, less)) = at.checked_sub(1).map(|at| found[at]) else { return Some(factor) };
    if less <= 0.0 {
        return Some(factor);
    }
    let part = -less.ln() / (load.ln() - less.ln());
    Some(before * (factor / before).powf(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_breaks_where_its_load_reaches_one() {
        assert_eq!(breaks_at(&[(1.0, 0.1), (10.0, 0.9)]), None);
        assert_eq!(breaks_at(&[(1.0, 2.0), (10.0, 20.0)]), Some(1.0));
        // It grows as the factor does: from 0.1 at 1 to 1 at 10.
        let at = breaks_at(&[(1.0, 0.1), (100.0, 10.0)]).unwrap();
        assert!((at - 10.0).abs() < 1e-9, "{at}");
        let at = breaks_at(&[(1.0, 0.5), (4.0, 8.0)]).unwrap();
        assert!((at - 2.0_f64.sqrt()).abs() < 1e-9, "{at}");
        assert_eq!(breaks_at(&[(1.0, 0.0), (4.0, 1.5)]), Some(4.0));
    }
}
