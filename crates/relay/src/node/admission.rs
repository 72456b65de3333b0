//! Who may ask, and how often.
use super::config::Settings;
use super::tls::Shown;
use crate::account::{Account, Limits, MEMBERS, NEIGHBOURS, is_reserved};
use crate::answer::{Failure, Refusal};
use crate::authority::{Holder, as_compared};
use crate::request::{Presented, ReadRequest};
use crate::route::Endpoint;
use crate::seen::Seen;
use crate::sign::Disbelief;
use ipnet::IpNet;
use ring::{digest, hmac};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Everybody who may ask.
#[derive(Debug)]
pub struct Admission {
    allow: Vec<IpNet>,
    proxies: Vec<IpNet>,
    users: HashMap<String, (Option<hmac::Key>, Arc<Account>)>,
    /// Accounts of those whom a certificate names and the settings do not, or not any more.
    named: Mutex<HashMap<String, Arc<Account>>>,
    others: Limits,
    revoked: HashSet<String>,
    by_token: HashMap<[u8; 32], String>,
    /// Of the network's secret, and of the one that it is being exchanged for.
    member_keys: Vec<hmac::Key>,
    members: Arc<Account>,
    neighbours: Arc<Account>,
}

/// Who was let in, and by what.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Whose account it is.
    pub account: Arc<Account>,
    /// What it was for.
    pub proof: Proof,
}

/// By what somebody was let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proof {
    /// A token, by its digest. In a box, as others: each session has one of these.
    Token(Box<[u8; 32]>),
    /// A signature with the token of a user, by its digest.
    Key(Box<(String, Option<[u8; 32]>)>),
    /// The network's secret, or a certificate that it gives.
    Member,
    /// A certificate of an authority.
    Certificate(Box<Holder>),
    /// The address that it came from.
    Address(IpAddr),
    /// Whoever runs the node says that all may.
    Operator,
}

/// How a request came.
#[derive(Clone, Debug)]
pub struct RequestOrigin {
    /// From where.
    pub peer: SocketAddr,
    /// To which address of this node.
    pub local: SocketAddr,
    /// Whether nobody could read along.
    pub is_tls: bool,
    /// Who the other side has shown to be by a certificate.
    pub shown: Shown,
}

impl Admission {
    /// Everybody whom the settings name; accounts that there are already are kept.
    pub fn new(settings: &Settings, member_keys: Vec<hmac::Key>, old: Option<&Admission>) -> Admission {
        // Those whom the settings have named, and name no more, are named by their certificates still.
        let mut named = old.map(|old| old.named().clone()).unwrap_or_default();
        let of_settings = old.into_iter().flat_map(|old| &old.users);
        named.extend(of_settings.map(|(name, (_, account))| (name.clone(), Arc::clone(account))));
        let mut kept = |name: &str, limits| {
            let account = match (old, name) {
                (Some(old), MEMBERS) => Some(Arc::clone(&old.members)),
                (Some(old), NEIGHBOURS) => Some(Arc::clone(&old.neighbours)),
                _ => named.remove(name),
            };
            let account = account.unwrap_or_else(|| Arc::new(Account::new(name, limits)));
            account.set_limits(limits);
            account
        };
        let mut users = HashMap::new();
        let mut by_token = HashMap::new();
        for (name, user) in &settings.users {
            let has_token = !user.token.is_empty();
            let key = has_token.then(|| hmac::Key::new(hmac::HMAC_SHA256, user.token.as_bytes()));
            users.insert(name.clone(), (key, kept(name, user.limits())));
            if has_token {
                by_token.insert(digest_of(&user.token), name.clone());
            }
        }
        let members = kept(MEMBERS, settings.others);
        let neighbours = kept(NEIGHBOURS, settings.others);
        named.values().for_each(|account| account.set_limits(settings.others));
        Admission {
            allow: settings.allow.clone(),
            proxies: settings.proxies.clone(),
            users,
            named: Mutex::new(named),
            others: settings.others,
            revoked: settings.revoked.iter().map(|one| as_compared(one)).collect(),
            by_token,
            member_keys,
            members,
            neighbours,
        }
    }

    /// Whether anybody but this host's own could get in.
    pub fn knows_somebody(&self) -> bool {
        !self.users.is_empty() || !self.member_keys.is_empty() || !self.allow.is_empty()
    }

    /// The keys that members sign with.
    pub fn member_keys(&self) -> &[hmac::Key] {
        &self.member_keys
    }

    /// Everybody's accounts.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        let mut accounts: Vec<_> = self.users.values().map(|(_, account)| Arc::clone(account)).collect();
        accounts.extend(self.named().values().map(Arc::clone));
        accounts.sort_by(|a, b| a.name().cmp(b.name()));
        accounts.extend([Arc::clone(&self.members), Arc::clone(&self.neighbours)]);
        accounts
    }

    /// The account of those whose address is enough.
    pub fn neighbours(&self) -> Arc<Account> {
        Arc::clone(&self.neighbours)
    }

    /// Whether an address is enough.
    pub fn is_neighbour(&self, address: IpAddr) -> bool {
        self.allow.iter().any(|range| range.contains(&address.to_canonical()))
    }

    /// Whether an address speaks for others by the PROXY protocol.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|range| range.contains(&address.to_canonical()))
    }

    fn digest_of_user(&self, name: &str) -> Option<[u8; 32]> {
        self.by_token.iter().find(|(_, user)| *user == name).map(|(digest, _)| *digest)
    }

    fn named(&self) -> MutexGuard<'_, HashMap<String, Arc<Account>>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of those whom a certificate names: the authority bounds how many there are, and so do we.
    fn named_account(&self, name: &str) -> Arc<Account> {
        const MOST: usize = 65_536;
        let mut named = self.named();
        if named.len() >= MOST && !named.contains_key(name) {
            return Arc::clone(&self.members);
        }
        let new = || Arc::new(Account::new(name, self.others));
        Arc::clone(named.entry(name.to_owned()).or_insert_with(new))
    }

    /// Whether a certificate is not believed any more.
    pub fn is_revoked(&self, holder: &Holder) -> bool {
        let name = holder.name.to_ascii_lowercase();
        self.revoked.contains(&holder.serial) || self.revoked.contains(&name)
    }

    /// The account of somebody whom another process has let in by such a proof. Whether it still would, [`Admission::still_admits`] says.
    pub fn account_of(&self, name: &str, proof: &Proof) -> Option<Arc<Account>> {
        let user = || self.users.get(name).map(|(_, account)| Arc::clone(account));
        match proof {
            Proof::Member => Some(Arc::clone(&self.members)),
            Proof::Address(_) => Some(Arc::clone(&self.neighbours)),
            Proof::Token(_) | Proof::Key(_) => user(),
            Proof::Certificate(holder) => user().or_else(|| Some(self.named_account(&holder.name))),
            Proof::Operator => None,
        }
    }

    /// Whether who was let in earlier would be now.
    pub fn still_admits(&self, grant: &Grant) -> bool {
        match &grant.proof {
            Proof::Token(digest) => self.by_token.contains_key(&**digest),
            Proof::Key(of) => of.1.is_some() && self.digest_of_user(&of.0) == of.1,
            Proof::Address(address) => self.is_neighbour(*address),
            Proof::Certificate(holder) => !self.is_revoked(holder),
            Proof::Member | Proof::Operator => true,
        }
    }

    /// Whose account it is by a certificate alone.
    pub fn by_certificate(&self, shown: &Shown) -> Result<Grant, Denial> {
        let holder = match shown {
            Shown::Nobody => return Err(Denial { asks: true, ..Denial::wrong("say who asks".into()) }),
            Shown::Former => {
                let why = "the certificate is not believed any more: the secret or the authority is another one by now, or it has expired";
                return Err(Denial::wrong(why.into()));
            }
            // Those that a shared secret gives are all alike.
            Shown::Member => {
                return Ok(Grant { account: Arc::clone(&self.members), proof: Proof::Member });
            }
            Shown::Holder(holder) => holder.clone(),
        };
        if self.is_revoked(&holder) {
            return Err(Denial::wrong(format!("the certificate of {} was revoked", holder.name)));
        }
        if is_reserved(&holder.name) {
            let why = format!("{} is no name of a certificate: it stands for others", holder.name);
            return Err(Denial::wrong(why));
        }
        let user = self.users.get(&holder.name).map(|(_, account)| Arc::clone(account));
        let account = user.unwrap_or_else(|| self.named_account(&holder.name));
        Ok(Grant { account, proof: Proof::Certificate(Box::new(holder)) })
    }

    /// Whose account a request is for.
    pub fn admit(
        &self,
        read: &ReadRequest,
        way: &RequestOrigin,
        reached_by: &[Endpoint],
        seen: &Seen,
    ) -> Result<Grant, Denial> {
        let user = |name: &str| self.users.get(name).map(|(_, account)| Arc::clone(account));
        match &read.presented {
            // Who says who it is, is that, or nobody: a wrong token is not made good by the address.
            Presented::Signed(signature) => {
                // A socket for both versions of IP has IPv4 addresses in those of IPv6 (RFC 4291 §2.5.5.2).
                let plain =
                    |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
                let is_here = |node: SocketAddr| {
                    plain(node) == plain(way.local) || reached_by.contains(&Endpoint::from(plain(node)))
                };
                if !read.node.is_some_and(is_here) {
                    return Err(Denial::wrong(format!(
                        "the request was signed for {}, and this is {}: see --reached-by",
                        read.node.map_or_else(|| "nobody".to_owned(), |node| plain(node).to_string()),
                        plain(way.local)
                    )));
                }
                let (key, account) = match signature.user() {
                    "" => {
                        let part = &read.signed_part;
                        let mut keys = self.member_keys.iter();
                        let key = keys.find(|key| signature.verify(key, part).is_ok());
                        (key.or(self.member_keys.first()), Some(Arc::clone(&self.members)))
                    }
                    name => (self.users.get(name).and_then(|(key, _)| key.as_ref()), user(name)),
                };
                let (Some(key), Some(account)) = (key, account) else {
                    return Err(Denial::wrong("nobody here has that key".into()));
                };
                seen.check(key, signature, &read.signed_part).map_err(|error| {
                    let differs = error == Disbelief::Forged && signature.user().is_empty();
                    let words = format!("{error}{}", if differs { ": the secret differs" } else { "" });
                    let is_early = error == Disbelief::Earlier;
                    let retry_after = is_early.then(|| seen.good_after(signature));
                    Denial { retry_after, ..Denial::wrong(words) }
                })?;
                let proof = match signature.user() {
                    "" => Proof::Member,
                    name => Proof::Key(Box::new((name.to_owned(), self.digest_of_user(name)))),
                };
                Ok(Grant { account, proof })
            }
            Presented::Token(_) | Presented::Password { .. }
                if !way.is_tls && !self.is_neighbour(way.peer.ip()) =>
            {
                Err(Denial::wrong(
                    "a token over plain TCP can be read by everybody on the way: use TLS".into(),
                ))
            }
            Presented::Token(token) => {
                let digest = digest_of(token);
                let found = self.by_token.get(&digest).and_then(|name| user(name));
                let account = found.ok_or_else(|| Denial::wrong("nobody here has that token".into()))?;
                Ok(Grant { account, proof: Proof::Token(Box::new(digest)) })
            }
            Presented::Password { user: name, password } => {
                let digest = digest_of(password);
                let found = self.by_token.get(&digest).filter(|found| *found == name);
                let account = found.and_then(|name| user(name));
                let account = account.ok_or_else(|| Denial::wrong("wrong user or token".into()))?;
                Ok(Grant { account, proof: Proof::Token(Box::new(digest)) })
            }
            Presented::Nothing if way.shown != Shown::Nobody => self.by_certificate(&way.shown),
            Presented::Nothing if self.is_neighbour(way.peer.ip()) => {
                Ok(Grant { account: Arc::clone(&self.neighbours), proof: Proof::Address(way.peer.ip()) })
            }
            Presented::Nothing => self.by_certificate(&Shown::Nobody),
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
    /// The same is good if it is signed after so long.
    pub retry_after: Option<Duration>,
}

impl Grant {
    /// Whether it is a node that asks, which is believed where a session came from.
    pub fn is_node(&self) -> bool {
        match &self.proof {
            Proof::Member => true,
            Proof::Certificate(holder) => holder.is_node,
            Proof::Token(_) | Proof::Key(_) | Proof::Address(_) | Proof::Operator => false,
        }
    }
}

impl Denial {
    fn wrong(reason: String) -> Denial {
        Denial { asks: false, reason, retry_after: None }
    }

    /// As a node says it.
    pub fn refusal(&self, node: &str) -> Refusal {
        let mut refusal = Refusal::at(node, Failure::RequestDenied, &self.reason);
        refusal.hop.retry_after = self.retry_after;
        refusal
    }
}

/// Tokens are compared by their digests, so that how long it takes tells nothing of them.
fn digest_of(token: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        toml::from_str(text).unwrap()
    }

    fn holder(name: &str) -> Shown {
        Shown::Holder(Holder { name: name.into(), serial: "1".into(), is_node: true })
    }

    #[test]
    fn who_has_an_account_keeps_it_whoever_names_it() {
        let account = |admission: &Admission| admission.by_certificate(&holder("alice")).unwrap().account;
        let by_certificate = Admission::new(&settings(""), Vec::new(), None);
        let first = account(&by_certificate);
        first.open().unwrap();
        let limited = settings("[users.alice]\nsessions = 1\n");
        let by_settings = Admission::new(&limited, Vec::new(), Some(&by_certificate));
        assert!(Arc::ptr_eq(&account(&by_settings), &first));
        assert!(first.open().is_err(), "what it has open counts for its new limits");
        let names = |admission: &Admission| {
            admission.accounts().iter().filter(|account| account.name() == "alice").count()
        };
        assert_eq!(names(&by_settings), 1);
        let again = Admission::new(&settings(""), Vec::new(), Some(&by_settings));
        assert!(Arc::ptr_eq(&account(&again), &first) && first.open().is_ok());
        assert_eq!(names(&again), 1);
    }

    #[test]
    fn a_holder_is_nobody_else() {
        let admission = Admission::new(&settings("revoked = [\"Eve\"]\n"), Vec::new(), None);
        let grant = |shown: &Shown| admission.by_certificate(shown);
        assert_eq!(grant(&Shown::Member).unwrap().proof, Proof::Member);
        assert!(matches!(grant(&holder("alice")).unwrap().proof, Proof::Certificate(_)));
        for name in ["members", "neighbours", "node.shorthaul", "Node.Shorthaul", "eve", "EVE"] {
            assert!(!grant(&holder(name)).unwrap_err().asks, "{name}");
        }
        assert!(!grant(&Shown::Former).unwrap_err().asks && grant(&Shown::Nobody).unwrap_err().asks);
    }
}
