//! What leads to a node: its addresses, and what its certificate is for.
use super::NodeConfig;
use std::net::{IpAddr, ToSocketAddrs};

/// Addresses that lead to the node though its interfaces do not have them, those of names too.
pub(super) fn own_addresses(config: &NodeConfig) -> Vec<IpAddr> {
    let reached = config.reached_by.iter().flat_map(|by| {
        let addresses = (by.host(), by.port()).to_socket_addrs().map(Vec::from_iter);
        addresses.unwrap_or_else(|error| {
            tracing::warn!(
                "{by}: {error}; whoever has a session to an address of that name is not kept from it"
            );
            Vec::new()
        })
    });
    let own = config.listen.iter().copied().chain(reached).map(|address| address.ip().to_canonical());
    own.filter(|address| !address.is_unspecified()).collect()
}

/// What a node's certificate is for: the names and addresses that it is reached by. One that listens at all addresses has
/// those of its interfaces.
pub(super) fn names(config: &NodeConfig) -> Vec<String> {
    let listen = config.listen.iter().map(|address| address.ip().to_canonical());
    let mut addresses: Vec<IpAddr> = listen.clone().filter(|ip| !ip.is_unspecified()).collect();
    if listen.clone().any(|ip| ip.is_unspecified()) {
        // Without them the certificate is for fewer names, which whoever misses one is told.
        addresses.extend(shorthaul_os::netlink::local_addresses().unwrap_or_default());
    }
    addresses.push(IpAddr::from([127, 0, 0, 1]));
    let is_name = |name: &&str| {
        let label = |label: &str| {
            let fits = (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-');
            fits && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
        };
        name.len() <= 253 && name.split('.').all(label)
    };
    let mut names: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    names.extend(config.reached_by.iter().map(|by| by.host().to_owned()));
    names.extend(config.name.as_deref().filter(is_name).map(str::to_ascii_lowercase));
    names.push("localhost".to_owned());
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_a_node_is_its_own_by_name_too() {
        let reached_by = ["localhost:7080", "192.0.2.7:7080", "nobody.invalid:1"];
        let config = NodeConfig {
            listen: vec!["0.0.0.0:7080".parse().unwrap()],
            reached_by: reached_by.iter().map(|by| by.parse().unwrap()).collect(),
            ..NodeConfig::default()
        };
        let own = own_addresses(&config);
        assert!(own.iter().any(IpAddr::is_loopback), "{own:?}");
        assert!(
            own.contains(&IpAddr::from([192, 0, 2, 7])) && !own.iter().any(IpAddr::is_unspecified),
            "{own:?}"
        );
    }
}
