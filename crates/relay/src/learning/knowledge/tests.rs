use super::*;
use crate::learning::history::past;
use crate::learning::place::{SIZES, WAYS};

const MS: Duration = Duration::from_millis(1);

fn endpoint(text: &str) -> Endpoint {
    text.parse().unwrap()
}

fn knowledge() -> Knowledge {
    Knowledge::new(Learning::default())
}

fn candidates() -> Vec<Candidate> {
    vec![Candidate::by(Vec::new()), Candidate::by(vec![endpoint("a:7080")])]
}

#[test]
fn a_session_is_as_large_as_those_before() {
    let mut known = knowledge();
    let server = endpoint("10.0.0.1:80");
    assert_eq!(known.predicted(&server), None);
    for size in [10, 20, 1_000_000] {
        known.learn(&past(1.0, "10.0.0.1:80", &[], size, 1.0));
    }
    assert_eq!(known.predicted(&server), Some(Bytes(100)), "what is given counts, too");
    for _ in 0..SIZES {
        known.learn(&past(1.0, "10.0.0.1:80", &[], 5_000_000, 1.0));
    }
    assert_eq!(known.predicted(&server), Some(Bytes(5_000_000)), "what was long ago is forgotten");
    assert_eq!(known.predicted(&endpoint("elsewhere:80")), Some(Bytes(5_000_000)), "the port knows");
    assert_eq!(known.predicted(&endpoint("10.0.0.1:22")), None);
}

#[test]
fn a_relay_is_used_as_long_as_it_pays() {
    let mut known = knowledge();
    let server = endpoint("10.0.0.1:80");
    let decide = |known: &mut Knowledge, at| {
        let at = Time::ZERO + Duration::from_secs(at);
        known.decide(at, &server, &candidates(), || 0.25).unwrap()
    };
    // Ten megabytes, twice as fast by the relay: where windows bind, as the model says.
    for second in 0..10 {
        known.learn(&past(f64::from(second), "10.0.0.1:80", &[], 10_000_000, 6.0));
        known.learn(&past(f64::from(second), "10.0.0.1:80", &["a:7080"], 10_000_000, 3.0));
    }
    let decision = decide(&mut known, 10);
    assert_eq!((&decision.order[..], decision.choice.why), (&[1, 0][..], Why::Fastest));
    assert_eq!(decision.size, Bytes(10_000_000));
    let told = known.ways(&server, &candidates(), decision.size);
    assert_eq!((told[0].measured, told[1].measured), (10, 10));
    assert!((told[0].expected - 6.0).abs() < 0.6 && (told[1].expected - 3.0).abs() < 0.3, "{told:?}");
    // Neighbours have the same, and others nothing.
    assert_eq!(known.ways(&endpoint("10.0.0.77:81"), &[], decision.size)[1].measured, 10);
    assert_eq!(known.ways(&endpoint("10.0.1.1:80"), &[], decision.size), []);
    // Then it is overloaded.
    for second in 10..20 {
        known.learn(&past(f64::from(second), "10.0.0.1:80", &["a:7080"], 10_000_000, 20.0));
    }
    let decision = decide(&mut known, 20);
    assert_eq!((&decision.order[..], decision.choice.why), (&[0, 1][..], Why::NotWorthIt));
}

#[test]
fn nobody_is_sent_by_a_node_to_where_nothing_is_known_of() {
    let mut known = knowledge();
    let server = endpoint("10.0.0.1:80");
    let decide = |known: &mut Knowledge| {
        let decision = known.decide(Time::ZERO, &server, &candidates(), || 0.25).unwrap();
        (decision.order, decision.choice.why)
    };
    // If the direct way leads nowhere, the node is next.
    assert_eq!(decide(&mut known), (vec![0, 1], Why::Only));
    // A megabyte over 100 ms: a node on the way would gain.
    known.learn(&past(1.0, "10.0.0.1:80", &[], 1_000_000, 1.0));
    assert_eq!(decide(&mut known), (vec![1, 0], Why::Fastest));
    // It is aside, and its link is slow: that is no reason to think ill of the direct way, which nobody has tried.
    let mut known = knowledge();
    for second in 0..3 {
        known.learn(&past(f64::from(second), "10.0.0.1:80", &["a:7080"], 1_000_000, 10.0));
    }
    assert_eq!(decide(&mut known), (vec![0, 1], Why::NotWorthIt));
}

#[test]
fn what_a_node_has_shown_elsewhere_is_expected_of_it() {
    let mut known = knowledge();
    let mut ways = candidates();
    (ways[0].legs, ways[1].legs) = (vec![100 * MS], vec![40 * MS, 60 * MS]);
    let expected = |known: &mut Knowledge| {
        let decision = known.decide(Time::ZERO, &endpoint("10.0.1.1:80"), &ways, || 0.25).unwrap();
        decision.expected[1].unwrap()
    };
    let unknown = expected(&mut known);
    // It is slow, wherever it leads.
    for second in 0..5 {
        known.learn(&past(f64::from(second), "10.0.0.1:80", &["a:7080"], 1_000_000, 10.0));
    }
    let warned = expected(&mut known);
    assert!(warned > 2.0 * unknown, "{warned} {unknown}");
    // Whoever only looks is told the same, wherever nobody has decided yet, too.
    let told = known.ways_at(Time::from_secs(5), &endpoint("10.0.1.1:80"), &ways, Bytes(1_000_000));
    let elsewhere = known.ways_at(Time::from_secs(5), &endpoint("10.0.2.1:80"), &ways, Bytes(1_000_000));
    let off = (elsewhere[1].expected / told[1].expected - 1.0).abs();
    assert!(told[1].expected > 2.0 * unknown && off < 0.01, "{told:?} {elsewhere:?}");
}

#[test]
fn what_is_read_from_a_file_teaches_what_it_taught_when_it_happened() {
    let begun = || {
        let mut known = knowledge();
        for second in 0..5 {
            known.learn(&past(f64::from(second), "10.0.0.1:80", &["a:7080"], 1_000_000, 10.0));
        }
        known
    };
    let server = endpoint("10.0.1.1:80");
    let (mut live, mut read) = (begun(), begun());
    let mut ways = candidates();
    (ways[0].legs, ways[1].legs) = (vec![100 * MS], vec![40 * MS, 60 * MS]);
    live.decide(Time::from_secs(5), &server, &ways, || 0.25).unwrap();
    let expected = |known: &mut Knowledge| {
        known.learn(&past(6.0, "10.0.1.1:80", &["a:7080"], 20_000, 0.5));
        known.ways(&server, &[], Bytes(1_000_000))[1].expected
    };
    assert_eq!(expected(&mut read), expected(&mut live));
}

#[test]
fn nobody_waits_for_relays_where_those_that_are_known_are_slower_or_longer_than_one_could_save() {
    let server = endpoint("10.0.0.1:80");
    let size = Bytes(1_000_000);
    let waits = |known: &Knowledge, seconds| {
        known.worth_waiting(Time::ZERO + Duration::from_secs(seconds), &server, size)
    };
    let is_best = |known: &Knowledge, seconds| waits(known, seconds).is_zero();
    let mut known = knowledge();
    assert_eq!(waits(&known, 10), Duration::MAX, "nothing is known");
    for second in 0..5 {
        known.learn(&past(f64::from(second), "10.0.0.1:80", &[], size.0, 1.0));
    }
    // A relay half-way could save half a second of one.
    let some = waits(&known, 10);
    assert!((350 * MS..550 * MS).contains(&some), "relays were never looked for: {some:?}");
    for second in 5..8 {
        known.learn(&past(f64::from(second), "10.0.0.1:80", &["a:7080"], size.0, 10.0));
    }
    assert!(is_best(&known, 10));
    assert!(!is_best(&known, 36_000), "that was long ago");
    for second in 8..11 {
        known.learn(&past(f64::from(second), "10.0.0.1:80", &["b:7080"], size.0, 1.1));
    }
    assert!(!is_best(&known, 11), "one is hardly slower");
    // By a relay alone: nobody knows the direct way.
    let mut known = knowledge();
    known.learn(&past(1.0, "10.0.0.1:80", &["a:7080"], size.0, 10.0));
    assert!(!is_best(&known, 10));
}

#[test]
fn a_session_counts_where_it_goes_and_not_where_it_was_to_go() {
    let (mut known, server) = (knowledge(), endpoint("10.0.0.1:80"));
    let told = nodes(&[(60, 0.0), (60, 0.0)], Duration::ZERO);
    let shares = |known: &Knowledge| -> Vec<u64> {
        let share = |node: &Candidate| known.loads.share(&node.hops).unwrap().bits_per_sec() / 1_000_000;
        told.iter().map(share).collect()
    };
    let decision = known.decide(Time::from_secs(100), &server, &told, || 0.25).unwrap();
    let [chosen, other] = decision.order[..] else { panic!("{decision:?}") };
    let of = |shares: Vec<u64>| (shares[chosen], shares[other]);
    assert_eq!(of(shares(&known)), (30, 60));
    known.goes_by(&told[chosen].hops, Some(&told[chosen].hops));
    assert_eq!(of(shares(&known)), (30, 60));
    known.goes_by(&told[chosen].hops, Some(&told[other].hops));
    assert_eq!(of(shares(&known)), (60, 30));
    known.goes_by(&told[other].hops, None);
    assert_eq!(of(shares(&known)), (60, 60));
}

#[test]
fn conversations_and_sessions_that_moved_say_nothing_of_the_way() {
    let mut known = knowledge();
    let server = endpoint("10.0.0.1:22");
    known.learn(&Past { pauses: 30, ..past(1.0, "10.0.0.1:22", &[], 100_000, 600.0) });
    known.learn(&Past { moved: true, ..past(1.0, "10.0.0.1:22", &[], 100_000, 600.0) });
    let upload = past(1.0, "10.0.0.1:22", &[], 0, 0.1);
    known.learn(&Past { given: 100_000, arrived: false, ..upload });
    known.learn(&past(1.0, "10.0.0.1:22", &[], 2_000, 600.0));
    assert_eq!(known.ways(&server, &[], Bytes(100_000))[0].measured, 0);
    known.learn(&past(1.0, "10.0.0.1:22", &[], 100_000, 1.0));
    assert_eq!(known.ways(&server, &[], Bytes(100_000))[0].measured, 1);
}

#[test]
fn alike_nodes_share_clients_by_what_they_say_of_their_load() {
    let load = |sessions| Some(Load { strength: 1.0, rate: None, sessions, age: Duration::ZERO });
    let mut ways = candidates();
    ways[0].legs = vec![100 * MS];
    for (node, sessions) in [("a:7080", 100.0), ("b:7080", 0.0)] {
        ways.push(Candidate {
            hops: vec![endpoint(node)],
            legs: vec![50 * MS, 50 * MS],
            load: load(sessions),
        });
    }
    ways.remove(1);
    let mut known = knowledge();
    let (mut drawn, mut to_b) = (0u32, 0);
    for _ in 0..200 {
        let decision = known.decide(Time::ZERO, &endpoint("far:80"), &ways, || {
            drawn = drawn.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            f64::from(drawn >> 8) / f64::from(1u32 << 24)
        });
        let decision = decision.unwrap();
        to_b += u32::from(decision.order[0] == 2);
    }
    // Two draws of two: the busy one only where it is drawn twice.
    assert!((110..190).contains(&to_b), "{to_b} of 200");
}

/// A client of nodes of these rates, in Mbit/s, with so many sessions each, told long ago, all on ways of 20 ms.
fn nodes(rates: &[(u64, f64)], age: Duration) -> Vec<Candidate> {
    let load = |(rate, sessions): (u64, f64)| {
        Load::of_rate(BitRate::from_bits_per_sec(rate * 1_000_000), sessions, age)
    };
    let by = |(at, node): (usize, &(u64, f64))| Candidate {
        hops: vec![endpoint(&format!("198.51.100.{at}:7080"))],
        legs: vec![10 * MS, 10 * MS],
        load: Some(load(*node)),
    };
    rates.iter().enumerate().map(by).collect()
}

#[test]
fn nodes_that_told_long_ago_are_asked_and_the_freer_of_two_is_taken() {
    let (mut known, server) = (knowledge(), endpoint("far:80"));
    let told = nodes(&[(10, 0.0), (10, 0.0)], Duration::from_secs(30));
    let at = |seconds: u64| Time::ZERO + Duration::from_secs(100 + seconds);
    let decision = known.decide(at(0), &server, &told, || 0.25).unwrap();
    let mut asked = decision.ask.clone();
    asked.sort_unstable();
    assert_eq!(asked, [0, 1]);
    for (busy, free) in [(0, 1), (1, 0)] {
        let now_at = at(1 + busy as u64);
        let mut now = nodes(&[(10, 0.0), (10, 0.0)], Duration::ZERO);
        now[busy].load = nodes(&[(10, 8.0)], Duration::ZERO)[0].load;
        let settled = known.settle(now_at, &server, &now, decision.clone());
        assert_eq!(settled.order, [free, busy], "{settled:?}");
        // Who does not answer is tried last.
        now[free].load = None;
        let settled = known.settle(now_at, &server, &now, decision.clone());
        assert_eq!((&settled.order[..], settled.expected[free]), (&[busy, free][..], None));
    }
    // What is new needs no question, and what takes no longer than a question is worth none.
    let new = nodes(&[(10, 0.0), (10, 0.0)], Duration::ZERO);
    assert_eq!(known.decide(at(9), &server, &new, || 0.25).unwrap().ask.len(), 0);
    let mut far = told;
    far.iter_mut().for_each(|far| far.legs = vec![1000 * MS, 10 * MS]);
    assert_eq!(known.decide(at(9), &server, &far, || 0.25).unwrap().ask.len(), 0);
}

#[test]
fn what_was_sent_to_a_node_counts_until_it_tells_again() {
    let (mut known, server) = (knowledge(), endpoint("10.0.0.1:80"));
    let hops = vec![endpoint("198.51.100.0:7080")];
    let mbit = |known: &Knowledge| known.loads.share(&hops).map(|share| share.bits_per_sec() / 1_000_000);
    let at = |seconds: u64| Time::ZERO + Duration::from_secs(100 + seconds);
    let told = |age: u64| nodes(&[(60, 1.0)], Duration::from_secs(age));
    for (age, left) in [(0, 20), (1, 15), (2, 12)] {
        known.decide(at(age), &server, &told(age), || 0.25).unwrap();
        assert_eq!(mbit(&known), Some(left));
    }
    // One is over; then there is another word.
    known.learn(&past(103.0, "10.0.0.1:80", &["198.51.100.0:7080"], 1_000_000, 1.0));
    assert_eq!(mbit(&known), Some(15));
    known.loads.hear(at(4), &told(0));
    assert_eq!(mbit(&known), Some(30));
}

#[test]
fn a_node_that_was_busy_is_used_again_when_it_is_not() {
    let (mut known, server) = (knowledge(), endpoint("10.0.0.1:80"));
    let decide = |known: &mut Knowledge, at: u64, sessions: f64| {
        let told = nodes(&[(90, sessions), (5, 0.0)], Duration::ZERO);
        known.decide(Time::ZERO + Duration::from_secs(at), &server, &told, || 0.25).unwrap().order[0]
    };
    assert_eq!(decide(&mut known, 1, 0.0), 0);
    // A megabyte took what its share says, and the same again.
    for second in 0..20 {
        let slow = past(f64::from(second), "10.0.0.1:80", &["198.51.100.0:7080"], 1_000_000, 4.0);
        known.learn(&Past { share: Some(2e6), ..slow });
    }
    assert_eq!(decide(&mut known, 20, 44.0), 1);
    assert_eq!(decide(&mut known, 21, 0.0), 0, "its way was never slow");
}

#[test]
fn no_more_is_remembered_than_there_is_room_for() {
    let mut known = knowledge();
    for number in 0..PLACES as u32 + 10 {
        let to = format!("host{number}:80");
        known.learn(&past(f64::from(number), &to, &[], 100_000, 1.0));
    }
    assert_eq!(known.places.len(), PLACES);
    assert!(!known.places.contains_key("host0") && known.places.contains_key("host9999") == (PLACES > 9999));
    for number in 0..2 * WAYS {
        known.learn(&past(1e6, "host:80", &[&format!("n{number}:1")], 100_000, 1.0));
    }
    assert_eq!(known.places["host"].ways.len(), WAYS);
}
