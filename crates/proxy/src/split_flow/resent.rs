//! Which transmission an acknowledgment is for, where the timestamps are the other end's (RFC 4015 §3.2).
//!
//! A gateway sends with the timestamps of the end that it stands in for, and knows neither their clock nor all of what was sent
//! with one of them. But they never go back: what echoes an older one than the first that was sent again with was sent before
//! that.
use shorthaul_types::Time;

/// The first segment that was sent again, of an episode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resent {
    /// The timestamp it left with: RetransmitTS of RFC 4015.
    val: u32,
    at: Time,
    /// The episode is over when so much is acknowledged.
    until: u64,
}

impl Resent {
    /// Something is sent again with the timestamp `val`, where SND.NXT is `nxt`; notes that unless something was before.
    pub fn note(known: &mut Option<Resent>, now: Time, val: Option<u32>, nxt: u64) {
        if let Some(val) = val {
            known.get_or_insert(Resent { val, at: now, until: nxt });
        }
    }

    /// An acknowledgment up to `ack` echoes `ecr`: when that was sent at the latest which it is for, if that is known.
    pub fn on_ack(known: &mut Option<Resent>, ack: u64, ecr: Option<u32>) -> Option<Time> {
        let resent = (*known)?;
        if ack >= resent.until {
            *known = None;
        }
        let older = (ecr?.wrapping_sub(resent.val) as i32) < 0;
        older.then_some(resent.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_timestamp_is_an_earlier_transmission_until_the_episode_is_over() {
        let at = Time::from_secs(5);
        let mut resent = None;
        assert_eq!(Resent::on_ack(&mut resent, 100, Some(7)), None, "nothing was sent again");
        Resent::note(&mut resent, at, Some(3), 1000);
        Resent::note(&mut resent, Time::from_secs(6), Some(9), 2000);
        assert_eq!(Resent::on_ack(&mut resent, 100, Some(u32::MAX)), Some(at), "timestamps wrap");
        assert_eq!(Resent::on_ack(&mut resent, 100, Some(3)), None, "it may be either");
        assert_eq!(Resent::on_ack(&mut resent, 100, None), None);
        assert_eq!(Resent::on_ack(&mut resent, 1000, Some(2)), Some(at));
        assert_eq!(Resent::on_ack(&mut resent, 1001, Some(2)), None, "the episode is over");
    }
}
