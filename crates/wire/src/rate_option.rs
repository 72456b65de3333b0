//! The rate option: an experimental TCP option shared by its identifier (RFC 6994), by which a receiver tells its sender at what rate
//! to send.
//!
//! It travels among [`TcpOptions::unknown`](crate::TcpOptions::unknown), as the [probing option](crate::ProbeOption) does.
use crate::UnknownOptions;
use shorthaul_types::BitRate;

/// The second of the two kinds for experiments (RFC 4727); the probing option has the first.
const KIND: u8 = 254;
/// The identifier behind the kind (RFC 6994 §3); not registered with IANA, as an experiment's need not be.
const EXID: [u8; 2] = [0x52, 0x74];

/// What a rate option says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateOption {
    /// In a SYN: this end measures what comes and reports a rate, and wants to hear one.
    Offered,
    /// In an acknowledgment: send at so many bytes a second.
    BytesPerSecond(u32),
}

impl RateOption {
    /// The bytes of a report in a header.
    pub const REPORT_LEN: usize = 8;

    /// A report of this rate, rounded down to whole bytes, of one byte a second at least.
    pub fn report(rate: BitRate) -> RateOption {
        RateOption::BytesPerSecond(u32::try_from(rate.bytes_per_sec()).unwrap_or(u32::MAX).max(1))
    }

    /// The rate that is reported; `None` for an offer.
    pub fn rate(self) -> Option<BitRate> {
        match self {
            RateOption::Offered => None,
            RateOption::BytesPerSecond(bytes) => {
                Some(BitRate::from_bits_per_sec(u64::from(bytes.max(1)) * 8))
            }
        }
    }

    /// The rate option among the options that are not interpreted, the first if there are several.
    pub fn find(options: &UnknownOptions) -> Option<RateOption> {
        let mut rest = options.as_slice();
        while let [_, len, ..] = rest {
            let (option, behind) = rest.split_at_checked(usize::from(*len).max(2))?;
            if let [KIND, _, a, b, body @ ..] = option
                && [*a, *b] == EXID
            {
                return match body {
                    [] => Some(RateOption::Offered),
                    _ => Some(RateOption::BytesPerSecond(u32::from_be_bytes(body.try_into().ok()?))),
                };
            }
            rest = behind;
        }
        None
    }

    /// As it stands in a header: 4 bytes in a SYN, 8 in an acknowledgment.
    pub fn to_options(self) -> UnknownOptions {
        match self {
            RateOption::Offered => [KIND, 4, EXID[0], EXID[1]].into_iter().collect(),
            RateOption::BytesPerSecond(bytes) => [KIND, Self::REPORT_LEN as u8, EXID[0], EXID[1]]
                .into_iter()
                .chain(bytes.to_be_bytes())
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProbeOption;

    #[test]
    fn what_is_written_is_read_back_beside_another_option() {
        for option in
            [RateOption::Offered, RateOption::BytesPerSecond(2_400), RateOption::BytesPerSecond(u32::MAX)]
        {
            let mut options = ProbeOption::Offered.to_options();
            options.extend(option.to_options());
            assert_eq!(RateOption::find(&options), Some(option));
            assert_eq!(ProbeOption::find(&options), Some(ProbeOption::Offered));
        }
        assert_eq!(RateOption::BytesPerSecond(2_400).to_options().len(), RateOption::REPORT_LEN);
    }

    #[test]
    fn rates_are_whole_bytes_a_second_and_never_none() {
        let told = |bits| {
            RateOption::report(BitRate::from_bits_per_sec(bits)).rate().map(|rate| rate.bits_per_sec())
        };
        assert_eq!(told(19_207), Some(19_200));
        assert_eq!(told(0), Some(8));
        assert_eq!(told(u64::MAX), Some(u64::from(u32::MAX) * 8));
    }

    #[test]
    fn what_is_cut_short_or_of_others_is_no_rate() {
        for bytes in
            [&[254u8, 4, 1, 2][..], &[254, 7, 0x52, 0x74, 0, 0, 1], &[254, 9, 0x52, 0x74, 0, 0], &[254]]
        {
            let options: UnknownOptions = bytes.iter().copied().collect();
            assert_eq!(RateOption::find(&options), None, "{bytes:?}");
        }
    }
}
