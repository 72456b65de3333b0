use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use ipnet::IpNet;
use shorthaul_types::BitRate;

/// A link that hosts at the access side share: the backhaul of a ship or a village, a radio cell, a house. Its hosts are a bottleneck
/// group: they have one window together, and each its share of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct Bottleneck {
    /// Its name, for people.
    pub name: String,
    /// The prefixes of its hosts; all hosts if left out. A host belongs to the first bottleneck that has it.
    #[cfg_attr(
        feature = "serde",
        serde(default, with = "crate::policy::prefixes", skip_serializing_if = "Vec::is_empty"),
        schemars(with = "Vec<crate::policy::Prefix>")
    )]
    pub hosts: Vec<IpNet>,
    /// Instead of prefixes: an interface toward the access side. Its hosts are those to which this host's main routing table leads by it, at
    /// the start; where it is the only one, all.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    #[cfg_attr(feature = "serde", schemars(extend("examples" = ["wwan0"])))]
    pub interface: Option<String>,
    /// What it carries toward its hosts, IP headers counted, where that is known: no more leaves here. Left out, it is measured.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub rate: Option<BitRate>,
    /// Hosts with another share than one.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub weights: Vec<HostWeight>,
}

/// The share that each of some hosts has in a bottleneck, beside one of each other host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct HostWeight {
    /// The prefixes of the hosts.
    #[cfg_attr(
        feature = "serde",
        serde(with = "crate::policy::prefixes"),
        schemars(with = "Vec<crate::policy::Prefix>")
    )]
    pub hosts: Vec<IpNet>,
    /// How many shares each of them has: 1 to 1000.
    #[cfg_attr(feature = "serde", schemars(range(min = 1, max = 1000)))]
    pub weight: u32,
}

impl Bottleneck {
    /// Whether a host with this address is behind it.
    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|prefix| prefix.contains(&address))
    }

    /// How many shares a host with this address has.
    pub(crate) fn weight_of(&self, address: IpAddr) -> u32 {
        let own = |weight: &&HostWeight| weight.hosts.iter().any(|prefix| prefix.contains(&address));
        self.weights.iter().find(own).map_or(1, |weight| weight.weight)
    }

    /// Whether it can have hosts where these come before it: a host belongs to the first that has it.
    ///
    /// # Errors
    /// In words, with the remedy.
    pub(crate) fn has_hosts_behind(&self, before: &[Bottleneck]) -> Result<(), String> {
        if before.iter().any(|other| other.name == self.name) {
            return Err("another one has this name; give each its own".into());
        }
        if let Some(all) = before.iter().find(|other| other.hosts.is_empty()) {
            return Err(format!(
                "`{}` before it has all hosts; put that one last, or name its hosts",
                all.name
            ));
        }
        let is_taken =
            |net: &IpNet| before.iter().any(|other| other.hosts.iter().any(|theirs| theirs.contains(net)));
        if !self.hosts.is_empty() && self.hosts.iter().all(is_taken) {
            return Err("those before it have all of its hosts; put it first, or leave it out".into());
        }
        Ok(())
    }

    /// Whether it can be worked with.
    ///
    /// # Errors
    /// In words, with the remedy.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        // A host with routes has prefixes in its place before it comes here.
        if self.interface.is_some() {
            return Err(
                "an interface has hosts where a gateway runs on a host with routes; here, write their prefixes: hosts = [\"10.1.0.0/16\"]",
            );
        }
        if self.rate.is_some_and(|rate| rate.bits_per_sec() < 8000) {
            return Err(
                "a rate of less than 8 kbit/s carries no segment in a second; write a rate such as \"30 Mbit/s\", or leave it out",
            );
        }
        match self.weights.iter().find(|weight| !(1..=1000).contains(&weight.weight)) {
            Some(_) => Err("a weight is a number from 1 to 1000"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_bottleneck_has_the_hosts_of_its_prefixes_and_their_weights() {
        let net = |text: &str| -> IpNet { text.parse().unwrap() };
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        let mut ship = Bottleneck {
            name: "ship".into(),
            hosts: vec![net("10.1.0.0/16"), net("fd00:1::/32")],
            rate: Some(BitRate::from_bits_per_sec(30_000_000)),
            weights: vec![HostWeight { hosts: vec![net("10.1.2.0/24")], weight: 3 }],
            ..Bottleneck::default()
        };
        assert!(ship.holds(address("10.1.2.3")) && ship.holds(address("fd00:1::7")));
        assert!(!ship.holds(address("10.2.2.3")));
        assert_eq!((ship.weight_of(address("10.1.2.3")), ship.weight_of(address("10.1.3.3"))), (3, 1));
        assert_eq!(ship.check(), Ok(()));
        ship.weights[0].weight = 0;
        assert!(ship.check().unwrap_err().contains("1 to 1000"));
        ship.rate = Some(BitRate::from_bits_per_sec(0));
        assert!(ship.check().unwrap_err().contains("rate"));
        ship.hosts.clear();
        assert!(ship.holds(address("192.0.2.1")), "all hosts");
        ship.interface = Some("wwan0".into());
        assert!(ship.check().unwrap_err().contains("prefixes"), "nothing here knows who is behind it");
    }

    #[test]
    fn a_bottleneck_that_can_have_no_hosts_is_refused() {
        let of = |name: &str, hosts: &[&str]| Bottleneck {
            name: name.into(),
            hosts: hosts.iter().map(|net| net.parse().unwrap()).collect(),
            ..Bottleneck::default()
        };
        let ship = of("ship", &["10.1.0.0/16", "fd00:1::/32"]);
        let said = |new: Bottleneck, before: Bottleneck| new.has_hosts_behind(&[before]).unwrap_err();
        assert!(said(of("ship", &["10.2.0.0/16"]), ship.clone()).contains("this name"));
        assert!(said(of("deck", &["10.1.2.0/24"]), ship.clone()).contains("put it first"));
        assert!(said(ship.clone(), of("rest", &[])).contains("`rest` before it has all"));
        assert_eq!(
            of("deck", &["10.1.2.0/24", "10.2.0.0/16"]).has_hosts_behind(core::slice::from_ref(&ship)),
            Ok(())
        );
        assert_eq!(of("rest", &[]).has_hosts_behind(&[ship]), Ok(()));
    }
}
