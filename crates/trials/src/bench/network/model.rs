//! Clients that look for relays and use them, event by event.
//!
//! What each keeps is the program's own [`Table`]; what each asks, `round` says; nodes answer by the program's own limits. Round trips do not vary; what a round finds is in
//! the table from its beginning on, with the time of its end; no session is measured, so that ways are chosen by what is expected of them before.
use super::choosing::Forecasts;
use super::costs::Costs;
use super::directory::DirectoryServer;
use super::outcome::{Came, Outcome};
use super::round::{Host, Hosts, Question, Relay, Round, Seen};
use super::scenario::{DirectoryKind, Scenario};
use super::world::{Draws, NodeId, Place, World, client_address, destination_of, target};
use shorthaul_planner::Policy;
use shorthaul_relay::NODE_ANSWERS;
use shorthaul_relay::discovery::{
    ASKED_WITHIN, ASSUMED_DISTANCE, Allowance, Cookies, DIRECTORY_AGE, DIRECTORY_REST, Facts, FinderConfig,
    Handshake, Key, Keyring, Limits, Retry, Selection, Sight, Table, TableConfig, is_worth_probing,
    waits_after, whom_to_ask, worth_waiting,
};
use shorthaul_relay::learning::{ASKING, NEWS};
use shorthaul_report::Progress;
use shorthaul_types::{Seed, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Of so many sessions one is held beside the best node of all.
const SAMPLED: u64 = 4000;

/// What a client's table has of a destination.
#[derive(Clone, Debug)]
pub struct Sighted {
    answered: bool,
    seen: Arc<[Seen]>,
}

impl Sight for Sighted {
    fn has_answered(&self) -> bool {
        self.answered
    }
}

/// A client.
#[derive(Debug, Default)]
struct Client {
    /// None as long as it is empty.
    table: Option<Box<Table<Sighted>>>,
    /// When it has been told a cookie last.
    cookie_at: Option<Time>,
    /// When the list was there that it has, and when it reads another one.
    list: Option<Time>,
    reads_at: Time,
    /// The thread that keeps the table fresh has something to do until then, and looks again at another time.
    busy_until: Time,
    wakes_at: Option<Time>,
    /// Where it is visiting, and sessions that are left of that.
    visit: (u32, u32),
    /// Tables that it had.
    tables: u32,
    /// Nodes that it found dead by connecting.
    dead: Vec<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A session begins.
    Session,
    /// The table may have something to refresh.
    Refresh,
}

/// The simulation of a scenario.
#[derive(Debug)]
pub struct Model<'a> {
    scenario: &'a Scenario,
    world: World,
    forecasts: Forecasts,
    hosts: Hosts,
    /// The node that a host's slot has now.
    lives: Vec<NodeId>,
    limits: Limits,
    directory: DirectoryServer,
    table: TableConfig,
    retry: Retry,
    selection: Selection,
    waits: bool,
    clients: Vec<Client>,
    events: BinaryHeap<Reverse<(Time, u32, Event)>>,
    draws: Draws,
    /// The node by which a client's latest session to a destination went.
    using: HashMap<(u32, u32), NodeId>,
    sessions: u64,
    begins: Time,
    ends: Time,
    outcome: Outcome,
}

/// What an allowance of a node is where each that asks stands for `thin`.
fn thinned(allowance: Allowance, thin: usize) -> Allowance {
    let thin = thin as f64;
    Allowance { per_second: allowance.per_second / thin, burst: (allowance.burst / thin).max(1.0) }
}

impl<'a> Model<'a> {
    /// Draws everything; nothing has happened yet.
    pub fn new(scenario: &'a Scenario, costs: &Costs) -> Model<'a> {
        let begins = Time::ZERO + scenario.settles;
        let ends = begins + scenario.time;
        let world = World::new(scenario, ends);
        let seed = Seed(scenario.seed);
        let usual = Limits::default();
        let thin = scenario.clients.thin;
        let limits = Limits {
            per_network: thinned(usual.per_network, thin),
            challenges: thinned(usual.challenges, thin),
            measurements: thinned(usual.measurements, thin),
            ways: (usual.ways / thin).max(1),
        };
        let host =
            |name: &str, number: usize| Host::new(Time::ZERO, limits, seed.derive(name).nth(number as u64));
        let hosts = Hosts {
            nodes: (0..world.slots()).map(|slot| host("node", slot)).collect(),
            destinations: (0..world.destinations())
                .map(|number| world.has_responder(number as u32).then(|| host("responder", number)))
                .collect(),
            loss: scenario.ways.loss,
            draws: Draws::new(seed.derive("loss")),
        };
        // What the program does unless it is told otherwise.
        let FinderConfig { table, retry, selection, .. } =
            FinderConfig::new(Keyring::single(Key::new([0; 32])));
        debug_assert!(selection.policy != Policy::Never, "clients use relays");
        let simulated = scenario.simulated();
        let mut draws = Draws::new(seed.derive("clients"));
        let clients: Vec<Client> = (0..simulated).map(|_| Client::default()).collect();
        let between = scenario.between_visits();
        let first = (0..simulated as u32).map(|client| {
            Reverse((
                Time::ZERO + Duration::from_secs_f64(draws.exponential(between)),
                client,
                Event::Session,
            ))
        });
        Model {
            forecasts: Forecasts::new(scenario.clients.size),
            lives: (0..world.slots()).map(|slot| world.listed(slot, Time::ZERO)).collect(),
            directory: DirectoryServer::new(scenario, costs),
            table,
            retry,
            waits: is_worth_probing(scenario.clients.size, &Facts::default(), selection.policy),
            selection,
            events: first.collect(),
            draws,
            using: HashMap::new(),
            sessions: 0,
            begins,
            ends,
            outcome: Outcome::new(scenario, &world),
            world,
            hosts,
            limits,
            clients,
            scenario,
        }
    }

    /// Everything until the end.
    pub fn run(mut self, progress: &Progress<'_>) -> Outcome {
        let whole = self.ends.as_nanos();
        let (mut told, mut counts) = (0, false);
        while let Some(Reverse((now, client, event))) = self.events.pop() {
            if now >= self.ends {
                break;
            }
            if !counts && now >= self.begins {
                counts = true;
                self.outcome.begin(&self.hosts, &self.clients.iter().map(table_size).collect::<Vec<_>>());
            }
            match event {
                Event::Session => self.on_session(now, client),
                Event::Refresh if self.clients[client as usize].wakes_at == Some(now) => {
                    self.clients[client as usize].wakes_at = None;
                    self.refresh(now, client);
                }
                // It was to wake at another time.
                Event::Refresh => {}
            }
            let parts =
                (u128::from(now.as_nanos()) * u128::from(shorthaul_report::PARTS) / u128::from(whole)) as u64;
            if parts > told {
                progress.advance(parts - told);
                told = parts;
            }
        }
        progress.advance(shorthaul_report::PARTS - told);
        let sizes: Vec<usize> = self.clients.iter().map(table_size).collect();
        self.outcome.end(&self.hosts, &sizes);
        self.outcome
    }

    fn counts(&self, now: Time) -> bool {
        now >= self.begins
    }

    fn schedule(&mut self, at: Time, client: u32, event: Event) {
        if at < self.ends {
            self.events.push(Reverse((at, client, event)));
        }
    }

    fn place(&self, client: u32) -> Place {
        self.world.client(client)
    }

    /// The next session of a visit, or the first of the next one.
    fn on_session(&mut self, now: Time, client: u32) {
        let clients = &self.scenario.clients;
        let (mut destination, mut left) = self.clients[client as usize].visit;
        if left == 0 {
            destination = self.world.draw_destination(self.draws.uniform());
            // Geometrically distributed, and one at least.
            let goes_on = 1.0 - 1.0 / clients.sessions;
            left = 1;
            while self.draws.happens(goes_on) {
                left += 1;
            }
            self.outcome.visits += u64::from(self.counts(now));
        }
        left -= 1;
        self.clients[client as usize].visit = (destination, left);
        let mean = if left > 0 { clients.gap.as_secs_f64() } else { self.scenario.between_visits() };
        let next = now + Duration::from_secs_f64(self.draws.exponential(mean));
        self.schedule(next, client, Event::Session);
        self.session(now, client, destination);
        self.wake(now, client);
    }

    fn table_of(&mut self, now: Time, client: u32) -> &mut Table<Sighted> {
        let (config, seed) = (self.table, Seed(self.scenario.seed).derive("table").nth(client.into()));
        let client = &mut self.clients[client as usize];
        let tables = &mut client.tables;
        client.table.get_or_insert_with(|| {
            *tables += 1;
            Box::new(Table::new(now, config, seed.nth((*tables).into())))
        })
    }

    /// When the thread that keeps the table fresh wakes next.
    fn wake(&mut self, now: Time, client: u32) {
        let known = &mut self.clients[client as usize];
        let next = known.table.as_ref().and_then(|table| table.poll_timeout());
        let Some(next) = next else {
            known.table = None;
            return;
        };
        let next = next.max(known.busy_until).max(now + Duration::from_nanos(1));
        if known.wakes_at.is_none_or(|before| next < before) {
            known.wakes_at = Some(next);
            self.schedule(next, client, Event::Refresh);
        }
    }

    fn refresh(&mut self, now: Time, client: u32) {
        self.refresh_due(now, client);
        self.wake(now, client);
    }

    /// The thread that keeps the table fresh looks at what is due.
    fn refresh_due(&mut self, now: Time, client: u32) {
        let known = &mut self.clients[client as usize];
        if known.busy_until > now {
            return;
        }
        let Some(due) = known.table.as_mut().and_then(|table| table.poll_refresh(now)) else { return };
        let (round, reading) = self.look(now, client, destination_of(due));
        self.clients[client as usize].busy_until = now + Duration::from_secs_f64(reading + round.took);
    }

    /// The list of relays that a client has, as of when; and how long it waited for that.
    fn list(&mut self, now: Time, client: u32) -> (Option<Time>, f64) {
        if self.scenario.bootstrap.directory == DirectoryKind::None {
            return (None, 0.0);
        }
        let known = &self.clients[client as usize];
        // One that is being read is not there yet, and read twice.
        let is_there = known.list.is_none_or(|list| list <= now);
        if is_there && now < known.reads_at {
            return (known.list, 0.0);
        }
        let reading = self.directory.read(now);
        let then = now + Duration::from_secs_f64(reading.took);
        let counts = self.counts(now);
        if counts {
            self.outcome.on_read(client, reading.read, reading.took);
        }
        let known = &mut self.clients[client as usize];
        if reading.read {
            (known.list, known.reads_at) = (Some(then), then + DIRECTORY_AGE);
            // What is written down is as of when it was asked for.
            (Some(now), reading.took)
        } else {
            // Better an old list than none; but it is asked again soon.
            known.reads_at = then + DIRECTORY_REST;
            (known.list, reading.took)
        }
    }

    /// The nodes that are asked in a round, of a list of some time.
    fn asked(&mut self, now: Time, client: u32, place: Place, destination: u32, list: Time) -> Vec<Relay> {
        let seen =
            self.clients[client as usize].table.as_ref().and_then(|table| table.seen(target(destination)));
        let beside = seen.iter().flat_map(|sighted| sighted.seen.iter()).filter(|seen| !seen.on_path);
        let world = &self.world;
        let slot = |seen: &Seen| {
            let slot = world.nodes[seen.node as usize].slot as usize;
            (world.listed(slot, list) == seen.node).then_some(slot)
        };
        let known: Vec<usize> = beside.filter_map(slot).collect();
        let draws = &mut self.draws;
        let asked = whom_to_ask(self.world.slots(), known, || draws.uniform());
        asked
            .into_iter()
            .map(|slot| self.relay(now, self.world.listed(slot, list), place, destination))
            .collect()
    }

    fn relay(&self, now: Time, node: NodeId, place: Place, destination: u32) -> Relay {
        Relay {
            node,
            slot: self.world.nodes[node as usize].slot,
            is_alive: self.world.is_alive(node, now),
            near: self.world.near(place, node),
            far: self.world.far(node, destination),
        }
    }

    /// Whoever has a slot now has limits of its own.
    fn revive(&mut self, relays: &[Relay], now: Time) {
        for relay in relays {
            let slot = relay.slot as usize;
            if relay.is_alive && self.lives[slot] != relay.node {
                self.lives[slot] = relay.node;
                let seed = Seed(self.scenario.seed).derive("replaced").nth(u64::from(relay.node));
                self.hosts.nodes[slot].replace(now, self.limits, seed);
            }
        }
    }

    /// Looks at the way to a destination once, as `Finder::look` does, and keeps what is seen; the round, and how long the directory took before.
    fn look(&mut self, now: Time, client: u32, destination: u32) -> (Round, f64) {
        let place = self.place(client);
        let whole = self.world.whole(place, destination);
        let source = client_address(client, self.scenario.clients.per_network);
        let (list, reading) = self.list(now, client);
        let asked_at = now + Duration::from_secs_f64(reading);
        let relays = list.map(|list| self.asked(now, client, place, destination, list)).unwrap_or_default();
        let on_way: Vec<Relay> = self
            .world
            .on_way(client, destination)
            .map(|(slot, part)| {
                let node = self.world.listed(slot, now);
                let near = part * whole;
                Relay { near, far: whole - near, ..self.relay(now, node, place, destination) }
            })
            .collect();
        self.revive(&relays, now);
        self.revive(&on_way, now);
        let is_current = |at: Time| {
            let [at, now] = [at, now].map(|time| Duration::from_nanos(time.as_nanos()));
            Cookies::is_current(at, now)
        };
        let cookie = self.clients[client as usize].cookie_at.is_some_and(is_current);
        let to = target(destination);
        let responder = self.table_of(now, client).has_responder(now, to);
        let mut round = Round { distance_at: f64::INFINITY, ..Round::default() };
        // Without a responder and without relays there is nobody to ask.
        if responder != Some(false) || !relays.is_empty() {
            let question = Question {
                now,
                source,
                destination,
                whole,
                asks_destination: responder != Some(false),
                handshake: match responder {
                    Some(true) => Handshake::IfSilent,
                    Some(false) | None => Handshake::AtOnce,
                },
                on_way: if responder == Some(false) { &[] } else { &on_way },
                relays: &relays,
                retry: self.retry,
            };
            round = self.hosts.round(&question, cookie);
            self.told(now, client, &round);
            if question.asks_destination && round.answered {
                self.table_of(now, client).learn_responder(now, to, round.by_responder);
            }
        }
        if self.counts(now) {
            self.outcome.looks += 1;
        }
        self.keep(asked_at + Duration::from_secs_f64(round.took), client, destination, &round);
        (round, reading)
    }

    /// A round is over.
    fn told(&mut self, now: Time, client: u32, round: &Round) {
        if round.cookie && round.answers > 0 {
            self.clients[client as usize].cookie_at = Some(now);
        }
        if self.counts(now) {
            self.outcome.on_round(client, round);
        }
    }

    fn keep(&mut self, at: Time, client: u32, destination: u32, round: &Round) {
        if round.answered
            && let Some(node) = self.using.get(&(client, destination)).copied()
            && !self.world.is_alive(node, at)
            && !round.seen.iter().any(|seen| seen.node == node)
        {
            self.using.remove(&(client, destination));
            // What was forgotten meanwhile was avoided before.
            let table = self.clients[client as usize].table.as_ref();
            let before = table.and_then(|table| table.seen(target(destination)));
            if before.is_some_and(|before| before.seen.iter().any(|seen| seen.node == node)) {
                self.avoids(at, node);
            }
        }
        let sighted = Sighted { answered: round.answered, seen: round.seen.as_slice().into() };
        self.table_of(at, client).store(at, target(destination), sighted);
    }

    /// A client that used a node sends nothing there any more.
    fn avoids(&mut self, at: Time, node: NodeId) {
        let dies = self.world.nodes[node as usize].dies;
        if self.counts(dies) {
            self.outcome.avoided.push(at.saturating_since(dies).as_secs_f64() as f32);
        }
    }

    /// A session begins, by the way that the client's code chooses.
    fn session(&mut self, now: Time, client: u32, destination: u32) {
        let to = target(destination);
        let whole = self.world.whole(self.place(client), destination);
        let waits = self.waits;
        let table = self.table_of(now, client);
        let (cached, silent) = (table.look_up(now, to), table.is_silent(now, to));
        let looks = cached.is_none() && !silent && waits;
        if looks {
            table.begins(now, to);
        }
        // Whoever keeps the table fresh is woken by that, and looks at what is due.
        self.refresh_due(now, client);
        let mut gave_up = false;
        let (view, age, mut waited) = match cached {
            Some(cached) => (Some(cached.view), cached.age, 0.0),
            None if !looks => (None, Duration::ZERO, 0.0),
            None => {
                let (round, reading) = self.look(now, client, destination);
                let whole_look = reading + round.took;
                let patience = self.patience(whole, reading + round.distance_at);
                let waited = whole_look.min(patience);
                if self.counts(now) {
                    self.outcome.on_wait(waited, reading.min(waited));
                }
                gave_up = whole_look > patience;
                let answered = reading + round.distance_at <= waited;
                let seen: Arc<[Seen]> = round.seen_by(waited - reading).copied().collect();
                (Some(Sighted { answered, seen }), Duration::ZERO, waited)
            }
        };
        let view = view.filter(|view| view.answered);
        let begins = now + Duration::from_secs_f64(waited);
        let (taken, mut came) = self.choose(begins, client, whole, view.as_ref(), age, &mut waited);
        if gave_up && matches!(came, Came::Unknown | Came::NoneAnswered | Came::WayUnknown) {
            came = Came::GaveUp;
        }
        self.sessions += 1;
        if let Some(seen) = taken {
            self.using.insert((client, destination), seen.node);
        } else {
            self.using.remove(&(client, destination));
        }
        if !self.counts(now) {
            return;
        }
        let direct = self.forecasts.direct(whole);
        let seconds = taken.map_or(direct, |seen| self.by(&seen));
        let lasts = Duration::from_secs_f64(waited + seconds);
        let breaks = taken.is_some_and(|seen| !self.world.is_alive(seen.node, now + lasts));
        self.outcome.on_session(&self.world, taken.map(|seen| seen.node), came, waited, breaks);
        if self.sessions.is_multiple_of(SAMPLED / self.scenario.clients.thin.min(400) as u64) {
            let best = self.best(now, client, destination).min(direct);
            self.outcome.on_sample(seconds, direct, best, self.forecasts.pays(best, direct));
        }
    }

    /// Seconds that a session waits until nodes were looked for, where it is known after `told_at` that the destination is `whole` away.
    fn patience(&self, whole: f64, told_at: f64) -> f64 {
        let worth = |whole: Duration| {
            worth_waiting(self.scenario.clients.size, whole, &Facts::default(), self.selection.policy)
        };
        let unknown = worth(ASSUMED_DISTANCE).as_secs_f64();
        if told_at >= unknown {
            return unknown;
        }
        let whole = Duration::from_secs_f64(whole);
        waits_after(worth(whole), whole, Duration::from_secs_f64(told_at)).as_secs_f64().max(told_at)
    }

    fn by(&self, seen: &Seen) -> f64 {
        self.forecasts.by(seen.near.into(), seen.far.unwrap_or(0.0).into())
    }

    /// Seconds by the best node of all that live.
    fn best(&self, now: Time, client: u32, destination: u32) -> f64 {
        let place = self.place(client);
        let nodes = (0..self.world.slots())
            .map(|slot| self.world.listed(slot, now))
            .filter(|node| self.world.is_alive(*node, now));
        let seconds = nodes
            .map(|node| self.forecasts.by(self.world.near(place, node), self.world.far(node, destination)));
        seconds.fold(f64::INFINITY, f64::min)
    }

    /// The node that a session goes by, if any, and why; `waited` grows by what that took.
    fn choose(
        &mut self,
        now: Time,
        client: u32,
        whole: f64,
        view: Option<&Sighted>,
        age: Duration,
        waited: &mut f64,
    ) -> (Option<Seen>, Came) {
        let Some(view) = view else { return (None, Came::Unknown) };
        let mut usable: Vec<(f64, Seen)> =
            view.seen.iter().filter(|seen| seen.far.is_some()).map(|seen| (self.by(seen), *seen)).collect();
        if usable.is_empty() {
            return (None, if view.seen.is_empty() { Came::NoneAnswered } else { Came::WayUnknown });
        }
        usable.sort_by(|a, b| a.0.total_cmp(&b.0));
        let direct = self.forecasts.direct(whole);
        let best = usable[0].0;
        if !self.forecasts.pays(best, direct) {
            return (None, Came::NotWorthIt);
        }
        // Of those that are about as good, two are compared, and asked if what they told is old and asking takes no time.
        let alike = usable.partition_point(|(seconds, _)| Forecasts::is_alike(*seconds, best));
        let mut order: Vec<(f64, Seen)> = usable.clone();
        if alike > 1 {
            let first = (self.draws.uniform() * alike as f64) as usize;
            let second = (self.draws.uniform() * (alike - 1) as f64) as usize;
            let second = second + usize::from(second >= first);
            let drawn = [usable[first], usable[second]];
            let farthest = f64::from(drawn[0].1.near.max(drawn[1].1.near));
            if age > NEWS && farthest * ASKING <= drawn[0].0.max(best) {
                let answer: Vec<bool> =
                    drawn.iter().map(|(_, seen)| self.ask_load(now, client, seen)).collect();
                let patience = 2.0 * farthest + ASKED_WITHIN.as_secs_f64();
                *waited += if answer.iter().all(|answered| *answered) { farthest } else { patience };
                // Who does not answer is the last to be tried.
                let silent = |seen: &Seen| {
                    drawn.iter().zip(&answer).any(|((_, one), answered)| one.node == seen.node && !answered)
                };
                let asked = |seen: &Seen| drawn.iter().any(|(_, one)| one.node == seen.node);
                order.sort_by_key(|(_, seen)| (silent(seen), !asked(seen)));
            } else {
                let at = order.iter().position(|(_, seen)| seen.node == drawn[0].1.node).unwrap_or(0);
                order[..=at].rotate_right(1);
            }
        }
        let mut is_hurt = false;
        for (seconds, seen) in order {
            if !self.forecasts.pays(seconds, direct) {
                break;
            }
            if self.world.is_alive(seen.node, now) {
                return (Some(seen), if is_hurt { Came::AfterDead } else { Came::ByNode });
            }
            // One that it has found dead before refuses at once.
            if !self.clients[client as usize].dead.contains(&seen.node) {
                is_hurt = true;
                *waited += NODE_ANSWERS.as_secs_f64();
                let then = now + Duration::from_secs_f64(*waited);
                self.clients[client as usize].dead.push(seen.node);
                let mine: Vec<(u32, u32)> = self.uses(client, seen.node).collect();
                for one in mine {
                    self.using.remove(&one);
                    self.avoids(then, seen.node);
                }
            }
        }
        (None, if is_hurt { Came::AfterDead } else { Came::NotWorthIt })
    }

    /// Where a client's sessions go by a node: the destination of its visit.
    fn uses(&self, client: u32, node: NodeId) -> impl Iterator<Item = (u32, u32)> + use<> {
        let one = (client, self.clients[client as usize].visit.0);
        let uses = self.using.get(&one).is_some_and(|used| *used == node);
        uses.then_some(one).into_iter()
    }

    /// Asks a node how it is; whether it answers.
    fn ask_load(&mut self, now: Time, client: u32, seen: &Seen) -> bool {
        let relay = Relay {
            node: seen.node,
            slot: self.world.nodes[seen.node as usize].slot,
            is_alive: self.world.is_alive(seen.node, now),
            near: seen.near.into(),
            far: 0.0,
        };
        let source = client_address(client, self.scenario.clients.per_network);
        let round = self.hosts.ask_load(now, source, &relay);
        self.told(now, client, &round);
        round.answers > 0
    }
}

/// Destinations in a client's table.
fn table_size(client: &Client) -> usize {
    client.table.as_ref().map_or(0, |table| table.len())
}
