//! TCP fast start (Padmanabhan and Katz 1998): the window that the path had, paced over its round trip, and letting go of it.
use super::{Script, plain, plain_but};
use shorthaul_tcp::{ConnectionConfig, Starting};

fn fast() -> ConnectionConfig {
    plain_but(|profile| {
        profile.start = Starting::FAST;
        profile.initial_window = 2;
    })
}

/// A connection that was idle after it had sent 20 kB with round trips of 100 ms and a window of 22 kB in slow start.
fn after_a_pause(config: ConnectionConfig) -> Script {
    let mut s = Script::established(config);
    pass_20_kb(&mut s);
    s.at(30_000);
    s
}

/// It sends 20 kB, acknowledged segment by segment after round trips of 100 ms.
fn pass_20_kb(s: &mut Script) {
    s.write(20_000).take();
    let mut acked = 1;
    let mut ms = 0;
    while acked < 20_001 {
        ms += 100;
        let sent = i64::try_from(s.connection().sender().nxt()).unwrap();
        s.at(ms);
        while acked < sent {
            acked = (acked + 1000).min(sent);
            s.inject(&format!(". 1:1(0) ack {acked}"));
        }
        s.take();
    }
}

/// How many full segments leave at which time, in ms, from 30 s on.
fn leaving(s: &mut Script, until: u64) -> Vec<(u64, usize)> {
    let mut left = Vec::new();
    for ms in 30_000..=until {
        s.pass(ms);
        let count = s.take().len();
        if count > 0 {
            left.push((ms - 30_000, count));
        }
    }
    left
}

#[test]
fn after_a_pause_the_rest_of_the_window_follows_over_a_round_trip() {
    let mut s = after_a_pause(fast());
    let window = s.connection().sender().control().window();
    assert!(s.connection().sender().control().in_slow_start(), "half of the window is safe");
    s.write(40_000);
    let first = s.take().len();
    assert!((2..=4).contains(&first), "the initial window, and what a pacer begins with: {first}");
    let left = leaving(&mut s, 30_099);
    let sent = first + left.iter().map(|(_, count)| count).sum::<usize>();
    assert_eq!(sent as u64, window / 2 / 1000, "{left:?}");
    assert!(left.iter().all(|(_, count)| *count <= 2), "no bursts: {left:?}");
    // Ten segments in a round trip of some 95 ms, of which four left at once.
    assert!(left.last().unwrap().0 > 50, "over the round trip: {left:?}");
}

#[test]
fn a_host_that_begins_slowly_sends_its_initial_window() {
    let mut config = fast();
    config.profile.start = Starting::SLOW;
    let mut s = after_a_pause(config);
    s.write(40_000);
    assert_eq!(s.take().len(), 2);
    assert!(leaving(&mut s, 30_099).is_empty());
    assert_eq!(plain().profile.start, Starting::SLOW, "as everybody does who asks for nothing");
}

/// The first segment arrives and nothing else: no RTO passes, and slow start goes over what is outstanding.
#[test]
fn what_nobody_acknowledges_is_let_go_of_without_an_rto() {
    let mut s = after_a_pause(fast());
    s.write(40_000).take();
    leaving(&mut s, 30_099);
    let outstanding = s.connection().sender().in_flight();
    s.at(30_100).inject(". 1:1(0) ack 21001").take();
    let rto = s.connection().sender().rtt().rto();
    let left = leaving(&mut s, 30_600);
    // SRTT + 4·RTTVAR, where an RTO of one second at least would have been asked for.
    let again = left.iter().find(|(at, count)| *at > 200 && *count == 2);
    assert!(rto.as_millis() >= 1000 && again.is_some(), "{left:?}");
    let sender = s.connection().sender();
    assert_eq!((sender.stats().timeouts, sender.control().window()), (0, 2_000));
    assert_eq!(sender.rtt().backoff(), 0);
    assert!(sender.in_flight() <= 2_000 && outstanding > 8_000, "{outstanding}");
}

/// One loss is repaired by fast retransmit; several end fast start, with all that is outstanding sent again.
#[test]
fn several_losses_begin_slow_start_and_one_does_not() {
    let lost = |holes: usize| {
        let mut config = fast();
        config.profile.sack = true;
        let mut s = Script::connecting(config);
        s.expect("S 0:0(0)").inject("S. 0:0(0) ack 1 win 60000 <mss 1000,sackOK>").expect(". 1:1(0) ack 1");
        pass_20_kb(&mut s);
        s.at(30_000).write(40_000).take();
        leaving(&mut s, 30_099);
        // The first is there, then there are holes, and the rest is there.
        let (from, to) =
            (21_001 + 1_000 * holes as i64, i64::try_from(s.connection().sender().nxt()).unwrap());
        s.at(30_110).inject(&format!(". 1:1(0) ack 21001 <sack {from}:{to}>"));
        for _ in 0..3 {
            s.inject(&format!(". 1:1(0) ack 21001 <sack {from}:{to}>"));
        }
        s.take();
        let sender = s.connection().sender();
        (sender.control().window(), sender.stats().timeouts)
    };
    let (one, several) = (lost(1), lost(4));
    // The initial window, and what the acknowledgment that showed it adds in slow start.
    assert_eq!(several, (3_000, 0));
    assert!(one.0 > 3_000 && one.1 == 0, "{one:?}");
}
