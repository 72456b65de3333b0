//! By the map of paths: what simulations of others say, a transparent gateway among the ways.
use anyhow::Result;
use shorthaul_planner::map::{Ends, Map, MapPoint, MapTime, Way};
use shorthaul_report::{Column, Table, TableCell, Terminal, Tone, Unit};
use shorthaul_types::{Bytes, format_duration};
use std::time::Duration;

use super::{Args, RelayRange};
use crate::ending::asked;

/// The name under which `--model` takes it.
pub const NAME: &str = "map";

/// What only the map asks.
#[derive(clap::Args)]
pub struct MapArgs {
    /// With --model map: the congestion control of both ends
    #[arg(long, value_name = "NAME", default_value = "cubic", value_parser = Ends::ALL.map(|(name, _)| name))]
    ends: String,

    /// With --model map: the share of the round trip, 0.02 to 0.5, that lies between the client and the far end of the bad link.
    /// The gateway, or the first relay, stands there
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    bad_link: f64,

    /// With --model map: how long a burst of losses lasts, in packets at the link's rate; 1 for losses that know nothing of each other
    #[arg(long, value_name = "PACKETS", default_value_t = 1.0)]
    burst: f64,
}

/// Asks the map, and prints what it says.
pub fn run(args: &Args) -> Result<()> {
    if args.sites.is_some() || args.scenario.is_some() {
        return Err(
            asked!("the map knows single paths: --rtt, --loss, --rate and --size describe one").into()
        );
    }
    if args.out.is_some() {
        return Err(asked!("the map has no figure: leave out --out; --json prints its numbers").into());
    }
    if args.streams != 1
        || args.store
        || args.wait > 0
        || args.sequential
        || args.window.is_some()
        || args.buffer.is_some()
    {
        let unknown = "--streams, --window, --buffer, --wait, --store and --sequential";
        return Err(asked!(
            "the map was not made with {unknown}: leave them out, or take a model of closed forms"
        )
        .into());
    }
    let ways = ways(args.relays)?;
    let (leg, transfer) = (args.leg()?, args.transfer()?);
    let ends =
        Ends::ALL.iter().find(|(name, _)| *name == args.map.ends).map_or(Ends::Cubic, |(_, ends)| *ends);
    let point = MapPoint {
        rate: leg.capacity.bits_per_sec() as f64,
        rtt: leg.rtt.as_secs_f64(),
        loss: leg.loss,
        burst: args.map.burst,
        queue: leg.queue_bdp,
        ends,
        position: args.map.bad_link,
        size: transfer.size.0 as f64,
    };
    let map = Map::built_in()?;
    let (best, times) = map.best_of(&point, &ways, args.min_gain)?;
    if args.json {
        println!("{:#}", json(map, best, &ways, &times, args.min_gain));
        return Ok(());
    }
    println!(
        "{} over {}, round trip {}; both ends {}; by the map: {} simulated paths, half of its times within {:.1} % of the simulator's.\n",
        transfer.size,
        leg.capacity,
        format_duration(leg.rtt),
        args.map.ends,
        map.points,
        100.0 * map.median_error,
    );
    print!("{}", table(best, &ways, &times, transfer.size).render(Terminal::stdout()));
    println!("\n{}", sentence(best, &times, args.min_gain));
    Ok(())
}

/// The ways with as many relays as are thought of; a gateway is none.
fn ways(relays: RelayRange) -> Result<Vec<Way>> {
    let relays_of = |way: Way| match way {
        Way::Direct | Way::Gateway => 0,
        Way::Relay => 1,
        Way::TwoRelays => 2,
    };
    let ways: Vec<_> =
        Way::ALL.into_iter().filter(|way| (relays.least..=relays.most).contains(&relays_of(*way))).collect();
    if ways.is_empty() {
        return Err(asked!(
            "--relays: the map knows ways with up to two relays, and none with {} or more",
            relays.least
        )
        .into());
    }
    Ok(ways)
}

fn table(best: Way, ways: &[Way], times: &[MapTime], size: Bytes) -> Table {
    let mut table = Table::new([
        Column::left("way"),
        Column::right("time"),
        Column::right("95 % of cases"),
        Column::right("throughput"),
        Column::right("gain"),
    ]);
    let time = |seconds: f64| format_duration(Duration::from_secs_f64(seconds));
    for way in ways {
        let told = times[*way as usize];
        let tone = if *way == best { Tone::Strong } else { Tone::Plain };
        let [low, high] = told.interval;
        table.row([
            TableCell::toned(way.name(), tone),
            TableCell::toned(time(told.seconds), tone),
            TableCell::toned(format!("{} to {}", time(low), time(high)), Tone::Quiet),
            Unit::BitsPerSecond.format(size.0 as f64 * 8.0 / told.seconds).into(),
            format!("{:.2} ×", times[0].seconds / told.seconds).into(),
        ]);
    }
    table
}

fn sentence(best: Way, times: &[MapTime], least_gain: f64) -> String {
    let gain = times[0].seconds / times[best as usize].seconds;
    match best {
        Way::Direct if least_gain <= 1.0 => "Go direct: none of these ways is faster.".into(),
        Way::Direct => format!("Go direct: none of these ways is {least_gain} times as fast."),
        Way::Gateway => {
            format!("Put a gateway at the bad link: {gain:.1} times as fast, and the ends need not know.")
        }
        Way::Relay => format!("Use one relay at the bad link: {gain:.1} times as fast."),
        Way::TwoRelays => format!("Use two relays: {gain:.1} times as fast."),
    }
}

fn json(map: &Map, best: Way, ways: &[Way], times: &[MapTime], least_gain: f64) -> serde_json::Value {
    let ways: Vec<_> = ways
        .iter()
        .map(|way| {
            let told = times[*way as usize];
            serde_json::json!({
                "way": way.name(), "seconds": told.seconds, "seconds_low": told.interval[0], "seconds_high": told.interval[1],
                "gain": times[0].seconds / told.seconds, "advised": *way == best,
            })
        })
        .collect();
    serde_json::json!({
        "model": NAME, "points": map.points, "median_error": map.median_error, "decisions_right": map.decisions_right,
        "sentences": [sentence(best, times, least_gain)], "ways": ways,
    })
}
