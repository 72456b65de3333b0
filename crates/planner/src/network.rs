use std::collections::BTreeMap;
use std::time::Duration;

use shorthaul_types::Bytes;

use crate::{Leg, PlanError};

/// Where a connection can begin, end, or be relayed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// What people call it.
    pub name: String,
    /// What a relay there costs for each gigabyte (10⁹ bytes) that passes, in whatever currency all prices are.
    pub price_per_gb: f64,
    /// How large a relay's buffer may be there; `None` for as large as it need be.
    pub memory: Option<Bytes>,
}

/// A measured way from one site to another; the way back is another connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Connection {
    /// What TCP finds on it.
    pub leg: Leg,
    /// What it costs for each gigabyte, beside what the site costs.
    pub price_per_gb: f64,
}

/// Sites, and what was measured between them. Sites are counted from 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    sites: Vec<Site>,
    connections: BTreeMap<(usize, usize), Connection>,
}

/// From which site to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Where the data are.
    pub from: usize,
    /// Where they shall be.
    pub to: usize,
}

/// What a chain of relays may cost at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Relays.
    pub relays: usize,
    /// The sum of the legs' round-trip times: what a byte's way there and back takes without queueing.
    pub round_trip: Option<Duration>,
    /// The whole transfer.
    pub price: Option<f64>,
    /// All relays' buffers together.
    pub memory: Option<Bytes>,
}

impl Default for Limits {
    /// Eight relays (about as many as section VI-B of Kalim et al. found places for), and nothing else.
    fn default() -> Self {
        Limits { relays: 8, round_trip: None, price: None, memory: None }
    }
}

impl Network {
    /// Sites without connections.
    pub fn new(sites: impl IntoIterator<Item = Site>) -> Self {
        Network { sites: sites.into_iter().collect(), connections: BTreeMap::new() }
    }

    /// Adds what was measured between two sites, or replaces it.
    ///
    /// # Errors
    /// [`PlanError::NoSite`], [`PlanError::Loop`], those of [`Leg::check`], and [`PlanError::OutOfRange`] for a price below 0.
    pub fn connect(&mut self, ends: Ends, connection: Connection) -> Result<(), PlanError> {
        self.check(ends)?;
        connection.leg.check()?;
        check_price(connection.price_per_gb)?;
        check_price(self.sites[ends.to].price_per_gb)?;
        self.connections.insert((ends.from, ends.to), connection);
        Ok(())
    }

    /// The sites.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// What was measured between two sites.
    pub fn connection(&self, ends: Ends) -> Option<&Connection> {
        self.connections.get(&(ends.from, ends.to))
    }

    /// All that was measured.
    pub fn connections(&self) -> impl Iterator<Item = (Ends, &Connection)> {
        self.connections.iter().map(|((from, to), connection)| (Ends { from: *from, to: *to }, connection))
    }

    /// Whether both ends exist and are not the same.
    ///
    /// # Errors
    /// [`PlanError::NoSite`], [`PlanError::Loop`].
    pub fn check(&self, ends: Ends) -> Result<(), PlanError> {
        for site in [ends.from, ends.to] {
            if site >= self.sites.len() {
                return Err(PlanError::NoSite { site, sites: self.sites.len() });
            }
        }
        if ends.from == ends.to { Err(PlanError::Loop(ends.from)) } else { Ok(()) }
    }

    /// What a gigabyte costs over `chain`, ends included.
    pub(crate) fn price_per_gb(&self, chain: &[usize]) -> f64 {
        let relays: f64 = chain[1..chain.len() - 1].iter().map(|site| self.sites[*site].price_per_gb).sum();
        let legs: f64 = chain.windows(2).map(|leg| self.connections[&(leg[0], leg[1])].price_per_gb).sum();
        relays + legs
    }
}

fn check_price(price: f64) -> Result<(), PlanError> {
    if price >= 0.0 && price.is_finite() {
        return Ok(());
    }
    Err(PlanError::OutOfRange { quantity: "price", found: price.to_string(), wanted: "0 or more" })
}

#[cfg(test)]
mod tests {
    use shorthaul_types::BitRate;

    use super::*;

    #[test]
    fn impossible_connections_are_refused() {
        let mut network = Network::new([Site::default(), Site::default()]);
        let leg = Leg::new(Duration::from_millis(10), 0.0, BitRate::from_bits_per_sec(1_000_000));
        let free = Connection { leg, price_per_gb: 0.0 };
        assert_eq!(network.connect(Ends { from: 1, to: 1 }, free), Err(PlanError::Loop(1)));
        let nowhere = network.connect(Ends { from: 0, to: 2 }, free);
        assert_eq!(nowhere, Err(PlanError::NoSite { site: 2, sites: 2 }));
        let gift = Connection { price_per_gb: -1.0, ..free };
        assert!(network.connect(Ends { from: 0, to: 1 }, gift).unwrap_err().to_string().contains("price"));
        assert_eq!(network.connections().count(), 0);
        network.connect(Ends { from: 0, to: 1 }, free).unwrap();
        assert!(network.connection(Ends { from: 1, to: 0 }).is_none(), "the way back is another connection");
    }
}
