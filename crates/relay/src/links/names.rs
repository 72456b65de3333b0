//! Addresses of names.
use super::LinkError;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use std::net::SocketAddr;
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
    Own(RwLock<Arc<TokioResolver>>),
}

impl Names {
    pub fn new(service: NameService) -> Result<Names, LinkError> {
        Ok(match service {
            NameService::System => Names::System,
            NameService::Own => Names::Own(RwLock::new(Arc::new(resolver()?))),
        })
    }

    pub fn reload(&self) -> Result<(), LinkError> {
        if let Names::Own(own) = self {
            let new = Arc::new(resolver()?);
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
                let resolver = Arc::clone(&own.read().unwrap_or_else(PoisonError::into_inner));
                let found = resolver.lookup_ip(host).await.map_err(|error| words_of(host, &error))?;
                let mut addresses: Vec<SocketAddr> =
                    found.iter().map(|address| SocketAddr::new(address, port)).collect();
                // Those that need no way that a host often lacks come first.
                addresses.sort_by_key(SocketAddr::is_ipv6);
                Ok(addresses)
            }
        }
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
