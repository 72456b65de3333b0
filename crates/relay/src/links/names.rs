//! Addresses of names.
use super::LinkError;
use hickory_resolver::config::{LookupIpStrategy, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// How long a server of names is waited for, and how often it is asked.
const PATIENCE: (Duration, usize) = (Duration::from_secs(2), 2);
/// Answers that are kept for as long as they hold, refusals too.
const KEPT: u64 = 4096;
/// An answer that holds for longer is kept for so long.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// Who looks names up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameService {
    /// The C library, as for all programs of this host. It takes a thread for each name that is looked up.
    #[default]
    System,
    /// We do, by /etc/hosts and the servers in /etc/resolv.conf, with a cache; what a thousand slow names take is no thread.
    Own,
}

/// Looks names up.
#[derive(Debug)]
pub(super) enum Names {
    System,
    Own(RwLock<Arc<Own>>),
}

/// What names are looked up with.
#[derive(Debug)]
pub(super) struct Own {
    hosts: Hosts,
    resolver: TokioResolver,
}

impl Names {
    pub fn new(service: NameService) -> Result<Names, LinkError> {
        Ok(match service {
            NameService::System => Names::System,
            NameService::Own => Names::Own(RwLock::new(Arc::new(Own::new()?))),
        })
    }

    pub fn reload(&self) -> Result<(), LinkError> {
        if let Names::Own(own) = self {
            let new = Arc::new(Own::new()?);
            *own.write().unwrap_or_else(PoisonError::into_inner) = new;
        }
        Ok(())
    }

    pub async fn look_up(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        match self {
            Names::System => match tokio::net::lookup_host((host, port)).await {
                Ok(addresses) => Ok(addresses.collect()),
                Err(error) => Err(error.to_string()),
            },
            Names::Own(own) => {
                let own = Arc::clone(&own.read().unwrap_or_else(PoisonError::into_inner));
                let found = own.look_up(host).await?;
                Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
            }
        }
    }
}

impl Own {
    fn new() -> Result<Own, LinkError> {
        let hosts = Hosts::from_system().unwrap_or_else(|error| {
            tracing::info!("/etc/hosts is not read: {error}");
            Hosts::default()
        });
        Ok(Own { hosts, resolver: resolver()? })
    }

    async fn look_up(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        // The resolver asks its servers for the kind of address that the file does not have, and fails where they are silent. The C library does not.
        let written = self.in_file(host);
        if !written.is_empty() {
            return Ok(written);
        }
        let found = self.resolver.lookup_ip(host).await.map_err(|error| words_of(host, &error))?;
        let mut addresses: Vec<IpAddr> = found.iter().collect();
        // Those that need no way that a host often lacks come first.
        addresses.sort_by_key(IpAddr::is_ipv6);
        Ok(addresses)
    }

    /// The addresses in /etc/hosts.
    fn in_file(&self, host: &str) -> Vec<IpAddr> {
        let Ok(name) = Name::from_utf8(host) else { return Vec::new() };
        let of = |kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind));
        let found = [RecordType::A, RecordType::AAAA].into_iter().filter_map(of);
        found
            .flat_map(|lookup| {
                lookup.answers().iter().filter_map(|record| record.data.ip_addr()).collect::<Vec<_>>()
            })
            .collect()
    }
}

/// What went wrong, in words of ours.
fn words_of(host: &str, error: &NetError) -> String {
    tracing::debug!(host, %error, "a name has no address");
    let words = match error {
        _ if error.is_nx_domain() => "there is no such name",
        _ if error.is_no_records_found() => "the name has no address",
        NetError::Timeout => "the servers of /etc/resolv.conf do not answer",
        NetError::Dns(_) => "the servers of /etc/resolv.conf cannot tell",
        NetError::Io(_) | NetError::NoConnections => "no server of /etc/resolv.conf can be asked",
        _ => "it could not be looked up",
    };
    words.into()
}

fn resolver() -> Result<TokioResolver, LinkError> {
    let wrong = |error: NetError| LinkError::Names(error.to_string());
    let mut builder = TokioResolver::builder_tokio().unwrap_or_else(|error| {
        tracing::info!("names have no addresses but those in /etc/hosts: /etc/resolv.conf: {error}");
        let nobody = ResolverConfig::from_parts(None, Vec::new(), Vec::new());
        TokioResolver::builder_with_config(nobody, TokioRuntimeProvider::default())
    });
    let options = builder.options_mut();
    (options.timeout, options.attempts) = PATIENCE;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.cache_size = KEPT;
    options.positive_max_ttl = Some(KEPT_FOR);
    builder.build().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_the_file_says_is_all_that_is_asked_for() {
        let mut hosts = Hosts::default();
        hosts.read_hosts_conf(&b"10.9.9.9 four\nfd00::9 six\n10.9.9.8 both\nfd00::8 both\n"[..]).unwrap();
        // Its server of names answers nobody.
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut server = hickory_resolver::config::NameServerConfig::udp(nobody.local_addr().unwrap().ip());
        server.connections.iter_mut().for_each(|way| way.port = nobody.local_addr().unwrap().port());
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
        let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let own = Own { hosts, resolver: resolver.build().unwrap() };
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        assert_eq!(own.look_up("four").await, Ok(vec![ip("10.9.9.9")]));
        assert_eq!(own.look_up("six").await, Ok(vec![ip("fd00::9")]));
        assert_eq!(own.look_up("BOTH.").await, Ok(vec![ip("10.9.9.8"), ip("fd00::8")]));
        nobody.set_nonblocking(true).unwrap();
        assert!(nobody.recv(&mut [0; 512]).is_err(), "nothing was asked");
    }

    #[tokio::test]
    async fn a_name_that_is_not_there_is_said_in_our_words() {
        let names = Names::new(NameService::Own).unwrap();
        // Nobody is asked for these names (RFC 6761 §6.4); a label is no longer than 63.
        let long = "x".repeat(64);
        for name in ["nobody.invalid", &long[..]] {
            let words = names.look_up(name, 80).await.unwrap_err();
            let is_ours =
                ["there is no such name", "the name has", "no server", "it could not", "the servers"];
            assert!(is_ours.iter().any(|ours| words.starts_with(ours)), "{words}");
        }
    }
}
