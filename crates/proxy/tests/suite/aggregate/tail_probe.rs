//! One segment where nothing is acknowledged any more: of new data, or the last one again.
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

/// A host whose window is found, with a round trip of 100 ms to an idle link. All that there is to send is sent.
fn at_tail(flows: &[(u16, u16)]) -> (Site, u32) {
    let (mut site, mut next) = found();
    for round in 0.. {
        assert!(round < 100, "the window stays {:?}", site.gateway.hosts().next().unwrap());
        site.mobile_says(A, TcpFlags::ACK, next, &[]);
        site.wait(100);
        let end = site.sent().iter().map(|(_, offset, len)| offset + len).fold(next, u32::max);
        if end == next {
            break;
        }
        next = end;
    }
    flows.iter().filter(|flow| **flow != A).for_each(|flow| site.open(*flow));
    // The smoothed round trip follows the shorter path.
    for _ in 0..40 {
        site.send(A, next, 4);
        next += 4 * MSS;
        site.wait(100);
        site.mobile_says(A, TcpFlags::ACK, next, &[]);
    }
    site.sent();
    (site, next)
}

/// Later deliveries show a loss; behind the last segment there are none, and the timer is far.
#[test]
fn where_all_is_sent_the_last_segment_is_sent_again_after_two_round_trips() {
    let (mut site, next) = at_tail(&[A]);
    site.send(A, next, 5);
    site.wait(50); // they are paced
    assert_eq!(site.sent().len(), 5);
    site.wait(140);
    assert_eq!(site.sent(), []);
    site.wait(90);
    assert_eq!(site.sent(), [(A, next + 4 * MSS, MSS)]);
    // Three were lost, the probe says so; and it is asked once.
    site.wait(100);
    site.mobile_says(A, TcpFlags::ACK, next + MSS, &[(next + 4 * MSS, next + 5 * MSS)]);
    site.wait(40);
    assert_eq!(site.sent(), [(A, next + MSS, MSS), (A, next + 2 * MSS, MSS), (A, next + 3 * MSS, MSS)]);
    assert!(!site.gateway.hosts().next().unwrap().stalled);
}

/// The receiver may keep that acknowledgment for 200 ms.
#[test]
fn a_segment_alone_may_be_waiting_for_its_delayed_acknowledgment() {
    let (mut site, next) = at_tail(&[A]);
    site.send(A, next, 1);
    assert_eq!(site.sent().len(), 1);
    site.wait(380);
    assert_eq!(site.sent(), []);
}

/// Not every receiver counts the FIN of a segment that came early.
#[test]
fn a_report_of_the_last_segment_counts_its_fin() {
    let (mut site, next) = at_tail(&[A]);
    site.send(A, next, 2);
    site.server_says(A, TcpFlags::ACK | TcpFlags::FIN, next + 2 * MSS, MSS as usize);
    site.wait(50);
    assert_eq!(site.sent().len(), 3);
    site.wait(50);
    site.mobile_says(A, TcpFlags::ACK, next, &[(next + 2 * MSS, next + 3 * MSS)]);
    site.wait(20);
    assert_eq!(site.sent(), [(A, next, MSS), (A, next + MSS, MSS)]);
}

/// Of one connection two segments are lost, of which the deliveries of another tell: two would have been acknowledged at once.
#[test]
fn what_others_skipped_is_lost_a_quarter_of_a_round_trip_later_unless_it_is_a_segment_alone() {
    for (lost, after) in [(2, 150), (1, 320)] {
        let (mut site, next) = at_tail(&[A, B]);
        site.send(B, 1, lost);
        site.wait(1);
        for i in 0..4 {
            site.send(A, next + i * MSS, 1);
            site.wait(1);
        }
        let sent = site.sent();
        assert_eq!(sent.len() as u32, 4 + lost, "{sent:?}");
        site.wait(100);
        for i in 1..=4 {
            site.mobile_says(A, TcpFlags::ACK, next + i * MSS, &[]);
        }
        let began = site.now;
        let mut waited = 0;
        while site.sent().is_empty() {
            site.wait(1);
            waited = site.now.saturating_since(began).as_millis() + 105;
            assert!(waited < 1_000);
        }
        assert!((after - 40..=after + 40).contains(&waited), "{lost}: {waited} ms after it was sent");
    }
}
