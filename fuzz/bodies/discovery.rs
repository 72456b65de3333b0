//! What must hold for any datagram that comes to those who ask for relays and those who answer.

use shorthaul_relay::discovery::{
    Arrival, Bound, HOP_LIMIT, Handshake, Identity, Key, Keyring, Load, Message, Prober, Question, Responder,
    ResponderConfig, Retry,
};
use shorthaul_types::{Seed, Time};
use std::time::Duration;

/// One input of the fuzzer: a byte of flags, then a datagram, which gets a valid signature if a flag says so.
pub fn run(input: &[u8]) {
    let Some((flags, rest)) = input.split_first() else { return };
    let keys = Keyring::single(Key::new([7; 32]));
    let mut bytes = rest.to_vec();
    if flags & 1 != 0 {
        keys.seal(&mut bytes);
    }
    if let Ok(message) = Message::read(&bytes, &keys) {
        let again = Message::read(message.sign(&keys).as_slice(), &keys);
        assert_eq!(again, Ok(message), "what was read can be written and read again");
    }
    answer(flags, &bytes, &keys);
    ask(&bytes, &keys);
}

fn answer(flags: &u8, bytes: &[u8], keys: &Keyring) {
    let relay = Identity::relay(([0, 0, 0, 0], 7001).into(), "n");
    let config = ResponderConfig::new(keys.clone(), (flags & 2 != 0).then_some(relay));
    let mut responder = Responder::new(Time::ZERO, config);
    let load = Load {
        service_time: Duration::from_micros(100),
        buffer: 1 << 20,
        sessions: 1,
        capacity: None,
        overloaded: flags & 4 != 0,
    };
    let arrival = Arrival {
        from: ([192, 0, 2, 9], 40_000).into(),
        bytes,
        bound: if flags & 8 != 0 { Bound::Onward } else { Bound::Here },
        hop_limit: Some(HOP_LIMIT),
        local: [10, 0, 0, 1].into(),
        since_1970: Duration::from_secs(1_800_000_000),
    };
    if let Ok(answer) = responder.answer(Time::ZERO, &load, &arrival) {
        assert!(answer.datagram.as_slice().len() < bytes.len(), "an answer is shorter than its question");
        let read = Message::read(answer.datagram.as_slice(), keys).expect("what is answered can be read");
        assert!(!read.body.is_probe(), "a probe is not answered with a probe");
    }
}

fn ask(bytes: &[u8], keys: &Keyring) {
    let node = ([10, 0, 0, 2], 7007).into();
    let question = Question {
        destination: Some(([10, 0, 0, 9], 7007).into()),
        relays: vec![node],
        target: Some(([10, 0, 0, 9], 443).into()),
        handshake: Handshake::AtOnce,
        cookie: None,
    };
    let mut prober = Prober::new(Time::ZERO, keys.clone(), question, Retry::default(), Seed(1));
    let mut now = Time::from_secs(1_000);
    let mut sent = 0;
    while let Some(deadline) = prober.poll_timeout() {
        let _ = prober.handle_datagram(now, bytes);
        if prober.poll_handshake().is_some() {
            let comes_about = bytes.len().is_multiple_of(2);
            prober.handle_handshake(now, comes_about.then_some(Duration::from_millis(30)));
        }
        while prober.poll_transmit(now).is_some() {
            sent += 1;
        }
        now = now.max(deadline);
        prober.handle_timeout(now);
    }
    assert!(sent <= 60, "{sent} probes in one round");
    assert!(prober.findings().is_some(), "a round that is over has findings");
}
