//! The extension headers of IPv6 (RFC 8200 §4) in front of TCP.
use crate::parse::TCP;
use crate::{Fragment, RejectReason, be};

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
pub(crate) const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// More in a row than any host sends (RFC 8200 §4.1 has seven at most). Who looks for the end of a longer chain works for
/// its sender; and who passes it unseen may pass a segment of a connection that is split, whose end would then acknowledge what we never sent.
const LONGEST_CHAIN: usize = 8;

/// What a chain of extension headers ends with.
pub(crate) struct Behind {
    /// The protocol number of what follows.
    pub protocol: u8,
    /// How many bytes the chain has.
    pub at: usize,
    /// What follows is a part of a segment.
    pub fragment: Option<Fragment>,
}

/// Whether `protocol` is a header that we can read past.
pub(crate) const fn is_one(protocol: u8) -> bool {
    matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS)
}

/// Reads past the extension headers in `bytes`, of which the first is `protocol`. `None` where that cannot be done: they
/// are cut off, or name another destination.
///
/// # Errors
/// If there are too many.
pub(crate) fn read(mut protocol: u8, bytes: &[u8]) -> Result<Option<Behind>, RejectReason> {
    let mut at = 0;
    for _ in 0..LONGEST_CHAIN {
        let Some(header) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) else { return Ok(None) };
        match protocol {
            FRAGMENT => {
                let field = be::u16(header, 2);
                let fragment = Fragment {
                    id: be::u32(header, 4),
                    offset: field & !7,
                    more: field & 1 != 0,
                    protocol: header[0],
                };
                at += 8;
                if fragment.offset > 0 || fragment.more {
                    let may_be_tcp = fragment.protocol == TCP || is_one(fragment.protocol);
                    let behind = Behind { protocol: fragment.protocol, at, fragment: Some(fragment) };
                    return Ok(may_be_tcp.then_some(behind));
                }
            }
            // The addresses are those of this stage of the way, not of the connection.
            ROUTING if header[3] > 0 => return Ok(None),
            _ => at += (usize::from(header[1]) + 1) * 8,
        }
        protocol = header[0];
        if !is_one(protocol) {
            return Ok((at <= bytes.len()).then_some(Behind { protocol, at, fragment: None }));
        }
    }
    Err(RejectReason::IpChainTooLong)
}
