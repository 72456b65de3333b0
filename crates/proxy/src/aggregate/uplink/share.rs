//! Max-min fairness: nobody gets more than it needs, and who needs more than the others gets as much as any.

/// What each may have of `total`, if it needs as much. `needs` are put in order.
pub(super) fn level(total: u64, needs: &mut [u64]) -> u64 {
    needs.sort_unstable();
    let mut left = total;
    for (met, &need) in needs.iter().enumerate() {
        let part = left / (needs.len() - met) as u64;
        if need > part {
            return part;
        }
        left -= need;
    }
    // All have what they need: what is left may be anybody's.
    needs.last().copied().unwrap_or(0) + left
}

#[cfg(test)]
mod tests {
    use super::level;

    #[test]
    fn what_one_does_not_need_is_the_others() {
        assert_eq!(level(12_000, &mut [u64::MAX, u64::MAX, u64::MAX]), 4000);
        assert_eq!(level(12_000, &mut [u64::MAX, 2000, u64::MAX]), 5000);
        assert_eq!(level(12_000, &mut [1000, 2000, 3000]), 9000, "and there is room to grow");
        assert_eq!(level(12_000, &mut []), 12_000);
        assert_eq!(level(0, &mut [5, 7]), 0);
    }
}
