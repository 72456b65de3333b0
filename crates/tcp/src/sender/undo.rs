use shorthaul_types::{Blank, keeps};

/// What it takes to undo the response to a loss: that all that was retransmitted was so in vain. Either D-SACK says so
/// (RFC 3708, RFC 2883), or the original is seen to be what is acknowledged (RFC 3522, RFC 4015), which is known a round
/// trip sooner.
#[derive(Debug, Default)]
pub(super) struct Undo {
    retransmitted: Option<Retransmitted>,
}

/// What was retransmitted since the response.
#[derive(Clone, Copy, Debug, Default)]
struct Retransmitted {
    /// Something was.
    any: bool,
    /// Bytes that are not known to have been retransmitted in vain.
    bytes: u64,
    /// Bytes whose originals were acknowledged, and whose D-SACK is still to come.
    awaiting_dsack: u64,
}

keeps!(Undo { retransmitted });
keeps!(Retransmitted { any, bytes, awaiting_dsack });

impl Blank for Retransmitted {
    fn blank() -> Self {
        Retransmitted::default()
    }
}

impl Undo {
    /// There is a response to undo from now on.
    pub fn begin(&mut self) {
        self.retransmitted = Some(Retransmitted::default());
    }

    /// There is none any more.
    pub fn clear(&mut self) {
        self.retransmitted = None;
    }

    pub fn on_retransmit(&mut self, bytes: u64) {
        if let Some(retransmitted) = &mut self.retransmitted {
            retransmitted.bytes += bytes;
            retransmitted.any = true;
        }
    }

    /// `bytes` arrived twice.
    pub fn on_dsack(&mut self, bytes: u64) {
        let Some(retransmitted) = &mut self.retransmitted else { return };
        let known = bytes.min(retransmitted.awaiting_dsack);
        retransmitted.awaiting_dsack -= known;
        retransmitted.bytes = retransmitted.bytes.saturating_sub(bytes - known);
    }

    /// The originals were delivered of `bytes` that had been retransmitted.
    pub fn on_originals(&mut self, bytes: u64) {
        let Some(retransmitted) = &mut self.retransmitted else { return };
        retransmitted.bytes = retransmitted.bytes.saturating_sub(bytes);
        retransmitted.awaiting_dsack += bytes;
    }

    /// Whether everything was retransmitted in vain.
    pub fn all_in_vain(&self) -> bool {
        self.retransmitted.is_some_and(|retransmitted| retransmitted.any && retransmitted.bytes == 0)
    }
}
