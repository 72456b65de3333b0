use std::net::{IpAddr, SocketAddr};

use super::prober::ASKED_MAX;

/// Which of the responders that directories name are asked in a round: of more than [`ASKED_MAX`], up to half are those that answered before,
/// nearest first, and the others are drawn. So clients of the same list do not all ask the same few, and each finds near ones in a few
/// rounds. `known` are the hosts that answered before; `uniform` draws from 0 to below 1.
pub(super) fn whom_to_ask(
    mut listed: Vec<SocketAddr>,
    known: &[IpAddr],
    mut uniform: impl FnMut() -> f64,
) -> Vec<SocketAddr> {
    if listed.len() <= ASKED_MAX {
        return listed;
    }
    let mut asked = Vec::with_capacity(ASKED_MAX);
    for host in known {
        if asked.len() < ASKED_MAX / 2
            && let Some(at) = listed.iter().position(|listed| listed.ip() == *host)
        {
            asked.push(listed.remove(at));
        }
    }
    while asked.len() < ASKED_MAX && !listed.is_empty() {
        let at = (uniform() * listed.len() as f64) as usize;
        asked.push(listed.swap_remove(at.min(listed.len() - 1)));
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn responders(count: u8) -> Vec<SocketAddr> {
        (1..=count).map(|n| ([10, 0, 0, n], 7007).into()).collect()
    }

    #[test]
    fn a_few_are_all_asked_and_of_many_the_known_and_some_others() {
        let mut draws = 0u32;
        let mut uniform = || {
            draws = draws.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            f64::from(draws >> 8) / f64::from(1u32 << 24)
        };
        assert_eq!(whom_to_ask(responders(16), &[], &mut uniform), responders(16));
        let known: Vec<IpAddr> = (180..200).map(|n| [10, 0, 0, n].into()).collect();
        let mut seen = HashSet::new();
        for _ in 0..200 {
            let asked = whom_to_ask(responders(200), &known, &mut uniform);
            let hosts: Vec<IpAddr> = asked.iter().map(SocketAddr::ip).collect();
            assert_eq!(hosts[..ASKED_MAX / 2], known[..ASKED_MAX / 2]);
            assert_eq!(hosts.iter().collect::<HashSet<_>>().len(), ASKED_MAX, "each once");
            seen.extend(hosts);
        }
        assert!(seen.len() > 190, "{} of 200 in 200 rounds", seen.len());
        // Who is no longer listed is not asked.
        let gone: Vec<IpAddr> = vec![[192, 0, 2, 1].into()];
        assert!(whom_to_ask(responders(20), &gone, || 1.0).iter().all(|asked| asked.ip() != gone[0]));
    }
}
