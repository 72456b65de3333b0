//! A sender that goes on where another process was killed: what answers that one's flights is no answer to its own.
use shorthaul_congestion::{Algorithm, ControlParams};
use shorthaul_tcp::{Ack, CongestionManager, Feedback, RetransmissionTimer, Sender, SenderConfig};
use shorthaul_types::Time;
use shorthaul_wire::Payload;
use std::time::Duration;

const MSS: u64 = 1_000;

/// What its manager hears of an acknowledgment of all before `ack`.
fn acknowledge(sender: &mut Sender, millis: u64, ack: u64) -> Feedback {
    let ack = Ack {
        ack,
        window: 1 << 20,
        seq: 1,
        sack: &[],
        has_data: false,
        ecn_echo: false,
        echo: None,
        sent_before: None,
        waited: None,
        reported: None,
    };
    sender.on_ack(Time::from_millis(millis), &ack);
    std::mem::take(&mut sender.grant_mut().expect("it is managed").feedback)
}

#[test]
fn answers_to_what_another_process_sent_are_no_deliveries_and_no_round_trips() {
    let begun = Time::from_millis(1_000);
    let control = Algorithm::Cubic.build(ControlParams::new(MSS as u32, begun));
    let manager = CongestionManager::shared(RetransmissionTimer::Probes);
    let config = SenderConfig { manager, pacing: false, ..SenderConfig::new(MSS as u32, control) };
    let mut sender = Sender::new(begun, 1, 1 << 20, config);
    sender.on_rtt_sample(begun, Duration::from_millis(100));
    sender.queue_mut().push(Payload::copy_of(&[7; 10_000]));
    sender.was_sent(1 + 4 * MSS);
    sender.may_have_passed(1 + 6 * MSS);
    sender.grant_mut().expect("it is managed").bytes = 1 << 20;
    for _ in 0..10 {
        let grant = sender.grant_mut().expect("it is managed");
        grant.bytes = MSS;
        assert!(sender.poll_segment(begun).is_some());
    }
    // 1 ms later no answer to this one's segments can be there.
    let soon = acknowledge(&mut sender, 1_001, 1 + MSS);
    assert_eq!((soon.delivered, soon.newest, soon.rtt), (0, None, None));
    assert_eq!(sender.una(), 1 + MSS, "it is there all the same");
    // A round trip later there may be: which of the two transmissions it is of, nobody knows (Karn's algorithm).
    let later = acknowledge(&mut sender, 1_100, 1 + 3 * MSS);
    assert_eq!((later.delivered, later.rtt), (2 * MSS, None));
    // What only may have passed is one like any other once a round trip is over.
    let passed = acknowledge(&mut sender, 1_101, 1 + 6 * MSS);
    assert_eq!(passed.delivered, 3 * MSS);
    let own = acknowledge(&mut sender, 1_102, 1 + 8 * MSS);
    assert_eq!((own.delivered, own.rtt), (2 * MSS, Some(Duration::from_millis(102))));
    assert_eq!(sender.rtt().min_rtt(), Some(Duration::from_millis(100)));
}
