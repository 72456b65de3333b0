//! Which transmission an acknowledgment is for, where the timestamps are the other end's (RFC 4015 §3.2).
//!
//! A gateway sends with the timestamps of the end that it stands in for, and knows neither their clock nor all of what was sent
//! with one of them. But they never go back: what echoes an older one than the first that was retransmitted with was sent before
//! that.
use shorthaul_types::Time;

/// The first segment that was retransmitted, of an episode.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstRetransmission {
    /// The timestamp it left with: RetransmitTS of RFC 4015.
    pub(super) val: u32,
    pub(super) at: Time,
    /// The episode is over when everything before this offset is acknowledged.
    pub(super) until: u64,
}

impl FirstRetransmission {
    /// Something is retransmitted with the timestamp `val`, where SND.NXT is `nxt`; notes that unless something was before.
    pub fn note(known: &mut Option<FirstRetransmission>, now: Time, val: Option<u32>, nxt: u64) {
        if let Some(val) = val {
            known.get_or_insert(FirstRetransmission { val, at: now, until: nxt });
        }
    }

    /// An acknowledgment up to `ack` echoes `ecr`: when that was sent at the latest which it is for, if that is known.
    pub fn on_ack(known: &mut Option<FirstRetransmission>, ack: u64, ecr: Option<u32>) -> Option<Time> {
        let first_retransmission = (*known)?;
        if ack >= first_retransmission.until {
            *known = None;
        }
        let older = (ecr?.wrapping_sub(first_retransmission.val) as i32) < 0;
        older.then_some(first_retransmission.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_timestamp_is_an_earlier_transmission_until_the_episode_is_over() {
        let at = Time::from_secs(5);
        let mut first_retransmission = None;
        assert_eq!(
            FirstRetransmission::on_ack(&mut first_retransmission, 100, Some(7)),
            None,
            "nothing was retransmitted"
        );
        FirstRetransmission::note(&mut first_retransmission, at, Some(3), 1000);
        FirstRetransmission::note(&mut first_retransmission, Time::from_secs(6), Some(9), 2000);
        assert_eq!(
            FirstRetransmission::on_ack(&mut first_retransmission, 100, Some(u32::MAX)),
            Some(at),
            "timestamps wrap"
        );
        assert_eq!(
            FirstRetransmission::on_ack(&mut first_retransmission, 100, Some(3)),
            None,
            "it may be either"
        );
        assert_eq!(FirstRetransmission::on_ack(&mut first_retransmission, 100, None), None);
        assert_eq!(FirstRetransmission::on_ack(&mut first_retransmission, 1000, Some(2)), Some(at));
        assert_eq!(
            FirstRetransmission::on_ack(&mut first_retransmission, 1001, Some(2)),
            None,
            "the episode is over"
        );
    }
}
