//! A segment of new data where nothing is acknowledged any more.
use super::site::*;
use shorthaul_proxy::{AggregateConfig, Clamp};
use shorthaul_types::Bytes;
use shorthaul_wire::TcpFlags;

/// A host whose window is found: round trips of 0.5 s have become 1.5 s with it. The server has sent more than that takes. With it,
/// the end of what has left.
fn found() -> (Site, u32) {
    let config = AggregateConfig { clamp: Clamp::Auto, interactive: Bytes(0), ..AggregateConfig::default() };
    let mut site = Site::new(config);
    site.open(A);
    let (mut next, mut end) = (1, 1);
    for round in 0..20 {
        site.send(A, next, 40);
        next += 40 * MSS;
        site.wait(if round < 3 { 500 } else { 1_500 });
        for (_, offset, len) in site.sent() {
            site.mobile_says(A, TcpFlags::ACK, offset + len, &[]);
            end = end.max(offset + len);
        }
    }
    site.wait(2_000);
    end = site.sent().iter().map(|(_, offset, len)| offset + len).fold(end, u32::max);
    (site, end)
}

#[test]
fn where_nothing_is_acknowledged_any_more_new_data_asks_before_the_timer() {
    let (mut site, end) = found();
    // Two round trips after the last acknowledgment, where the timer is longer.
    site.wait(1_200);
    assert_eq!(site.sent(), [(A, end, MSS)], "something new, and that alone");
    assert!(!site.gateway.hosts().next().unwrap().stalled);
    // All had arrived, but the acknowledgments are lost: now they are made good, and nothing is sent again.
    let end = end + MSS;
    site.mobile_says(A, TcpFlags::ACK, end, &[]);
    site.wait(500);
    let sent = site.sent();
    assert!(sent.len() > 3 && sent.iter().all(|(_, offset, _)| *offset >= end), "{sent:?}");
}

#[test]
fn a_timer_that_expires_all_the_same_sends_the_first_segment_again() {
    let (mut site, end) = found();
    site.wait(20_000);
    let sent = site.sent();
    let (new, again): (Vec<_>, Vec<_>) = sent.into_iter().partition(|(_, offset, _)| *offset >= end);
    assert!((1..=3).contains(&new.len()), "{new:?}");
    assert!(again.len() > 3 && again.iter().all(|segment| *segment == again[0]), "one segment: {again:?}");
    assert!(site.gateway.hosts().next().unwrap().stalled);
}
