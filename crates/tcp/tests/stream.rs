//! Whatever the link does, the stream arrives whole and in order, and both ends reach CLOSED.

mod pair;

use pair::{Link, Pair};
use shorthaul_tcp::{ConnectionConfig, Profile, State};
use std::time::Duration;

#[test]
fn a_clean_transfer_in_both_directions_ends_in_closed() {
    let mut pair = Pair::new(1, Link::default(), [300_000, 100_000]);
    pair.open(ConnectionConfig::default(), ConnectionConfig::default());
    let done = pair.run_until(Duration::from_secs(600), Pair::is_done);
    assert!(done, "{:?} {:?}", pair.apps, [pair.state(0), pair.state(1)]);
    assert_eq!([pair.state(0), pair.state(1)], [State::Closed; 2]);
}

#[test]
fn every_profile_gets_through_a_bad_link() {
    for name in Profile::names() {
        let config = ConnectionConfig { profile: Profile::named(name).unwrap(), ..Default::default() };
        let link = Link { loss: 50, reorder: 50, duplicate: 20, ..Link::default() };
        let mut pair = Pair::new(7, link, [500_000, 200_000]);
        pair.open(config.clone(), config);
        let done = pair.run_until(Duration::from_secs(3600), Pair::is_done);
        assert!(done, "{name}: {:?} {:?}", pair.apps, [pair.state(0), pair.state(1)]);
    }
}
