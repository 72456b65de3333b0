//! The probing option: an experimental TCP option shared by its identifier (RFC 6994).
//!
//! It travels among [`TcpOptions::unknown`](crate::TcpOptions::unknown), so that only those who probe look at
//! it, and whoever stands between two ends leaves it as it is.
use crate::UnknownOptions;

/// The first of the two kinds for experiments (RFC 4727).
const KIND: u8 = 253;
/// The identifier behind the kind (RFC 6994 §3); not registered with IANA, as an experiment's need not be.
const EXID: [u8; 2] = [0x50, 0x72];

/// What a probing option says (PRB §2.1). The number names a probe, and its answer repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOption {
    /// In a SYN: probes are understood and will be answered.
    Offered,
    /// PROBE1: the first question of a cycle.
    Probe1(u32),
    /// PROBE1_ACK: its answer.
    Probe1Ack(u32),
    /// PROBE2: the second question.
    Probe2(u32),
    /// PROBE2_ACK: its answer.
    Probe2Ack(u32),
    /// Either question, by one who also wants to know when it arrived (PRB §2, footnote 4).
    Timed(u32),
    /// Its answer.
    TimedAck {
        /// That of the probe.
        number: u32,
        /// When the probe arrived: microseconds of a clock that began at any time, but of the connection alone.
        arrived: u32,
    },
}

impl ProbeOption {
    /// The probing option among the options that are not interpreted, the first if there are several.
    pub fn find(options: &UnknownOptions) -> Option<ProbeOption> {
        let mut rest = options.as_slice();
        while let [_, len, ..] = rest {
            let (option, behind) = rest.split_at_checked(usize::from(*len).max(2))?;
            if let [KIND, _, a, b, body @ ..] = option
                && [*a, *b] == EXID
            {
                return ProbeOption::read(body);
            }
            rest = behind;
        }
        None
    }

    fn read(body: &[u8]) -> Option<ProbeOption> {
        let [kind, rest @ ..] = body else { return Some(ProbeOption::Offered) };
        let (number, rest) = rest.split_first_chunk()?;
        let number = u32::from_be_bytes(*number);
        if *kind == 6 {
            let arrived = u32::from_be_bytes(rest.try_into().ok()?);
            return Some(ProbeOption::TimedAck { number, arrived });
        }
        match kind {
            _ if !rest.is_empty() => None,
            1 => Some(ProbeOption::Probe1(number)),
            2 => Some(ProbeOption::Probe1Ack(number)),
            3 => Some(ProbeOption::Probe2(number)),
            4 => Some(ProbeOption::Probe2Ack(number)),
            5 => Some(ProbeOption::Timed(number)),
            _ => None,
        }
    }

    /// As it stands in a header: 4 bytes in a SYN, 9 in a probe or its answer, 13 in one that says when the probe arrived.
    pub fn to_options(self) -> UnknownOptions {
        let (kind, number) = match self {
            ProbeOption::Offered => return [KIND, 4, EXID[0], EXID[1]].into_iter().collect(),
            ProbeOption::Probe1(number) => (1, number),
            ProbeOption::Probe1Ack(number) => (2, number),
            ProbeOption::Probe2(number) => (3, number),
            ProbeOption::Probe2Ack(number) => (4, number),
            ProbeOption::Timed(number) => (5, number),
            ProbeOption::TimedAck { number, arrived } => {
                let body = [number, arrived].into_iter().flat_map(u32::to_be_bytes);
                return [KIND, 13, EXID[0], EXID[1], 6].into_iter().chain(body).collect();
            }
        };
        [KIND, 9, EXID[0], EXID[1], kind].into_iter().chain(number.to_be_bytes()).collect()
    }

    /// What answers a probe that arrived at this time, in microseconds; `None` for what is no probe.
    pub const fn answer(self, arrived: u32) -> Option<ProbeOption> {
        match self {
            ProbeOption::Probe1(number) => Some(ProbeOption::Probe1Ack(number)),
            ProbeOption::Probe2(number) => Some(ProbeOption::Probe2Ack(number)),
            ProbeOption::Timed(number) => Some(ProbeOption::TimedAck { number, arrived }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ProbeOption; 7] = [
        ProbeOption::Offered,
        ProbeOption::Probe1(7),
        ProbeOption::Probe1Ack(u32::MAX),
        ProbeOption::Probe2(0x0102_0304),
        ProbeOption::Probe2Ack(0),
        ProbeOption::Timed(9),
        ProbeOption::TimedAck { number: 9, arrived: 0x0a0b_0c0d },
    ];

    #[test]
    fn what_is_written_is_found_again_behind_other_options() {
        for option in ALL {
            let mut options: UnknownOptions = [30, 4, 0x50, 0x72].into_iter().collect();
            options.try_extend_from_slice(&option.to_options()).unwrap();
            assert_eq!(ProbeOption::find(&options), Some(option));
        }
        assert_eq!(ProbeOption::Probe1(7).to_options().as_slice(), [253, 9, 0x50, 0x72, 1, 0, 0, 0, 7]);
    }

    #[test]
    fn only_probes_have_an_answer() {
        let answers = ALL.map(|option| option.answer(77));
        assert_eq!(answers[1], Some(ProbeOption::Probe1Ack(7)));
        assert_eq!(answers[3], Some(ProbeOption::Probe2Ack(0x0102_0304)));
        assert_eq!(answers[5], Some(ProbeOption::TimedAck { number: 9, arrived: 77 }));
        assert_eq!(answers.iter().flatten().count(), 3);
    }

    #[test]
    fn another_experiment_or_a_damaged_option_is_none() {
        for bytes in [
            &[253, 4, 1, 2][..],
            &[253, 9, 0x50, 0x72, 7, 0, 0, 0, 7],
            &[253, 9, 0x50, 0x72, 6, 0, 0, 0, 7],
            &[253, 13, 0x50, 0x72, 1, 0, 0, 0, 7, 0, 0, 0, 7],
            &[253, 6, 0x50, 0x72, 1, 0],
            &[253, 9, 0x50, 0x72],
            &[253, 0, 0x50, 0x72],
            &[253],
            &[],
        ] {
            let options: UnknownOptions = bytes.iter().copied().collect();
            assert_eq!(ProbeOption::find(&options), None, "{bytes:?}");
        }
    }
}
