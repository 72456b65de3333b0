//! Who may ask, and how often.
use super::config::Settings;
use crate::account::Account;
use crate::answer::{Failure, Refusal};
use crate::request::{Presented, ReadRequest};
use crate::sign::Seen;
use ipnet::IpNet;
use ring::{digest, hmac};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The account of those who proved to be members of the network, by certificate or by its secret.
const MEMBERS: &str = "members";
/// The account of those whose address is enough.
const NEIGHBOURS: &str = "neighbours";
/// Most addresses that are counted; beyond that, the oldest half is forgotten.
const MAX_SOURCES: usize = 65_536;

/// Everybody who may ask.
#[derive(Debug)]
pub struct Admission {
    allow: Vec<IpNet>,
    proxies: Vec<IpNet>,
    users: HashMap<String, (hmac::Key, Arc<Account>)>,
    by_token: HashMap<[u8; 32], String>,
    member_key: Option<hmac::Key>,
    members: Arc<Account>,
    neighbours: Arc<Account>,
}

/// How a request came.
#[derive(Clone, Copy, Debug)]
pub struct RequestOrigin {
    /// From where.
    pub peer: SocketAddr,
    /// To which address of this node.
    pub local: SocketAddr,
    /// Whether nobody could read along.
    pub is_tls: bool,
    /// Whether the other side has a certificate of an authority that we believe.
    pub has_certificate: bool,
}

impl Admission {
    /// Everybody whom the settings name; accounts that there are already are kept.
    pub fn new(settings: &Settings, member_key: Option<hmac::Key>, old: Option<&Admission>) -> Admission {
        let kept = |name: &str, limits| {
            let account = match (old, name) {
                (Some(old), MEMBERS) => Some(Arc::clone(&old.members)),
                (Some(old), NEIGHBOURS) => Some(Arc::clone(&old.neighbours)),
                (Some(old), _) => old.users.get(name).map(|(_, account)| Arc::clone(account)),
                (None, _) => None,
            };
            let account = account.unwrap_or_else(|| Arc::new(Account::new(name, limits)));
            account.set_limits(limits);
            account
        };
        let mut users = HashMap::new();
        let mut by_token = HashMap::new();
        for (name, user) in &settings.users {
            let key = hmac::Key::new(hmac::HMAC_SHA256, user.token.as_bytes());
            users.insert(name.clone(), (key, kept(name, user.limits())));
            by_token.insert(digest_of(&user.token), name.clone());
        }
        Admission {
            allow: settings.allow.clone(),
            proxies: settings.proxies.clone(),
            users,
            by_token,
            member_key,
            members: kept(MEMBERS, settings.others),
            neighbours: kept(NEIGHBOURS, settings.others),
        }
    }

    /// Whether anybody but this host's own could get in.
    pub fn knows_somebody(&self) -> bool {
        !self.users.is_empty() || self.member_key.is_some() || !self.allow.is_empty()
    }

    /// Everybody's accounts.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        let mut accounts: Vec<_> = self.users.values().map(|(_, account)| Arc::clone(account)).collect();
        accounts.sort_by(|a, b| a.name().cmp(b.name()));
        accounts.extend([Arc::clone(&self.members), Arc::clone(&self.neighbours)]);
        accounts
    }

    /// The account of those whose address is enough.
    pub fn neighbours(&self) -> Arc<Account> {
        Arc::clone(&self.neighbours)
    }

    /// Whether an account is that of the members of the network.
    pub fn is_member(&self, account: &Arc<Account>) -> bool {
        Arc::ptr_eq(account, &self.members)
    }

    /// Whether an address is enough.
    pub fn is_neighbour(&self, address: IpAddr) -> bool {
        self.allow.iter().any(|range| range.contains(&address.to_canonical()))
    }

    /// Whether an address speaks for others by the PROXY protocol.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|range| range.contains(&address.to_canonical()))
    }

    /// Whose account a request is for.
    pub fn admit(
        &self,
        read: &ReadRequest,
        way: RequestOrigin,
        reached_by: &[SocketAddr],
        seen: &Seen,
    ) -> Result<Arc<Account>, Denial> {
        let user = |name: &str| self.users.get(name).map(|(_, account)| Arc::clone(account));
        match &read.presented {
            // Who says who it is, is that, or nobody: a wrong token is not made good by the address.
            Presented::Signed(signature) => {
                if read.node.is_none_or(|node| node != way.local && !reached_by.contains(&node)) {
                    return Err(Denial::wrong(format!(
                        "the request was signed for {}, and this is {}",
                        read.node.map_or_else(|| "nobody".to_owned(), |node| node.to_string()),
                        way.local
                    )));
                }
                let (key, account) = match signature.user() {
                    "" => (self.member_key.as_ref(), Some(Arc::clone(&self.members))),
                    name => (self.users.get(name).map(|(key, _)| key), user(name)),
                };
                let (Some(key), Some(account)) = (key, account) else {
                    return Err(Denial::wrong("nobody here has that key".into()));
                };
                seen.check(key, signature, &read.signed_part)
                    .map_err(|error| Denial::wrong(error.to_string()))?;
                Ok(account)
            }
            Presented::Token(_) | Presented::Password { .. }
                if !way.is_tls && !self.is_neighbour(way.peer.ip()) =>
            {
                Err(Denial::wrong(
                    "a token over plain TCP can be read by everybody on the way: use TLS".into(),
                ))
            }
            Presented::Token(token) => {
                let found = self.by_token.get(&digest_of(token)).and_then(|name| user(name));
                found.ok_or_else(|| Denial::wrong("nobody here has that token".into()))
            }
            Presented::Password { user: name, password } => {
                let found = self.by_token.get(&digest_of(password)).filter(|found| *found == name);
                found.and_then(|name| user(name)).ok_or_else(|| Denial::wrong("wrong user or token".into()))
            }
            Presented::Nothing if way.has_certificate => Ok(Arc::clone(&self.members)),
            Presented::Nothing if self.is_neighbour(way.peer.ip()) => Ok(Arc::clone(&self.neighbours)),
            Presented::Nothing => Err(Denial { asks: true, reason: "say who asks".into() }),
        }
    }
}

/// Why somebody may not ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Whether nothing was said at all, so that asking again with credentials makes sense.
    pub asks: bool,
    /// In words.
    pub reason: String,
}

impl Denial {
    fn wrong(reason: String) -> Denial {
        Denial { asks: false, reason }
    }

    /// As a node says it.
    pub fn refusal(&self, node: &str) -> Refusal {
        Refusal::at(node, Failure::RequestDenied, &self.reason)
    }
}

/// Tokens are compared by their digests, so that how long it takes tells nothing of them.
fn digest_of(token: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    bytes
}

/// Counts connections that come to nothing, by source: a bucket for each that fills with time.
#[derive(Debug)]
pub struct Strangers {
    per_second: f64,
    sources: Mutex<HashMap<IpAddr, (f64, Instant)>>,
}

impl Strangers {
    /// This many per second, and as many at once.
    pub fn new(per_second: u32) -> Strangers {
        Strangers { per_second: per_second.into(), sources: Mutex::default() }
    }

    /// One more connection; whether it may stay.
    pub fn on_connection(&self, source: IpAddr, now: Instant) -> bool {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() >= MAX_SOURCES {
            // Those that are full again may as well be unknown.
            let full = |left: f64, since: Instant| {
                left + (now - since).as_secs_f64() * self.per_second >= self.per_second
            };
            sources.retain(|_, (left, since)| !full(*left, *since));
            if sources.len() >= MAX_SOURCES {
                return false;
            }
        }
        let (left, since) = sources.entry(network_of(source)).or_insert((self.per_second, now));
        *left = (*left + (now - *since).as_secs_f64() * self.per_second).min(self.per_second);
        *since = now;
        let stays = *left >= 1.0;
        if stays {
            *left -= 1.0;
        }
        stays
    }

    /// It turned out to be somebody: it does not count.
    pub fn on_known(&self, source: IpAddr) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((left, _)) = sources.get_mut(&network_of(source)) {
            *left = (*left + 1.0).min(self.per_second);
        }
    }
}

/// A host has an IPv4 address, or a whole /64.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => (u128::from(v6) & !u128::from(u64::MAX)).to_be_bytes().into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn strangers_are_few_and_friends_do_not_count() {
        let strangers = Strangers::new(10);
        let (now, source) = (Instant::now(), "192.0.2.1".parse().unwrap());
        let count = (0..100).filter(|_| strangers.on_connection(source, now)).count();
        assert_eq!(count, 10);
        assert!(strangers.on_connection("192.0.2.2".parse().unwrap(), now));
        strangers.on_known(source);
        assert!(strangers.on_connection(source, now) && !strangers.on_connection(source, now));
        assert!(strangers.on_connection(source, now + Duration::from_millis(101)));
    }

    #[test]
    fn a_host_with_many_ipv6_addresses_is_one() {
        let strangers = Strangers::new(1);
        let now = Instant::now();
        assert!(strangers.on_connection("2001:db8::1".parse().unwrap(), now));
        assert!(!strangers.on_connection("2001:db8::ffff:2".parse().unwrap(), now));
        assert!(strangers.on_connection("2001:db8:0:1::1".parse().unwrap(), now));
    }
}
