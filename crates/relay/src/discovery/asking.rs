use std::net::{IpAddr, SocketAddr};

use super::prober::ASKED_MAX;

/// Which of `count` responders that directories name are asked in a round, by their numbers: of more than [`ASKED_MAX`], up to half are those
/// that answered before, nearest first, and the others are drawn. So clients of the same list do not all ask the same few, and each finds
/// near ones in a few rounds. `known` are the numbers of those that answered before; `uniform` draws from 0 to below 1.
pub fn whom_to_ask(
    count: usize,
    known: impl IntoIterator<Item = usize>,
    mut uniform: impl FnMut() -> f64,
) -> Vec<usize> {
    if count <= ASKED_MAX {
        return (0..count).collect();
    }
    let mut asked = Vec::with_capacity(ASKED_MAX);
    for number in known {
        if asked.len() == ASKED_MAX / 2 {
            break;
        }
        if number < count && !asked.contains(&number) {
            asked.push(number);
        }
    }
    while asked.len() < ASKED_MAX {
        // The nth of those that are not asked yet.
        let left = count - asked.len();
        let mut number = ((uniform() * left as f64) as usize).min(left - 1);
        let mut before = [0; ASKED_MAX];
        let before = &mut before[..asked.len()];
        before.copy_from_slice(&asked);
        before.sort_unstable();
        for asked in before {
            number += usize::from(number >= *asked);
        }
        asked.push(number);
    }
    asked
}

/// The numbers of hosts among the responders that are listed, in the order of the hosts; those that are not listed are left out.
pub(super) fn numbers_of(listed: &[SocketAddr], hosts: &[IpAddr]) -> Vec<usize> {
    hosts.iter().filter_map(|host| listed.iter().position(|listed| listed.ip() == *host)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn responders(count: u8) -> Vec<SocketAddr> {
        (1..=count).map(|n| ([10, 0, 0, n], 7007).into()).collect()
    }

    fn ask(listed: &[SocketAddr], known: &[IpAddr], uniform: impl FnMut() -> f64) -> Vec<SocketAddr> {
        let asked = whom_to_ask(listed.len(), numbers_of(listed, known), uniform);
        asked.into_iter().map(|number| listed[number]).collect()
    }

    #[test]
    fn a_few_are_all_asked_and_of_many_the_known_and_some_others() {
        let mut draws = 0u32;
        let mut uniform = || {
            draws = draws.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            f64::from(draws >> 8) / f64::from(1u32 << 24)
        };
        assert_eq!(ask(&responders(16), &[], &mut uniform), responders(16));
        let known: Vec<IpAddr> = (180..200).map(|n| [10, 0, 0, n].into()).collect();
        let mut seen = HashSet::new();
        for _ in 0..200 {
            let asked = ask(&responders(200), &known, &mut uniform);
            let hosts: Vec<IpAddr> = asked.iter().map(SocketAddr::ip).collect();
            assert_eq!(hosts[..ASKED_MAX / 2], known[..ASKED_MAX / 2]);
            assert_eq!(hosts.iter().collect::<HashSet<_>>().len(), ASKED_MAX, "each once");
            seen.extend(hosts);
        }
        assert!(seen.len() > 190, "{} of 200 in 200 rounds", seen.len());
        // Each of the others is drawn as often as any.
        let mut counts = [0u32; 40];
        for _ in 0..5_000 {
            whom_to_ask(40, [3, 9], &mut uniform).into_iter().for_each(|number| counts[number] += 1);
        }
        let others = counts.iter().enumerate().filter(|(number, _)| ![3, 9].contains(number));
        // 14 of 38 each time: 1842 ± 34.
        assert!(others.clone().all(|(_, count)| count.abs_diff(1842) < 170), "{counts:?}");
        assert_eq!((counts[3], counts[9]), (5_000, 5_000));
        // Who is no longer listed is not asked.
        let gone: Vec<IpAddr> = vec![[192, 0, 2, 1].into()];
        assert!(ask(&responders(20), &gone, || 1.0).iter().all(|asked| asked.ip() != gone[0]));
    }
}
