//! A connection that says little, a gateway that is killed and comes again, and a packet or two that are lost about that time: whichever
//! they are, afterwards each end can say something, and the other hears it, whoever begins.
use crate::pair::plain;
use shorthaul_proxy::{Gateway, GatewayConfig};
use shorthaul_tcp::{AckPolicy, ConnectionConfig};
use shorthaul_testkit::{DELAY, Opening, World};
use shorthaul_types::Bytes;
use std::time::Duration;

/// What an end says at once: less than any window.
const WORDS: u64 = 1_500;
/// Nobody waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(100);

/// What happens, but for what is lost.
#[derive(Clone, Copy, Debug)]
struct Course {
    /// The ends have timestamps, and delay acknowledgments.
    timestamps: bool,
    /// When it is killed: so long after both ends have begun to speak, or when all is silent.
    killed: Option<Duration>,
    /// Who speaks while it is gone.
    past: [bool; 2],
    /// It comes back when all is silent, or so soon.
    soon: bool,
    /// Who speaks first afterwards.
    first: usize,
    /// How long all is silent before.
    rest: Duration,
}

impl Course {
    fn all() -> impl Iterator<Item = Course> {
        let kills = [None, Some(DELAY / 2), Some(5 * DELAY / 2), Some(9 * DELAY / 2)];
        (0..2 * kills.len() * 4 * 2 * 2).map(move |number| Course {
            timestamps: number % 2 == 0,
            killed: kills[number / 2 % kills.len()],
            past: [number / 8 % 2 == 0, number / 16 % 2 == 0],
            soon: number / 32 % 2 == 0,
            first: number / 64,
            rest: Duration::from_secs([0, 40][number / 4 % 2]),
        })
    }

    /// Plays it, where these packets are lost of all that are sent from the first words on. Says how many were sent until the gateway was back,
    /// and its questions were answered.
    fn play(self, lost: &[u64]) -> u64 {
        let frame = GatewayConfig { flow_buffer: Bytes(100_000), ..GatewayConfig::default() };
        let mut world = World::new(7, frame.clone());
        let stations = [([10, 0, 0, 1], Gateway::ACCESS), ([10, 0, 0, 2], Gateway::WAN)];
        let stations = stations.map(|(address, port)| world.add_station(port, address.into()));
        let mut end: ConnectionConfig = plain();
        if self.timestamps {
            end.profile.timestamps = true;
            end.profile.ack = AckPolicy::default();
        }
        let configs = [end.clone(), end];
        world.open(Opening { stations, port: 80, configs, totals: [WORDS; 2] });
        world.flows[0].apps.iter_mut().for_each(|app| app.keeps_open = true);
        assert!(until(&mut world, PATIENCE, is_silent), "opening: {}", world.describe());

        world.sent = 0;
        world.lost = lost.iter().copied().collect();
        (0..2).for_each(|end| say(&mut world, end));
        match self.killed {
            Some(time) => _ = until(&mut world, time, |_| false),
            None => assert!(until(&mut world, PATIENCE, is_silent), "before: {}", world.describe()),
        }
        world.crash();
        (0..2).filter(|end| self.past[*end]).for_each(|end| say(&mut world, end));
        let gone = if self.soon { 3 * DELAY } else { Duration::from_secs(4) };
        until(&mut world, gone, is_silent);
        world.restart(frame);
        assert_eq!(world.gateway.counters().flows_resumed, 1);
        until(&mut world, 10 * DELAY, |_| false);
        let sent = world.sent;
        until(&mut world, self.rest, |_| false);
        for end in [self.first, 1 - self.first] {
            say(&mut world, end);
            assert!(until(&mut world, PATIENCE, is_silent), "end {end} is not heard: {}", world.describe());
        }
        assert!(world.flows[0].apps.iter().all(|app| app.failure().is_none()), "{}", world.describe());
        assert_eq!(world.gateway.counters().flows_lost_in_crash, 0);
        sent
    }
}

/// An end has something to say.
fn say(world: &mut World, end: usize) {
    world.flows[0].apps[end].total += WORDS;
    world.settle();
}

/// Everything that was said was heard, and those who said it know.
fn is_silent(world: &World) -> bool {
    (0..2).all(|end| {
        let [near, far] = [end, 1 - end].map(|end| &world.flows[0].apps[end]);
        let knows = world.sender(0, end).is_some_and(|sender| sender.scoreboard().is_empty());
        near.written == near.total && far.read == near.total && knows
    })
}

/// Goes on until `done`, for this long at most; whether it came to that.
fn until(world: &mut World, most: Duration, done: impl Fn(&World) -> bool) -> bool {
    let end = world.now + most;
    while !done(world) {
        if world.now >= end {
            return false;
        }
        world.step(end);
    }
    true
}

#[test]
fn whichever_packet_is_lost_about_a_crash_both_ends_are_heard_afterwards() {
    let mut played = 0;
    for course in Course::all() {
        let sent = course.play(&[]);
        assert!((8..200).contains(&sent), "{sent} packets of {course:?}");
        for first in 1..=sent {
            for lost in [&[first][..], &[first, first + 1]] {
                let told = std::panic::catch_unwind(|| course.play(lost));
                assert!(told.is_ok(), "lost: {lost:?} of {sent} in {course:?}");
                played += 1;
            }
        }
    }
    println!("{played} courses");
}
