use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use shorthaul_relay::discovery::{Onward, Ranked, Ranking, Service, Survey, Surveyed, median};
use shorthaul_report::{Column, Table, Terminal};
use shorthaul_types::{Bytes, format_duration};

/// Columns of the picture.
const WIDTH: usize = 64;

/// Table, picture and the choice.
pub fn print(target: &str, survey: &Survey, ranking: &Ranking) {
    println!("{}", table(target, survey, ranking).render(Terminal::stdout()));
    println!("{}", picture(target, survey, ranking));
    if !ranking.by_forecast {
        println!("Loss and rate are not known (--loss, --rate): ordered by rank.");
    }
    println!("{}.", ranking.why());
}

fn table(target: &str, survey: &Survey, ranking: &Ranking) -> Table {
    let mut table = Table::new([
        Column::right("hop"),
        Column::left("relay"),
        Column::left("sessions at"),
        Column::right("answered").unit("of rounds"),
        Column::right("round trip").unit("least"),
        Column::right("round trip").unit("median"),
        Column::right("onward"),
        Column::right("service").unit("a packet"),
        Column::right("buffer"),
        Column::right("rank").unit("direct = 1"),
        Column::right("forecast"),
        Column::right("gain"),
        Column::left(""),
    ]);
    for relay in &survey.relays {
        table.row(row(relay, survey, ranking));
    }
    let forecast = if ranking.by_forecast { ranking.direct.throughput().to_string() } else { "–".into() };
    let direct = ranking.chosen().is_empty();
    table.row([
        String::new(),
        target.to_owned(),
        String::new(),
        format!("{}/{}", survey.rtts.len(), survey.rounds),
        format_duration(ranking.rtt),
        median(&survey.rtts).map_or_else(String::new, format_duration),
        String::new(),
        String::new(),
        String::new(),
        "1.00".into(),
        forecast,
        "1.00".into(),
        if direct { "◀ direct".into() } else { String::new() },
    ]);
    table
}

fn row(relay: &Surveyed, survey: &Survey, ranking: &Ranking) -> [String; 13] {
    let found = &relay.found;
    let offer = &found.offer;
    let ranked = ranked(relay, ranking);
    let of = |show: &dyn Fn(&Ranked) -> String| ranked.map_or_else(|| "–".into(), show);
    let chosen = is_chosen(relay, ranking);
    [
        found.hops.map_or_else(|| "–".into(), |hops| hops.to_string()),
        offer.name.as_str().to_owned(),
        match offer.service {
            Service::Sessions => offer.session.to_string(),
            Service::Transparent => format!("{} (gateway)", offer.session.ip()),
        },
        format!("{}/{}", relay.rtts.len(), survey.rounds),
        format_duration(found.rtt),
        median(&relay.rtts).map_or_else(String::new, format_duration),
        match (ranked, offer.onward) {
            (Some(ranked), _) => format_duration(ranked.far),
            (None, Onward::Unreachable) => "none".into(),
            (None, _) => "–".into(),
        },
        format_duration(offer.service_time),
        Bytes(offer.buffer).to_string(),
        of(&|ranked| format!("{:.2}", ranked.rank)),
        of(&|ranked| {
            if ranking.by_forecast { ranked.forecast.throughput().to_string() } else { "–".into() }
        }),
        of(&|ranked| {
            if ranking.by_forecast { format!("{:.2}", ranking.gain(&ranked.forecast)) } else { "–".into() }
        }),
        if chosen { "◀ chosen".into() } else { String::new() },
    ]
}

fn ranked<'a>(relay: &Surveyed, ranking: &'a Ranking) -> Option<&'a Ranked> {
    ranking.relays.iter().find(|ranked| ranked.found.offer.session == relay.found.offer.session)
}

fn is_chosen(relay: &Surveyed, ranking: &Ranking) -> bool {
    ranking.chosen().iter().any(|chosen| chosen.offer.session == relay.found.offer.session)
}

/// The way as a line on which distance is time; relays beside it hang below where they are as far from here.
fn picture(target: &str, survey: &Survey, ranking: &Ranking) -> String {
    let at = |rtt: Duration| {
        let share = rtt.as_secs_f64() / ranking.rtt.as_secs_f64();
        ((share * WIDTH as f64).round() as usize).clamp(1, WIDTH - 1)
    };
    let mut line = vec!['─'; WIDTH];
    let mut below = Vec::new();
    for relay in &survey.relays {
        let chosen = is_chosen(relay, ranking);
        let mark = match (chosen, relay.found.offer.service) {
            (true, _) => '◆',
            (false, Service::Sessions) => '◇',
            (false, Service::Transparent) => '▽',
        };
        if relay.found.on_path {
            line[at(relay.found.rtt)] = mark;
        } else {
            below.push((at(relay.found.rtt), mark, relay.found.offer.name.as_str()));
        }
    }
    let line: String = line.into_iter().collect();
    let mut picture = format!("here ├{line}┤ {target}");
    for (at, mark, name) in below {
        picture += &format!("\n      {}{mark} {name}, beside the way", " ".repeat(at));
    }
    picture
}

/// Everything, times in seconds and rates in bits per second.
pub fn json(target: &str, address: SocketAddr, survey: &Survey, ranking: &Ranking) -> Value {
    let relays: Vec<Value> = survey.relays.iter().map(|relay| relay_json(relay, ranking)).collect();
    let chosen: Vec<String> = ranking.chosen().iter().map(|found| found.offer.session.to_string()).collect();
    let forecast = |value: f64| ranking.by_forecast.then_some(value);
    json!({
        "target": target,
        "address": address.to_string(),
        "rounds": survey.rounds,
        "answered": survey.rtts.len(),
        "rtt": ranking.rtt.as_secs_f64(),
        "median_rtt": median(&survey.rtts).map(|rtt| rtt.as_secs_f64()),
        "ordered_by": if ranking.by_forecast { "forecast" } else { "rank" },
        "direct": {
            "forecast": ranking.by_forecast.then(|| ranking.direct.throughput().bits_per_sec()),
            "time": ranking.by_forecast.then_some(ranking.direct.time.expected.as_secs_f64()),
        },
        "relays": relays,
        "chosen": chosen,
        "forecast": forecast(ranking.expected().throughput().bits_per_sec() as f64),
        "gain": forecast(ranking.gain(ranking.expected())),
        "why": ranking.why(),
    })
}

fn relay_json(relay: &Surveyed, ranking: &Ranking) -> Value {
    let found = &relay.found;
    let offer = &found.offer;
    let ranked = ranked(relay, ranking);
    let forecast = ranked.filter(|_| ranking.by_forecast);
    json!({
        "name": offer.name.as_str(),
        "session": offer.session.to_string(),
        "gateway": offer.service == Service::Transparent,
        "on_path": found.on_path,
        "hops": found.hops,
        "answered": relay.rtts.len(),
        "rtt": found.rtt.as_secs_f64(),
        "median_rtt": median(&relay.rtts).map(|rtt| rtt.as_secs_f64()),
        "onward_rtt": ranked.map(|ranked| ranked.far.as_secs_f64()),
        "service_time": offer.service_time.as_secs_f64(),
        "buffer": offer.buffer,
        "sessions": offer.sessions,
        "rank": ranked.map(|ranked| ranked.rank),
        "forecast": forecast.map(|ranked| ranked.forecast.throughput().bits_per_sec()),
        "time": forecast.map(|ranked| ranked.forecast.time.expected.as_secs_f64()),
        "gain": forecast.map(|ranked| ranking.gain(&ranked.forecast)),
    })
}
