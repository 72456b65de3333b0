use std::time::Duration;

use shorthaul_planner::{Forecast, Leg, Path, PlanError, Policy, Relay, Transfer, model};
use shorthaul_types::{BitRate, Bytes};

use super::chain::{Chain, Task};
use super::message::{Onward, Service};
use super::prober::Found;

/// What a connection's window is taken for unless loss and rate are known: with the same one on all ways, round trips decide, as in the paper's rank. What
/// sockets may have (`tcp_rmem`, `tcp_wmem`) is no measure of it: that is some megabytes, and losses keep windows far below. With 256 KiB Reno would be at
/// a loss of 0.005 %.
const ASSUMED_WINDOW: Bytes = Bytes(256 << 10);
/// A rate that does not bind, with the assumed window, on ways of more than 2 ms.
const ASSUMED_RATE: BitRate = BitRate::from_bits_per_sec(1_000_000_000);
/// The window that a relay's buffer is to hold for the paper's rank: what TCP has without window scaling.
const RANK_WINDOW: f64 = 65_535.0;
/// No leg is shorter: what two hosts beside each other have.
const SHORTEST: Duration = Duration::from_micros(50);
/// Round trips below this are alike: what processors, and who else wants them, make of them is as long. A relay between them gains nothing
/// that could be told from chance.
const ALIKE: Duration = Duration::from_millis(1);

/// What is known of a way beside its round-trip time.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The probability that the whole direct way loses a packet.
    pub loss: Option<f64>,
    /// The rate of its narrowest link.
    pub rate: Option<BitRate>,
    /// The most that the ends let be in flight, if that is known to bind.
    pub window: Option<Bytes>,
    /// The planner's model of the ends' TCP: `reno`, `cubic`, ...
    pub model: String,
}

impl Default for Facts {
    fn default() -> Self {
        Facts { loss: None, rate: None, window: None, model: "cubic".into() }
    }
}

impl Facts {
    /// Whether enough is known for forecasts that mean something.
    pub const fn are_known(&self) -> bool {
        self.loss.is_some() && self.rate.is_some()
    }

    /// The leg of this round trip, where the direct way has `whole`. Loss grows with the distance, as equation 8 of
    /// *Cascaded TCP* has it.
    pub(crate) fn leg(&self, rtt: Duration, whole: Duration) -> Leg {
        let (rtt, whole) = (rtt.max(ALIKE), whole.max(ALIKE));
        let share = rtt.as_secs_f64() / whole.as_secs_f64();
        let loss = (self.loss.unwrap_or(0.0) * share).min(0.5);
        let assumed = (!self.are_known()).then_some(ASSUMED_WINDOW);
        Leg {
            window_limit: self.window.or(assumed),
            ..Leg::new(rtt, loss, self.rate.unwrap_or(ASSUMED_RATE))
        }
    }
}

/// What discovery knows of the way to a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The direct round-trip time; `None` if nobody answered.
    pub rtt: Option<Duration>,
    /// Relays that answered.
    pub relays: Vec<Found>,
}

/// A relay, and what it is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The relay.
    pub found: Found,
    /// The round-trip time from here to it.
    pub near: Duration,
    /// The round-trip time from it to the destination.
    pub far: Duration,
    /// The paper's rank, see [`rank`]: higher is better, the direct way has 1.
    pub rank: f64,
    /// What the planner expects of a session through it: of little meaning unless the [`Facts`] are known.
    pub forecast: Forecast,
}

/// When relays are used, and how many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selection {
    /// Whether a relay is used: if it makes the transfer faster by as much as this asks.
    pub policy: Policy,
    /// Relays that one session may pass, at most. More than one are used where forecasts mean something, and if they are all on
    /// the way.
    pub relays: usize,
}

impl Default for Selection {
    /// A gain of 1.1, and up to three relays.
    fn default() -> Self {
        Selection { policy: Policy::default(), relays: 3 }
    }
}

/// The relays for one transfer, best first, and which to use.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// The direct round-trip time.
    pub rtt: Duration,
    /// What the planner expects of the direct way, split by the gateways on it.
    pub direct: Forecast,
    /// The relays that can be used, best first.
    pub relays: Vec<Ranked>,
    /// Whether forecasts decided about the order, or else the paper's rank.
    pub by_forecast: bool,
    chosen: Vec<Found>,
    expected: Forecast,
    why: String,
}

/// Why there is no ranking.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankingError {
    /// The destination did not answer.
    #[error("the destination did not answer, so that no distance is known")]
    NoDistance,
    /// The planner's models are not defined for this.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// The rank of section 4 of the paper: "higher the value of the rank expression, better is the suitability". The paper
/// names what goes into it and no formula. Ours is the gain where windows bind, since throughput is a window per round trip
/// of the slower leg:
///
/// `rtt_total / max(rtt1, rtt2 + Ts) · min(1, Cmax / 64 KiB)`
///
/// For nodes on the way, with `max(rtt1, rtt2) = (rtt_total + |rtt1 − rtt2|) / 2`, the least difference ranks highest.
pub fn rank(whole: Duration, near: Duration, far: Duration, found: &Found) -> f64 {
    let (whole, slower) = (whole.max(ALIKE), near.max(far + found.offer.service_time).max(ALIKE));
    let room = (found.offer.buffer as f64 / RANK_WINDOW).min(1.0);
    whole.as_secs_f64() / slower.as_secs_f64() * room
}

impl Ranking {
    /// Ranks what was found for a transfer.
    ///
    /// # Errors
    /// The destination's distance is not known, or the facts make no sense.
    pub fn new(
        view: &View,
        facts: &Facts,
        transfer: &Transfer,
        selection: Selection,
    ) -> Result<Self, RankingError> {
        let whole = view.rtt.ok_or(RankingError::NoDistance)?.max(SHORTEST);
        let model = model::by_name(&facts.model)?;
        let task = Task { whole, facts, model: &*model, transfer };
        let mut gateways: Vec<&Found> =
            view.relays.iter().filter(|found| found.offer.service == Service::Transparent).collect();
        gateways.sort_by_key(|found| found.rtt);
        let direct = direct(whole, &gateways, facts).forecast(&*model, transfer)?;
        let mut relays = Vec::new();
        for found in view.relays.iter().filter(|found| found.offer.service == Service::Sessions) {
            if let Some(far) = way_on(found, whole) {
                let near = found.rtt.max(SHORTEST);
                let forecast = task.forecast(&[near, far], &[found])?;
                relays.push(Ranked {
                    found: *found,
                    near,
                    far,
                    rank: rank(whole, near, far, found),
                    forecast,
                });
            }
        }
        let by_forecast = facts.are_known();
        // Those that are alike always have the same order.
        relays.sort_by_key(|ranked| ranked.found.offer.session);
        if by_forecast {
            relays.sort_by_key(|ranked| ranked.forecast.time.expected);
        } else {
            relays.sort_by(|a, b| b.rank.total_cmp(&a.rank));
        }
        let single =
            relays.first().map(|best| Chain { relays: vec![best.found], forecast: best.forecast.clone() });
        let best = match &single {
            Some(single) if by_forecast && selection.relays > 1 => {
                let chain = task.best_chain(&view.relays, selection.relays, single.forecast.time.expected)?;
                chain.or_else(|| Some(single.clone()))
            }
            _ => single,
        };
        let (uses, why) = choose(&direct, best.as_ref(), selection.policy, by_forecast);
        let (chosen, expected) = match best.filter(|_| uses) {
            Some(chain) => (chain.relays, chain.forecast),
            None => (Vec::new(), direct.clone()),
        };
        Ok(Ranking { rtt: whole, direct, relays, by_forecast, chosen, expected, why })
    }

    /// The relays to pass, in order; none to go direct.
    pub fn chosen(&self) -> &[Found] {
        &self.chosen
    }

    /// What the planner expects of the chosen way.
    pub fn expected(&self) -> &Forecast {
        &self.expected
    }

    /// How many times as fast as the direct way a forecast is.
    pub fn gain(&self, forecast: &Forecast) -> f64 {
        gain(&self.direct, forecast)
    }

    /// The reason for the choice, as a sentence.
    pub fn why(&self) -> &str {
        &self.why
    }
}

fn gain(direct: &Forecast, relayed: &Forecast) -> f64 {
    direct.time.expected.as_secs_f64() / relayed.time.expected.as_secs_f64().max(1e-9)
}

fn choose(direct: &Forecast, best: Option<&Chain>, policy: Policy, known: bool) -> (bool, String) {
    let Some(best) = best else { return (false, "no relay answered: go direct".into()) };
    let names: Vec<String> = best.relays.iter().map(name).collect();
    let names = names.join(" and ");
    let gain = gain(direct, &best.forecast);
    let least = match policy {
        Policy::Always => return (true, format!("relays are always to be used: {names}")),
        Policy::Never => return (false, "relays are never to be used: go direct".into()),
        Policy::Gain(least) => least,
    };
    let basis = if known { "" } else { ", if windows bind" };
    let size = direct.size;
    if gain >= least {
        (true, format!("{size} by way of {names} is {gain:.2} times as fast as direct{basis}"))
    } else {
        (false, format!("go direct: {size} by way of {names} would be {gain:.2} times as fast{basis}"))
    }
}

/// What people call a relay.
fn name(found: &Found) -> String {
    match found.offer.name.as_str() {
        "" => found.offer.session.to_string(),
        name => name.to_owned(),
    }
}

/// The direct way is as many connections as gateways make of it.
fn direct(whole: Duration, gateways: &[&Found], facts: &Facts) -> Path {
    let mut legs = Vec::new();
    let mut so_far = Duration::ZERO;
    for found in gateways {
        let at = found.rtt.clamp(so_far, whole);
        legs.push(facts.leg(at - so_far, whole));
        so_far = at;
    }
    legs.push(facts.leg(whole - so_far, whole));
    let buffer = |found: &&Found| Relay { buffer: Some(Bytes(found.offer.buffer)) };
    Path { relays: gateways.iter().map(buffer).collect(), legs }
}

/// The round-trip time from a relay to the destination.
fn way_on(found: &Found, whole: Duration) -> Option<Duration> {
    match found.offer.onward {
        Onward::RoundTrip(rtt) => Some(rtt.max(SHORTEST)),
        Onward::Unreachable => None,
        Onward::Unknown if found.on_path => Some(whole.saturating_sub(found.rtt).max(SHORTEST)),
        Onward::Unknown => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::discovery::message::{Name, Offer};

    const MS: Duration = Duration::from_millis(1);
    const ONE: Selection = Selection { policy: Policy::Gain(1.1), relays: 1 };

    fn found(n: u8, rtt_ms: u64) -> Found {
        let offer = Offer {
            session: ([10, 0, 0, n], 7001).into(),
            service_time: Duration::from_micros(100),
            buffer: 1_024_000,
            sessions: 0,
            capacity: None,
            onward: Onward::Unknown,
            name: Name::new(&format!("n{n}")),
            service: Service::Sessions,
        };
        Found { offer, rtt: Duration::from_millis(rtt_ms), hops: Some(n), on_path: true }
    }

    fn view(relays: &[Found]) -> View {
        View { rtt: Some(80 * MS), relays: relays.to_vec() }
    }

    /// Figure 5 of the paper: windows of 20 packets on links of 10 Mbit/s.
    pub(crate) fn figure_5() -> Facts {
        Facts {
            loss: Some(0.0),
            rate: Some(BitRate::from_bits_per_sec(10_000_000)),
            window: Some(Bytes(20_000)),
            model: "reno".into(),
        }
    }

    fn ranking(view: &View, facts: &Facts, size: u64) -> Ranking {
        Ranking::new(view, facts, &Transfer::new(Bytes(size)), ONE).unwrap()
    }

    fn order(ranking: &Ranking) -> Vec<String> {
        ranking.relays.iter().map(|ranked| name(&ranked.found)).collect()
    }

    #[test]
    fn the_middle_is_best_by_rank_and_by_forecast() {
        let path: Vec<Found> = (1..8).map(|n| found(n, 10 * u64::from(n))).collect();
        for facts in [Facts::default(), figure_5()] {
            let ranking = ranking(&view(&path), &facts, 3_000_000);
            assert_eq!(ranking.by_forecast, facts.are_known());
            let order = order(&ranking);
            assert_eq!(order[0], "n4", "{order:?}");
            assert!(order[1..3].contains(&"n3".into()) && order[1..3].contains(&"n5".into()), "{order:?}");
            assert!(order[5..].contains(&"n1".into()) && order[5..].contains(&"n7".into()), "{order:?}");
            assert_eq!(ranking.chosen(), [path[3]], "the middle pays");
            // Where the window binds from the first round trip on, it is counted half as often.
            let gain = ranking.gain(ranking.expected());
            assert!(if facts.are_known() { (1.8..2.05).contains(&gain) } else { gain > 1.3 }, "{gain}");
            let rank = ranking.relays[0].rank;
            assert!((rank - 80.0 / 40.1).abs() < 0.01, "{rank}");
        }
    }

    #[test]
    fn a_slow_or_cramped_node_in_the_middle_is_passed_over() {
        let mut slow = found(4, 40);
        slow.offer.service_time = Duration::from_millis(20);
        let mut cramped = found(5, 41);
        cramped.offer.buffer = 4_000;
        for facts in [Facts::default(), figure_5()] {
            let ranking = ranking(&view(&[slow, cramped, found(3, 30)]), &facts, 3_000_000);
            assert_eq!(order(&ranking)[0], "n3", "{ranking:?}");
        }
    }

    #[test]
    fn short_transfers_go_direct() {
        let middle = view(&[found(4, 40)]);
        for facts in [Facts::default(), figure_5()] {
            assert!(ranking(&middle, &facts, 5_000).chosen().is_empty());
            assert!(ranking(&middle, &facts, 5_000_000).chosen().len() == 1);
        }
    }

    #[test]
    fn before_anything_is_known_round_trips_decide() {
        let facts = Facts::default();
        let gain = |at| {
            let ranking = ranking(&view(&[found(4, at)]), &facts, 1_000_000_000);
            ranking.gain(&ranking.relays[0].forecast)
        };
        // Of 80 ms, the slower leg has 40 or 60.
        assert!(
            (gain(40) - 2.0).abs() < 0.02 && (gain(60) - 80.0 / 60.0).abs() < 0.02,
            "{} {}",
            gain(40),
            gain(60)
        );
    }

    #[test]
    fn a_full_link_goes_direct() {
        let facts = Facts { window: None, ..figure_5() };
        let ranking = ranking(&view(&[found(4, 40)]), &facts, 100_000_000);
        assert!(ranking.chosen().is_empty() && ranking.why().starts_with("go direct"), "{}", ranking.why());
    }

    #[test]
    fn beside_the_way_both_legs_are_their_own() {
        let beside = |n, onward| {
            let mut found = Found { on_path: false, hops: None, ..found(n, 30) };
            found.offer.onward = onward;
            found
        };
        let relays = [
            beside(1, Onward::RoundTrip(60 * MS)),
            beside(2, Onward::RoundTrip(200 * MS)),
            beside(3, Onward::Unknown),
            beside(4, Onward::Unreachable),
        ];
        let ranking = ranking(&view(&relays), &figure_5(), 3_000_000);
        assert_eq!(order(&ranking), ["n1", "n2"], "those of unknown legs cannot be ranked");
        assert_eq!((ranking.relays[0].near, ranking.relays[0].far), (30 * MS, 60 * MS));
        assert!(ranking.relays[1].rank < 1.0 && ranking.gain(&ranking.relays[1].forecast) < 1.0);
    }

    #[test]
    fn a_gateway_on_the_way_speeds_up_the_direct_way() {
        let mut gateway = found(4, 40);
        gateway.offer.service = Service::Transparent;
        let split = ranking(&view(&[gateway, found(3, 30)]), &figure_5(), 3_000_000);
        let plain = ranking(&view(&[found(3, 30)]), &figure_5(), 3_000_000);
        assert!(split.direct.time.expected < plain.direct.time.expected.mul_f64(0.6));
        assert!(split.chosen().is_empty() && plain.chosen().len() == 1);
        assert_eq!(order(&split), ["n3"]);
    }

    #[test]
    fn a_chain_is_used_where_each_of_its_relays_is_worth_it() {
        let path: Vec<Found> = (1..16).map(|n| found(n, 5 * u64::from(n))).collect();
        let lossy = Facts { loss: Some(0.01), window: None, ..figure_5() };
        let choose = |facts: &Facts, relays| {
            let selection = Selection { policy: Policy::default(), relays };
            let transfer = Transfer::new(Bytes(50_000_000));
            let ranking = Ranking::new(&view(&path), facts, &transfer, selection).unwrap();
            let at: Vec<u128> = ranking.chosen().iter().map(|found| found.rtt.as_millis()).collect();
            (at, ranking.gain(ranking.expected()))
        };
        let (one, gain_of_one) = choose(&lossy, 1);
        let (three, gain_of_three) = choose(&lossy, 3);
        assert_eq!((one.len(), three.len()), (1, 3), "{one:?} {three:?}");
        assert!(gain_of_three > 1.3 * gain_of_one, "{gain_of_one} and {gain_of_three}");
        // At about equal distances: 20, 40, 60 of 80 ms.
        assert!(three.iter().zip([20, 40, 60]).all(|(at, ideal)| at.abs_diff(ideal) <= 5), "{three:?}");
        // Where one fills the link, a second is left out.
        let nearly_full = Facts { loss: Some(0.001), window: None, ..figure_5() };
        assert_eq!(choose(&nearly_full, 3).0.len(), 1);
        // Without facts, the paper's single node.
        assert_eq!(choose(&Facts::default(), 3).0.len(), 1);
    }

    #[test]
    fn between_neighbours_chance_decides_nothing() {
        let micros = Duration::from_micros;
        let at = |n: u8, near, far| {
            let mut found = Found { rtt: micros(near), ..found(n, 1) };
            found.offer.onward = Onward::RoundTrip(micros(far));
            found.offer.service_time = Duration::ZERO;
            found
        };
        // As seen on one host, one time after the other.
        let seen =
            [(134, [(293, 95), (436, 201)]), (272, [(227, 95), (179, 201)]), (229, [(98, 95), (76, 201)])];
        for facts in [Facts::default(), Facts { loss: Some(0.01), window: None, ..figure_5() }] {
            for (whole, [a, b]) in seen {
                let view = View { rtt: Some(micros(whole)), relays: vec![at(2, b.0, b.1), at(1, a.0, a.1)] };
                let ranking = ranking(&view, &facts, 10_000_000);
                assert_eq!(order(&ranking), ["n1", "n2"], "{ranking:?}");
                assert_eq!(ranking.relays[0].rank, 1.0, "{ranking:?}");
                assert!(ranking.chosen().is_empty(), "{ranking:?}");
                assert_eq!(
                    (ranking.rtt, ranking.relays[0].near),
                    (micros(whole), micros(a.0)),
                    "as measured"
                );
            }
        }
    }

    #[test]
    fn without_the_destinations_distance_nothing_is_ranked() {
        let silent = View { rtt: None, relays: vec![found(4, 40)] };
        let error = Ranking::new(&silent, &Facts::default(), &Transfer::new(Bytes(1)), ONE);
        assert_eq!(error, Err(RankingError::NoDistance));
    }
}
