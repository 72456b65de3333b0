//! What a certificate says of itself: since when and until when it is good, and for whom. Whoever starts or asks with one that
//! nobody would believe is told so at once, instead of by others.
use crate::authority::Role;
use rustls_pki_types::CertificateDer;
use std::time::Duration;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// It ends soon when no more than one part in this many of its time is left.
const SOON: u32 = 5;
/// How often that is said again.
pub const AGAIN: Duration = Duration::from_secs(24 * 3600);

/// When a certificate is good, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    from: OffsetDateTime,
    until: OffsetDateTime,
    is_node: bool,
    is_client: bool,
}

impl Validity {
    /// Nothing, if it cannot be read.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Validity> {
        let (_, read) = X509Certificate::from_der(certificate).ok()?;
        let at = |seconds| OffsetDateTime::from_unix_timestamp(seconds).ok();
        // Without the extension, a certificate is for everything.
        let usage = read.extended_key_usage().ok()?.map(|usage| usage.value);
        Some(Validity {
            from: at(read.validity().not_before.timestamp())?,
            until: at(read.validity().not_after.timestamp())?,
            is_node: usage.is_none_or(|usage| usage.server_auth || usage.any),
            is_client: usage.is_none_or(|usage| usage.client_auth || usage.any),
        })
    }

    /// Why nobody would believe its holder, as of its time.
    pub fn fault(&self, now: OffsetDateTime) -> Option<String> {
        match () {
            () if now > self.until => Some(format!("expired on {}", at(self.until))),
            () if now < self.from => {
                Some(format!("is good from {} on, and here it is {}", at(self.from), at(now)))
            }
            () => None,
        }
    }

    /// Why nobody would believe it in this role.
    pub fn fault_as(&self, role: Role, now: OffsetDateTime) -> Option<String> {
        match role {
            Role::Node if !self.is_node => {
                Some("its certificate is a client's, and no client believes that a node has it: issue one with --node".into())
            }
            Role::Client if !self.is_client => {
                Some("its certificate is for servers only: no node would believe it of a client".into())
            }
            _ => {
                let fault = self.fault(now)?;
                Some(format!("its certificate {fault}: get another one, or set the clock of this host"))
            }
        }
    }

    /// How long until it ends soon.
    pub fn until_soon(&self, now: OffsetDateTime) -> Duration {
        let soon = self.until - (self.until - self.from) / SOON as i32;
        Duration::try_from(soon - now).unwrap_or_default()
    }

    /// That it ends, if that is soon. What helps is another thing where it is not read again while the process runs.
    pub fn warning(&self, now: OffsetDateTime, is_read_again: bool) -> Option<String> {
        if !self.until_soon(now).is_zero() {
            return None;
        }
        let how = match self.fault(now) {
            Some(fault) => fault,
            None => format!("ends on {}", at(self.until)),
        };
        let then = if is_read_again { "send SIGHUP" } else { "start the process again" };
        Some(format!("the certificate of this process {how}: put another one in its place, and {then}"))
    }
}

/// A time as people read it.
fn at(time: OffsetDateTime) -> String {
    format!("{} {:02}:{:02} UTC", time.date(), time.hour(), time.minute())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, ExtendedKeyUsagePurpose as Purpose, KeyPair};

    #[test]
    fn what_nobody_would_believe_is_said_and_what_ends_soon_before_it_does() {
        let day = |days: i64| OffsetDateTime::from_unix_timestamp(1_700_000_000 + days * 86_400).unwrap();
        let of = |purposes: &[Purpose]| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.extended_key_usages = purposes.to_vec();
            (params.not_before, params.not_after) = (day(0), day(100));
            Validity::of(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der()).unwrap()
        };
        let (node, client) = (of(&[Purpose::ServerAuth, Purpose::ClientAuth]), of(&[Purpose::ClientAuth]));
        assert_eq!(node.fault_as(Role::Node, day(50)), None);
        assert_eq!(node.fault_as(Role::Client, day(50)), None);
        assert_eq!(client.fault_as(Role::Client, day(50)), None);
        assert_eq!(of(&[]).fault_as(Role::Node, day(50)), None, "one without purposes is for everything");
        let said = |validity: &Validity, role, at| validity.fault_as(role, at).unwrap_or_default();
        assert!(said(&client, Role::Node, day(50)).contains("a client's"));
        assert!(said(&of(&[Purpose::ServerAuth]), Role::Client, day(50)).contains("servers only"));
        let expired = said(&node, Role::Node, day(101));
        assert!(expired.contains("expired on 2024-02-22 22:13 UTC"), "{expired}");
        let early = said(&node, Role::Node, day(-1));
        assert!(early.contains("is good from 2023-11-14 22:13 UTC on"), "{early}");
        assert_eq!(
            (node.warning(day(79), true), node.until_soon(day(79))),
            (None, Duration::from_secs(86_400))
        );
        let warned = |at, is_read_again| node.warning(at, is_read_again).unwrap_or_default();
        let soon = warned(day(81), true);
        assert!(soon.contains("ends on 2024-02-22") && soon.contains("SIGHUP"), "{soon}");
        let late = warned(day(101), false);
        assert!(late.contains("expired on 2024-02-22") && late.contains("start the process again"), "{late}");
        assert!(!late.contains("SIGHUP"), "nobody reads it again: {late}");
    }
}
