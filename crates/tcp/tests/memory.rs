//! What an idle connection costs: less than 2 KiB, all that it holds on the heap included. A program of its own: the
//! allocator that counts is the whole process's.

#[allow(dead_code, reason = "the suite uses the rest")]
#[path = "suite/pair.rs"]
mod pair;

mod counting;

use counting::HELD;
use pair::{Link, PORT, Pair, address};
use shorthaul_tcp::{Addresses, Connection, ConnectionConfig, Event, SenderProfile, State};
use shorthaul_wire::Payload;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const CONNECTIONS: usize = 512; // a power of two, at which tables are at their fullest
const LIMIT: usize = 2048;

/// The only test of this file, so that nobody else allocates meanwhile.
#[test]
fn an_idle_connection_holds_less_than_two_kibibytes() {
    for name in SenderProfile::names() {
        let profile = SenderProfile::named(name).unwrap();
        let config = Arc::new(ConnectionConfig { profile, ..ConnectionConfig::default() });
        let mut pair = Pair::new(1, Link::default(), [0, 0]);
        pair.manual = true;
        pair.hosts[1].listen(PORT, config.clone());
        pair.settle();
        let before = HELD.load(Ordering::Relaxed);
        let ids: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let path = Addresses {
                    local: SocketAddr::new(address(0), 0),
                    remote: SocketAddr::new(address(1), PORT),
                };
                pair.hosts[0].connect(pair.now, path, config.clone()).unwrap()
            })
            .collect();
        let list = ids.capacity() * size_of_val(&ids[0]);
        let mut accepted = Vec::new();
        let run = |pair: &mut Pair, accepted: &mut Vec<_>| {
            let end = pair.now + Duration::from_secs(300);
            pair.settle();
            while pair.now < end && pair.step() {
                while let Some(id) = pair.hosts[1].poll_accept() {
                    accepted.push(id);
                }
                for side in 0..2 {
                    while let Some((id, event)) = pair.hosts[side].poll_event() {
                        assert!(!matches!(event, Event::Failed(_)), "{event:?}");
                        let now = pair.now;
                        let connection = pair.hosts[side].connection_mut(id).unwrap();
                        while !connection.read(now, usize::MAX).is_empty() {}
                    }
                }
                pair.settle();
            }
        };
        run(&mut pair, &mut accepted);
        assert_eq!(accepted.len(), CONNECTIONS);
        let each = |accepted: &Vec<_>| {
            let lists = list + accepted.capacity() * size_of_val(&ids[0]);
            (HELD.load(Ordering::Relaxed) - before - lists) / (2 * CONNECTIONS)
        };
        let fresh = each(&accepted);
        // And after it was busy, with losses.
        pair.link.loss = 20;
        for &id in &ids {
            pair.hosts[0].connection_mut(id).unwrap().write(Payload::copy_of(&[7; 50_000]));
        }
        run(&mut pair, &mut accepted);
        for &id in &ids {
            let connection = pair.hosts[0].connection(id).unwrap();
            assert!(connection.sender().is_idle(), "{name}");
            assert_eq!(connection.state(), State::Established);
        }
        let used = each(&accepted);
        println!(
            "{name}: {} bytes inline, {fresh} in all when fresh, {used} after use",
            size_of::<Connection>()
        );
        assert!(fresh < LIMIT && used < LIMIT, "{name}: {fresh} bytes fresh, {used} after use");
    }
}
